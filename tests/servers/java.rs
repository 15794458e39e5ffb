//! An application of the Java library ShedLock, with its real providers, which does what a test tells it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::program;

/// What makes a small Java that starts fast.
const SMALL: [&str; 4] = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"];

/// How long an answer may take. Nothing waits so long unless something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of Java, which remembers the locks that it has taken by their names.
pub struct Party(Mutex<Conversation>);

struct Conversation {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    is_ready: bool,
}

impl Party {
    /// Starts an application in a time zone, such as `Asia/Tokyo`, with a provider in one of its modes, see
    /// tests/java/Party.java. The URL is the one that shedlock has.
    pub fn start(zone: &str, [provider, mode]: [&str; 2], url: &str) -> Self {
        let place = built().display().to_string();
        let mut command = program::command("java");
        command.args(SMALL);
        // An older version of the library goes first for what version 7 is not fetched for.
        let older = match provider {
            "jdbc" => format!("{place}/older/*:"),
            "zookeeper" => format!("{place}/zookeeper/*:"),
            _ => String::new(),
        };
        command.arg(format!("-Duser.timezone={zone}"));
        command.args(["-cp", &format!("{older}{place}/jars/*:{place}"), "Party"]);
        let mut child =
            command.args([provider, mode, url]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (tell, answers) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self(Mutex::new(Conversation { child, input, answers, is_ready: false }))
    }

    /// Takes the lock, if it is free, and says whether it got it. The times are in milliseconds.
    #[track_caller]
    pub fn locks(&self, name: &str, at_most: u32, at_least: u32) -> bool {
        self.ask(&format!("lock\t{name}\t{at_most}\t{at_least}"), ["granted", "held"])
    }

    /// Releases the lock that it took last by this name. The library does not say whether it was still there.
    #[track_caller]
    pub fn unlocks(&self, name: &str) {
        assert!(self.ask(&format!("unlock\t{name}"), ["unlocked", ""]));
    }

    /// Extends the lock that it took last by this name, from now on, and says whether the library calls that done.
    #[track_caller]
    pub fn extends(&self, name: &str, at_most: u32, at_least: u32) -> bool {
        self.ask(&format!("extend\t{name}\t{at_most}\t{at_least}"), ["extended", "lost"])
    }

    /// Adds to the number in a file so often, under the lock.
    #[track_caller]
    pub fn counts(&self, name: &str, file: &str, rounds: u32) {
        assert!(self.ask(&format!("count\t{name}\t{file}\t{rounds}"), ["counted", ""]));
    }

    /// Whether the answer is the first of the two that it can be.
    #[track_caller]
    fn ask(&self, request: &str, [yes, no]: [&str; 2]) -> bool {
        let mut conversation = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !conversation.is_ready {
            assert_eq!(conversation.answer(), "ready");
            conversation.is_ready = true;
        }
        writeln!(conversation.input.as_mut().unwrap(), "{request}").unwrap();
        let answer = conversation.answer();
        assert!(answer == yes || answer == no, "{request}: {answer}");
        answer == yes
    }
}

impl Conversation {
    #[track_caller]
    fn answer(&self) -> String {
        let answer = self.answers.recv_timeout(PATIENCE);
        answer.unwrap_or_else(|why| panic!("the application in Java does not answer, or has ended: {why}"))
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // The end of its input would end it too, once it has started.
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The words that start the library's own tests of its providers, see tests/java/Kit.java.
pub fn kit() -> Vec<String> {
    let kit = built().join("kit").display().to_string();
    let words = ["java"].into_iter().chain(SMALL).chain(["-cp"]).map(str::to_owned);
    words.chain([format!("{kit}/*:{kit}"), "Kit".to_owned()]).collect()
}

/// The directory that tests/java/build has made.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().map(|above| above.join("java"));
    places.find(|path| path.join("complete").is_file()).unwrap_or_else(|| {
        panic!("the Java library is not here; tests/run fetches it, or: tests/java/build target/java")
    })
}
