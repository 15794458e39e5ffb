//! A stderr that nobody reads, shared with a job that fills it.

use std::io::{PipeReader, Read};
use std::os::fd::AsFd;
use std::process::Command;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::support::fixtures::open;
use crate::support::process::{
    DETACHED, Leftover, heartbeat, is_free, last_beat, limited, millis, stat, touch, under, wait_for_child,
    wait_until_held,
};
use crate::support::{Place, is_alive, wait_until};

/// A run whose stderr is a pipe.
struct Unread {
    child: std::process::Child,
    shedlock: Leftover,
    reader: PipeReader,
    writer: std::io::PipeWriter,
}

impl Unread {
    /// Starts a job that beats, and fills stderr as soon as the file `fill` is there.
    fn start(place: &Place, tracer: &[&str], limit: &str, options: &[&str]) -> Self {
        let job =
            format!("echo $$ > pid; ({}) & until [ -e fill ]; do sleep 0.02; done; exec yes >&2", heartbeat("beats"));
        let run = limited(place, "job", limit, [options, &["bash", "-c", &job]].concat());
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command: Command = under(&[&DETACHED[..], tracer].concat(), &run);
        let child = command.stderr(writer.try_clone().unwrap()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        wait_until_held(place, "job");
        let shedlock = Leftover(if tracer.is_empty() { pid } else { wait_for_child(pid) });
        place.wait_for_lines("beats", 1);
        Self { child, shedlock, reader, writer }
    }

    fn wait_until_full(&self) {
        wait_until("the pipe to be full", || {
            let mut room = [PollFd::new(self.writer.as_fd(), PollFlags::POLLOUT)];
            (poll(&mut room, PollTimeout::ZERO) == Ok(0)).then_some(())
        });
    }

    /// Ends with this code, and nothing of the job is left. Nothing but the job's was read.
    fn ends(mut self, place: &Place, code: i32, before: i64) {
        let status = wait_until("the end", || self.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(code));
        assert!(!is_alive(self.shedlock.0) && !is_alive(place.lines("pid")[0].parse().unwrap()));
        assert!(last_beat(place, "beats") < before, "{} {before}", last_beat(place, "beats"));
        is_free(place, "job");
        drop(self.writer);
        let mut text = String::new();
        self.reader.read_to_string(&mut text).unwrap();
        assert!(text.len() >= 4096 && text.lines().all(|line| line == "y"), "{}", &text[text.len() - 200..]);
    }
}

#[test]
fn a_job_that_fills_a_stderr_that_nobody_reads_is_ended_in_time() {
    for options in [&[][..], &["--lease", "2s"]] {
        let place = Place::new();
        let run = Unread::start(&place, &[], "3s", options);
        let end = millis(&wait_until_held(&place, "job").locked_at) + 3_000;
        touch(&place, "fill");
        run.wait_until_full();
        run.ends(&place, 124, end);
    }
}

/// The pipe is full when the first warning is due, and the job is ended all the same.
#[test]
fn a_lock_that_cannot_be_renewed_ends_a_job_that_fills_a_stderr_that_nobody_reads() {
    let place = Place::new();
    let run = Unread::start(&place, &[], "1m", &["--lease", "2s"]);
    touch(&place, "fill");
    run.wait_until_full();
    let writer = open(&place);
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let end = millis(&place.row("job").unwrap().lock_until);
    wait_until("the end", || (!is_alive(run.shedlock.0)).then_some(()));
    writer.execute_batch("ROLLBACK").unwrap();
    run.ends(&place, 123, end);
}

/// The tracer stops us between the look whether there is room and the writing.
#[test]
fn a_job_that_fills_stderr_while_we_write_is_ended_in_time() {
    let place = Place::new();
    let slow = ["-e", "trace=sendto", "-e", "inject=sendto:delay_enter=1500000:when=1"];
    let tracer = [&["strace", "-f", "-qq", "-b", "execve", "-o", "trace"], &slow[..]].concat();
    let run = Unread::start(&place, &tracer, "8s", &["--kill-after", "4s"]);
    let end = millis(&wait_until_held(&place, "job").locked_at) + 8_000;
    let mut stops = 0;
    // It stops for a moment at every call.
    wait_until("the tracer to stop us", || {
        stops = if stat(run.shedlock.0).unwrap().state == 't' { stops + 1 } else { 0 };
        (stops > 20).then_some(())
    });
    touch(&place, "fill");
    run.wait_until_full();
    assert_eq!(stat(run.shedlock.0).unwrap().state, 't', "the machine is too busy for this test");
    run.ends(&place, 124, end);
}
