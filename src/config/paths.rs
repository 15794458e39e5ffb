//! The paths of files: the system's, and those of the user that shedlock runs as.

use std::env;
use std::path::PathBuf;

use nix::unistd::geteuid;

#[cfg(feature = "sqlite")]
use super::Mistake;
use crate::system::user;

/// Returns the paths of the configuration files; later ones win. They need not exist.
pub(super) fn config_files() -> Vec<PathBuf> {
    let system = PathBuf::from("/etc/shedlock/config.toml");
    let user = directory("XDG_CONFIG_HOME", ".config").map(|config| config.join("shedlock/config.toml"));
    [Some(system), user].into_iter().flatten().collect()
}

/// Returns the path of the default database.
#[cfg(feature = "sqlite")]
pub(super) fn state_file() -> Result<PathBuf, Mistake> {
    if geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/shedlock/shedlock.db"));
    }
    match directory("XDG_STATE_HOME", ".local/state") {
        Some(state) => Ok(state.join("shedlock/shedlock.db")),
        None => Err(Mistake::new("no backend is named, and this user has no home directory for the default one")
            .hint("name a file with --backend sqlite:PATH")),
    }
}

/// Returns the directory in an XDG variable, or its default below the home directory.
fn directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let ours = geteuid();
    match env::var_os(variable).map(PathBuf::from) {
        // The specification says to ignore relative paths.
        Some(path) if path.is_absolute() && !user::is_anothers(&path, ours) => Some(path),
        _ => user::home().map(|home| home.join(below_home)),
    }
}
