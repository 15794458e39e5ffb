//! Starting the command.
//!
//! `std::process::Command` would reset SIGPIPE, cannot run a script without `#!`, and forks in the slow way as soon as
//! something is to be done in the child. Here the child shares our memory until it executes the command, as
//! posix_spawn(3) does it, so it starts fast however large we are; and what it does in between is a few system calls.

use std::ffi::{CString, OsStr, OsString, c_void};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;

use nix::libc;
use nix::unistd::Pid;

use super::environ::Environment;
use super::guardian::Guardian;
use super::signals::{Inherited, set_disposition, set_mask};
use super::{Job, tree};
use crate::plain::plain;
use crate::run::{Group, SpawnTrouble, SpawnTroubleKind};
use crate::signal::Signal;

/// Where commands are looked for when PATH is not set, as execvp(3) does.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";
/// What runs a script that names no interpreter.
const SHELL: &std::ffi::CStr = c"/bin/sh";
const STACK: usize = 64 * 1024;

/// A command to start.
pub(crate) struct Command {
    arguments: Vec<CString>,
    name: OsString,
    group: Group,
    die_with_us: bool,
}

/// All that the child needs, laid out beforehand: it must not allocate.
struct Plan<'a> {
    /// The files to try, in the order of PATH.
    files: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    /// `sh FILE ARG…`; the file is put in when it is known.
    script_argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    group: Group,
    inherited: &'a Inherited,
    die_with: Option<i32>,
    /// What the child leaves behind when it could not execute anything.
    error: i32,
}

impl Command {
    /// Takes the command line as it was given; the error names what cannot be passed on.
    pub(crate) fn new(words: &[OsString], group: Group, die_with_us: bool) -> Result<Self, String> {
        let arguments = words.iter().map(|word| CString::new(word.as_bytes())).collect::<Result<Vec<_>, _>>();
        let arguments = arguments.map_err(|_| "an argument of the command contains a NUL byte".to_owned())?;
        let name = words.first().cloned().ok_or("no command is given")?;
        Ok(Self { arguments, name, group, die_with_us })
    }

    /// Starts the command with `environment`, and with the signals as we found them. A guardian is told of it.
    pub(crate) fn start(
        &self,
        environment: &Environment,
        inherited: &Inherited,
        guardian: Option<&Guardian>,
    ) -> Result<Job, SpawnTrouble> {
        tree::adopt_orphans();
        // Nobody else has started anything since the guardian looked.
        let strangers = guardian.map_or_else(tree::children_from_before, Guardian::strangers);
        let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
            strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
        };
        let argv = pointers(&self.arguments);
        let mut script_argv = vec![SHELL.as_ptr(), ptr::null()];
        script_argv.extend(&argv[1..]);
        let mut plan = Plan {
            files: candidates(&self.name, environment.get("PATH")),
            argv,
            script_argv,
            envp: pointers(environment.entries()),
            group: self.group,
            inherited,
            die_with: self.die_with_us.then(|| i32::try_from(std::process::id()).unwrap_or_default()),
            error: 0,
        };
        let pid = launch(execute, &mut plan).map_err(|error| self.trouble(SpawnTroubleKind::NoProcess, &error))?;
        if plan.error == 0 {
            let job = Job::new(pid, self.group, strangers);
            if let Some(guardian) = guardian {
                guardian.watch(&job);
            }
            return Ok(job);
        }
        // It has ended already, and nobody else is interested in how.
        let _ = nix::sys::wait::waitpid(pid, None);
        let error = io::Error::from_raw_os_error(plan.error);
        let kind =
            if plan.error == libc::ENOENT { SpawnTroubleKind::NotFound } else { SpawnTroubleKind::CannotExecute };
        Err(self.trouble(kind, &error))
    }

    fn trouble(&self, kind: SpawnTroubleKind, error: &io::Error) -> SpawnTrouble {
        let path = std::path::Path::new(&self.name);
        let by_path = self.name.as_bytes().contains(&b'/');
        let hint = match kind {
            SpawnTroubleKind::NotFound if by_path && path.exists() => {
                Some("the file is there, but the interpreter in its first line or its loader is not".to_owned())
            }
            SpawnTroubleKind::NotFound if self.name.as_bytes().contains(&b' ') => Some(
                "the command and its arguments are separate words; a shell command line needs sh -c '…'".to_owned(),
            ),
            SpawnTroubleKind::NotFound if !by_path => {
                Some("it is looked for in PATH, which is short under cron; give the full path".to_owned())
            }
            SpawnTroubleKind::CannotExecute if path.is_dir() => Some("it is a directory".to_owned()),
            SpawnTroubleKind::CannotExecute if error.kind() == io::ErrorKind::PermissionDenied => {
                Some("make it executable with chmod +x, or name the program that runs it".to_owned())
            }
            _ => None,
        };
        SpawnTrouble { command: self.name.clone(), kind, reason: plain(error), hint }
    }
}

/// The files that a command's name may mean: itself if it has a slash in it, else one in each directory of PATH.
fn candidates(name: &OsStr, path: Option<&OsStr>) -> Vec<CString> {
    let path = path.map_or(DEFAULT_PATH, OsStr::as_bytes);
    let files: Vec<Vec<u8>> = if name.as_bytes().contains(&b'/') || name.is_empty() {
        vec![name.as_bytes().to_vec()]
    } else {
        // An empty entry is the current directory.
        let directories = path.split(|byte| *byte == b':').map(|entry| if entry.is_empty() { b"." } else { entry });
        directories.map(|directory| [directory, name.as_bytes()].join(&b'/')).collect()
    };
    // Neither the name nor the environment can have a NUL byte in it.
    files.into_iter().filter_map(|file| CString::new(OsString::from_vec(file).into_vec()).ok()).collect()
}

/// Starts a child that runs `child` on `plan` in our memory while we stand still, until it is another program or has ended.
/// It must make system calls only, and allocate nothing.
pub(super) fn launch<P>(child: extern "C" fn(*mut c_void) -> libc::c_int, plan: &mut P) -> io::Result<Pid> {
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    #[expect(
        unsafe_code,
        reason = "the only way to have a child do something before it executes, without copying our pages"
    )]
    // SAFETY: CLONE_VFORK suspends this thread until the child has left our memory, so the stack and the plan outlive
    // its use of them. The keeper's thread goes on, as it would beside any call of posix_spawn(3).
    let pid = unsafe { libc::clone(child, top.cast(), flags, ptr::from_mut(plan).cast()) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(Pid::from_raw(pid)) }
}

/// The child: takes its place, gets the signals as they were, becomes the command. Returns only in failure.
extern "C" fn execute(plan: *mut c_void) -> libc::c_int {
    #[expect(unsafe_code, reason = "see launch()")]
    // SAFETY: it is the plan of `launch`, which stands still while we use it.
    let plan = unsafe { &mut *plan.cast::<Plan<'_>>() };
    if plan.group == Group::Own {
        // It cannot fail: a new child leads no session and has executed nothing yet.
        let _ = nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0));
    }
    if let Some(parent) = plan.die_with {
        tree::die_with_parent();
        if nix::unistd::getppid().as_raw() != parent {
            // We were killed before the kernel knew that the child was to go with us.
            return 1;
        }
    }
    if plan.inherited.ignored_child {
        set_disposition(Signal::CHLD, libc::SIG_IGN);
    }
    let _ = set_mask(libc::SIG_SETMASK, &plan.inherited.mask);
    let mut verdict = libc::ENOENT;
    for index in 0..plan.files.len() {
        let file = plan.files[index].as_ptr();
        let mut error = try_execute(file, &plan.argv, &plan.envp);
        if error == libc::ENOEXEC {
            plan.script_argv[1] = file;
            error = try_execute(SHELL.as_ptr(), &plan.script_argv, &plan.envp);
        }
        match error {
            // Not here; perhaps in the next directory.
            libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ENODEV | libc::ESTALE | libc::ETIMEDOUT => {}
            libc::EACCES => verdict = error,
            _ => {
                verdict = error;
                break;
            }
        }
    }
    // Only now: the parent takes any number here for a failure, and a success does not come back to clear it.
    plan.error = verdict;
    1
}

/// Executes `file`, and returns the error number if that failed.
pub(super) fn try_execute(
    file: *const libc::c_char,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
) -> i32 {
    #[expect(unsafe_code, reason = "the libraries' exec wants other types, made by allocation")]
    // SAFETY: the file is a C string, and both arrays hold C strings and end with a null pointer.
    unsafe {
        libc::execve(file, argv.as_ptr(), envp.as_ptr());
    }
    nix::errno::Errno::last_raw()
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
