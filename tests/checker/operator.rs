//! A person who forgets the lock again and again. A run that has it must never notice, so nothing is excused for that.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::log::{MILLI, now};
use super::plan::NAME;

/// Milliseconds from one attempt to the next.
const PAUSE: u64 = 150;

pub(crate) struct Operator {
    command: Command,
    child: Option<Child>,
    next: u64,
    /// How often the lock was free and went.
    pub(crate) forgotten: u32,
}

impl Operator {
    pub(crate) fn new(shedlock: &Path, url: &str) -> Self {
        let mut command = Command::new(shedlock);
        command.args(["forget", "--backend", url, "--backend-timeout", "1s", NAME]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { command, child: None, next: now(), forgotten: 0 }
    }

    /// Begins an attempt when it is time, unless the last one goes on.
    pub(crate) fn work(&mut self) {
        if let Some(child) = &mut self.child {
            let Some(ended) = child.try_wait().unwrap() else { return };
            self.forgotten += u32::from(ended.success());
            self.child = None;
        }
        if now() >= self.next {
            self.next = now() + PAUSE * MILLI;
            self.child = Some(self.command.spawn().unwrap());
        }
    }

    /// Waits for the last attempt.
    pub(crate) fn finish(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.forgotten += u32::from(child.wait().unwrap().success());
        }
    }
}
