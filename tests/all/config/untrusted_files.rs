//! Files that another user may have written: a configuration that nobody named, one that was named, the directory of the default
//! database, and what is in the place of a file that is to be written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::fixtures::{among_mounts, bare, by_nobody, by_root, change, mode, names_in, open_to_nobody};
use crate::support::{Finished, Place, finish};

/// A user whom the system does not know.
const STRANGER: &str = "54321:54321";

/// Writes a file of root's below the place, with the directories above it, which only root may write to.
fn write(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let made = path.ancestors().take_while(|path| **path != place.path(""));
    for path in made {
        change("chmod", if path.is_dir() { "0755" } else { "0644" }, path);
        change("chown", "0:0", path);
    }
    change("chmod", "0755", &place.path(""));
    path
}

/// Runs `touch ran` as root, with this home.
fn run(place: &Place, home: &Path, arguments: &[&str]) -> Finished {
    let mut command = bare(place, [&["--name", "job", "--at-most", "1m"], arguments, &["touch", "ran"]].concat());
    finish(&mut by_root(&["env"], command.env_remove("XDG_CONFIG_HOME").env("HOME", home)))
}

fn has_run(place: &Place) -> bool {
    fs::remove_file(place.path("ran")).is_ok()
}

#[test]
fn what_another_user_has_planted_in_a_home_for_all_is_not_obeyed() {
    let place = Place::new();
    let home = place.path("tmp");
    fs::create_dir(&home).unwrap();
    change("chown", "0:0", &home);
    for home_mode in ["1777", "0777"] {
        change("chmod", "0755", &place.path(""));
        change("chmod", home_mode, &home);
        // Nothing is there yet, as in a container.
        run(&place, &home, &[]).is_silent_with(0);
        assert!(has_run(&place));
        let plant = "mkdir -p .config/shedlock && echo \"notify = 'touch ../noticed'\nnotify-on = 'all'\" >.config/shedlock/config.toml";
        let status = by_nobody(Command::new("sh").args(["-c", plant]).current_dir(&home)).status().unwrap();
        assert!(status.success());
        let finished = run(&place, &home, &[]);
        let said = format!("other users may write to {}, whose mode is {home_mode}", home.display());
        finished.complains(125, &format!("/tmp/.config/shedlock/config.toml is not obeyed: {said}"));
        let hint = "hint: name another file with --config FILE, or --config /dev/null for none";
        assert!(finished.stderr.contains(hint), "{finished:?}");
        // Nor if the file itself is root's.
        change("chown", "0:0", &home.join(".config/shedlock/config.toml"));
        run(&place, &home, &[]).complains(125, &said);
        assert!(!has_run(&place) && !place.path("noticed").exists());
        run(&place, &home, &["--config", "/dev/null"]).is_silent_with(0);
        assert!(has_run(&place) && !place.path("noticed").exists());
        change("rm", "-r", &home.join(".config"));
    }
}

#[test]
fn from_home_down_all_is_ours_or_roots_and_nobody_elses_to_write() {
    let place = Place::new();
    let file = write(&place, "home/.config/shedlock/config.toml", "at-least = '0s'\n");
    let home = place.path("home");
    run(&place, &home, &[]).is_silent_with(0);
    for path in file.ancestors().take(4) {
        let before = format!("{:04o}", mode(path));
        for wider in ["g+w", "o+w", "a+w"] {
            change("chmod", wider, path);
            let said = format!("other users may write to {}, whose mode is {:04o}", path.display(), mode(path));
            let finished = run(&place, &home, &[]);
            finished.complains(125, &said);
            assert!(finished.stderr.contains(&format!("`chmod go-w {}`", path.display())), "{finished:?}");
            change("chmod", &before, path);
        }
        if path != home {
            change("chown", STRANGER, path);
            run(&place, &home, &[])
                .complains(125, &format!("{} belongs to user 54321, and its mode is {before}", path.display()));
            change("chown", "0:0", path);
        }
    }
    assert!(has_run(&place));
    // The same for a directory that a variable names, and for every command.
    change("chmod", "0777", &home.join(".config"));
    for words in
        [&["run", "--name=a", "--at-most=1m", "true"][..], &["status"], &["check"], &["unlock", "a", "--force"]]
    {
        let mut command = place.shedlock(words);
        let finished = finish(&mut by_root(&["env"], command.env("XDG_CONFIG_HOME", home.join(".config"))));
        finished.complains(125, &format!("other users may write to {}/.config, whose mode is 0777", home.display()));
    }
}

#[test]
fn a_link_in_the_home_leads_to_what_only_its_owner_may_write() {
    let place = Place::new();
    let file = write(&place, "home/.config/shedlock/config.toml", "");
    let real = write(&place, "dotfiles/config.toml", "at-least = '0s'\n");
    fs::remove_file(&file).unwrap();
    for target in [real.clone(), PathBuf::from("../../../dotfiles/config.toml")] {
        symlink(target, &file).unwrap();
        run(&place, &place.path("home"), &[]).is_silent_with(0);
        change("chmod", "0777", &place.path("dotfiles"));
        run(&place, &place.path("home"), &[]).complains(125, "/dotfiles, whose mode is 0777");
        change("chmod", "0755", &place.path("dotfiles"));
        fs::remove_file(&file).unwrap();
    }
}

/// As Debian and others make for each user, whose umask is then 002.
#[test]
fn the_private_group_of_a_user_is_nobody_else() {
    let place = Place::new();
    let file = write(&place, "home/.config/shedlock/config.toml", "at-least = '0s'\n");
    fs::create_dir(place.path("etc")).unwrap();
    let etc = format!("mount --bind {} /etc", place.path("etc").display());
    fs::write(place.path("etc/passwd"), "root:x:0:0::/root:/bin/sh\nada:x:54321:54321::/:/bin/sh\n").unwrap();
    for path in file.ancestors().take(4) {
        change("chown", STRANGER, path);
        change("chmod", if path.is_dir() { "0775" } else { "0664" }, path);
    }
    let run = |groups: &str| {
        fs::write(place.path("etc/group"), groups).unwrap();
        let mut inner = place.run("a", ["true"]);
        inner.env_remove("XDG_CONFIG_HOME").env("HOME", place.path("home"));
        inner.env("SHEDLOCK_BACKEND", format!("sqlite:{}/home/locks.db", place.path("").display()));
        let inner = by_root(&["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"], &inner);
        finish(&mut among_mounts(&etc, &inner))
    };
    run("root:x:0:\nada:x:54321:\n").is_silent_with(0);
    run("root:x:0:\nada:x:54321:bob\n").complains(125, "home, whose mode is 0775");
    run("root:x:0:\n").complains(125, "home, whose mode is 0775");
}

#[test]
fn the_systems_configuration_is_roots_alone() {
    let place = Place::new();
    let file = write(&place, "etc/shedlock/config.toml", "at-least = '0s'\n");
    fs::copy("/etc/passwd", place.path("etc/passwd")).unwrap();
    let etc = format!("mount --bind {} /etc", place.path("etc").display());
    let run = |more: &str| finish(&mut among_mounts(&format!("{etc}\n{more}"), &place.run("a", ["true"])));
    run("").is_silent_with(0);
    for (program, to, path, said) in [
        ("chmod", "0666", &file, "other users may write to /etc/shedlock/config.toml, whose mode is 0666"),
        ("chmod", "0777", &place.path("etc/shedlock"), "other users may write to /etc/shedlock, whose mode is 0777"),
        ("chown", "65534", &file, "/etc/shedlock/config.toml belongs to user nobody, and its mode is 0644"),
        ("chown", "65534", &place.path("etc/shedlock"), "/etc/shedlock belongs to user nobody, and its mode is 0755"),
    ] {
        change(program, to, path);
        run("").complains(125, said);
        change("chmod", if path.is_dir() { "0755" } else { "0644" }, path);
        change("chown", "0:0", path);
    }
    // In a user namespace root has no number there, and the system's files are its all the same.
    let mut inner = place.run("a", ["true"]);
    let home = open_to_nobody(&place, "home");
    inner.env("SHEDLOCK_BACKEND", "sqlite:locks.db").current_dir(&home);
    let mut mapped = Command::new("unshare");
    mapped.arg("--map-root-user").arg(inner.get_program()).args(inner.get_args()).current_dir(&home);
    mapped.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    finish(&mut among_mounts(&etc, &by_nobody(&mapped))).is_silent_with(0);
}

/// Kubernetes mounts a ConfigMap and a Secret read-only: the directory is for all, and the file is a link through another.
#[test]
fn what_kubernetes_mounts_is_used() {
    let place = Place::new();
    for directory_mode in ["0777", "1777"] {
        let mount = format!(
            "mkdir -p {0}; mount -t tmpfs -o mode={directory_mode} none {0}; cd {0}; mkdir ..data-1; ln -s ..data-1 ..data; \
             echo 'at-least = 0' >..data/config.toml; echo sqlite:locks.db >..data/backend; \
             ln -s ..data/config.toml config.toml; ln -s ..data/backend backend; mount -o remount,ro {0}; cd {1}",
            "/etc/shedlock",
            place.path("").display()
        );
        let etc = format!("mount -t tmpfs none /etc; {mount}");
        for option in ["--quiet", "--config=/etc/shedlock/config.toml", "--backend-file=/etc/shedlock/backend"] {
            let mut command = place.run("a", [option, "true"]);
            finish(&mut among_mounts(
                &etc,
                command.env_remove("SHEDLOCK_BACKEND").env("SHEDLOCK_BACKEND_FILE", "/etc/shedlock/backend"),
            ))
            .is_silent_with(0);
        }
        // Where it can be written, everybody could.
        let writable = etc.replace("mount -o remount,ro", ": ");
        let finished = finish(&mut among_mounts(&writable, &place.run("a", ["true"])));
        finished.complains(125, &format!("other users may write to /etc/shedlock, whose mode is {directory_mode}"));
    }
}

/// Who names a file trusts its owner, its group and its directory. What everybody may write is another matter, and what a stranger
/// may have made.
#[test]
fn a_named_file_is_not_everybodys_nor_a_strangers_among_the_temporary_ones() {
    let place = Place::new();
    let config = write(&place, "named/config.toml", "at-least = '0s'\n");
    let backend = write(&place, "named/backend", &format!("sqlite:{}\n", place.database().display()));
    let directory = place.path("named");
    let run = |option: &str, file: &Path| {
        let mut command = place.run("a", [option, file.to_str().unwrap(), "touch", "ran"]);
        finish(&mut by_root(&["env"], command.env_remove("SHEDLOCK_BACKEND").env("SHEDLOCK_BACKEND_FILE", &backend)))
    };
    for (option, file) in [("--config", &config), ("--backend-file", &backend)] {
        run(option, file).is_silent_with(0);
        change("chown", STRANGER, file);
        change("chmod", "0664", file);
        change("chmod", "0775", &directory);
        run(option, file).is_silent_with(0);
        change("chmod", "0666", file);
        let finished = run(option, file);
        let path = file.display();
        finished.complains(
            125,
            &format!("{option} {path} is not obeyed: other users may write to {path}, whose mode is 0666"),
        );
        change("chmod", "0644", file);
        // As a volume that the containers of a pod share.
        change("chmod", "0777", &directory);
        run(option, file).is_silent_with(0);
        // In a directory such as /tmp, anybody could have made it, unless it is ours or root's.
        change("chmod", "1777", &directory);
        let finished = run(option, file);
        finished.complains(125, &format!("{path} belongs to user 54321, and its mode is 0644"));
        assert!(
            finished.stderr.contains("hint: move it to a directory that only its owner may write to"),
            "{finished:?}"
        );
        change("chown", "0:0", file);
        run(option, file).is_silent_with(0);
        let link = directory.join("link");
        symlink(file, &link).unwrap();
        change("chown", "0:0", &link);
        run(option, &link).is_silent_with(0);
        fs::remove_file(&link).unwrap();
        change("chmod", "0755", &directory);
        assert!(has_run(&place));
    }
}

#[test]
fn the_default_database_is_in_no_directory_of_others() {
    let place = Place::new();
    let home = open_to_nobody(&place, "home");
    let run = |arguments: &[&str]| {
        let mut inner = place.run("a", [arguments, &["true"]].concat());
        inner.env_remove("SHEDLOCK_BACKEND").env_remove("XDG_STATE_HOME").env("HOME", &home).current_dir(&home);
        finish(&mut by_nobody(&inner))
    };
    run(&[]).is_silent_with(0);
    for below in ["", ".local", ".local/state", ".local/state/shedlock"] {
        let path = if below.is_empty() { home.clone() } else { home.join(below) };
        change("chmod", "0777", &path);
        let finished = run(&[]);
        finished.complains(
            125,
            &format!(
                "the default database is not used: other users may write to {}, whose mode is 0777",
                path.display()
            ),
        );
        assert!(finished.stderr.contains("hint: name a file with --backend sqlite:PATH"), "{finished:?}");
        change("chmod", "0700", &path);
    }
    run(&[]).is_silent_with(0);
    // Another user was first.
    change("rm", "-r", &home.join(".local"));
    fs::create_dir(home.join(".local")).unwrap();
    change("chown", STRANGER, &home.join(".local"));
    change("chmod", "0777", &home.join(".local"));
    run(&[]).complains(125, "/.local belongs to user 54321, and its mode is 0777");
    assert_eq!(names_in(&home.join(".local")), [""; 0]);
    run(&["--backend", "sqlite:own.db"]).is_silent_with(0);
    // Root's is the system's.
    fs::create_dir_all(place.path("lib/shedlock")).unwrap();
    let setup = format!("mount --bind {} /var/lib", place.path("lib").display());
    let mut inner = place.run("a", ["true"]);
    inner.env_remove("SHEDLOCK_BACKEND");
    change("chown", "0:0", &place.path("lib/shedlock"));
    change("chmod", "1777", &place.path("lib/shedlock"));
    finish(&mut among_mounts(&setup, &inner))
        .complains(125, "other users may write to /var/lib/shedlock, whose mode is 1777");
    change("chmod", "0755", &place.path("lib/shedlock"));
    change("chown", STRANGER, &place.path("lib/shedlock"));
    finish(&mut among_mounts(&setup, &inner)).complains(125, "/var/lib/shedlock belongs to user 54321");
}

// Files that are written

/// Returns `shedlock history --html FILE` by root.
fn save(place: &Place, file: &Path) -> Finished {
    finish(&mut by_root(&["env"], &place.shedlock(["history", "--html", file.to_str().unwrap()])))
}

fn is_page(file: &Path) -> bool {
    fs::symlink_metadata(file).is_ok_and(|found| found.is_file())
        && fs::read_to_string(file).is_ok_and(|text| text.starts_with("<!DOCTYPE html>"))
}

#[test]
fn a_link_that_others_may_have_made_is_replaced_and_not_followed() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    change("chmod", "0755", &place.path(""));
    let victim = write(&place, "own/victim", "precious");
    for (directory_mode, owner) in [("0777", "0:0"), ("1777", "0:0"), ("0755", "65534:65534")] {
        let directory = place.path(&format!("shared-{directory_mode}-{}", owner.len()));
        fs::create_dir(&directory).unwrap();
        change("chmod", directory_mode, &directory);
        change("chown", owner, &directory);
        let file = directory.join("page.html");
        for target in [&victim, Path::new("/dev/full")] {
            let mut plant = Command::new("ln");
            assert!(by_nobody(plant.arg("-s").arg(target).arg(&file)).status().unwrap().success());
            save(&place, &file).is_silent_with(0);
            assert!(is_page(&file), "{directory_mode} {owner}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
            change("rm", "-f", &file);
        }
        assert_eq!(names_in(&directory), [""; 0]);
    }
}

#[test]
fn an_own_link_is_followed_and_an_own_mode_is_kept() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    let page = write(&place, "own/page.html", "old");
    let link = place.path("own/link.html");
    symlink("page.html", &link).unwrap();
    for file_mode in ["0600", "0640"] {
        change("chmod", file_mode, &page);
        save(&place, &link).is_silent_with(0);
        assert!(is_page(&page) && fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(format!("{:04o}", mode(&page)), file_mode);
    }
    // What is no file is written to.
    for file in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let finished = save(&place, Path::new(file));
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{file}");
        assert!(finished.stdout.starts_with("<!DOCTYPE html>"), "{file}");
    }
    save(&place, Path::new("/dev/full")).complains(125, "/dev/full cannot be written: no space left on device");
    save(&place, &place.path("own")).complains(125, "own cannot be written: is a directory");
}
