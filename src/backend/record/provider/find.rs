//! Which program a URL means, and whether it can be trusted.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::backend::Url;
use crate::backend::net::url::percent_decode;
use crate::lock::BackendError;
use crate::system::error_text;
use crate::system::trust::Found;

/// The beginning of a provider's file name; the scheme follows.
pub(crate) const PREFIX: &str = "shedlock-provider-";
/// The scheme of a URL that names the program itself.
const EXEC: &str = "exec";
/// The directories of packages, after those beside shedlock's own file.
const DIRECTORIES: [&str; 2] = ["/usr/local/libexec/shedlock", "/usr/libexec/shedlock"];

/// Returns whether the provider of a scheme has a package, which is named after the program.
pub(crate) fn is_packaged(scheme: &str) -> bool {
    ["mongodb", "mongodb+srv"].contains(&scheme)
}

/// Finds the program of a URL. The error is the end of a sentence that begins with the URL's source.
pub(super) fn program(url: &Url, built_in: &str) -> Result<PathBuf, String> {
    if url.scheme() == EXEC {
        let path = percent_decode(url.rest()).map_err(|_| "names a program that is no text".to_owned())?;
        if !path.starts_with('/') || path.starts_with("//") {
            return Err("names no program by an absolute path; write exec:/PATH/TO/PROGRAM".to_owned());
        }
        return trusted(PathBuf::from(path));
    }
    let name = format!("{PREFIX}{}", provider_of(url.scheme()));
    let found = directories().map(|directory| directory.join(&name)).find(|path| path.is_file());
    match found {
        Some(path) => trusted(path),
        None => Err(match directories().map(|directory| directory.join(&name)).find(|path| path.is_dir()) {
            Some(path) => format!("needs the program {name}, but {} is a directory", path.display()),
            None => missing(url.scheme(), &name, built_in),
        }),
    }
}

/// Returns the schemes of the providers that are installed.
pub(crate) fn installed() -> Vec<String> {
    let names = directories().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
    let is_program = |entry: &fs::DirEntry| is_executable(&entry.path());
    let schemes = names.filter(is_program);
    let schemes = schemes.filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix(PREFIX)?.to_owned()));
    let mut schemes: Vec<String> = schemes.filter(|scheme| is_scheme(scheme)).collect();
    schemes.sort();
    schemes.dedup();
    schemes
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Returns the scheme that names the program: one program may have several.
fn provider_of(scheme: &str) -> &str {
    if scheme == "mongodb+srv" { "mongodb" } else { scheme }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '.' | '-'))
}

/// Returns the directories of providers in their order. The current directory is none of them.
fn directories() -> impl Iterator<Item = PathBuf> {
    let own = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let beside = own.clone().into_iter().chain(own.map(|own| own.join("../libexec/shedlock")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path: Vec<PathBuf> = std::env::split_paths(&path).filter(|directory| directory.is_absolute()).collect();
    beside.chain(DIRECTORIES.map(PathBuf::from)).chain(in_path)
}

/// Says that a scheme has no program, and which have.
fn missing(scheme: &str, name: &str, built_in: &str) -> String {
    if is_packaged(scheme) {
        return format!("has the scheme `{scheme}:`, for which there is no program {name}; install the package {name}");
    }
    let installed: String = installed().iter().map(|scheme| format!(", {scheme}:")).collect();
    format!("has the unknown scheme `{scheme}:`; known are {built_in}{installed}, or a program {name}")
}

/// Refuses a program that other users could have written.
fn trusted(path: PathBuf) -> Result<PathBuf, String> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    match Found::Below(directory).judge_way(&path) {
        Ok(()) => Ok(path),
        Err(doubt) => {
            let remedy =
                doubt.remedy().map(|command| format!("; if it is right as it is: {command}")).unwrap_or_default();
            Err(format!("needs the program {}, which is not trusted: {doubt}{remedy}", path.display()))
        }
    }
}

/// Returns the name of a program without its directory.
pub(super) fn file_name(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

/// Explains why a program could not be started.
pub(super) fn not_started(program: &Path, error: &io::Error) -> BackendError {
    let message = format!("the program {} cannot be started: {}", program.display(), error_text(error));
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE | Errno::ETXTBSY) => {
            BackendError::transient(message)
        }
        Some(Errno::EACCES) if program.is_dir() => BackendError::permanent(message).hint("it is a directory"),
        Some(Errno::EACCES) if !is_executable(program) => {
            BackendError::permanent(message).hint(format!("chmod +x {}", program.display()))
        }
        Some(Errno::ENOEXEC) => {
            BackendError::permanent(message).hint("a script needs a first line such as #!/usr/bin/python3")
        }
        Some(Errno::ENOENT) if program.exists() => {
            BackendError::permanent(message).hint("the file exists, but the interpreter in its first line does not")
        }
        _ => BackendError::permanent(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<PathBuf, String> {
        program(&Url::parse(url).unwrap(), "sqlite:PATH")
    }

    #[test]
    fn a_program_that_is_named_has_an_absolute_path() {
        assert_eq!(of("exec:/bin/sh?x=1"), Ok("/bin/sh".into()));
        for url in ["exec:bin/sh", "exec:", "exec://host/bin/sh"] {
            assert_eq!(
                of(url),
                Err("names no program by an absolute path; write exec:/PATH/TO/PROGRAM".to_owned()),
                "{url}"
            );
        }
    }

    #[test]
    fn a_scheme_without_a_program_names_it_and_its_package() {
        // This one may be there: other tests put it beside their own file.
        let error = missing("mongodb+srv", "shedlock-provider-mongodb", "");
        assert!(error.contains("no program shedlock-provider-mongodb; install the package"), "{error}");
        let error = of("oracle://scott:tiger@db/x").unwrap_err();
        assert!(error.contains("known are sqlite:PATH"), "{error}");
        assert!(!error.contains("tiger"), "{error}");
    }

    #[test]
    fn a_program_that_others_may_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        fs::write(&path, "").unwrap();
        let url = format!("exec:{}", path.display());
        assert_eq!(of(&url), Ok(path.clone()));
        for changed in [&path, &directory.path().to_owned()] {
            let before = fs::metadata(changed).unwrap().permissions();
            fs::set_permissions(changed, fs::Permissions::from_mode(before.mode() | 0o002)).unwrap();
            let error = of(&url).unwrap_err();
            assert!(error.contains("is not trusted: other users may write to"), "{error}");
            assert!(error.ends_with(&format!("chmod go-w {}", changed.display())), "{error}");
            fs::set_permissions(changed, before).unwrap();
        }
    }
}
