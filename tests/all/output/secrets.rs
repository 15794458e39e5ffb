//! A text with a password in it, in every place where a text can stand: no message shows the password.

use std::process::Command;
use std::thread;

use crate::support::{Place, finish};

const SECRET: &str = "hunter7";

/// Texts with the secret in them, as people give them for backends.
const SPELLINGS: [&str; 17] = [
    "u:hunter7@h/db",
    ":hunter7@h",
    "u:a/hunter7@h:1/db",
    "postgres://u:hunter7@h/db",
    "postgres:/u:hunter7@h",
    "redis://:hunter7",
    "mysql://u:two words hunter7@h/db",
    "postgres://h/db?password=hunter7",
    "postgres://h/db?sslpassword=hunter7&x=1",
    "mongodb://h/db?token=hunter7",
    "?password=hunter7",
    "host=h password=hunter7",
    "host=h password = 'a hunter7' port=1",
    "jdbc:postgresql://u:hunter7@h/db",
    "jdbc:sqlserver://h;user=u;password=hunter7;x=1",
    "jdbc:oracle:thin:scott/hunter7@h:1521:x",
    "scott/hunter7@",
];

/// Returns the options of `shedlock run`, as its help has them.
fn options(place: &Place) -> Vec<String> {
    let help = finish(&mut place.shedlock(["run", "--help"])).stdout;
    let words = help.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
    let mut options: Vec<String> = words.filter_map(|word| word.strip_prefix("--")).map(str::to_owned).collect();
    options.retain(|option| !option.is_empty());
    options.sort();
    options.dedup();
    assert!(options.len() > 30, "{options:?}");
    options
}

/// Runs commands with this text in one place each; returns what was run, and what it said.
fn everywhere(text: &str) -> Vec<(String, String)> {
    let place = Place::new();
    let mut commands: Vec<Command> = Vec::new();
    let mut say = |words: &[&str], variables: &[(String, &str)], file: Option<String>| {
        let mut command = place.shedlock(words);
        // Whatever is taken for a server is not asked twice.
        command.env("SHEDLOCK_BACKEND_TIMEOUT", "0s").env("PATH", "/nonexistent");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if let Some(file) = file {
            let path = place.path(&format!("{}.toml", commands.len()));
            std::fs::write(&path, file).unwrap();
            command.env("SHEDLOCK_CONFIG", path);
        }
        commands.push(command);
    };
    let run = ["run", "--name", "job", "--at-most", "1m"];
    let options = options(&place);
    // A shell says in its own words what it does not understand.
    for option in options.iter().filter(|option| *option != "notify") {
        let attached = format!("--{option}={text}");
        let kept: &[&str] = match option.as_str() {
            "name" => &["run", "--at-most", "1m"],
            "at-most" => &["run", "--name", "job"],
            "backend" | "backend-file" => &["run", "--name", "job", "--at-most", "1m", "-vv"],
            _ => &run,
        };
        say(&[kept, &[&attached, "true"]].concat(), &[], None);
        say(&[kept, &[&attached, "--log-format", "json", "true"]].concat(), &[], None);
        say(&["status", &attached], &[], None);
        let variable = format!("SHEDLOCK_{}", option.to_uppercase().replace('-', "_"));
        let short = if option == "at-most" { &run[..3] } else { &run };
        say(&[short, &["true"]].concat(), &[(variable, text)], None);
        say(&[short, &["true"]].concat(), &[], Some(format!("{option} = {text:?}\n")));
    }
    for (variable, value) in [("SHEDLOCK_LOCK_BACKEND", text), ("SHEDLOCK_LOCK_NAME", text), ("TZ", text)] {
        say(&["verify"], &[(variable.to_owned(), value)], None);
        say(&["status"], &[(variable.to_owned(), value)], None);
    }
    for file in [
        format!("{text:?} = 1\n"),
        format!("[jobs.{text:?}]\nat-mst = 1\n"),
        format!("[{text:?}]\nx = 1\n"),
        format!("{text}\n"),
        format!("at-most = {text}\n"),
        format!("jobs = {text:?}\n"),
    ] {
        say(&[&run[..], &["true"]].concat(), &[], Some(file));
    }
    for command in [
        "status",
        "history",
        "unlock",
        "pause",
        "resume",
        "forget",
        "release",
        "extend",
        "verify",
        "check",
        "init",
        "schema",
        "completions",
        "man",
        "acquire",
        "run",
        "help",
    ] {
        say(&[command, text], &[], None);
        say(&[command, &format!("--{text}")], &[], None);
        say(&[command, &format!("--frobnicate={text}")], &[], None);
        say(&[command, "job", text], &[], None);
        say(&[command, "--backend", text], &[], None);
        say(&[command, "job", "--backend", text], &[], None);
    }
    say(&[text], &[], None);
    say(&[&run[..], &[text]].concat(), &[], None);
    say(&[&run[..], &["--log-format", "json", text]].concat(), &[], None);
    say(&[&run[..], &["--dry-run", "--", "true", text]].concat(), &[], None);
    say(&["run", "--name", "job", text, "--at-most", "1m"], &[], None);
    say(&["acquire", "--name", "job", "--at-most", text], &[], None);
    say(&["extend", "job@web1:1:00c0ffee00c0ffee", text], &[], None);
    say(&["history", "--since", text], &[], None);
    say(&["status", "--max-age", text, "job"], &[], None);
    say(&["pause", "job", "--reason", text], &[], None);
    say(&["resume", text], &[], None);
    commands
        .iter_mut()
        .map(|command| {
            let finished = finish(command);
            // A name that a lock has is shown in tables, and in fields for programs.
            let is_of_names = ["status", "history", "acquire"]
                .map(Some)
                .contains(&command.get_args().next().and_then(|word| word.to_str()));
            let answer = if is_of_names && finished.code() == Some(0) { "" } else { &finished.stdout };
            let field = format!("\"name\":{}", serde_json::Value::from(text));
            (format!("{command:?}"), (answer.to_owned() + &finished.stderr).replace(&field, ""))
        })
        .collect()
}

#[test]
fn no_message_shows_a_password_wherever_it_stands() {
    let shown: Vec<(String, String)> = thread::scope(|scope| {
        let halves: Vec<_> = SPELLINGS
            .chunks(SPELLINGS.len().div_ceil(4))
            .map(|texts| scope.spawn(|| texts.iter().flat_map(|text| everywhere(text)).collect::<Vec<_>>()))
            .collect();
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert!(shown.len() > 3000, "{}", shown.len());
    assert!(shown.iter().filter(|(_, said)| said.contains("***")).count() > 1000);
    let leaks: Vec<_> = shown.iter().filter(|(_, said)| said.contains(SECRET)).collect();
    assert!(leaks.is_empty(), "{} of {}: {:#?}", leaks.len(), shown.len(), &leaks[..leaks.len().min(20)]);
}
