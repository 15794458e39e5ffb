//! The parser of a backend's URL. Nothing that it prints contains a password.

use std::cell::RefCell;

use percent_encoding::percent_decode_str;

/// The error of a text that names no kind of backend.
pub(crate) const NO_SCHEME: &str = "has no scheme";
/// The parameters that name files.
#[cfg(any(test, feature = "tls"))]
const FILES: [&str; 4] = ["sslrootcert", "sslcert", "sslkey", "token-file"];

/// Holds a URL, `SCHEME:REST?KEY=VALUE&…`. The values are percent-decoded, the rest only on request.
pub(crate) struct Url {
    scheme: String,
    rest: String,
    /// The parameters as written.
    query: String,
    /// The parameters that no backend has taken yet.
    parameters: RefCell<Vec<(String, String)>>,
}

impl Url {
    /// Splits a URL into its parts; the error is the end of a sentence and does not repeat the text, which may be a
    /// secret.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.trim().split_once(':').ok_or(NO_SCHEME)?;
        if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')) {
            return Err(NO_SCHEME.to_owned());
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parameters = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            // The error does not repeat the pair: a question mark in a password makes a parameter of the rest.
            let (key, value) = pair.split_once('=').ok_or("has a parameter without a value after its `?`")?;
            if parameters.iter().any(|(known, _)| known == key) {
                return Err(match query.contains('@') {
                    true => "has a parameter twice".to_owned(),
                    false => format!("has the parameter `{key}` twice"),
                });
            }
            let value = percent_decode(value).map_err(|_| "has bytes that are not text after its `?`".to_owned())?;
            // Something else than & stands before it: as a part of another value the password would be shown.
            if key != "password" && value.contains("password=") {
                return Err("has `password=` within another parameter; write & between parameters".to_owned());
            }
            parameters.push((key.to_owned(), value));
        }
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            rest: rest.to_owned(),
            query: query.to_owned(),
            parameters: RefCell::new(parameters),
        })
    }

    pub(crate) fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the text between the scheme's colon and the question mark, as written.
    pub(crate) fn rest(&self) -> &str {
        &self.rest
    }

    /// Returns true if an @ follows the question mark, as in a password that contains a question mark.
    pub(crate) fn may_be_cut_in_its_password(&self) -> bool {
        self.rest.starts_with("//") && self.query.contains('@')
    }

    /// Returns the URL for display and for other processes: without its password, and with absolute paths of files.
    #[cfg(any(test, feature = "tls"))]
    pub(crate) fn public(&self) -> String {
        let mut text = format!("{}:{}", self.scheme, without_password(&self.rest));
        let mut mark = '?';
        for pair in self.query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or_default();
            if key.is_empty() || key == "password" {
                continue;
            }
            let absolute =
                (FILES.contains(&key) && value != "system").then(|| std::path::absolute(value).ok()).flatten();
            let value = absolute.as_deref().and_then(std::path::Path::to_str).unwrap_or(value);
            text += &format!("{mark}{key}={value}");
            mark = '&';
        }
        text
    }

    /// Returns the password, percent-decoded; an empty one counts as none.
    pub(crate) fn password(&self) -> Option<String> {
        let login = self.rest.strip_prefix("//").and_then(|after| after.rsplit_once('@'));
        let password = login.and_then(|(login, _)| login.split_once(':')).map(|(_, password)| password);
        let password = password.and_then(|password| percent_decode(password).ok());
        let parameter = || {
            let parameters = self.parameters.borrow();
            parameters.iter().find(|(key, _)| key == "password").map(|(_, value)| value.clone())
        };
        password.filter(|password| !password.is_empty()).or_else(parameter).filter(|password| !password.is_empty())
    }

    /// Returns the user, percent-decoded; an empty one counts as none.
    pub(crate) fn user(&self) -> Option<String> {
        let (login, _) = self.rest.strip_prefix("//")?.rsplit_once('@')?;
        let user = login.split_once(':').map_or(login, |(user, _)| user);
        percent_decode(user).ok().filter(|user| !user.is_empty())
    }

    /// Returns the URL without user and password.
    pub(crate) fn without_login(&self) -> String {
        let rest = match self.rest.strip_prefix("//") {
            Some(after) => after.rsplit_once('@').map_or(after, |(_, host)| host),
            None => &self.rest,
        };
        let parameters = self.query.split('&').filter(|pair| !pair.starts_with("password=") && !pair.is_empty());
        format!("{}:{rest}?{}", self.scheme, parameters.collect::<Vec<_>>().join("&"))
    }

    /// Takes the parameter `table` from the URL: `TABLE` or `SCHEMA.TABLE`, in letters, digits and underscores only,
    /// so that it is safe in a statement.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    pub(crate) fn take_table(&self) -> Result<String, String> {
        let table = self.take("table").unwrap_or_else(|| "shedlock".to_owned());
        let is_name = |part: &str| {
            !part.is_empty()
                && !part.starts_with(|c: char| c.is_ascii_digit())
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if table.split('.').count() > 2 || !table.split('.').all(is_name) {
            return Err(format!("has table={table}; write TABLE or SCHEMA.TABLE, in letters, digits and _"));
        }
        Ok(table)
    }

    /// Takes a parameter from the URL.
    pub(crate) fn take(&self, key: &str) -> Option<String> {
        let mut parameters = self.parameters.borrow_mut();
        let place = parameters.iter().position(|(known, _)| known == key)?;
        Some(parameters.remove(place).1)
    }

    /// Refuses the URL if parameters are left that no backend has taken.
    pub(crate) fn nothing_left(&self, known: &[&str]) -> Result<(), String> {
        match self.parameters.borrow().first() {
            None => Ok(()),
            Some((key, _)) => Err(format!("has the unknown parameter `{key}`; known are {}", known.join(", "))),
        }
    }
}

/// Returns `//USER:PASSWORD@HOST/…` without the password, also behind the beginning of a provider's own. Where a login has another
/// form, as in `thin:USER/PASSWORD@HOST`, all of it is left out; a path has none.
#[cfg(any(test, feature = "tls"))]
fn without_password(rest: &str) -> String {
    // A password that contains a slash is a mistake, but must be hidden too.
    let Some((login, host)) = rest.rsplit_once('@').filter(|_| rest.starts_with("//") || !rest.starts_with('/')) else {
        return rest.to_owned();
    };
    match login.split_once("//") {
        Some((before, user)) => format!("{before}//{}@{host}", user.split_once(':').map_or(user, |(user, _)| user)),
        None => format!("…@{host}"),
    }
}

/// Decodes sequences such as `%20`; a percent sign without two hexadecimal digits stays as it is. Fails if the result
/// is not UTF-8.
pub(crate) fn percent_decode(text: &str) -> Result<String, std::str::Utf8Error> {
    percent_decode_str(text).decode_utf8().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_hidden_whatever_its_form() {
        for (url, public) in [
            ("x://u:p@h/d", "x://u@h/d"),
            ("jdbc:postgresql://u:p@h/d?password=p", "jdbc:postgresql://u@h/d"),
            ("jdbc:oracle:thin:u/p@//h:1/s", "jdbc:…@//h:1/s"),
            ("exec:/a@b/c?d=e", "exec:/a@b/c?d=e"),
            ("kubernetes:", "kubernetes:"),
        ] {
            assert_eq!(Url::parse(url).unwrap().public(), public);
        }
    }

    #[test]
    fn a_password_within_another_parameter_is_refused_and_not_repeated() {
        for mark in ["?", ";", ",", "%26", " "] {
            let error = Url::parse(&format!("x://h/d?db=1&table=a{mark}password=pw")).err().unwrap();
            assert!(error.starts_with("has `password=` within another parameter") && !error.contains("pw"), "{error}");
        }
        assert!(Url::parse("x://h/d?table=a&password=b?password=c").is_ok());
    }

    #[test]
    fn a_url_is_cut_into_scheme_rest_and_parameters() {
        let url = Url::parse("SQLite:/a%20b?mode=0660&table=x%5Fy").unwrap();
        assert_eq!((url.scheme(), url.rest()), ("sqlite", "/a%20b"));
        assert_eq!(url.take("table").as_deref(), Some("x_y"));
        assert!(url.nothing_left(&["table"]).unwrap_err().contains("unknown parameter `mode`"));
        assert_eq!(url.take("mode").as_deref(), Some("0660"));
        assert!(url.nothing_left(&[]).is_ok());
    }

    #[test]
    fn a_percent_sign_alone_is_itself() {
        assert_eq!(percent_decode("100%").unwrap(), "100%");
        assert_eq!(percent_decode("%4").unwrap(), "%4");
        assert_eq!(percent_decode("%zz%+4%41").unwrap(), "%zz%+4A");
        assert_eq!(percent_decode("%é").unwrap(), "%é");
    }

    #[test]
    fn a_parameter_comes_once_and_with_a_value() {
        let error = Url::parse("postgres://scott:ti?ger@db/x").err().unwrap();
        assert!(error.contains("without a value") && !error.contains("ger"), "{error}");
        assert!(Url::parse("sqlite:x?mode=1&mode=2").is_err());
    }

    #[test]
    fn what_is_shown_has_no_password_and_whole_paths() {
        let public = |text| Url::parse(text).unwrap().public();
        assert_eq!(public("postgres://u:p%2Fw@db:1/x?table=a.b"), "postgres://u@db:1/x?table=a.b");
        assert_eq!(public("redis://:pw@db?db=1&password=pw"), "redis://@db?db=1");
        assert_eq!(public("mysql://u:p/w@db/x"), "mysql://u@db/x");
        let here = std::env::current_dir().unwrap();
        let wanted = format!("mysql://db/x?sslrootcert={}/ca.pem&sslmode=verify-ca", here.display());
        assert_eq!(public("mysql://db/x?sslrootcert=ca.pem&sslmode=verify-ca"), wanted);
    }

    #[test]
    fn a_password_is_found_wherever_a_url_has_one() {
        let password = |text| Url::parse(text).unwrap().password();
        for (text, found) in [
            ("postgres://u:p%2Fw@db:1/x?table=a.b", Some("p/w")),
            ("redis://:p:w@db", Some("p:w")),
            ("mysql://u:p@w@db/x", Some("p@w")),
            ("postgres://u@db/x?password=p%40w", Some("p@w")),
            ("postgres://u:@db/x", None),
            ("postgres://u@db/x", None),
            ("postgres://db:5432/x", None),
            ("sqlite:/a:b@c", None),
        ] {
            assert_eq!(password(text).as_deref(), found, "{text}");
        }
    }

    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    #[test]
    fn a_table_may_have_a_schema() {
        let table = |text: &str| Url::parse(text).unwrap().take_table();
        assert_eq!(table("postgres://db/x").as_deref(), Ok("shedlock"));
        assert_eq!(table("postgres://db/x?table=ops.Locks_2").as_deref(), Ok("ops.Locks_2"));
        for wrong in ["a.b.c", "", "a.", "2a", "a b", "a;drop", "a\"b"] {
            assert!(table(&format!("postgres://db/x?table={wrong}")).is_err(), "{wrong}");
        }
    }
}
