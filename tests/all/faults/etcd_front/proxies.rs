//! etcd behind a proxy that answers for it, or sends requests twice.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{KEY, Site};
use crate::support::{Finished, Place, finish};
use servers::{Deed, Etcd, Front};

impl Site {
    fn run(&self, words: &[&str]) -> Finished {
        finish(self.place.run("job", words).env("SHEDLOCK_BACKEND", self.url()))
    }

    /// Does this with the first requests that have `sign` in their path or body.
    fn harm(&self, sign: &'static str, times: usize, deed: Deed) {
        let met = AtomicUsize::new(0);
        self.front.set_plan(move |path, body| {
            let has = path.contains(sign) || body.contains(sign);
            match has && met.fetch_add(1, Ordering::SeqCst) < times {
                true => deed.clone(),
                false => Deed::Pass,
            }
        });
    }

    fn is_free(&self) -> bool {
        self.server.client().get(KEY).is_none()
    }
}

fn page(status: &str) -> Deed {
    let body = "<html>no</html>";
    Deed::Instead(format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// In each acquisition and renewal, and in each release that keeps the lock.
const WRITE: &str = "request_put";

#[test]
fn an_acquisition_that_a_proxy_answers_with_a_page_is_given_back() {
    let site = Site::new();
    for status in ["302 Found", "403 Forbidden", "404 Not Found", "413 Payload Too Large", "200 OK"] {
        site.harm(WRITE, 1, page(status));
        let ended = site.run(&["touch", "ran"]);
        assert_eq!(ended.code(), Some(125), "{status}: {ended:?}");
        assert!(site.is_free() && !site.place.path("ran").exists(), "{status}: {ended:?}");
        assert!(!ended.stderr.contains("may be held"), "{status}: {ended:?}");
    }
}

#[test]
fn an_acquisition_that_a_proxy_had_no_time_for_is_tried_again() {
    let site = Site::new();
    for status in ["408 Request Timeout", "429 Too Many Requests", "502 Bad Gateway"] {
        for sign in [WRITE, "lease/grant"] {
            site.harm(sign, 1, page(status));
            site.run(&["true"]).is_silent_with(0);
            assert!(site.is_free(), "{status}");
        }
    }
}

#[test]
fn an_answer_without_a_time_says_so_and_gives_the_lock_back() {
    let site = Site::new();
    site.harm(WRITE, 1, Deed::WithoutDate);
    let ended = site.run(&["true"]);
    ended.complains(125, "`Date` is missing");
    assert!(site.is_free(), "{ended:?}");
}

/// Whatever is sent twice is carried out once.
#[test]
fn a_proxy_that_sends_everything_twice_does_no_harm() {
    let site = Site::new();
    for sign in ["lease/grant", WRITE, "lease/revoke", "kv/txn", "/"] {
        site.harm(sign, usize::MAX, Deed::Twice);
        site.run(&["sh", "-c", "test -n \"$SHEDLOCK_LOCK_TOKEN\" && exit 7"]).is_silent_with(7);
        assert!(site.is_free(), "{sign}");
        site.run(&["--lease", "1500ms", "sleep", "2"]).is_silent_with(0);
        site.run(&["--at-least", "1m", "true"]).is_silent_with(0);
        site.run(&["-E", "75", "true"]).is_silent_with(75);
        let url = format!("etcd://127.0.0.1:{}", site.front.port());
        let unlocked = finish(site.place.shedlock(["unlock", "--force", "job"]).env("SHEDLOCK_BACKEND", &url));
        assert_eq!(unlocked.code(), Some(0), "{sign}: {unlocked:?}");
        let history = finish(site.place.shedlock(["history", "job", "--json"]).env("SHEDLOCK_BACKEND", site.url()));
        assert!(!history.stdout.contains("\"outcome\":null"), "{sign}: {history:?}");
    }
    // Of each run one record, with a token of its own.
    let runs = site.server.client().range("shedlock-history:", "shedlock-history;");
    assert_eq!(runs.len(), 15, "{runs:?}");
}

/// The request with the password is answered with what it was, and one with the login with that.
#[test]
fn neither_the_password_nor_the_login_is_ever_shown() {
    let place = Place::new();
    let server = Etcd::fresh_with_users("");
    let front = Front::new("127.0.0.1", server.port());
    let answer =
        |status: &str, body: &str| format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    for (status, body) in [
        ("200 OK", r#"{"answer":"s3cret"}"#),
        ("200 OK", r#"{"token":["s3cret"]}"#),
        ("200 OK", "s3cret"),
        ("403 Forbidden", "name=root&password=s3cret"),
        ("403 Forbidden", r#"{"message":"s3cret"}"#),
        ("502 Bad Gateway", "s3cret"),
    ] {
        let instead = answer(status, body);
        front.set_plan(move |path, _| match path.contains("auth/authenticate") {
            true => Deed::Instead(instead.clone()),
            false => Deed::Pass,
        });
        let url = format!("etcd://root:s3cret@127.0.0.1:{}", front.port());
        let ended = finish(place.run("job", ["--backend-timeout", "1s", "true"]).env("SHEDLOCK_BACKEND", url));
        assert!(ended.code() == Some(125) && !ended.stderr.contains("s3cret"), "{ended:?}");
        assert!(ended.stderr.contains("backend etcd://"), "{ended:?}");
    }
    // A login that works; then whoever is asked repeats it.
    let token = token(&server);
    for body in [format!(r#"{{"answer":"{token}"}}"#), format!("no rights for {token}")] {
        let (login, instead) = (answer("200 OK", &format!(r#"{{"token":"{token}"}}"#)), answer("200 OK", &body));
        front.set_plan(move |path, _| match path.contains("auth/authenticate") {
            true => Deed::Instead(login.clone()),
            false => Deed::Instead(instead.clone()),
        });
        let url = format!("etcd://root:s3cret@127.0.0.1:{}", front.port());
        let ended = finish(place.run("job", ["--backend-timeout", "1s", "true"]).env("SHEDLOCK_BACKEND", url));
        assert!(ended.code() == Some(125) && !ended.stderr.contains(&token), "{ended:?}");
        assert!(ended.stderr.contains("not an answer of etcd"), "{ended:?}");
    }
    // Nor does a login need a time.
    for (without_date, code) in [("auth/authenticate", 0), ("kv/txn", 125)] {
        front.set_plan(move |path, _| if path.contains(without_date) { Deed::WithoutDate } else { Deed::Pass });
        let url = format!("etcd://root:s3cret@127.0.0.1:{}", front.port());
        let ended = finish(place.run("job", ["--backend-timeout", "1s", "true"]).env("SHEDLOCK_BACKEND", url));
        assert_eq!((ended.code(), ended.stderr.contains("header")), (Some(code), code == 125), "{ended:?}");
    }
}

/// Returns a token as etcd makes them: a random word and a number.
fn token(server: &Etcd) -> String {
    let body = serde_json::json!({"name": "root", "password": "s3cret"});
    server.client().ask("auth/authenticate", &body)["token"].as_str().unwrap().to_owned()
}
