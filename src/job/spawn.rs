//! The command of a run, and how it is started.
//!
//! `std::process::Command` would reset SIGPIPE, cannot run a script without `#!`, forks in the slow way as soon as
//! something is to be done in the child, and waits for as long as the execution takes. What the child does here before it
//! executes the command is a few system calls.

use std::cell::Cell;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use nix::libc;
use nix::unistd::Pid;

use super::signals::Inherited;
use super::{tree, wait};
use crate::run::{Group, SpawnError, SpawnErrorKind};
use crate::system::Environment;
use crate::system::Moment;
use crate::system::error_text;
use crate::system::launch::{Launched, STACK_SIZE, execve, launch};

/// The directories that are searched when PATH is not set, as by execvp(3).
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";
/// The longest name of a file; a longer one is an error of its own.
const NAME_MAX: usize = 255;
/// The interpreter of a script that names none.
const SHELL: &std::ffi::CStr = c"/bin/sh";
/// The error of a command whose lock was over before it began; execve(2) has no such error.
const TOO_LATE: i32 = libc::ETIME;
/// Commands of the shell that are no files, or of no use as one, and that people write into crontabs.
const BUILTINS: [&str; 14] =
    [".", ":", "alias", "cd", "eval", "exec", "exit", "export", "read", "set", "source", "ulimit", "umask", "unset"];
/// The time within which a child executes its program, unless the file hangs or the machine is overloaded.
const EXEC_TIMEOUT: Duration = Duration::from_millis(100);
/// The longest wait for the end of a child that could not execute its file.
const REAP_TIMEOUT: Duration = Duration::from_millis(100);

/// A command to start.
pub(crate) struct Command {
    arguments: Vec<CString>,
    name: OsString,
    group: Group,
    die_with_shedlock: bool,
    /// Memory that is kept for the start, until that begins.
    reserve: Cell<Vec<u8>>,
}

/// Holds all that the child needs to become the command: it must not allocate.
pub(super) struct Plan {
    /// The files to try, in the order of PATH.
    files: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    /// `sh FILE ARG…`; the file is put in when it is known.
    script_argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    /// The memory that the pointers point into.
    command: Rc<Command>,
    _environment: Environment,
    inherited: Inherited,
    die_with_parent: Option<i32>,
    /// The moment at which the lock is over, from which the command must not begin.
    start_before: Option<Moment>,
}

/// Has the C library keep freed memory: the system would get it back, and may have none when shedlock needs it again.
fn keep_what_is_freed() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "no library of ours has it")]
    // SAFETY: mallopt(3) takes two numbers. It only decides when memory that nobody uses is unmapped.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
    }
}

impl Command {
    /// Checks the command line as it was given; the error names what cannot be passed on.
    pub(crate) fn new(words: &[OsString], group: Group, die_with_shedlock: bool) -> Result<Self, String> {
        let arguments = words.iter().map(|word| CString::new(word.as_bytes())).collect::<Result<Vec<_>, _>>();
        let arguments = arguments.map_err(|_| "an argument of the command contains a NUL byte".to_owned())?;
        let name = words.first().cloned().ok_or("no command is given")?;
        // Kept before a lock is taken: a command that cannot be started for want of memory would leave none for the release.
        // What the start needs most is the child's stack; if it cannot be had then, this much is free again.
        keep_what_is_freed();
        let mut reserve = Vec::new();
        reserve.try_reserve_exact(STACK_SIZE).map_err(|_| "there is too little memory to start a command")?;
        Ok(Self { arguments, name, group, die_with_shedlock, reserve: Cell::new(reserve) })
    }

    /// Frees the memory that was kept for the start, which follows.
    pub(crate) fn free_reserve(&self) {
        drop(self.reserve.take());
    }

    /// Returns whose process group the command joins.
    pub(super) fn group(&self) -> Group {
        self.group
    }

    /// Launches the child that becomes the command, and waits a moment until it has.
    pub(super) fn launch(
        self: &Rc<Self>,
        environment: Environment,
        inherited: Inherited,
        start_before: Option<Moment>,
    ) -> Result<Launched<Plan>, SpawnError> {
        let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
            strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
        };
        let argv = pointers(&self.arguments);
        let mut script_argv = vec![SHELL.as_ptr(), ptr::null()];
        script_argv.extend(&argv[1..]);
        let plan = Plan {
            files: candidates(&self.name, environment.get("PATH")),
            argv,
            script_argv,
            envp: pointers(environment.entries()),
            command: Rc::clone(self),
            _environment: environment,
            inherited,
            die_with_parent: self.die_with_shedlock.then(|| i32::try_from(std::process::id()).unwrap_or_default()),
            start_before,
        };
        let launched =
            launch(execute, plan, EXEC_TIMEOUT).map_err(|error| self.explain(SpawnErrorKind::NoProcess, &error))?;
        // How it ended says no more than the error.
        match launched.spawn_error().filter(|_| wait::reap_within(launched.pid, REAP_TIMEOUT)) {
            Some(error) => Err(error),
            None => Ok(launched),
        }
    }

    fn not_executed(&self, error: i32) -> SpawnError {
        if error == TOO_LATE {
            let reason = "the lock's time was up before it began".to_owned();
            let hint = "this host was too busy, or shedlock stalled; choose a longer --at-most or --lease".to_owned();
            return SpawnError {
                command: self.name.clone(),
                kind: SpawnErrorKind::NoProcess,
                reason,
                hint: Some(hint),
            };
        }
        let kind = if error == libc::ENOENT { SpawnErrorKind::NotFound } else { SpawnErrorKind::CannotExecute };
        self.explain(kind, &io::Error::from_raw_os_error(error))
    }

    fn explain(&self, kind: SpawnErrorKind, error: &io::Error) -> SpawnError {
        let path = std::path::Path::new(&self.name);
        let by_path = self.name.as_bytes().contains(&b'/');
        let hint = match kind {
            SpawnErrorKind::NotFound if by_path && has_crlf(path) => {
                Some("its first line ends with a carriage return; `sed -i 's/\\r$//' FILE` converts it".to_owned())
            }
            SpawnErrorKind::NotFound if by_path && path.exists() => {
                Some("the file exists, but the interpreter in its first line or its loader does not".to_owned())
            }
            SpawnErrorKind::NotFound if self.name.as_bytes().contains(&b' ') => Some(
                "the command and its arguments are separate words; a shell command line needs sh -c '…'".to_owned(),
            ),
            SpawnErrorKind::NotFound if BUILTINS.contains(&self.name.to_string_lossy().as_ref()) => {
                Some("it is a shell built-in; run it in a shell: sh -c '…'".to_owned())
            }
            SpawnErrorKind::NotFound if !self.name.as_bytes().starts_with(b"/") && std::env::current_dir().is_err() => {
                Some("the directory that shedlock was started in has been removed".to_owned())
            }
            SpawnErrorKind::NotFound if !by_path => {
                Some("shedlock searches PATH, which is short under cron; give the full path".to_owned())
            }
            SpawnErrorKind::CannotExecute if path.is_dir() => Some("it is a directory".to_owned()),
            SpawnErrorKind::CannotExecute if error.kind() == io::ErrorKind::PermissionDenied => {
                Some("make it executable with chmod +x, or name the program that runs it".to_owned())
            }
            SpawnErrorKind::NoProcess if error.kind() == io::ErrorKind::WouldBlock => {
                return SpawnError {
                    command: self.name.clone(),
                    kind,
                    reason: "this user or its container has reached its limit of processes".to_owned(),
                    hint: Some("check `ulimit -u`, pids.max of the cgroup, and leftover processes".to_owned()),
                };
            }
            _ => None,
        };
        SpawnError { command: self.name.clone(), kind, reason: error_text(error), hint }
    }
}

/// Returns whether the first line of a script ends as in a file from Windows: then its interpreter is not found.
fn has_crlf(path: &std::path::Path) -> bool {
    let mut start = [0; 256];
    let read = std::fs::File::open(path).and_then(|mut file| io::Read::read(&mut file, &mut start)).unwrap_or_default();
    let line = start[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.starts_with(b"#!") && line.ends_with(b"\r")
}

/// Returns the files that a command's name may mean: itself if it has a slash, else one in each directory of PATH.
fn candidates(name: &OsStr, path: Option<&OsStr>) -> Vec<CString> {
    let path = path.map_or(DEFAULT_PATH, OsStr::as_bytes);
    let is_searched = !name.as_bytes().contains(&b'/') && (1..=NAME_MAX).contains(&name.len());
    let files: Vec<Vec<u8>> = if !is_searched {
        vec![name.as_bytes().to_vec()]
    } else {
        // An empty entry is the current directory.
        let directories = path.split(|byte| *byte == b':').map(|entry| if entry.is_empty() { b"." } else { entry });
        directories.map(|directory| [directory, name.as_bytes()].join(&b'/')).collect()
    };
    // Neither the name nor the environment can have a NUL byte in it.
    files.into_iter().filter_map(|file| CString::new(OsString::from_vec(file).into_vec()).ok()).collect()
}

impl Launched<Plan> {
    /// Returns why the command could not be executed, if it could not.
    pub(super) fn spawn_error(&self) -> Option<SpawnError> {
        Some(self.plan()?.command.not_executed(self.error()?))
    }
}

/// Runs in the child: joins its group, restores the signals, and becomes the command. Returns only in failure.
fn execute(plan: &mut Plan) -> i32 {
    // A host that stands still for long between the grant and this has no lock any more. Signals are still blocked: once
    // they are not, the job may be stopped for as long as anybody likes while its lock is renewed.
    if plan.start_before.is_some_and(|before| Moment::now() >= before) {
        return TOO_LATE;
    }
    if plan.command.group == Group::Own {
        // It cannot fail: a new child leads no session and has executed nothing yet.
        let _ = nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0));
    }
    if let Some(parent) = plan.die_with_parent {
        tree::die_with_parent();
        if nix::unistd::getppid().as_raw() != parent {
            // Shedlock was killed before the kernel knew that the child was to die with it.
            return libc::ESRCH;
        }
    }
    plan.inherited.restore();
    let mut final_error = libc::ENOENT;
    for index in 0..plan.files.len() {
        let file = plan.files[index].as_ptr();
        let mut error = execve(file, &plan.argv, &plan.envp);
        if error == libc::ENOEXEC {
            plan.script_argv[1] = file;
            error = execve(SHELL.as_ptr(), &plan.script_argv, &plan.envp);
        }
        if final_error != libc::EACCES {
            // That a file must not be executed says more than that it is in no other directory, as execvp(3) has it.
            final_error = error;
        }
        match error {
            // Not here; perhaps in the next directory.
            libc::ENOENT
            | libc::ENOTDIR
            | libc::ENAMETOOLONG
            | libc::ENODEV
            | libc::ESTALE
            | libc::ETIMEDOUT
            | libc::EACCES => {}
            _ => return error,
        }
    }
    final_error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked_for(name: &str, path: Option<&str>) -> Vec<String> {
        candidates(OsStr::new(name), path.map(OsStr::new))
            .iter()
            .map(|file| file.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn a_name_with_a_slash_is_not_looked_for_in_path() {
        assert_eq!(looked_for("./job", Some("/a:/b")), ["./job"]);
    }

    #[test]
    fn a_plain_name_is_looked_for_in_every_directory_of_path() {
        assert_eq!(looked_for("job", Some("/a::/b")), ["/a/job", "./job", "/b/job"]);
        assert_eq!(looked_for("job", None), ["/bin/job", "/usr/bin/job"]);
    }
}
