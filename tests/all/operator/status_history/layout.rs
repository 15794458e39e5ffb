//! What is shown on terminals of all kinds, to programs, and in files.

use std::fs;
use std::process::Command;

use super::{MINUTE, Site};
use crate::support::process::{beside, wait_for_end};
use crate::support::pty::Terminal;
use crate::support::{finish, is_alive, kill, start, wait_until};
use servers::stores::{SqliteStore, Store};

const LONG: &str = "a-very-long-name-of-a-job-that-reports-everything";

/// Returns a site with a held, a paused and a free lock.
fn site() -> Site<SqliteStore> {
    let site = Site::new(SqliteStore::new());
    assert_eq!(site.ran(LONG, &["false"]).code(), Some(1));
    site.ran("vacuum", &["true"]).is_silent_with(0);
    assert!(site.store.java_take(LONG, "a-host-with-a-name-that-says-where-it-is.example", MINUTE));
    assert!(site.store.java_take("paused", "paused:ada@ops1:because of what is done to the disk::ff", MINUTE));
    site
}

/// Returns `shedlock WORDS` on a terminal, with these variables.
fn command(site: &Site<SqliteStore>, columns: u16, words: &str, variables: &[(&str, &str)]) -> Command {
    let mut command =
        beside(&site.place, &["sh", "-c", &format!("stty rows 24 columns {columns}; exec $PROGRAM {words}")]);
    command.env("SHEDLOCK_BACKEND", site.store.url()).env_remove("NO_COLOR").env("TERM", "xterm");
    for (name, value) in variables {
        command.env(name, value);
    }
    command
}

/// Returns the last screen of a terminal that is so wide.
fn shown(site: &Site<SqliteStore>, columns: u16, words: &str, variables: &[(&str, &str)]) -> String {
    let mut terminal = Terminal::start(&command(site, columns, words, variables));
    let mut screen = String::new();
    wait_until("the program to end", || {
        screen += &terminal.screen();
        (!is_alive(terminal.pid())).then_some(())
    });
    screen += &terminal.screen();
    assert_eq!(terminal.finish().code(), Some(0), "{screen}");
    screen.replace("\r\n", "\n")
}

fn width(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn tables_and_pictures_fit_the_terminal() {
    let site = site();
    for columns in [40, 80, 120, 200] {
        for words in ["status", "history", "history --timeline", "history --timeline --by host"] {
            let screen = shown(&site, columns, words, &[("NO_COLOR", "1")]);
            let widest = screen.lines().map(width).max().unwrap();
            assert!(widest <= columns.into() && screen.lines().count() >= 3, "{columns}: {screen}");
        }
        let screen = shown(&site, columns, "status", &[("NO_COLOR", "1")]);
        for word in ["held", "paused", "ada@ops1", "a-very-lon", "a-host-", "LEFT"] {
            assert!(screen.contains(word) || columns == 40 && word == "ada@ops1", "{word} at {columns}: {screen}");
        }
        assert_eq!(screen.contains("failure"), columns >= 80, "{screen}");
        assert_eq!(screen.contains(LONG), columns == 200, "{screen}");
    }
}

#[test]
fn a_program_gets_everything_plain() {
    let site = site();
    let printed = site.printed(&["status"]);
    for word in
        [LONG, "a-host-with-a-name-that-says-where-it-is.example", "ada@ops1: because of what is done to the disk"]
    {
        assert!(printed.contains(word), "{printed}");
    }
    for words in [&["status"][..], &["history"], &["history", "--timeline"]] {
        let mut command = site.shedlock(words);
        let finished = finish(command.env("TERM", "xterm-256color").env("COLUMNS", "20").env_remove("NO_COLOR"));
        assert!(!finished.stdout.contains('\x1b'), "{finished:?}");
    }
}

/// Moves all times by ten days and a half, the ends of held locks into the future: two looks show the same of them.
fn stand_still(site: &Site<SqliteStore>) {
    let moved = |column: &str, by: &str| format!("{column} = strftime('%Y-%m-%dT%H:%M:%fZ', {column}, '{by} hours')");
    let (locked, held) = (moved("locked_at", "-252"), moved("lock_until", "+252"));
    let (started, ended) = (moved("started_at", "-252"), moved("ended_at", "-252"));
    let connection = rusqlite::Connection::open(site.store.url().strip_prefix("sqlite:").unwrap()).unwrap();
    let locks = format!("UPDATE shedlock SET {locked}, {held} WHERE name <> 'vacuum'");
    assert_eq!(connection.execute(&locks, ()).unwrap(), 2);
    assert_eq!(connection.execute(&format!("UPDATE shedlock_history SET {started}, {ended}"), ()).unwrap(), 2);
}

#[test]
fn colours_are_for_terminals_and_for_those_who_want_them() {
    let site = site();
    stand_still(&site);
    let plain = shown(&site, 80, "status", &[("NO_COLOR", "yes")]);
    let without = |text: &str| {
        let mut parts = text.split('\x1b');
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |text, part| text + part.split_once('m').unwrap().1)
    };
    for (variables, coloured) in
        [(&[][..], true), (&[("NO_COLOR", "")], true), (&[("NO_COLOR", "0")], false), (&[("TERM", "dumb")], false)]
    {
        let screen = shown(&site, 80, "status", variables);
        assert_eq!(screen.contains('\x1b'), coloured, "{variables:?}: {screen}");
        assert_eq!(without(&screen), plain, "{variables:?}");
    }
}

#[test]
fn who_watches_sees_it_again_and_ends_it_with_ctrl_c() {
    let site = site();
    let mut terminal = Terminal::start(&command(&site, 80, "status --watch", &[]));
    let mut screen = String::new();
    let mut looks = |terminal: &mut Terminal, count: usize| {
        wait_until(&format!("{count} looks"), || {
            screen += &terminal.screen();
            (screen.matches("\x1b[H\x1b[2J").count() >= count).then(|| screen.clone())
        })
    };
    let first = looks(&mut terminal, 1);
    assert!(!first.contains("something-new"), "{first}");
    assert!(site.store.java_take("something-new", "java-host", MINUTE));
    let next = looks(&mut terminal, 3);
    let last = next.rsplit("\x1b[2J").nth(1).unwrap();
    assert!(last.contains("something-new") && last.contains("sqlite:"), "{next}");
    terminal.type_keys("\x03");
    wait_for_end(terminal.pid());
}

#[test]
fn a_terminal_that_is_too_short_for_all_locks_shows_those_that_are_taken() {
    let site = site();
    for number in 0..40 {
        site.ran(&format!("a-free-one-{number}"), &["true"]).is_silent_with(0);
    }
    let mut terminal = Terminal::start(&command(&site, 80, "status --watch", &[]));
    let mut screen = String::new();
    let shown = wait_until("a whole screen", || {
        screen += &terminal.screen();
        Some(screen.split("\x1b[2J").nth(1).filter(|_| screen.matches("\x1b[2J").count() > 1)?.to_owned())
    });
    let lines: Vec<&str> = shown.lines().collect();
    // The last one is the next look's.
    assert_eq!(lines.len(), 24, "{shown}");
    let states: Vec<bool> = lines[3..lines.len() - 2].iter().map(|line| line.contains("free")).collect();
    assert!(states.starts_with(&[false, false, true]) && states[2..].iter().all(|free| *free), "{shown}");
    let hidden = 43 - states.len();
    assert!(shown.contains(&format!("… and {hidden} more")), "{hidden}: {shown}");
    terminal.type_keys("\x03");
    wait_for_end(terminal.pid());
}

#[test]
fn a_program_that_watches_gets_one_answer_after_the_other_until_it_has_enough() {
    let site = site();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = start_with(&mut site.shedlock(&["status", "--watch", "vacuum"]), writer);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(reader));
    let seen: Vec<String> = lines.by_ref().take(4).map(Result::unwrap).collect();
    assert_eq!((&seen[0], seen[1].starts_with("vacuum ")), (&seen[2], true), "{seen:?}");
    drop(lines);
    assert_eq!(wait_until("the end", || child.try_wait().unwrap()).code(), Some(0));
}

fn start_with(command: &mut Command, stdout: std::io::PipeWriter) -> std::process::Child {
    command.stdout(stdout).spawn().unwrap()
}

#[test]
fn trouble_while_watching_is_told_and_asked_again() {
    let site = site();
    let database = fs::canonicalize(site.store.url().strip_prefix("sqlite:").unwrap()).unwrap();
    let aside = database.with_extension("aside");
    let mut child = start(&mut site.shedlock(&["status", "--watch", "vacuum", "--backend-timeout", "100ms"]));
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |what: &mut dyn std::io::Read| {
        let mut part = [0; 4096];
        let count = what.read(&mut part).unwrap();
        String::from_utf8_lossy(&part[..count]).into_owned()
    };
    assert!(read(&mut stdout).contains("vacuum"));
    // At once, so that no look finds anything in between.
    let broken = database.with_extension("broken");
    fs::write(&broken, "this is no database, and has not been one for a long time").unwrap();
    fs::hard_link(&database, &aside).unwrap();
    fs::rename(&broken, &database).unwrap();
    let told = read(&mut stderr);
    assert!(told.starts_with("shedlock: ") && told.contains("is not a SQLite database"), "{told}");
    fs::rename(&aside, &database).unwrap();
    wait_until("the next answer", || read(&mut stdout).contains("vacuum").then_some(()));
    kill(i32::try_from(child.id()).unwrap(), "TERM");
    assert_eq!(wait_until("the end", || child.try_wait().unwrap()).code(), None);
}

#[test]
fn times_are_local_for_those_who_want_that() {
    let site = site();
    let in_zone = |zone: &str| finish(site.shedlock(&["history", "vacuum", "--local"]).env("TZ", zone));
    let utc = site.printed(&["history", "vacuum"]);
    let utc = utc.lines().nth(1).unwrap();
    let local = in_zone("<+05>-5").stdout;
    let local = local.lines().nth(1).unwrap();
    let time = |line: &str| humantime::parse_rfc3339_weak(&line[..19]).unwrap();
    assert_eq!((utc.chars().nth(19), local.chars().nth(19)), (Some('Z'), Some('+')), "{utc} {local}");
    assert_eq!(&local[19..25], "+05:00");
    assert_eq!(time(local).duration_since(time(utc)).unwrap().as_secs(), 5 * 3600);
    in_zone("Mars/Olympus").complains(125, "--local cannot be used: TZ is `Mars/Olympus`");
    let picture = finish(site.shedlock(&["history", "--timeline", "--local"]).env("TZ", "<+05>-5")).stdout;
    assert!(picture.lines().next().unwrap().ends_with("+05:00 (local time)"), "{picture}");
}

#[test]
fn an_hour_that_comes_twice_is_told_apart() {
    let site = Site::new(SqliteStore::new());
    site.ran("job", &["true"]).is_silent_with(0);
    site.store.carry_out(
        "INSERT INTO shedlock_history (id, name, owner, host, started_at, ended_at, exit_code, outcome) VALUES \
         (1, 'job', 'a:1:2', 'a', '2025-10-26T00:00:00.000Z', '2025-10-26T00:00:01.000Z', 0, 'success'), \
         (2, 'job', 'a:1:3', 'a', '2025-10-26T01:00:00.000Z', '2025-10-26T01:00:01.000Z', 0, 'success');",
    );
    let shown =
        finish(site.shedlock(&["history", "--local", "--since", "2025-01-01"]).env("TZ", "CET-1CEST,M3.5.0,M10.5.0/3"));
    for time in ["2025-10-26 02:00:00+02:00", "2025-10-26 02:00:00+01:00"] {
        assert_eq!(shown.stdout.matches(time).count(), 1, "{shown:?}");
    }
}

#[test]
fn what_is_left_out_is_said() {
    let site = Site::new(SqliteStore::new());
    site.ran("job", &["true"]).is_silent_with(0);
    site.store.carry_out(
        "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 60) \
         INSERT INTO shedlock_history (id, name, owner, host, started_at, ended_at, exit_code, outcome) \
         SELECT 100 - i, 'job', 'a:1:' || i, 'a', strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || i || ' hours'), \
                strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || i || ' hours'), 0, 'success' FROM n;",
    );
    let shown = finish(&mut site.shedlock(&["history"]));
    let remark = "shedlock: only the newest 50 runs are shown\n";
    assert!(shown.stderr.starts_with(remark), "{shown:?}");
    assert_eq!(shown.stdout.lines().count(), 51);
    let json = finish(&mut site.shedlock(&["history", "--json"]));
    assert!(json.stderr.starts_with(remark), "{json:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json.stdout).unwrap().as_array().unwrap().len(), 50);
    // Whoever names a number or a time gets that, and no remark.
    assert_eq!(site.json(&["history", "--since", "100h"]).len(), 61);
    assert_eq!(site.json(&["history", "--limit", "55"]).len(), 55);
    // Nothing is claimed of the time before the oldest record.
    let picture = site.printed(&["history", "--since", "10d", "--timeline"]);
    assert!(picture.contains("blank: no records"), "{picture}");
    let lane = picture.lines().find(|line| line.starts_with("job")).unwrap();
    assert!(lane.contains('▌') && !lane.contains('·'), "{picture}");
    assert!(!site.printed(&["history", "--since", "30h", "--timeline"]).contains("no records"));
    assert!(site.printed(&["history", "--since", "10d", "--svg", "-"]).contains("no background: no records"));
}

#[test]
fn a_run_that_never_came_back_shows_since_when_there_are_records() {
    let site = Site::new(SqliteStore::new());
    site.ran("job", &["true"]).is_silent_with(0);
    site.store.carry_out(
        "INSERT INTO shedlock_history (id, name, owner, host, started_at) \
         VALUES (1, 'job', 'a:1:1', 'a', strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-10 days'))",
    );
    let picture = |since| site.printed(&["history", "--since", since, "--timeline"]);
    let recent = picture("24h");
    assert!(!recent.contains("no records") && recent.contains('·'), "{recent}");
    assert!(picture("20d").contains("blank: no records\nrecords since "), "{}", picture("20d"));
}

#[test]
fn a_drawing_is_written_as_a_whole_or_not_at_all() {
    let site = site();
    let svg = |file: &str| finish(&mut site.shedlock(&["history", "--svg", file]));
    svg("runs.svg").is_silent_with(0);
    let drawing = site.place.read("runs.svg");
    assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>\n"), "{drawing}");
    let before = fs::read_dir(site.place.path("")).unwrap().count();
    svg("none/runs.svg").complains(125, "none/runs.svg cannot be written: no such file or directory");
    svg(".").complains(125, ". cannot be written: is a directory");
    svg("").complains(125, "--svg is empty");
    // What a link leads to is written anew, and a device stays one.
    std::os::unix::fs::symlink("runs.svg", site.place.path("link.svg")).unwrap();
    fs::write(site.place.path("runs.svg"), "old").unwrap();
    svg("link.svg").is_silent_with(0);
    assert!(site.place.path("link.svg").is_symlink() && site.place.read("runs.svg").len() > 100);
    // A disk that is full leaves what was there. There is room for what SQLite needs.
    site.store.carry_out(
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 500) \
         INSERT INTO shedlock_history (id, name, owner, host, started_at) \
         SELECT n, 'many' || n, n, 'h', strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM n",
    );
    let full = ["sh", "-c", "trap '' XFSZ; ulimit -f 100; exec $PROGRAM history --svg runs.svg"];
    let finished = finish(beside(&site.place, &full).env("SHEDLOCK_BACKEND", site.store.url()));
    finished.complains(125, "runs.svg cannot be written: file too large");
    assert!(site.place.read("runs.svg").ends_with("</svg>\n"));
    svg("/dev/full").complains(125, "/dev/full cannot be written: no space left on device");
    svg("/dev/null").is_silent_with(0);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert_eq!(fs::read_dir(site.place.path("")).unwrap().count(), before + 1, "no drafts");
    let both = finish(&mut site.shedlock(&["history", "--timeline", "--svg", "both.svg"]));
    assert!(both.stdout.starts_with("Runs by job") && site.place.path("both.svg").exists(), "{both:?}");
}

#[test]
fn a_page_shows_what_there_is_and_no_mail_comes_of_it() {
    let site = Site::new(SqliteStore::new());
    assert_eq!(finish(&mut site.shedlock(&["init"])).code(), Some(0));
    let page = |more: &[&str]| {
        let words = [&["history", "--html", "page.html", "--since", "1h"], more].concat();
        finish(&mut site.shedlock(&words)).is_silent_with(0);
        site.place.read("page.html")
    };
    // A run that ended before --since is no part of the picture, and still the last one of its lock.
    site.store.carry_out(
        "INSERT INTO shedlock_history (id, name, owner, host, started_at, ended_at, exit_code, outcome) \
         VALUES (1, 'old', 'web1:1:01', 'web1', '2026-01-31T18:00:00.000Z', '2026-01-31T18:00:02.000Z', 3, 'failure')",
    );
    let quiet = page(&[]);
    assert!(quiet.contains("There are no runs to show.") && quiet.contains("failure 2026-01-31 18:00"), "{quiet}");
    site.ran("new", &["false"]).is_silent_with(1);
    let busy = page(&["--svg", "week.svg"]);
    assert!(busy.contains("<title>new on ") && !busy.contains("<title>old on "), "{busy}");
    assert!(busy.contains("\"JOB\">new</td>") && !busy.contains("\"JOB\">old</td>"), "{busy}");
    assert!(site.place.read("week.svg").starts_with("<svg"));
    // One line for each host, and times of a zone.
    let words = ["history", "--html", "-", "--by", "host", "--local"];
    let hosts = finish(site.shedlock(&words).env("TZ", "Europe/Berlin"));
    assert!(hosts.stdout.contains("Runs by host") && hosts.stdout.contains("19:00"), "{hosts:?}");
    // What is not there stays what it was.
    fs::remove_file(site.place.path("page.html")).unwrap();
    let unknown = finish(&mut site.shedlock(&["history", "--html", "page.html", "nothing"]));
    assert_eq!(unknown.code(), Some(1));
    assert!(!site.place.path("page.html").exists());
}

#[test]
fn what_excludes_each_other_and_what_is_no_number_is_told() {
    let site = site();
    for (words, told) in [
        (&["history", "--json", "--timeline"][..], "--json and --timeline exclude each other"),
        (&["history", "--json", "--svg", "x"], "--json and --svg exclude each other"),
        (&["history", "--timeline", "--svg", "-"], "--timeline and --svg - exclude each other"),
        (&["history", "--json", "--html", "x"], "--json and --html exclude each other"),
        (&["history", "--svg", "-", "--html", "-"], "--svg - and --html - exclude each other"),
        (&["history", "--html", ""], "--html is empty"),
        (&["history", "--by", "host"], "--by is for pictures only"),
        (&["history", "--timeline", "--by", "day"], "--by is `day`; known are job, host"),
        (&["history", "--limit", "0"], "--limit `0` is not a number of runs"),
        (&["history", "--limit", "many"], "--limit `many` is not a number of runs"),
        (&["history", "a", "b"], "`b`"),
        (&["history", ""], "NAME is empty"),
        (&["status", "--watch", "--exit-code"], "--watch and --exit-code exclude each other"),
        (&["status", "--max-age", "1h", "--json", "x"], "--max-age and --json exclude each other"),
        (&["status", "--prometheus", "--watch"], "--prometheus and --watch exclude each other"),
        (&["status", "--max-age", "1h"], "--max-age needs a NAME"),
        (&["status", "--max-age", "0", "x"], "--max-age is 0"),
        (&["status", "--max-age", "soon", "x"], "--max-age `soon` is not"),
        (&["status", ""], "NAME is empty"),
    ] {
        finish(&mut site.shedlock(words)).complains(125, told);
    }
}
