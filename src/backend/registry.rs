//! The table of backends by the schemes of their URLs. A new backend is one line in it.

use super::net::url::{NO_SCHEME, Url};
use super::opened::{Access, Opened};

type Open = fn(&Url, &Access) -> Result<Opened, String>;

/// Describes a kind of backend, and the URL schemes that lead to it.
struct BackendKind {
    schemes: &'static [&'static str],
    /// The servers as documents list them, with their oldest version; empty for a kind that is not listed.
    #[cfg(test)]
    servers: &'static str,
    /// A URL of this kind, for messages.
    example: &'static str,
    /// Parses the URL without connecting; `None` in a build without the feature.
    open: Option<Open>,
}

/// Makes the table of lines `FEATURE SERVERS: OPEN, [SCHEME, ...], EXAMPLE;`. The trial backend is for tests.
macro_rules! kinds {
    ($($feature:literal $servers:literal: $open:path, $schemes:expr, $example:literal;)*) => {
        const KINDS: &[BackendKind] = &[$(BackendKind {
            schemes: &$schemes,
            #[cfg(test)]
            servers: $servers,
            example: $example,
            #[cfg(feature = $feature)]
            open: Some($open),
            #[cfg(not(feature = $feature))]
            open: None,
        }),*, #[cfg(test)] BackendKind { schemes: &["trial"], servers: "", example: "trial:PATH", open: Some(super::testing::trial::Trial::open) }];
    };
}

kinds! {
    "sqlite" "SQLite": super::sql::sqlite::Sqlite::open, ["sqlite"], "sqlite:PATH";
    "postgres" "PostgreSQL 12+": super::sql::postgres::Postgres::open, ["postgres", "postgresql"], "postgres://HOST/DATABASE";
    "mysql" "MySQL 8, MariaDB 10.5+": super::sql::mysql::MySql::open, ["mysql", "mariadb"], "mysql://HOST/DATABASE";
    "redis" "Redis 6+, Valkey": super::redis::Redis::open, ["redis", "rediss", "redis+unix", "redis-sentinel", "redis-cluster"], "redis://HOST";
    "etcd" "etcd 3.4+": super::etcd::Etcd::open, ["etcd"], "etcd://HOST";
    "kubernetes" "Kubernetes": super::record::kubernetes::Kubernetes::open, ["kubernetes"], "kubernetes:";
    "zookeeper" "ZooKeeper 3.5+": super::record::zookeeper::ZooKeeper::open, ["zookeeper"], "zookeeper://HOST";
}

/// Opens the backend of a URL without connecting. The error is the end of a sentence that begins with the URL's source,
/// and never shows a password.
pub(crate) fn from_url(text: &str, access: &Access) -> Result<Opened, String> {
    let built_in = KINDS.iter().filter(|kind| kind.open.is_some()).map(|kind| kind.example);
    let known = || built_in.clone().collect::<Vec<_>>().join(", ");
    let url = Url::parse(text).map_err(|why| match is_path(text) {
        true => format!("has a path and {}; write sqlite:PATH for a file", why.trim_start_matches("has ")),
        false if why == NO_SCHEME => format!("{why}; known are {}", known()),
        false => why,
    })?;
    let Some(kind) = KINDS.iter().find(|kind| kind.schemes.contains(&url.scheme())) else {
        #[cfg(feature = "provider")]
        return super::record::provider::Provider::open(text, &url, access, &known());
        #[cfg(not(feature = "provider"))]
        return Err(format!("has the unknown scheme `{}:`; known are {}", url.scheme(), known()));
    };
    match kind.open {
        // A question mark in a password cuts it off; the error must not repeat the rest.
        Some(open) => open(&url, access).map_err(|why| match url.may_be_cut_in_its_password() {
            true => "is wrong after its question mark; in a password, write it as %3F".to_owned(),
            false => why,
        }),
        None => Err(format!("has the scheme `{}:`, which was left out of this build", url.scheme())),
    }
}

/// Returns whether a text without a scheme is the path of a file, and so no secret.
fn is_path(text: &str) -> bool {
    let text = text.trim();
    !text.contains(':') && (text.starts_with(['/', '.', '~']) || text.ends_with(".db") || text.ends_with(".sqlite"))
}

/// Returns the password in a URL.
pub(crate) fn password(text: &str) -> Option<String> {
    Url::parse(text).ok()?.password()
}

/// Returns the kinds of backends, one word each.
pub(crate) fn kinds() -> Vec<&'static str> {
    let schemes = KINDS.iter().flat_map(|kind| kind.schemes).copied();
    schemes.filter(|name| name.chars().all(char::is_alphabetic) && *name != "rediss").collect()
}

/// Returns the beginnings of the URLs that lead to a backend: those of the table, and those of the providers that are installed.
pub(crate) fn beginnings() -> Vec<String> {
    let linked_in = KINDS.iter().filter(|kind| kind.open.is_some()).flat_map(|kind| {
        let mark = if kind.example.contains("://") { "://" } else { ":" };
        kind.schemes.iter().map(move |scheme| format!("{scheme}{mark}"))
    });
    #[cfg(feature = "provider")]
    let linked_in =
        linked_in.chain(super::record::provider::installed().into_iter().map(|scheme| format!("{scheme}:")));
    linked_in.collect()
}

/// Describes a kind of backend as documents list it.
#[cfg(test)]
pub(crate) struct Listed {
    /// The servers with their oldest version, such as `MySQL 8, MariaDB 10.5+`.
    pub(crate) servers: &'static str,
    /// A URL of this kind, which only a document shows.
    pub(crate) example: &'static str,
    pub(crate) schemes: &'static [&'static str],
}

/// Returns the kinds of backends that documents list, in their order.
#[cfg(test)]
pub(crate) fn listed() -> impl Iterator<Item = Listed> {
    let listed = KINDS.iter().filter(|kind| !kind.servers.is_empty());
    listed.map(|kind| Listed { servers: kind.servers, example: kind.example, schemes: kind.schemes })
}

/// Opens a backend of this kind that leads nowhere, for its schema. The error is that of [`from_url`]; `None` if there is no
/// such kind.
pub(crate) fn open_kind(word: &str, access: &Access) -> Option<Result<Opened, String>> {
    #[cfg(feature = "provider")]
    if super::record::provider::is_packaged(word) {
        return Some(from_url(&format!("{word}://USER@HOST/DATABASE"), access));
    }
    let kind = KINDS.iter().find(|kind| kind.schemes.contains(&word))?;
    Some(from_url(&kind.example.replace("//", "//USER@"), access))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::Config;

    use super::*;

    #[test]
    fn an_unknown_scheme_lists_the_known_ones_and_hides_the_rest() {
        let error = from_url("oracle://scott:tiger@db/x", &Access::default()).err().unwrap();
        let examples = |built_in: bool| KINDS.iter().filter(move |kind| kind.open.is_some() == built_in);
        let known: Vec<_> = examples(true).map(|kind| kind.example).collect();
        let error = error.trim_end_matches(", or a program shedlock-provider-oracle");
        // The test's directory may have providers.
        let mut error = error;
        for scheme in [", wire:", ", mongodb:", ", example:"] {
            error = error.trim_end_matches(scheme);
        }
        assert_eq!(error, format!("has the unknown scheme `oracle:`; known are {}", known.join(", ")));
        assert!(examples(false).all(|kind| !error.contains(kind.example)), "{error}");
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

        /// Covers any characters around the password, with or without a meaning in a URL.
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
        let names: Vec<&str> = KINDS.iter().flat_map(|kind| kind.schemes).copied().collect();
        proptest::sample::select(names)
    }

    /// Pattern of texts that resemble the rest of a URL.
    const URL: &str = "//([a-z%0-9]{0,3}(:[a-z%0-9]{0,3})?@)?([a-z/%\\[\\]:0-9,]{0,8})(/[a-z%0-9]{0,4})?(\\?([a-z]{1,8}=[a-z%0-9]{0,3}&?){0,3})?";

    #[cfg(not(feature = "sqlite"))]
    #[test]
    fn a_scheme_that_was_left_out_says_so() {
        assert!(from_url("sqlite:/x", &Access::default()).err().unwrap().contains("left out of this build"));
    }
}
