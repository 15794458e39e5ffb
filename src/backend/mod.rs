//! Where locks live: the contract that every backend keeps, and the table of URL schemes.
//!
//! A new backend is one file that implements [`Backend`] and [`Admin`], and one line in [`SCHEMES`].

#[cfg(feature = "tls")]
mod authorities;
#[cfg(test)]
mod conformance;
#[cfg(feature = "tls")]
mod hosts;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "tls")]
mod network;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "tls")]
mod probe;
#[cfg(feature = "redis")]
mod redis;
mod retry;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(feature = "tls")]
mod tls;
#[cfg(test)]
mod trial;
mod url;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lock::{Change, Claim, Closing, Grant, LockState, Locks, Runs, Wanted};
use crate::system::Timestamp;
#[cfg(test)]
pub(crate) use retry::RESPITE;
pub(crate) use retry::Retry;
pub(crate) use url::Url;

/// The backend of this process was reached: a server took its login, or a file was opened.
static REACHED: AtomicBool = AtomicBool::new(false);

/// Notes that the backend was reached: what follows is a request.
fn note_reached() {
    REACHED.store(true, Ordering::Relaxed);
}

/// Returns whether a request may have reached the backend, for a caller that cannot wait for the answer.
pub(crate) fn was_reached() -> bool {
    REACHED.load(Ordering::Relaxed)
}

/// A store of locks. Granted, held, kept and lost are answers; an error says that the store could not be asked.
///
/// Every operation is one atomic step by the store's own clock. It connects when it has to, blocks, and gives up at
/// once on trouble: trying again is the caller's affair.
pub(crate) trait Backend: Send {
    /// Takes the lock if it is free, or was already taken by the same owner, and notes that in the history, from which the
    /// token comes. Every taking has a token of its own; taking again leaves one record.
    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError>;

    /// Makes the lock ours for `claim.lease` from now on, if it still is ours; it never shortens.
    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, BackendError>;

    /// Gives the lock back if it still is ours. It stays held until `hold` after it was taken, and bears its owner
    /// marked as ended; doing it again is answered like the first time. The history's record is closed also where the lock
    /// is lost, and the oldest beyond `claim.keep` go.
    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, BackendError>;

    /// Closes the connection; the next operation opens one.
    fn disconnect(&mut self);

    /// The locks of these names that the store has, or all; by name. It makes nothing, and asks a server that can be written,
    /// since another may be behind.
    fn locks(&mut self, names: &[&str]) -> Result<Locks, BackendError>;
}

/// A backend that has been opened: its URL is right, and nothing was asked of it yet.
pub(crate) struct Opened {
    pub(crate) backend: Box<dyn Admin>,
    /// The URL that leads to it from any directory; never with a password.
    pub(crate) address: String,
    pub(crate) pace: Pace,
}

impl Opened {
    /// Wraps a backend to which a connection costs some milliseconds.
    #[cfg(feature = "tls")]
    fn server(backend: impl Admin + 'static, url: &Url) -> Self {
        Self { backend: Box::new(backend), address: url.public(), pace: Pace::OF_SERVERS }
    }
}

/// What people ask of a store, and have done to it, beside the life of a run.
pub(crate) trait Admin: Backend {
    /// Runs of the history. Where there is none yet there are no runs; where it may not be read that is trouble.
    fn runs(&mut self, wanted: &Wanted) -> Result<Runs, BackendError>;

    /// Gives a lock another end or another owner, if it is held by the one that is named; nothing is ever deleted that the Java
    /// library relies on. What it is held for from now on goes by the wall clock, and outlives a reboot.
    fn change(&mut self, change: &Change) -> Result<Kept, BackendError>;

    /// Makes what is needed and missing, and returns a line for each thing: what it is, and whether it was there.
    fn make(&mut self) -> Result<Vec<String>, BackendError>;

    /// The statements that make what is needed, with comments, to be run by a person. Reaches for nothing.
    fn schema(&self) -> String;

    /// Tries what a run needs, and tells of each thing as soon as it is known. It takes no lock: that is tried afterwards, on every
    /// backend in the same way, and is all that is tried on one that has nothing to tell of itself.
    fn check(&mut self, _: Tell<'_>) -> Reached {
        Reached::Yes
    }
}

/// Whether a check came so far that the store can be asked for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    Yes,
    No,
}

/// Whom a check tells what it finds.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(Finding);

/// What a check has found out about one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) grade: Grade,
    /// What was looked at, in a word or two.
    pub(crate) subject: &'static str,
    /// What was seen.
    pub(crate) seen: String,
    /// What to do about it; for what is not good.
    pub(crate) advice: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grade {
    Good,
    /// It works, but is unwise.
    Unwise,
    /// Locks do not work, or cannot be relied upon.
    Bad,
}

impl Finding {
    pub(crate) fn good(subject: &'static str, seen: impl Into<String>) -> Self {
        Self { grade: Grade::Good, subject, seen: seen.into(), advice: None }
    }

    pub(crate) fn unwise(subject: &'static str, seen: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { grade: Grade::Unwise, subject, seen: seen.into(), advice: Some(advice.into()) }
    }

    pub(crate) fn bad(subject: &'static str, seen: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { grade: Grade::Bad, subject, seen: seen.into(), advice: Some(advice.into()) }
    }

    /// Returns an error as a finding that is bad, without the name of the backend, which has been said.
    pub(crate) fn of_trouble(subject: &'static str, error: BackendError) -> Self {
        let said = error.message.strip_prefix("backend ").and_then(|rest| rest.split_once(": "));
        let seen = said.map_or(error.message.as_str(), |(_, said)| said).to_owned();
        let advice = error.hint.or_else(|| match error.class {
            ErrorClass::Permanent => None,
            ErrorClass::Transient | ErrorClass::Overloaded => {
                Some("it may be temporary: try again, and check that the backend is healthy".to_owned())
            }
        });
        Self { grade: Grade::Bad, subject, seen, advice }
    }

    /// Says that the backend refuses to be asked for this, which leaves it open.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    fn refused(subject: &'static str, error: BackendError) -> Self {
        let seen = format!("it cannot be checked: {}", Self::of_trouble(subject, error).seen);
        Self::unwise(subject, seen, "the test of a lock below shows whether locks work")
    }
}

/// The answer to a taking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acquired {
    Granted(Grant),
    Held(LockState),
}

/// The answer to a renewal or a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Kept,
    /// The lock is not ours any more.
    Lost,
}

/// An answer of the store, and what the user should know beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply<T> {
    pub(crate) answer: T,
    pub(crate) remark: Remark,
}

/// Lists what is wrong with a backend that did what it was asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Remark {
    /// Why a taking has no token, or a release has not closed its record.
    pub(crate) unrecorded: Option<BackendError>,
    /// The lock's end, if it is sooner than was asked for because the store holds no later times.
    pub(crate) cut: Option<Timestamp>,
}

impl<T> From<T> for Reply<T> {
    fn from(answer: T) -> Self {
        Self { answer, remark: Remark::default() }
    }
}

/// The name of a thread that puts a store in order. A run does without it.
pub(crate) const FOLDER: &str = "folder";

impl Kept {
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    fn if_so(ours: bool) -> Self {
        if ours { Self::Kept } else { Self::Lost }
    }
}

/// For how long a lock is said to stay held that has no end, as only a person's or another program's has none: ten years.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The pause between tries doubles from `first` to `longest`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Pace {
    /// Suits a backend to which a connection costs some milliseconds.
    #[cfg(feature = "tls")]
    pub(crate) const OF_SERVERS: Self = Self { first: Duration::from_millis(20), longest: Duration::from_millis(500) };
}

/// Why a backend could not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackendError {
    pub(crate) class: ErrorClass,
    /// One line, lower case, that names the backend.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// The request went out and no answer came, so it may have been carried out all the same.
    pub(crate) ambiguous: bool,
    /// A pooler refuses for a time of its own, whether the server is back or not: a release is tried for longer.
    pub(crate) lingers: bool,
}

/// Whether it is worth trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// It may be gone in a moment: busy, starting, failing over.
    Transient,
    /// The server works, but has no room for us now. A waiter waits for that as it does for a held lock.
    Overloaded,
    /// It stays until a person mends it.
    Permanent,
}

impl BackendError {
    pub(crate) fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), hint: None, ambiguous: false, lingers: false }
    }

    pub(crate) fn transient(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Transient, message)
    }

    pub(crate) fn permanent(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Permanent, message)
    }

    /// Says that this owner has given the lock back, and can take it no more.
    #[cfg(feature = "tls")]
    pub(super) fn given_up() -> Self {
        Self::permanent("this request was given up before it arrived")
    }

    /// The same, met after the request had gone out.
    #[cfg(any(test, feature = "tls"))]
    pub(crate) fn ambiguous(self) -> Self {
        Self { ambiguous: true, ..self }
    }

    /// The same, from a pooler that says so for longer than it may be true.
    #[cfg(feature = "postgres")]
    pub(crate) fn lingering(self) -> Self {
        Self { lingers: true, ..self }
    }

    /// The same, with the place or the backend in front that `label` names.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn of(self, label: &str) -> Self {
        Self { message: format!("{label}: {}", self.message), ..self }
    }

    /// Adds what to do about it; an empty hint is none.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()).filter(|hint| !hint.is_empty()), ..self }
    }
}

/// What a backend has to know besides its URL.
#[derive(Clone, Default)]
pub(crate) struct Access {
    /// For a URL without one.
    pub(crate) password: Option<String>,
    /// How long one try may take, all servers of the URL together.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "a file is opened at once or not at all"))]
    pub(crate) patience: Duration,
}

type Open = fn(&Url, &Access) -> Result<Opened, String>;

/// A kind of backend and the URL schemes that lead to it.
struct Scheme {
    names: &'static [&'static str],
    /// How a URL of it is written, for messages.
    form: &'static str,
    /// Checks the URL, without reaching for anything; `None` in a build without the feature.
    open: Option<Open>,
}

/// Makes the table of lines `FEATURE: [SCHEME, ...], FORM, OPEN;`. The trial backend is for tests.
macro_rules! schemes {
    ($($feature:literal: $names:expr, $form:literal, $open:path;)*) => {
        const SCHEMES: &[Scheme] = &[$(Scheme {
            names: &$names,
            form: $form,
            #[cfg(feature = $feature)]
            open: Some($open),
            #[cfg(not(feature = $feature))]
            open: None,
        }),*, #[cfg(test)] Scheme { names: &["trial"], form: "trial:PATH", open: Some(trial::Trial::open) }];
    };
}

schemes! {
    "sqlite": ["sqlite"], "sqlite:PATH", sqlite::Sqlite::open;
    "postgres": ["postgres", "postgresql"], "postgres://HOST/DATABASE", postgres::Postgres::open;
    "mysql": ["mysql", "mariadb"], "mysql://HOST/DATABASE", mysql::MySql::open;
    "redis": ["redis", "rediss", "redis+unix", "redis-sentinel", "redis-cluster"], "redis://HOST", redis::Redis::open;
}

/// Makes the backend of a URL, without reaching for it. The error is the end of a sentence that begins with where
/// the URL came from, and never shows a password.
pub(crate) fn from_url(text: &str, access: &Access) -> Result<Opened, String> {
    let known = || SCHEMES.iter().map(|scheme| scheme.form).collect::<Vec<_>>().join(", ");
    let url = Url::parse(text).map_err(|why| match is_path(text) {
        true => format!("has a path and {}; write sqlite:PATH for a file", why.trim_start_matches("has ")),
        false => format!("{why}; known are {}", known()),
    })?;
    let Some(scheme) = SCHEMES.iter().find(|scheme| scheme.names.contains(&url.scheme())) else {
        return Err(format!("has the unknown scheme `{}:`; known are {}", url.scheme(), known()));
    };
    match scheme.open {
        // What a question mark cuts off a password is not repeated.
        Some(open) => open(&url, access).map_err(|why| match url.may_be_cut_in_its_password() {
            true => "is wrong after its question mark; in a password, write it as %3F".to_owned(),
            false => why,
        }),
        None => Err(format!("has the scheme `{}:`, which was left out of this build", url.scheme())),
    }
}

/// Whether a text without a scheme is the path of a file, and so no secret.
fn is_path(text: &str) -> bool {
    let text = text.trim();
    !text.contains(':') && (text.starts_with(['/', '.', '~']) || text.ends_with(".db") || text.ends_with(".sqlite"))
}

/// The password in a URL.
pub(crate) fn password(text: &str) -> Option<String> {
    Url::parse(text).ok()?.password()
}

/// The kinds of backends, as one word each.
pub(crate) fn kinds() -> Vec<&'static str> {
    let names = SCHEMES.iter().flat_map(|scheme| scheme.names).copied();
    names.filter(|name| name.chars().all(char::is_alphabetic) && *name != "rediss").collect()
}

/// Makes a backend of this kind that leads nowhere, for what it can say without reaching for anything. The error is that of
/// [`from_url`]; `None` if there is no such kind.
pub(crate) fn of_kind(word: &str) -> Option<Result<Opened, String>> {
    let scheme = SCHEMES.iter().find(|scheme| scheme.names.contains(&word))?;
    Some(from_url(&scheme.form.replace("//", "//USER@"), &Access::default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::Config;

    use super::*;

    #[test]
    fn an_unknown_scheme_lists_the_known_ones_and_hides_the_rest() {
        let error = from_url("oracle://scott:tiger@db/x", &Access::default()).err().unwrap();
        assert_eq!(
            error,
            "has the unknown scheme `oracle:`; known are sqlite:PATH, postgres://HOST/DATABASE, mysql://HOST/DATABASE, redis://HOST, trial:PATH"
        );
    }

    #[test]
    fn what_is_no_url_is_not_repeated_because_it_may_be_a_secret() {
        let error = from_url("hunter2", &Access::default()).err().unwrap();
        assert!(error.starts_with("has no scheme"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(2000) })]

        #[test]
        fn any_text_is_a_url_or_an_error(text in ".*", scheme in schemes(), rest in "[ -~é]*", parts in URL) {
            for text in [text, format!("{scheme}:{rest}"), format!("{scheme}:{parts}")] {
                let _ = from_url(&text, &Access::default());
            }
        }

        /// Whatever characters are around it, and whether they have a meaning in a URL.
        #[test]
        fn no_password_is_shown(
            scheme in schemes(),
            before in "[a-z0-9?#/@%&=:,. -]{0,3}",
            after in "[a-z0-9?#/@%&=:,. -]{0,3}",
            rest in "(/x)?(\\?(sslmode=require|sslmode=x|nothing=1|table=a b|password=hunter2|db=1))?",
        ) {
            let url = format!("{scheme}://u:{before}hunter2{after}@db{rest}");
            let shown = match from_url(&url, &Access::default()) {
                Ok(opened) => opened.address,
                Err(error) => error,
            };
            prop_assert!(!shown.contains("hunter2"), "{url}: {shown}");
        }
    }

    fn schemes() -> impl Strategy<Value = &'static str> {
        let names: Vec<&str> = SCHEMES.iter().flat_map(|scheme| scheme.names).copied().collect();
        proptest::sample::select(names)
    }

    /// What looks like the rest of a URL.
    const URL: &str = "//([a-z%0-9]{0,3}(:[a-z%0-9]{0,3})?@)?([a-z/%\\[\\]:0-9,]{0,8})(/[a-z%0-9]{0,4})?(\\?([a-z]{1,8}=[a-z%0-9]{0,3}&?){0,3})?";

    #[cfg(not(feature = "sqlite"))]
    #[test]
    fn a_scheme_that_was_left_out_says_so() {
        assert!(from_url("sqlite:/x", &Access::default()).err().unwrap().contains("left out of this build"));
    }
}
