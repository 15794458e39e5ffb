//! The login of a backend whose URL comes from a file: read again after the server has refused it, because the password may
//! have been changed meanwhile.

use super::contract::Backend;
use super::credentials::Credentials;
use super::net::url::Url;
use crate::lock::BackendError;

/// Reads the URL in the file as it is now; `None` if it cannot be read.
type ReadUrl = Box<dyn FnMut() -> Option<String> + Send>;

/// Follows the login of a URL in a file, which may change while this process runs.
pub(crate) struct Rotation {
    /// The URL with the login that is in use.
    url: String,
    read: ReadUrl,
}

impl Rotation {
    pub(crate) fn new(url: String, read: impl FnMut() -> Option<String> + Send + 'static) -> Self {
        Self { url, read: Box::new(read) }
    }

    /// Gives the backend the login that the file has by now, after this error. Returns whether to ask again: the server had
    /// refused the login, and the file has another one for the same place.
    pub(crate) fn log_in_again(&mut self, backend: &mut dyn Backend, error: &BackendError) -> bool {
        if !error.refuses_login {
            return false;
        }
        let Some(url) = (self.read)().filter(|url| *url != self.url) else { return false };
        let is_accepted = other_login(&self.url, &url).is_some_and(|login| backend.log_in_with(&login));
        if is_accepted {
            // The next login has to be another one again.
            self.url = url;
        }
        is_accepted
    }
}

/// Returns the login of `new` if that is all in which the two URLs differ.
fn other_login(old: &str, new: &str) -> Option<Credentials> {
    let [old, new] = [old, new].map(Url::parse);
    let (old, new) = (old.ok()?, new.ok()?);
    let is_same = old.without_login() == new.without_login() && old.user().is_some() == new.user().is_some();
    is_same.then(|| Some(Credentials { user: new.user(), password: new.password()? })).flatten()
}

/// Returns whether two URLs differ at most in the login.
pub(crate) fn is_same_place(one: &str, other: &str) -> bool {
    let place = |text| Url::parse(text).map(|url| url.without_login());
    one == other || place(one).is_ok_and(|one| place(other) == Ok(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_login_is_used_only_for_the_same_place() {
        let old = "postgres://jobs:old@db:1,db2/ops?table=a.b";
        let login = |user: &str, password: &str| {
            Some((Some(user.to_owned()).filter(|user| !user.is_empty()), password.to_owned()))
        };
        let found = |old, new| other_login(old, new).map(|login| (login.user, login.password));
        assert_eq!(found(old, "postgres://jobs:n%2Few@db:1,db2/ops?table=a.b"), login("jobs", "n/ew"));
        assert_eq!(found(old, "postgres://jobs@db:1,db2/ops?table=a.b&password=new"), login("jobs", "new"));
        assert_eq!(found(old, "postgres://v-17:new@db:1,db2/ops?table=a.b"), login("v-17", "new"));
        assert_eq!(found("redis://:old@db", "redis://:new@db"), login("", "new"));
        for other in [
            "postgres://jobs:new@db:1,db2/other?table=a.b",
            "postgres://jobs:new@db:1/ops?table=a.b",
            "postgres://jobs:new@db:1,db2/ops",
            "postgres://jobs:new@db:1,db2/ops?table=a.c",
            "postgresql://jobs:new@db:1,db2/ops?table=a.b",
            "postgres://:new@db:1,db2/ops?table=a.b",
            "postgres://jobs@db:1,db2/ops?table=a.b",
            "no url",
        ] {
            assert_eq!(found(old, other), None, "{other}");
        }
    }

    #[test]
    fn the_place_is_the_same_whoever_logs_in() {
        assert!(is_same_place("redis://a@db?db=1", "redis://b@db?db=1"));
        assert!(!is_same_place("redis://a@db?db=1", "redis://a@db?db=2"));
        assert!(!is_same_place("sqlite:a", "sqlite:b"));
    }
}
