//! A terminal with a program on it, as a person uses them.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};

use nix::fcntl::OFlag;
use nix::libc;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

use super::Place;
use super::process::{LOGGER, beside, under, write_script};

/// An interactive bash without its line editor and without anybody's settings.
pub(crate) const BASH: [&str; 5] = ["bash", "--norc", "--noprofile", "--noediting", "-i"];

/// A pseudoterminal. Dropping it hangs up.
pub(crate) struct Terminal {
    /// `None` once it was hung up.
    master: Option<nix::pty::PtyMaster>,
    name: String,
    program: Child,
}

impl Terminal {
    /// Starts a command as the leader of a session with a terminal of its own, its standard descriptors on it.
    pub(crate) fn start(command: &Command) -> Self {
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname_r(&master).unwrap();
        let open =
            || -> File { OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(&name).unwrap() };
        let mut session = under(&["setsid", "--ctty", "env", "--default-signal"], command);
        let program = session.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
        Self { master: Some(master), name, program }
    }

    /// Starts an interactive bash in the place, without echo, prompts and cores. `./logger FILE` logs its signals there.
    pub(crate) fn bash(place: &Place) -> Self {
        Self::shell(place, &BASH)
    }

    /// Starts an interactive shell of these words in the place, without echo, prompts and cores.
    pub(crate) fn shell(place: &Place, words: &[&str]) -> Self {
        write_script(place, "logger", &format!("#!/usr/bin/perl\n{LOGGER}"));
        let mut shell = beside(place, words);
        let others = place.lines("prompt").len();
        let mut terminal = Self::start(shell.env("PS1", "").env("HISTFILE", "").env_remove("ENV"));
        terminal.type_line("ulimit -c 0; stty -echo; echo >> prompt");
        place.wait_for_lines("prompt", others + 1);
        terminal
    }

    /// Types a line.
    pub(crate) fn type_line(&mut self, line: &str) {
        self.type_keys(&format!("{line}\n"));
    }

    /// Types keys; `\x03` is ^C, `\x1a` ^Z, `\x1c` ^\.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.screen();
        self.master.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Returns the text that was written to the screen since the last look.
    pub(crate) fn screen(&mut self) -> String {
        let mut seen = Vec::new();
        // An error means that there is no more, for now or for ever.
        let _ = self.master.as_mut().unwrap().read_to_end(&mut seen);
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// Changes the width.
    pub(crate) fn resize(&self, columns: u16) {
        let status = Command::new("stty").args(["-F", &self.name, "columns", &columns.to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Returns the pid of the program.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.program.id()).unwrap()
    }

    /// Closes the terminal, as a lost connection does.
    pub(crate) fn hang_up(&mut self) {
        self.master = None;
    }

    /// Waits for the program's end.
    pub(crate) fn finish(mut self) -> std::process::ExitStatus {
        super::wait_until("the program on the terminal to end", || self.program.try_wait().unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.hang_up();
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
