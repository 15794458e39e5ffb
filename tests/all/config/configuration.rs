//! Where settings come from: the command line, variables and files; which backend is used when none is named; and
//! what is said of mistakes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::fixtures::{
    among_mounts, bare, by_nobody, by_root, change, hold, mode, names_in, open_to_nobody, span,
};
use crate::support::{Place, finish};

/// Writes a file below the place, with the directories above it.
fn write(place: &Place, name: &str, text: &str) {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns `shedlock run --name NAME`, which leaves its lock held for as long as at-least says, so that its row tells what
/// at-least was.
fn plain(place: &Place, name: &str) -> Command {
    bare(place, ["--name", name])
}

/// Runs it, and returns what at-least was, in seconds.
fn at_least(place: &Place, name: &str, command: &mut Command) -> i64 {
    finish(command.arg("true")).is_silent_with(0);
    let seconds = span(place, name) / 1000;
    crate::support::fixtures::edit(place, &format!("UPDATE shedlock SET lock_until = locked_at WHERE name = '{name}'"));
    seconds
}

/// Returns a setup for [`among_mounts`]: the files of this directory are all there is in /etc.
fn as_etc(place: &Place, directory: &str) -> String {
    fs::create_dir_all(place.path(directory)).unwrap();
    fs::copy("/etc/passwd", place.path(directory).join("passwd")).unwrap();
    format!("mount --bind {} /etc", place.path(directory).display())
}

#[test]
fn option_wins_over_variable_over_job_over_defaults_over_nothing() {
    let place = Place::new();
    write(
        &place,
        "c.toml",
        "at-most = '1h'\nat-least = '10s'\n[jobs.a]\nat-least = '20s'\n[jobs.other]\nat-least = '50s'\n",
    );
    let run = |name: &str| {
        let mut command = plain(&place, name);
        command.env("SHEDLOCK_CONFIG", place.path("c.toml"));
        command
    };
    assert_eq!(at_least(&place, "a", run("a").env("SHEDLOCK_AT_LEAST", "30s").args(["--at-least", "40s"])), 40);
    assert_eq!(at_least(&place, "a", run("a").env("SHEDLOCK_AT_LEAST", "30s")), 30);
    assert_eq!(at_least(&place, "a", &mut run("a")), 20);
    assert_eq!(at_least(&place, "b", &mut run("b")), 10);
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let place = Place::new();
    write(&place, "c.toml", "at-most = '1h'\nat-least = '10s'\n");
    let mut command = plain(&place, "a");
    for option in
        ["AT_MOST", "AT_LEAST", "NAME", "WAIT", "QUIET", "BACKEND_FILE", "SUCCESS_CODES", "ON_EXPIRY", "LOG_FORMAT"]
    {
        command.env(format!("SHEDLOCK_{option}"), "");
    }
    assert_eq!(at_least(&place, "a", command.env("SHEDLOCK_CONFIG", place.path("c.toml"))), 10);
    // Nor does an empty name of the file itself name one.
    let mut command = plain(&place, "a");
    assert_eq!(
        at_least(&place, "a", command.env("SHEDLOCK_CONFIG", "").args(["--at-most", "1m", "--at-least", "5s"])),
        5
    );
}

#[test]
fn the_users_file_wins_over_the_systems_and_a_job_over_the_defaults_of_both() {
    let place = Place::new();
    let etc = as_etc(&place, "etc");
    write(
        &place,
        "etc/shedlock/config.toml",
        "at-most = '1h'\nat-least = '10s'\n[jobs.a]\nat-least = '20s'\n[jobs.b]\nat-least = '25s'\n",
    );
    let run = |name: &str| among_mounts(&etc, plain(&place, name).arg("true"));
    let seconds = |name: &str| {
        finish(&mut run(name)).is_silent_with(0);
        let seconds = span(&place, name) / 1000;
        crate::support::fixtures::edit(
            &place,
            &format!("UPDATE shedlock SET lock_until = locked_at WHERE name = '{name}'"),
        );
        seconds
    };
    assert_eq!((seconds("a"), seconds("c")), (20, 10));
    write(&place, "config/shedlock/config.toml", "at-least = '30s'\n[jobs.a]\nat-least = '40s'\n");
    // What the system says of one job is still more special than what the user says of all.
    assert_eq!((seconds("a"), seconds("b"), seconds("c")), (40, 25, 30));
    // A file that is named is the only one.
    write(&place, "c.toml", "at-most = '1m'\n");
    finish(among_mounts(&etc, plain(&place, "d").arg("true")).env("SHEDLOCK_CONFIG", place.path("c.toml")))
        .is_silent_with(0);
    assert_eq!(span(&place, "d") / 1000, 0);
}

#[test]
fn without_xdg_config_home_the_file_is_in_config_of_the_home() {
    let place = Place::new();
    write(&place, "home/.config/shedlock/config.toml", "at-most = '1h'\nat-least = '10s'\n");
    let mut command = plain(&place, "a");
    command.env_remove("XDG_CONFIG_HOME").env("HOME", place.path("home"));
    assert_eq!(at_least(&place, "a", &mut command), 10);
    // A relative path is to be ignored.
    write(&place, "relative/shedlock/config.toml", "at-most = '1h'\nat-least = '20s'\n");
    let mut command = plain(&place, "a");
    command.env("XDG_CONFIG_HOME", "relative").env("HOME", place.path("home"));
    assert_eq!(at_least(&place, "a", &mut command), 10);
}

#[test]
fn an_unknown_key_names_file_line_and_the_nearest_key() {
    let place = Place::new();
    for (text, line, key, hint) in [
        ("at_most = '1h'\n", 1, "at_most", "hint: did you mean `at-most`?"),
        ("at-most = '1h'\n\nat-leest = '1s'\n", 3, "at-leest", "hint: did you mean `at-least`?"),
        ("at-most = '1h'\n[jobs.another]\non-expirey = 'kill'\n", 3, "on-expirey", "hint: did you mean `on-expiry`?"),
        ("[job.a]\nat-most = '1h'\n", 1, "job", "hint: did you mean `jobs`?"),
        ("frobnicate = 1\n", 1, "frobnicate", "hint: shedlock.toml(5) lists the keys"),
    ] {
        write(&place, "config/shedlock/config.toml", text);
        let finished = finish(&mut place.run("a", ["touch", "ran"]));
        finished.complains(125, &format!("/config/shedlock/config.toml:{line}: unknown key `{key}`"));
        assert!(finished.stderr.contains(hint), "{}", finished.stderr);
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn a_file_that_is_no_toml_names_file_and_line() {
    let place = Place::new();
    for text in [
        "at-most = '1h'\nat-least =\n",
        "at-most = '1h'\nat-least = 5s\n",
        "\n[jobs\n",
        "\n\u{0}",
        "at-most = '1h'\nat-most = '2h'\n",
    ] {
        write(&place, "c.toml", text);
        let finished =
            finish(&mut bare(&place, ["--config", "c.toml", "--name", "a", "--at-most", "1m", "touch", "ran"]));
        finished.complains(125, "c.toml:2: not valid TOML: ");
    }
    fs::write(place.path("c.toml"), b"at-most = '\xff'\n").unwrap();
    finish(&mut bare(&place, ["--config", "c.toml", "--name", "a", "--at-most", "1m", "touch", "ran"]))
        .complains(125, "c.toml");
    assert!(!place.path("ran").exists());
}

#[test]
fn a_value_of_the_wrong_kind_names_its_line() {
    let place = Place::new();
    for (text, complaint) in [
        ("at-most = { h = 1 }\n", "c.toml:1: `at-most` must be a string, a number, true or false"),
        ("\nat-most = 1979-05-27\n", "c.toml:2: `at-most` must be"),
        ("\n\nat-most = true\n", "c.toml:3: `at-most` `true` is not a duration"),
        ("jobs = 1\n", "c.toml:1: `jobs` must be a table"),
        ("config = 'x'\n", "c.toml:1: `config` cannot be set in a file"),
        ("[jobs.a]\nname = 'x'\n", "c.toml:2: `name` cannot be set in a file"),
        ("at-most = '1m'\n[jobs.'']\n", "c.toml:2: the job's name is empty"),
    ] {
        write(&place, "c.toml", text);
        finish(&mut bare(&place, ["--config", "c.toml", "--name", "a", "true"])).complains(125, complaint);
    }
    // Numbers are seconds, and a list is as good as a text.
    write(&place, "c.toml", "at-most = 60\nat-least = 1.5\nsuccess-codes = [0, 3]\non-failure = 'release'\n");
    finish(&mut bare(&place, ["--config", "c.toml", "--name", "a", "sh", "-c", "exit 3"])).is_silent_with(3);
    assert_eq!(span(&place, "a"), 1_500);
}

#[test]
fn a_file_that_exists_but_cannot_be_read_is_an_error() {
    let place = Place::new();
    let home = open_to_nobody(&place, "home");
    fs::create_dir(home.join("shedlock")).unwrap();
    let file = home.join("shedlock/config.toml");
    fs::write(&file, "at-most = '1h'\n").unwrap();
    change("chmod", "0000", &file);
    let run = |config: &Path| {
        let mut command = place.run("a", ["touch", "ran"]);
        command
            .env("XDG_CONFIG_HOME", config)
            .env("SHEDLOCK_BACKEND", format!("sqlite:{}", home.join("locks.db").display()));
        by_nobody(&command)
    };
    finish(&mut run(&home)).complains(125, "shedlock/config.toml cannot be read: permission denied");
    finish(run(&place.path("none")).env("SHEDLOCK_CONFIG", &file)).complains(125, "SHEDLOCK_CONFIG");
    // A directory that may not be entered may hide a file that matters.
    change("chmod", "0000", &home.join("shedlock"));
    finish(&mut run(&home)).complains(125, "shedlock/config.toml cannot be read: permission denied");
    // A directory in its place is no file either.
    write(&place, "config/shedlock/config.toml/x", "");
    finish(&mut place.run("a", ["touch", "ran"])).complains(125, "shedlock/config.toml cannot be read: is a directory");
    assert!(!place.path("ran").exists());
}

#[test]
fn a_named_file_must_exist_and_the_usual_ones_need_not() {
    let place = Place::new();
    finish(&mut place.run("a", ["--config", "none.toml", "true"]))
        .complains(125, "--config none.toml cannot be read: no such file");
    finish(place.run("a", ["true"]).env("SHEDLOCK_CONFIG", "none.toml"))
        .complains(125, "SHEDLOCK_CONFIG none.toml cannot be read");
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
}

#[test]
fn backend_and_backend_file_in_one_place_exclude_each_other() {
    let place = Place::new();
    write(&place, "url", "sqlite:from-file.db\n");
    write(&place, "c.toml", "backend = 'sqlite:a.db'\nbackend-file = 'url'\n");
    let run = || {
        let mut command = place.run::<_, &str>("a", []);
        command.env_remove("SHEDLOCK_BACKEND");
        command
    };
    finish(run().args(["--backend", "sqlite:a.db", "--backend-file", "url", "true"]))
        .complains(125, "--backend and --backend-file exclude each other");
    finish(run().env("SHEDLOCK_BACKEND", "sqlite:a.db").env("SHEDLOCK_BACKEND_FILE", "url").arg("true"))
        .complains(125, "SHEDLOCK_BACKEND and SHEDLOCK_BACKEND_FILE exclude each other");
    finish(run().args(["--config", "c.toml", "true"])).complains(125, "c.toml:1: `backend` and ");
    assert!(!place.path("a.db").exists() && !place.path("from-file.db").exists());
    // In different places the stronger one wins.
    finish(run().args(["--backend-file", "url", "true"]).env("SHEDLOCK_BACKEND", "sqlite:a.db")).is_silent_with(0);
    assert!(!place.path("a.db").exists() && place.path("from-file.db").exists());
    finish(run().args(["--backend", "sqlite:b.db", "true"]).env("SHEDLOCK_BACKEND_FILE", "missing")).is_silent_with(0);
    assert!(place.path("b.db").exists());
}

#[test]
fn a_backend_file_that_does_not_help_is_an_error() {
    let place = Place::new();
    let run = |file: &str| {
        let mut command = place.run("a", ["--backend-file", file, "touch", "ran"]);
        command.env_remove("SHEDLOCK_BACKEND");
        command
    };
    finish(&mut run("missing")).complains(125, "--backend-file missing cannot be read: no such file");
    write(&place, "empty", "\n");
    finish(&mut run("empty")).complains(125, "--backend-file empty is empty");
    write(&place, "secret", "hunter2\n");
    let finished = finish(&mut run("secret"));
    finished.complains(125, "--backend-file secret has no scheme");
    assert!(!finished.stderr.contains("hunter2"));
    // As a part of the URL, the other line would name another file, or be shown.
    for first in ["sqlite:locks.db", "postgres://jobs@127.0.0.1:1/ops", "redis://127.0.0.1:1/0"] {
        write(&place, "lines", &format!("{first}\nhunter2\n"));
        let finished = finish(&mut run("lines"));
        finished.complains(125, "--backend-file lines has more than one line");
        assert!(!finished.stderr.contains("hunter2"));
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn an_unknown_scheme_lists_the_known_ones_and_shows_no_password() {
    let place = Place::new();
    let finished = finish(place.run("a", ["true"]).env("SHEDLOCK_BACKEND", "oracle://scott:tiger@db/x"));
    finished.complains(125, "SHEDLOCK_BACKEND has the unknown scheme `oracle:`; known are sqlite:PATH");
    assert!(!finished.stderr.contains("tiger"));
    for (url, complaint) in [
        ("sqlite:", "names no file"),
        ("sqlite::memory:", "in memory"),
        ("sqlite:~/locks.db", "write the whole path"),
        ("sqlite://host/x.db", "names a host"),
        ("sqlite:x?frobnicate=1", "unknown parameter `frobnicate`"),
        ("sqlite:x?mode=rw", "octal"),
        ("sqlite:x?mode=0777", "octal"),
        ("sqlite:x?table=a;b", "write TABLE"),
        ("sqlite:x?table=", "write TABLE"),
        ("sqlite:x?synchronous=off", "known are normal and full"),
        ("just text", "has no scheme"),
    ] {
        finish(&mut place.run("a", ["--backend", url, "true"])).complains(125, complaint);
    }
    assert_eq!(names_in(&place.path("")), [""; 0]);
}

// The backend when none is named

/// Returns a run that names no backend.
fn without_backend(place: &Place, name: &str) -> Command {
    let mut command = place.run(name, ["true"]);
    command.env_remove("SHEDLOCK_BACKEND").env_remove("XDG_STATE_HOME");
    command
}

#[test]
fn for_root_the_default_is_in_var_lib() {
    let place = Place::new();
    fs::create_dir_all(place.path("lib")).unwrap();
    let setup = format!("umask 022; mount --bind {} /var/lib", place.path("lib").display());
    let mut inner = without_backend(&place, "a");
    inner.env("XDG_STATE_HOME", place.path("state")).env("HOME", place.path("home"));
    finish(&mut among_mounts(&setup, &inner)).is_silent_with(0);
    let directory = place.path("lib/shedlock");
    assert_eq!((mode(&directory), mode(&directory.join("shedlock.db"))), (0o700, 0o600));
    assert!(!place.path("state").exists() && !place.path("home").exists());
    // Modes that exist are kept.
    change("chmod", "0750", &directory);
    change("chmod", "0640", &directory.join("shedlock.db"));
    finish(&mut among_mounts(&setup, &inner)).is_silent_with(0);
    assert_eq!((mode(&directory), mode(&directory.join("shedlock.db"))), (0o750, 0o640));
}

#[test]
fn for_others_the_default_is_in_the_state_directory_of_their_home() {
    let place = Place::new();
    let home = open_to_nobody(&place, "home");
    let run = |key: &str, value: &Path| {
        let mut inner = without_backend(&place, "a");
        inner.env_remove("XDG_CONFIG_HOME").env("HOME", &home).env(key, value).current_dir(&home);
        finish(&mut by_nobody(&inner))
    };
    run("HOME", &home).is_silent_with(0);
    let state = home.join(".local/state/shedlock");
    assert_eq!((mode(&state), mode(&state.join("shedlock.db"))), (0o700, 0o600));
    run("XDG_STATE_HOME", &home.join("mine/state")).is_silent_with(0);
    let state = home.join("mine/state/shedlock");
    assert_eq!((mode(&state), mode(&state.join("shedlock.db"))), (0o700, 0o600));
}

#[test]
fn the_home_of_another_user_is_not_used() {
    let place = Place::new();
    // Everybody may write here, but it is not nobody's own.
    let theirs = place.path("theirs");
    fs::create_dir_all(theirs.join(".config/shedlock")).unwrap();
    fs::write(theirs.join(".config/shedlock/config.toml"), "frobnicate = 1\n").unwrap();
    for directory in [&theirs, &theirs.join(".config"), &theirs.join(".config/shedlock")] {
        change("chmod", "0777", directory);
    }
    change("chown", "0:0", &theirs);
    let home = open_to_nobody(&place, "home");
    // The passwd entry names this home instead.
    let etc = as_etc(&place, "etc");
    fs::write(
        place.path("etc/passwd"),
        format!("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::{}:/bin/sh\n", home.display()),
    )
    .unwrap();
    let mut inner = without_backend(&place, "a");
    inner.env_remove("XDG_CONFIG_HOME").env("HOME", &theirs).current_dir("/");
    finish(&mut among_mounts(&etc, &by_nobody(&inner))).is_silent_with(0);
    assert!(home.join(".local/state/shedlock/shedlock.db").exists());
    assert_eq!(names_in(&theirs), [".config"]);
    // Without a home there is no default, and that is said.
    fs::write(place.path("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/sh\n")
        .unwrap();
    finish(&mut among_mounts(&etc, &by_nobody(&inner))).complains(125, "this user has no home directory");
}

/// As in a container, or of a service with a dynamic user. The system's modules for names, such as systemd's, are not asked.
#[test]
fn a_user_whom_nobody_knows_is_no_trouble() {
    let place = Place::new();
    let home = open_to_nobody(&place, "home");
    change("chown", "54321", &home);
    let mut inner = place.run("a", ["true"]);
    inner.env_remove("XDG_CONFIG_HOME").env("HOME", "/").env("SHEDLOCK_BACKEND", "sqlite:locks.db").current_dir(&home);
    let stranger = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"];
    finish(&mut by_root(&stranger, &inner)).is_silent_with(0);
    inner.env_remove("SHEDLOCK_BACKEND");
    finish(&mut by_root(&stranger, &inner)).complains(125, "this user has no home directory");
}

#[test]
fn root_does_not_read_the_configuration_of_another_user() {
    let place = Place::new();
    let home = open_to_nobody(&place, "home");
    write(&place, "home/.config/shedlock/config.toml", "frobnicate = 1\n");
    let mut inner = place.run("a", ["true"]);
    inner.env_remove("XDG_CONFIG_HOME").env("HOME", &home);
    finish(&mut by_root(&["env"], &inner)).is_silent_with(0);
}

#[test]
fn in_a_kubernetes_pod_there_is_no_default() {
    let place = Place::new();
    let finished = finish(without_backend(&place, "a").env("KUBERNETES_SERVICE_HOST", "10.0.0.1"));
    finished.complains(125, "no backend is named, and in a Kubernetes pod there is no default");
    assert!(finished.stderr.contains("hint: a file in a pod excludes nobody"), "{}", finished.stderr);
    // One that is named is used.
    finish(place.run("a", ["true"]).env("KUBERNETES_SERVICE_HOST", "10.0.0.1")).is_silent_with(0);
}

// Mistakes

#[test]
fn a_message_is_one_line_whatever_the_names_in_it_are() {
    let place = Place::new();
    let finished = finish(&mut place.run("a", ["no\nsuch\u{1b}[31m"]));
    finished.complains(127, "cannot run `no\\nsuch\\u{1b}[31m`");
    let finished = finish(&mut place.run("a", ["--backend", "sqlite:/no\nsuch/x.db", "true"]));
    finished.complains(125, "the directory /no\\nsuch does not exist");
    assert!(finished.stderr.contains("hint: create it with `mkdir -p -m 0700 /no\\nsuch`"), "{}", finished.stderr);
}

#[test]
fn a_mistake_between_two_places_names_both() {
    let place = Place::new();
    write(&place, "c.toml", "\nat-least = '2h'\n");
    finish(place.shedlock(["run", "--name", "a", "--config", "c.toml", "true"]).env("SHEDLOCK_AT_MOST", "1h"))
        .complains(125, "c.toml:2: `at-least` 2h is longer than SHEDLOCK_AT_MOST 1h");
    finish(place.run("a", ["true"]).env("SHEDLOCK_EVERY", "0")).complains(125, "SHEDLOCK_EVERY is 0");
}

#[test]
fn a_mistake_in_the_usage_is_one_line_and_a_hint() {
    let place = Place::new();
    for (words, complaint, hint) in [
        (&["run", "--nmae", "a"][..], "unknown option `--nmae`", "did you mean `--name`?"),
        (&["run", "--name", "a", "--at-mots", "1m", "true"], "unknown option `--at-mots`", "did you mean `--at-most`?"),
        (&["run", "--name", "a", "-x", "true"], "unknown option `-x`", ""),
        (&["run", "--name=a", "--at-most"], "--at-most needs a value", ""),
        (&["run", "--name"], "--name needs a value", ""),
        (&["run", "--name", "a", "--at-most", "1m", "-w"], "--wait needs a value", ""),
        (&["run", "--name", "a", "--name", "b", "--at-most", "1m", "true"], "--name is given twice", ""),
        (&["run", "--name", "a", "--at-most", "1m", "--quiet=yes", "true"], "--quiet takes no value", ""),
        (&["run", "--at-most", "1m", "true"], "--name is missing", ""),
        (&["run", "--name", "a", "true"], "--at-most is missing", ""),
        (&["run", "--name", "a", "--at-most", "1m"], "no command is given", ""),
        (&["run"], "--name is missing", ""),
        (&["runn"], "unknown command `runn`", "did you mean `run`?"),
        (&["--frobnicate"], "unknown option `--frobnicate`", ""),
        (&["pause"], "NAME is missing", "see shedlock pause --help"),
        (&["forget"], "NAME is missing", "see shedlock forget --help"),
        (&["status", "--name", "a"], "unknown option `--name`", "without an option: shedlock status NAME\n"),
        (&["history", "--sinse", "2h"], "unknown option `--sinse`", "did you mean `--since`?"),
        (&["--name", "a", "run"], "unknown option `--name`", "put it after the command: shedlock run --name"),
        (&["unlock", "--name", "a"], "unknown option `--name`", "without an option: shedlock unlock NAME\n"),
        (&["history", "a", "b"], "unexpected argument `b`", "shedlock history --help"),
        (&["pause"], "NAME is missing", "shedlock pause --help"),
        (&["status", "--at-most", "1m"], "unknown option `--at-most`", "shedlock status --help"),
        (&["resume", "a", "--timeot"], "unknown option `--timeot`", "shedlock resume --help"),
        (&[], "no command is given", ""),
        (&["run", "--name", "a", "--at-most", "1m", "--on-expiry", "exted", "true"], "--on-expiry", ""),
        (&["run", "--name", "a\u{1b}[31m", "--at-most", "1m", "true"], "--name", ""),
    ] {
        let finished = finish(&mut place.shedlock(words));
        finished.complains(125, complaint);
        assert!(finished.stderr.contains(hint), "{}", finished.stderr);
        assert!(!finished.stderr.contains("panicked") && !finished.stderr.contains('\u{1b}'), "{}", finished.stderr);
    }
    assert_eq!(names_in(&place.path("")), [""; 0]);
}

#[test]
fn what_is_no_text_is_refused_where_text_is_needed_and_passed_on_to_the_job() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let bytes = OsStr::from_bytes(b"\xff\xfe");
    finish(place.shedlock(["run", "--at-most", "1m", "--name"]).arg(bytes).arg("true")).complains(125, "UTF-8");
    finish(place.run("a", ["true"]).env("SHEDLOCK_WAIT", bytes)).complains(125, "SHEDLOCK_WAIT is not UTF-8 text");
    finish(place.run("a", ["sh", "-c", "printf %s \"$1\" > bytes", "sh"]).arg(bytes)).is_silent_with(0);
    assert_eq!(fs::read(place.path("bytes")).unwrap(), b"\xff\xfe");
}

#[test]
fn a_mistake_is_found_before_the_lock_is_looked_at() {
    let place = Place::new();
    let holder = hold(&place, "a");
    finish(&mut place.run("a", ["--kill-after", "soon", "true"])).complains(125, "--kill-after `soon`");
    holder.end().is_silent_with(0);
}
