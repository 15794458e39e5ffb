//! The job: it says that it starts, that it lives, and that it ends; so does whatever it leaves behind.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use super::log::{Log, MILLI, now};

/// How often a process says that it lives.
const BEAT: Duration = Duration::from_millis(10);

/// Acts as the job: `LOG RUN ROLE MILLISECONDS CODE [child:MS] [daemon:MS] [nested:MS:SHEDLOCK]`. Every process of it is one.
pub(crate) fn job(words: &[String]) -> u8 {
    let [path, run, role, length, code, more @ ..] = words else { panic!("not a job: {words:?}") };
    let log = Log::open(Path::new(path));
    let pid = i32::try_from(std::process::id()).unwrap();
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| "-".to_owned());
    let said = format!("{role} {} {}", variable("SHEDLOCK_LOCK_TOKEN"), variable("SHEDLOCK_LOCK_OWNER"));
    let start = log.say("START", pid, run, &said);
    let mut children: Vec<Child> = more.iter().map(|word| offspring(path, run, word)).collect();
    let end = start + length.parse::<u64>().unwrap() * MILLI;
    while now() < end || children.iter_mut().any(|child| is_awaited(child, role)) {
        std::thread::sleep(BEAT);
        log.say("BEAT", pid, run, &said);
    }
    log.say("END", pid, run, &said);
    code.parse().unwrap()
}

/// Starts what the job has beside itself.
fn offspring(path: &str, run: &str, word: &str) -> Child {
    let mut words = word.splitn(3, ':');
    let (what, length) = (words.next().unwrap(), words.next().unwrap());
    let me = std::env::current_exe().unwrap();
    let mut command = match what {
        "child" => Command::new(&me),
        // In a session of its own, and its parent ends at once.
        "daemon" => {
            let mut command = Command::new("setsid");
            command.arg("--fork").arg(&me);
            command
        }
        "nested" => {
            let mut command = Command::new(words.next().unwrap());
            command.args(["run", "--name", super::plan::NAME, "--at-most", "3s", "--"]).arg(&me);
            command
        }
        other => panic!("not an offspring: {other}"),
    };
    command.args(["job", path, run, what, length, "0"]).spawn().unwrap()
}

/// Returns whether a command waits for its nested run: it waits for nothing else.
fn is_awaited(child: &mut Child, role: &str) -> bool {
    let nested = std::fs::read_to_string(format!("/proc/{}/comm", child.id())).is_ok_and(|name| name == "shedlock\n");
    child.try_wait().unwrap().is_none() && nested && role == "command"
}
