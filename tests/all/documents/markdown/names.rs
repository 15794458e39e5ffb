//! What documents name, and what that is in a scene: paths below a directory, and servers of the test.

use std::path::Path;

/// The beginnings of paths that are in the scene.
const TREES: [&str; 12] = [
    "/etc",
    "/home",
    "/mnt",
    "/opt",
    "/root",
    "/run",
    "/srv",
    "/tmp",
    "/usr/bin/shedlock",
    "/usr/local",
    "/usr/share/doc/shedlock",
    "/var",
];

/// The names of things in a document and in its scene.
pub(super) struct Names {
    /// The directory that stands for the root directory.
    root: String,
    /// What a document says, and what it is here.
    servers: Vec<(String, String)>,
}

impl Names {
    /// Returns the names that a document's text needs.
    pub(super) fn new(text: &str, root: &Path) -> Self {
        Self { root: root.to_str().unwrap().to_owned(), servers: servers(text) }
    }

    /// Returns a document's text with the names that things have here.
    pub(super) fn here(&self, text: &str) -> String {
        let text = self.servers.iter().fold(text.to_owned(), |text, (name, here)| text.replace(name, here));
        let root = &self.root;
        let (mut found, mut before) = (String::new(), ' ');
        let mut rest = text.as_str();
        while let Some(letter) = rest.chars().next() {
            let tree = TREES.iter().find(|tree| {
                let after = rest.strip_prefix(**tree).map(|after| after.chars().next().unwrap_or(' '));
                after.is_some_and(|after| !after.is_alphanumeric() && !"_-".contains(after))
            });
            // Not in the middle of another path.
            if tree.is_some() && !before.is_alphanumeric() && !"_-.~/$}".contains(before) {
                found += root;
            }
            found.push(letter);
            before = letter;
            rest = &rest[letter.len_utf8()..];
        }
        found
    }

    /// Returns what was printed, with the names of the document.
    pub(super) fn there(&self, text: &str) -> String {
        let text = text.replace(self.root.as_str(), "");
        self.servers.iter().fold(text, |text, (name, here)| {
            let (authority, there) = (authority(here), authority(name));
            let text = text.replace(here, name);
            if authority.contains(':') { text.replace(authority, there) } else { text }
        })
    }
}

/// Returns the servers that a document names, as far as this build knows them; a file shows the same otherwise.
fn servers(text: &str) -> Vec<(String, String)> {
    let mut names = Vec::new();
    let mut is = |name: &str, url: &dyn Fn() -> Option<String>| {
        if text.contains(name) {
            names.push((name.to_owned(), url().unwrap_or_else(|| "sqlite:/srv/no-server.db".to_owned())));
        }
    };
    is("postgres://jobs@db.example/ops", &|| {
        #[cfg(feature = "postgres")]
        return Some(servers::postgres().database().url());
        #[cfg(not(feature = "postgres"))]
        None
    });
    is("mysql://jobs@db.example/ops", &|| {
        #[cfg(feature = "mysql")]
        return Some(servers::mariadb().database().url());
        #[cfg(not(feature = "mysql"))]
        None
    });
    is("redis://cache.example", &|| {
        #[cfg(feature = "redis")]
        return Some(servers::redis().database().url());
        #[cfg(not(feature = "redis"))]
        None
    });
    names
}

/// Returns the host with its port in a URL.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let rest = rest.split('/').next().unwrap_or_default();
    rest.rsplit('@').next().unwrap_or_default()
}
