//! Searches libpq's password file: a line each of `HOST:PORT:DATABASE:USER:PASSWORD`, with `*` for anything.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::system::error_text;
use crate::system::file::Input;

/// Says what a search in the password file has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Password(String),
    /// Hint that says why the file is ignored, as it is by libpq.
    Ignored(String),
}

/// Identifies the login that needs a password.
pub(crate) struct Login<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) database: &'a str,
    pub(crate) user: &'a str,
}

/// Searches the file that the variable PGPASSFILE names, or `~/.pgpass`.
pub(crate) fn find(named: Option<PathBuf>, login: &Login<'_>) -> Found {
    let Some(path) = named.or_else(|| Some(crate::system::user::home()?.join(".pgpass"))) else {
        return Found::Nothing;
    };
    let Ok(input) = Input::open(&path) else { return Found::Nothing };
    let path = path.display();
    if !input.is_regular() {
        return Found::Ignored(format!("{path} is ignored because it is no plain file"));
    }
    if input.metadata().mode() & 0o077 != 0 {
        return Found::Ignored(format!("{path} is ignored because other users can read it; chmod 0600 {path}"));
    }
    match input.read_text(Duration::ZERO) {
        Ok(text) => search(&text, login).map_or(Found::Nothing, Found::Password),
        Err(error) => Found::Ignored(format!("{path} is ignored because it cannot be read: {}", error_text(&error))),
    }
}

/// Returns the password of the first line that fits.
pub(crate) fn search(text: &str, login: &Login<'_>) -> Option<String> {
    let port = login.port.to_string();
    // Every directory of a socket counts as localhost; libpq takes only its default one for it.
    let host = if login.host.starts_with('/') { "localhost" } else { login.host };
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [hosts, ports, databases, users, password] = fields.as_slice() else { return None };
        let here = (hosts.fits(login.host) || hosts.fits(host)) && ports.fits(&port);
        (here && databases.fits(login.database) && users.fits(login.user)).then(|| password.text.clone())
    })
}

#[derive(Default)]
struct Field {
    text: String,
    /// Set if a backslash escapes a character: a `*` is then not a wildcard.
    protected: bool,
}

impl Field {
    fn fits(&self, value: &str) -> bool {
        self.text == value || (self.text == "*" && !self.protected)
    }
}

/// Splits a line at its colons. A backslash makes the next character, a colon or a backslash, an ordinary one.
fn fields(line: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut field = Field::default();
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            // The password is the rest of the line.
            ':' if fields.len() < 4 => fields.push(std::mem::take(&mut field)),
            '\\' => {
                field.protected = true;
                field.text.extend(characters.next());
            }
            _ => field.text.push(c),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const LOGIN: Login<'_> = Login { host: "db1", port: 5432, database: "ops", user: "jobs" };

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let found = |text: &str| search(text, &LOGIN);
        assert_eq!(
            found("# db1:*:*:*:no\nother:*:*:*:no\ndb1:5432:ops:jobs:yes\n*:*:*:*:later").as_deref(),
            Some("yes")
        );
        assert_eq!(found("*:*:*:*:a\\:b\\\\c:d").as_deref(), Some("a:b\\c:d"));
        assert_eq!(found("\\*:*:*:*:no"), None);
        assert_eq!(found("db1:5433:*:*:no\ndb1:5432:ops\n"), None);
        let local = Login { host: "/run/postgresql", ..LOGIN };
        assert_eq!(search("localhost:5432:ops:jobs:local", &local).as_deref(), Some("local"));
    }

    #[test]
    fn a_file_that_others_can_read_is_not_used() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("pass");
        fs::write(&path, "*:*:*:*:pw\n").unwrap();
        let ignored = format!("{0} is ignored because other users can read it; chmod 0600 {0}", path.display());
        for (mode, found) in [(0o600, Found::Password("pw".to_owned())), (0o640, Found::Ignored(ignored))] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(find(Some(path.clone()), &LOGIN), found, "{mode:o}");
        }
        assert_eq!(find(Some(here.path().join("none")), &LOGIN), Found::Nothing);
    }
}
