//! The job of every cell, which writes down that it lives, and the judge of what the jobs of one lock wrote.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Appends `WORD OWNER TOKEN PID TIME` to the log: START, BEAT every 20 ms, TERM when it was asked to stop, END. A
/// daemon that it leaves behind beats under the same owner, in a session of its own. The clock is asked by a system
/// call, since the least perl has no module for it. It ends when the file that it is given is there, with no file after
/// eight beats, and without its log at once.
const SCRIPT: &str = r"
    use POSIX ();
    my ($clock, $log, $mode, $tell) = @ARGV;
    my ($owner, $token) = ($ENV{SHEDLOCK_LOCK_OWNER} || '-', $ENV{SHEDLOCK_LOCK_TOKEN} || '-');
    open(LOG, '>>', $log) or die;
    sub note {
        my $time = pack('q2', 0, 0);
        syscall($clock, 1, $time) == 0 or die;
        my ($seconds, $nanos) = unpack('q2', $time);
        syswrite LOG, sprintf(qq(%s %s %s %d %d%09d\n), $_[0], $owner, $token, $$, $seconds, $nanos);
    }
    note('START');
    my $beats = 0;
    sub beat {
        note('BEAT');
        select(undef, undef, undef, 0.02);
        return -e $log && ++$beats < 15000;
    }
    if ($mode ne 'plain') {
        $SIG{$_} = sub { note('TERM') } for qw(TERM INT HUP);
    }
    if ($mode eq 'daemon' && !fork) {
        POSIX::setsid();
        POSIX::_exit(0) if fork;
        beat() or POSIX::_exit(0) until -e $tell;
        beat() for 1 .. 20;
        note('END');
        POSIX::_exit(0);
    }
    wait if $mode eq 'daemon';
    while (beat()) {
        last if $tell eq '' ? $beats >= 8 : -e $tell;
    }
    note('END');
";

/// What kind of job it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Plain,
    /// It notes TERM and goes on.
    Deaf,
    /// It leaves a daemon in a session of its own, and both are deaf. Told to end, the daemon beats for 400 ms more.
    Daemon,
}

/// Returns the words of a job that writes to `log`, and ends when the file `tell` is there or, without one, soon.
pub(super) fn job(log: &Path, mode: Mode, tell: Option<&Path>) -> Vec<String> {
    let mode = match mode {
        Mode::Plain => "plain",
        Mode::Deaf => "deaf",
        Mode::Daemon => "daemon",
    };
    let tell = tell.map_or_else(String::new, |tell| tell.display().to_string());
    let clock = libc::SYS_clock_gettime.to_string();
    ["perl", "-e", SCRIPT, &clock, &log.display().to_string(), mode, &tell].map(str::to_owned).into()
}

/// Returns the clock of the log.
pub(super) fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into()
}

/// One run's job, with all that it left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) owner: String,
    pub(super) token: Option<u64>,
    /// The job's own pid.
    pub(super) pid: i32,
    pub(super) start: Duration,
    /// The last that any process of it wrote.
    pub(super) last: Duration,
    /// All that ended by itself.
    pub(super) ends: usize,
    /// It was asked to stop.
    pub(super) asked: bool,
}

/// Returns all jobs in a log, in the order of their starts.
pub(super) fn read(log: &str) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut of_owner = HashMap::new();
    // A line that is being written has no end yet.
    for line in log.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let [word, owner, token, pid, time] = line.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
        let (pid, time) = (pid.parse().unwrap(), Duration::from_nanos(time.parse().unwrap()));
        let index = *of_owner.entry(owner.to_owned()).or_insert_with(|| {
            assert_eq!(word, "START", "{line}");
            let (owner, token) = (owner.to_owned(), token.parse().ok());
            jobs.push(Job { owner, token, pid, start: time, last: time, ends: 0, asked: false });
            jobs.len() - 1
        });
        let job = &mut jobs[index];
        job.last = job.last.max(time);
        job.ends += usize::from(word == "END");
        job.asked |= word == "TERM";
    }
    jobs.sort_by_key(|job| job.start);
    jobs
}

/// Checks the jobs of one lock: that no two lived at once for longer than `overlap`, and that each token grew. Where two may
/// live at once, they may also start in another order than that of their tokens, but no two share one.
pub(super) fn judge(jobs: &[Job], overlap: Option<Duration>) -> Result<(), String> {
    for (index, job) in jobs.iter().enumerate() {
        for later in &jobs[index + 1..] {
            let both = job.last.min(later.last).saturating_sub(later.start);
            if both > overlap.unwrap_or_default() {
                return Err(format!("two at once for {both:?}: {job:?} and {later:?}"));
            }
            let (Some(first), Some(second)) = (job.token, later.token) else {
                return Err(format!("no token: {job:?} or {later:?}"));
            };
            if first == second || first > second && overlap.is_none() {
                return Err(format!("tokens do not grow: {job:?} and {later:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn two_at_once_and_tokens_that_do_not_grow_are_seen() {
    let log = |lines: &[&str]| read(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    let apart = log(&["START a 1 7 10", "BEAT a 1 7 20", "END a 1 7 30", "START b 2 8 31", "BEAT b 2 8 40"]);
    assert_eq!(judge(&apart, None), Ok(()));
    assert_eq!((apart[0].ends, apart[1].ends, apart[1].last), (1, 0, Duration::from_nanos(40)));
    let daemon = log(&["START a 1 7 10", "END a 1 7 30", "START b 2 8 31", "BEAT a 1 9 35", "BEAT b 2 8 40"]);
    assert!(judge(&daemon, None).unwrap_err().starts_with("two at once for 4ns"));
    assert_eq!(judge(&daemon, Some(Duration::from_nanos(4))), Ok(()));
    assert!(judge(&daemon, Some(Duration::from_nanos(3))).is_err());
    for tokens in [[2, 1], [2, 2]] {
        let [first, second] = tokens.map(|token| token.to_string());
        let log = log(&[&format!("START a {first} 7 10"), &format!("START b {second} 8 11")]);
        assert!(judge(&log, None).unwrap_err().starts_with("tokens do not grow"));
        assert_eq!(judge(&log, Some(Duration::ZERO)).is_err(), first == second);
    }
    assert!(judge(&log(&["START a - 7 10", "START b 2 8 11"]), None).unwrap_err().starts_with("no token"));
    let unfinished = read("START a 1 7 10\nBEAT a 1 7 2");
    assert_eq!(unfinished[0].last, Duration::from_nanos(10));
}
