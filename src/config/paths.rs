//! The paths of the default configuration files and of the default database.

use std::env;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

#[cfg(feature = "sqlite")]
use super::Mistake;
use crate::system::trust::Found;
use crate::system::user;

/// A file that is used when no option names one. It need not exist.
pub(super) struct DefaultFile {
    base: Base,
    /// The path below the directory.
    below: PathBuf,
}

/// The directory in which a default file lies.
enum Base {
    /// A directory of the system.
    System(&'static str),
    /// The home directory, or that of an XDG variable.
    User(PathBuf),
}

impl DefaultFile {
    fn in_system(base: &'static str, below: &str) -> Self {
        Self { base: Base::System(base), below: below.into() }
    }

    /// Finds the file in the directory of an XDG variable, or of its default below the home directory.
    fn of_user(variable: &str, below_home: &str, below: &str) -> Option<Self> {
        let user = geteuid();
        match env::var_os(variable).map(PathBuf::from) {
            // The specification says to ignore relative paths.
            Some(path) if path.is_absolute() && !user::is_anothers(&path, user) => {
                Some(Self { base: Base::User(path), below: below.into() })
            }
            _ => user::home().map(|home| Self { base: Base::User(home), below: Path::new(below_home).join(below) }),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        match &self.base {
            Base::System(base) => Path::new(base).join(&self.below),
            Base::User(base) => base.join(&self.below),
        }
    }

    /// Returns how the file was found, which decides who may have written it.
    pub(super) fn found(&self) -> Found<'_> {
        match &self.base {
            Base::System(base) => Found::OfSystem(Path::new(base)),
            Base::User(base) => Found::Below(base),
        }
    }
}

/// Returns the default configuration files; later ones win.
pub(super) fn config_files() -> Vec<DefaultFile> {
    let system = DefaultFile::in_system("/etc/shedlock", "config.toml");
    let user = DefaultFile::of_user("XDG_CONFIG_HOME", ".config", "shedlock/config.toml");
    [Some(system), user].into_iter().flatten().collect()
}

/// Returns the path of the default database. Others who may write to its directory could put another file in its place.
#[cfg(feature = "sqlite")]
pub(super) fn state_file() -> Result<PathBuf, Mistake> {
    let file = match geteuid().is_root() {
        true => Some(DefaultFile::in_system("/var/lib/shedlock", "shedlock.db")),
        false => DefaultFile::of_user("XDG_STATE_HOME", ".local/state", "shedlock/shedlock.db"),
    };
    let file = file.ok_or_else(|| {
        Mistake::new("no backend is named, and this user has no home directory for the default one")
            .hint("name a file with --backend sqlite:PATH")
    })?;
    let path = file.path();
    let directory = path.parent().unwrap_or(&path);
    match file.found().judge_way(directory) {
        Ok(()) => Ok(path),
        Err(doubt) => {
            let remedy =
                doubt.remedy().map_or_else(String::new, |remedy| format!("; if you trust what is there, `{remedy}`"));
            Err(Mistake::new(format!("the default database is not used: {doubt}"))
                .hint(format!("name a file with --backend sqlite:PATH{remedy}")))
        }
    }
}
