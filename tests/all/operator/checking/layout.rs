//! How a check is shown.

#[cfg(feature = "postgres")]
use super::check;
use super::{checked, on};
use crate::support::process::{beside, touch, until_exists, wait_until_held};
use crate::support::pty::Terminal;
use crate::support::{Place, finish, finish_child, start, wait_until};

/// Returns the output of a check in words, with this locale.
fn said(place: &Place, locale: &str) -> String {
    let url = format!("sqlite:{}", place.database().display());
    let finished = finish(on(place, &url, &["check"]).env_remove("LC_ALL").env_remove("LC_CTYPE").env("LANG", locale));
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    finished.stdout
}

#[test]
fn a_line_has_a_mark_and_the_last_one_says_what_it_means() {
    let place = Place::new();
    let text = said(&place, "C.UTF-8");
    assert!(text.starts_with("✓ backend       sqlite:"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("this host can lock here"), "{text}");
    assert!(!text.contains('\x1b'), "colours are for terminals: {text}");
    let plain = said(&place, "C");
    assert!(plain.is_ascii() && plain.starts_with("+ backend"), "{plain}");
}

#[test]
fn what_to_do_stands_under_the_line_with_a_cross() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path("none/locks.db").display());
    let finished = finish(on(&place, &url, &["check"]).env("LC_ALL", "C.UTF-8"));
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(lines.iter().any(|line| line.starts_with("✗ file  ")), "{finished:?}");
    assert!(lines.iter().any(|line| line.trim_start().starts_with("→ create it with `mkdir -p")), "{finished:?}");
    assert_eq!(lines.last(), Some(&"1 thing is in the way of locking here; fix this before the other tests can run"));
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(1), ""));
}

#[test]
fn colours_are_for_terminals_without_no_color() {
    let place = Place::new();
    for (no_color, coloured) in [("", true), ("1", false)] {
        let mut shedlock = beside(&place, &["sh", "-c", "\"$PROGRAM\" check; echo > \"$0\"", "seen"]);
        let mut terminal =
            Terminal::start(shedlock.env("LC_ALL", "C.UTF-8").env("NO_COLOR", no_color).env("TERM", "xterm"));
        let mut screen = String::new();
        wait_until("the last line", || {
            screen += &terminal.screen();
            screen.contains("this host can lock here").then_some(())
        });
        assert_eq!(screen.contains("\x1b[38;5;28m✓\x1b[0m"), coloured, "{screen}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error_and_the_lock_is_given_back() {
    let place = Place::new();
    let script = "{ \"$PROGRAM\" check; echo $? > code; } | head -1";
    let finished = finish(&mut beside(&place, &["sh", "-c", script]));
    assert_eq!((finished.stdout.lines().count(), finished.stderr.as_str()), (1, ""), "{finished:?}");
    assert_eq!(place.wait_for_lines("code", 1), ["0"]);
    assert!(!place.row("shedlock-check").unwrap().held);
}

#[test]
fn a_check_waits_for_that_of_another() {
    let place = Place::new();
    let job = start(&mut place.run("shedlock-check", ["sh", "-c", &until_exists("done")]));
    wait_until_held(&place, "shedlock-check");
    let out = std::fs::File::create(place.path("out")).unwrap();
    let url = format!("sqlite:{}", place.database().display());
    let mut check = on(&place, &url, &["check"]).stdout(out).spawn().unwrap();
    let all_but_the_lock = 8;
    place.wait_for_lines("out", all_but_the_lock);
    touch(&place, "done");
    assert!(check.wait().unwrap().success(), "{}", place.read("out"));
    finish_child(job).is_silent_with(0);
}

#[test]
fn a_lock_that_somebody_keeps_is_in_the_way() {
    let place = Place::new();
    let job = start(&mut place.run("shedlock-check", ["sh", "-c", &until_exists("done")]));
    let owner = wait_until_held(&place, "shedlock-check").locked_by;
    let url = format!("sqlite:{}", place.database().display());
    let found = checked(&finish(&mut on(&place, &url, &["check", "--json", "--backend-timeout", "100ms"])));
    found.says("bad", "take", &format!("the lock shedlock-check is held by {owner} for another "));
    found.says("bad", "take", "free it with `shedlock unlock shedlock-check`");
    assert_eq!(place.row("shedlock-check").unwrap().locked_by, owner);
    touch(&place, "done");
    finish_child(job).is_silent_with(0);
}

#[test]
fn where_the_backend_is_named_is_said() {
    let place = Place::new();
    let config = place.path("config.toml");
    std::fs::write(&config, format!("\nbackend = 'sqlite:{}'\n", place.database().display())).unwrap();
    let mut command = on(&place, "", &["check", "--config", config.to_str().unwrap()]);
    let text = finish(&mut command).stdout;
    assert!(text.contains(&format!("from {}:2: `backend`", config.display())), "{text}");
    let url = format!("sqlite:{}", place.database().display());
    let text = finish(&mut on(&place, "", &["check", "--backend", &url])).stdout;
    assert!(text.contains("from --backend\n"), "{text}");
}

#[test]
fn what_cannot_be_a_backend_is_an_error_and_no_finding() {
    let place = Place::new();
    finish(&mut on(&place, "oracle://db", &["check"])).complains(125, "unknown scheme");
    finish(on(&place, "", &["check"]).env("KUBERNETES_SERVICE_HOST", "10.0.0.1")).complains(125, "no default");
}

/// Whoever looks at a check that hangs sees where.
#[cfg(feature = "postgres")]
#[test]
fn each_line_comes_as_soon_as_it_is_known() {
    let server = servers::Postgres::fresh(&[]);
    let database = server.database();
    check(&database.url()).can_lock_but(&[]);
    server.freeze();
    let place = Place::new();
    let mut command = on(&place, &database.url(), &["check", "--backend-timeout", "3s"]);
    let out = std::fs::File::create(place.path("out")).unwrap();
    let mut child = command.stdout(out).spawn().unwrap();
    place.wait_for_lines("out", 2);
    assert!(child.try_wait().unwrap().is_none(), "it still waits for the frozen server");
    assert!(!child.wait().unwrap().success());
    assert!(place.read("out").contains("no answer in time"), "{}", place.read("out"));
    server.thaw();
}

#[test]
fn the_lock_of_a_check_that_died_is_waited_for_and_its_record_goes_with_the_next() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.database().display());
    // What a check that was killed leaves.
    let acquire =
        |at_most| finish(&mut on(&place, &url, &["acquire", "--name", "shedlock-check", "--at-most", at_most]));
    assert_eq!(acquire("1s").code(), Some(0));
    finish(&mut place.run("shedlock-check", ["--wait", "30s", "true"])).is_silent_with(0);
    assert_eq!(acquire("5s").code(), Some(0));
    let found = checked(&finish(&mut on(&place, &url, &["check", "--json"])));
    assert_eq!(found.code, Some(0), "{found:?}");
    let history = finish(&mut on(&place, &url, &["history", "--json"]));
    let runs: serde_json::Value = serde_json::from_str(&history.stdout).unwrap();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs:#}");
}

#[test]
fn a_lock_that_soon_ends_may_be_that_of_another_check() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.database().display());
    let acquire = ["acquire", "--name", "shedlock-check", "--at-most", "9s"];
    assert_eq!(finish(&mut on(&place, &url, &acquire)).code(), Some(0));
    let found = checked(&finish(&mut on(&place, &url, &["check", "--json", "--backend-timeout", "1ms"])));
    found.says("bad", "take", "check again when that time is over");
}

#[test]
fn on_a_narrow_terminal_no_line_is_wider() {
    let place = Place::new();
    let script = "stty rows 24 columns 50; \"$PROGRAM\" check; echo > \"$0\"";
    let mut shedlock = beside(&place, &["sh", "-c", script, "seen"]);
    let mut terminal = Terminal::start(shedlock.env("LC_ALL", "C.UTF-8").env("NO_COLOR", "1").env("TERM", "xterm"));
    let mut screen = String::new();
    wait_until("the last line", || {
        screen += &terminal.screen();
        screen.contains("this host can lock here").then_some(())
    });
    assert!(screen.lines().all(|line| line.chars().count() <= 50), "{screen}");
    assert!(screen.lines().any(|line| line.starts_with(&" ".repeat(16))), "{screen}");
}
