//! What is made of the tables, and the examples: they are read by those for whom they are made.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::process::{under, write_script};
use crate::support::pty::Terminal;
use crate::support::repository::{ROOT, text};
use crate::support::{Place, finish, is_alive, script, wait_until};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// Returns the files of the manual pages that are committed.
fn pages() -> Vec<String> {
    let pages = fs::read_dir(Path::new(ROOT).join("man")).unwrap();
    let pages: Vec<String> = pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    assert!(pages.len() > 15, "{pages:?}");
    pages
}

/// Returns the file without its comments.
fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with('#')).map(|line| format!("{line}\n")).collect()
}

#[test]
fn man_prints_the_pages_that_are_committed() {
    let place = Place::new();
    for page in pages() {
        let name = page.rsplit_once('.').unwrap().0;
        let printed = finish(&mut place.shedlock(["man", name]));
        assert_eq!((printed.code(), printed.stderr.as_str()), (Some(0), ""));
        assert!(printed.stdout == text(&format!("man/{page}")), "man/{page}");
    }
    assert_eq!(finish(&mut place.shedlock(["man"])).stdout, text("man/shedlock.1"));
    finish(&mut place.shedlock(["man", "ls"])).complains(125, "`ls`");
}

#[test]
fn the_pages_are_set_without_a_warning() {
    for page in pages() {
        let file = Path::new(ROOT).join("man").join(&page);
        let set = finish(Command::new("groff").args(["-ww", "-z", "-man", "-Tutf8"]).arg(file));
        assert_eq!((set.code(), set.stderr.as_str()), (Some(0), ""), "{page}");
    }
}

#[test]
fn man_help_and_completions_do_not_mind_a_reader_who_has_seen_enough() {
    let place = Place::new();
    for command in ["man shedlock-run", "completions bash", "--help", "run --help", "--version", "schema"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        finish(place.shedlock(command.split(' ')).stdout(writer)).is_silent_with(0);
        let full = finish(&mut script(&place, &format!("shedlock {command} > /dev/full")));
        full.complains(125, "cannot write to stdout: no space left on device");
    }
}

/// In the order in which a person might type them; `unlock` and `resume` may answer with 1.
#[test]
fn every_help_has_an_example_that_works() {
    let place = Place::new();
    let help = |words: &[&str]| finish(&mut place.shedlock(words)).stdout;
    let named = |help: &str| {
        let list = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
        list.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let order = [
        "run",
        "status",
        "history",
        "acquire",
        "extend",
        "verify",
        "release",
        "pause",
        "resume",
        "unlock",
        "forget",
        "check",
        "prove",
        "init",
        "schema",
        "completions",
        "man",
    ];
    assert!(named(&help(&["--help"])).iter().all(|name| name == "help" || order.contains(&name.as_str())));
    let mut lines =
        "ln -s /bin/true report; PATH=$PWD:$PATH; shedlock() { command shedlock \"$@\" || [ $? = 1 ]; }\n".to_owned();
    for name in order {
        let example = |help: String| Some(help.split_once("Example:\n  ")?.1.lines().next()?.to_owned());
        let line = example(help(&[name, "--help"])).unwrap_or_else(|| panic!("{name} has no example"));
        assert_eq!(example(help(&[name, "-h"])), Some(line.clone()), "{name}");
        lines += &format!("{line}\n");
    }
    let ran = finish(&mut script(&place, &lines));
    assert_eq!((ran.code(), ran.stderr.as_str()), (Some(0), "shedlock: the lock `report` is free\n"), "{lines}");
}

#[test]
fn on_a_terminal_man_shows_the_page() {
    let place = Place::new();
    let show = |path: &str| {
        let words = ["sh", "-c", "PATH=$0; exec \"$@\"", path];
        let command = under(&words, &place.shedlock(["man", "run"]));
        let (mut terminal, mut shown) = (Terminal::start(&command), String::new());
        wait_until("the page", || {
            shown += &terminal.screen();
            (!is_alive(terminal.pid())).then_some(())
        });
        shown += &terminal.screen();
        assert_eq!(terminal.finish().code(), Some(0));
        shown
    };
    write_script(&place, "man", "#!/bin/sh\necho \"shown by man $1\"; grep -c . \"$2\"");
    let page = text("man/shedlock-run.1");
    let lines = page.lines().filter(|line| !line.is_empty()).count();
    let path = format!("{}:{}", place.path("").display(), std::env::var("PATH").unwrap());
    assert_eq!(show(&path), format!("shown by man -l\r\n{lines}\r\n"));
    // Without man(1), or into a pipe, the page comes as it is.
    assert!(show("/nowhere").starts_with(page.lines().next().unwrap()));
    assert_eq!(finish(place.shedlock(["man", "run"]).env("PATH", &path)).stdout, page);
}

#[test]
fn there_are_completions_for_every_shell() {
    let place = Place::new();
    for shell in SHELLS {
        let printed = finish(&mut place.shedlock(["completions", shell]));
        assert_eq!((printed.code(), printed.stderr.as_str()), (Some(0), ""));
        assert!(printed.stdout.contains("on-expiry"), "{shell}");
    }
    finish(&mut place.shedlock(["completions", "tcsh"])).complains(125, "`tcsh`");
}

#[test]
fn bash_completes_with_them() {
    let place = Place::new();
    let ask = "compopt() { :; }; source <(shedlock completions bash); complete -p shedlock; \
               COMP_WORDS=(shedlock run --on-expiry ''); COMP_CWORD=3; _shedlock shedlock '' --on-expiry; echo \"${COMPREPLY[*]}\"; \
               touch file; COMP_WORDS=(shedlock run --name ''); COMPREPLY=(); _shedlock shedlock '' --name; echo \"${COMPREPLY[*]}\"; \
               COMP_WORDS=(shedlock run -s H); _shedlock shedlock H -s; echo \"${COMPREPLY[*]}\"";
    let finished = finish(&mut script(&place, &format!("exec bash -c '{}'", ask.replace('\'', "'\\''"))));
    assert_eq!(finished.stderr, "");
    let mut lines = finished.stdout.lines();
    assert!(lines.next().unwrap().ends_with("-F _shedlock shedlock"), "{}", finished.stdout);
    assert_eq!(lines.next(), Some("kill extend ignore"));
    assert_eq!(lines.next(), Some(""), "a name is no file's");
    assert_eq!(lines.next(), Some("HUP"));
}

/// Names come from a database, into which other programs write, and a shell would run some of them.
#[test]
fn bash_quotes_the_names_of_locks() {
    let place = Place::new();
    let names = ["import of orders", "a$(touch pwned)", "it's", "`touch pwned`", "übung", "yes", "*"];
    for name in names {
        finish(&mut place.shedlock(["run", "--name", name, "--at-most", "1m", "true"])).is_silent_with(0);
    }
    let complete = r#"compopt() { :; }; source <(shedlock completions bash)
        complete() { local last=$(($# - 1)); COMP_WORDS=("$@"); COMP_CWORD=$last; COMPREPLY=(); COMP_LINE="$*"
            COMP_POINT=${#COMP_LINE}; _shedlock shedlock "${COMP_WORDS[$last]#\'}" "${COMP_WORDS[$last - 1]}"; }
        complete shedlock status ''; for word in "${COMPREPLY[@]}"; do eval "printf '%s\n' $word"; done; echo
        complete shedlock run --name imp; echo "${COMPREPLY[*]}"
        complete shedlock run --name = ye; echo "${COMPREPLY[*]}"
        complete shedlock history "'imp"; echo "${COMPREPLY[*]}"
        complete shedlock history "'"; echo "${COMPREPLY[*]}"
        complete shedlock status imp --json; echo "${COMPREPLY[*]}"
        complete shedlock pause --for imp; echo "${COMPREPLY[*]}"
        complete shedlock run --name x -- sh --name imp; echo "${COMPREPLY[*]}"
        complete shedlock status --backend sqlite:none.db imp; echo "${COMPREPLY[*]}"
        complete shedlock pau; echo "${COMPREPLY[*]}""#;
    let finished = finish(&mut script(&place, &format!("exec bash -c '{}'", complete.replace('\'', r"'\''"))));
    assert_eq!(finished.stderr, "");
    let (all, rest) = finished.stdout.split_once("\n\n").unwrap();
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(all.lines().collect::<Vec<_>>(), sorted);
    assert!(!place.path("pwned").exists());
    let quoted = "* import of orders yes übung";
    let wanted = [r"import\ of\ orders", "yes", "import of orders", quoted, "--json", "imp", "", "", "pause"];
    assert_eq!(rest.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn bash_completes_the_job_as_it_would_without_us() {
    let place = Place::new();
    write_script(&place, "nightly-report", "#!/bin/sh\n");
    let complete = r#"compopt() { echo "compopt $*"; }; PATH=$PWD:$PATH; source <(shedlock completions bash)
        complete() { local last=$(($# - 1)); COMP_WORDS=("$@"); COMP_CWORD=$last; COMPREPLY=()
            _shedlock shedlock "${COMP_WORDS[$last]}" "${COMP_WORDS[$last - 1]}"; echo "${COMPREPLY[*]}"; }
        complete shedlock run --name x -- nightly-r
        complete shedlock run --name x -- nightly-report --out
        _command_offset() { COMPREPLY=("from $1"); }
        complete shedlock run --name x -- nightly-report --out"#;
    let finished = finish(&mut script(&place, &format!("exec bash -c '{}'", complete.replace('\'', r"'\''"))));
    assert_eq!(finished.stderr, "");
    assert_eq!(finished.stdout.lines().collect::<Vec<_>>(), ["nightly-report", "compopt -o default", "", "from 5"]);
}

/// Offers what is linked in and each provider that is installed: a script that nobody starts.
#[cfg(feature = "default")]
#[test]
fn bash_completes_the_schemes_of_backends_and_of_providers() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    for (name, mode) in [("tape", 0o755), ("paper", 0o644)] {
        let program = place.path(&format!("shedlock-provider-{name}"));
        fs::write(&program, "#!/bin/sh\ntouch started\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
    }
    let complete = r#"compopt() { :; }; PATH=$PWD:$PATH; source <(shedlock completions bash)
        complete() { local last=$(($# - 1)); COMP_WORDS=("$@"); COMP_CWORD=$last; COMPREPLY=()
            _shedlock shedlock "${COMP_WORDS[$last]}" "${COMP_WORDS[$last - 1]}"; echo "${COMPREPLY[*]}"; }
        complete shedlock run --backend sq
        complete shedlock status --backend pos
        complete shedlock run --backend = ta
        complete shedlock run --backend pap
        complete shedlock run --backend ta -- sh --backend sq"#;
    let finished = finish(&mut script(&place, &format!("exec bash -c '{}'", complete.replace('\'', r"'\''"))));
    assert_eq!(finished.stderr, "");
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines, ["sqlite:", "postgres:// postgresql://", "tape:", "pap", ""]);
    assert!(!place.path("started").exists());
}

/// The default of --backend-timeout is 10 s.
#[test]
fn a_server_that_is_silent_keeps_no_shell_waiting() {
    let place = Place::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let backend = format!("--backend=redis://{}", silent.local_addr().unwrap());
    let begun = std::time::Instant::now();
    finish(&mut place.shedlock(["__names", "", "shedlock", "status", &backend])).is_silent_with(0);
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    // As bad is what there is none of, and what is none.
    for backend in ["--backend=redis://127.0.0.1:1", "--backend=nothing", "--config=none.toml"] {
        finish(&mut place.shedlock(["__names", "", "shedlock", "status", backend])).is_silent_with(0);
    }
}

#[test]
fn bash_completes_the_commands_beside_run_and_their_options() {
    let place = Place::new();
    let complete = r#"compopt() { :; }; source <(shedlock completions bash)
        complete() { local last=$(($# - 1)); COMP_WORDS=("$@"); COMP_CWORD=$last; COMPREPLY=()
            _shedlock shedlock "${COMP_WORDS[$last]}" "${COMP_WORDS[$last - 1]}"; echo "${COMPREPLY[*]}"; }
        complete shedlock sta
        complete shedlock re
        complete shedlock pause --f
        complete shedlock history --by ''
        complete shedlock acquire --on-backend-error ''
        complete shedlock release --exit
        complete shedlock check --j
        complete shedlock man shedlock-st"#;
    let finished = finish(&mut script(&place, &format!("exec bash -c '{}'", complete.replace('\'', r"'\''"))));
    assert_eq!(finished.stderr, "");
    let lines: Vec<&str> = finished.stdout.lines().collect();
    let wanted =
        ["status", "resume release", "--for", "job host", "fail skip", "--exit-code", "--json", "shedlock-status"];
    assert_eq!(lines, wanted);
}

#[test]
fn the_example_of_a_configuration_file_is_read() {
    let place = Place::new();
    let config = Path::new(ROOT).join("packaging/examples/config.toml");
    for job in ["backup", "import of orders", "another"] {
        let mut command = place.shedlock(["run", "--config", config.to_str().unwrap(), "--name", job, "true"]);
        finish(&mut command).is_silent_with(0);
    }
    // Its settings have come through: the lock stays held, and that has the code of the file.
    let mut again = place.shedlock([
        "run",
        "--config",
        config.to_str().unwrap(),
        "--name",
        "import of orders",
        "--wait",
        "0",
        "true",
    ]);
    finish(&mut again).is_silent_with(75);
}

#[test]
fn the_lines_of_the_example_crontab_work() {
    let place = Place::new();
    let crontab = without_comments(&text("packaging/examples/crontab"));
    let lines: Vec<&str> = crontab.lines().filter(|line| line.contains("shedlock")).collect();
    assert_eq!(lines.len(), 4);
    for line in lines {
        let (_, command) = line.split_once("shedlock ").unwrap();
        let (options, job) = command.split_once(" -- ").unwrap();
        let options = options.replace("sqlite:/srv/locks/", "sqlite:");
        let finished = finish(&mut script(&place, &format!("shedlock {options} -- echo {job}")));
        assert_eq!(
            (finished.code(), finished.stdout, finished.stderr),
            (Some(0), format!("{job}\n"), String::new()),
            "{line}"
        );
    }
}

#[test]
fn the_lines_of_the_example_crontab_with_metrics_work() {
    let place = Place::new();
    fs::create_dir(place.path("metrics")).unwrap();
    let crontab = without_comments(&text("packaging/examples/crontab-metrics"));
    let (_, directory) = crontab.split_once("SHEDLOCK_METRICS_DIR=").unwrap();
    assert!(text("packaging/prometheus/README.md").contains(directory.lines().next().unwrap()));
    for line in crontab.lines().filter(|line| line.contains("shedlock run")) {
        let command: Vec<&str> = line.split_whitespace().skip(5).collect();
        let (command, job) = command.join(" ").split_once(" -- ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let mut line = script(&place, &format!("{command} -- echo {job}"));
        let finished = finish(line.env("SHEDLOCK_METRICS_DIR", "metrics"));
        assert_eq!((finished.code(), finished.stdout, finished.stderr), (Some(0), format!("{job}\n"), String::new()));
    }
    let written = |name: &str| place.path(&format!("metrics/shedlock-{name}.prom")).exists();
    assert_eq!(["report", "backup", "tidy-up"].map(written), [true, true, false]);
}

#[test]
fn the_command_lines_of_the_other_examples_work() {
    let place = Place::new();
    let list = text("packaging/kubernetes/cronjob.yaml");
    let (list, _) = list.split_once("command: [").unwrap().1.split_once(']').unwrap();
    let list = list.split_whitespace().collect::<Vec<_>>().join(" ");
    let unit = text("packaging/examples/report.service");
    let unit = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    for line in [list.replace(", ", " "), unit.to_owned()] {
        let (command, _) = line.split_once(" -- ").unwrap();
        finish(&mut script(&place, &format!("{command} -- true"))).is_silent_with(0);
    }
}

/// Without the lock the script would go on, with a handle that is empty.
#[test]
fn every_example_that_acquires_a_lock_ends_without_it() {
    let folders = ["docs", "src/generate", "packaging/examples"];
    let files = folders.iter().flat_map(|folder| fs::read_dir(Path::new(ROOT).join(folder)).unwrap());
    let texts = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let texts: String = texts.map(|path| fs::read_to_string(path).unwrap()).collect();
    let lines: Vec<&str> = texts.lines().filter(|line| line.contains("$(shedlock acquire")).collect();
    assert!(lines.len() > 2 && lines.iter().all(|line| line.contains(") || ")), "{lines:?}");
}
