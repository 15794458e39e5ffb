//! An application of the Java library ShedLock, with its real providers, which does what a test tells it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::program;

/// What makes a small Java that starts fast.
const SMALL: [&str; 4] = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"];

/// How long an answer may take. Nothing waits so long unless something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// An application, which remembers the locks that it has taken by their names. Its requests are carried out one after the
/// other.
pub struct Party {
    java: Arc<Java>,
    number: u32,
    answers: Mutex<Answers>,
}

struct Answers {
    waiting: Receiver<String>,
    is_open: bool,
}

/// A process of Java, in which several applications live, since it takes a second of a processor to start. It ends with the
/// last of them, and with its input, and so with this process.
struct Java {
    child: Mutex<Child>,
    input: Mutex<ChildStdin>,
    next: AtomicU32,
    parties: Parties,
}

/// Where the answers go to, by the numbers of the applications.
type Parties = Arc<Mutex<HashMap<u32, Sender<String>>>>;

/// Time zone and libraries of a process.
type Kind = (String, &'static str);

impl Party {
    /// Starts an application in a time zone, such as `Asia/Tokyo`, with a provider in one of its modes, see
    /// tests/java/Providers.java. The URL is the one that shedlock has. Its process may be that of others.
    pub fn start(zone: &str, provider: [&str; 2], url: &str) -> Self {
        static SHARED: Mutex<Option<HashMap<Kind, Weak<Java>>>> = Mutex::new(None);
        let kind = (zone.to_owned(), libraries(provider[0]));
        let mut shared = locked(&SHARED);
        let shared = shared.get_or_insert_default();
        let java = shared.get(&kind).and_then(Weak::upgrade).unwrap_or_else(|| {
            let java = Arc::new(Java::start(&kind.0, kind.1));
            shared.insert(kind, Arc::downgrade(&java));
            java
        });
        Self::of(java, provider, url)
    }

    /// Starts one in a process of its own.
    pub fn start_alone(zone: &str, provider: [&str; 2], url: &str) -> Self {
        Self::of(Arc::new(Java::start(zone, libraries(provider[0]))), provider, url)
    }

    fn of(java: Arc<Java>, [provider, mode]: [&str; 2], url: &str) -> Self {
        let (tell, waiting) = channel();
        let number = java.next.fetch_add(1, Ordering::Relaxed);
        locked(&java.parties).insert(number, tell);
        let party = Self { java, number, answers: Mutex::new(Answers { waiting, is_open: false }) };
        party.java.send(number, &format!("open\t{provider}\t{mode}\t{url}"));
        party
    }

    /// The process id, to stop it and let it go on.
    pub fn pid(&self) -> i32 {
        locked(&self.java.child).id().try_into().unwrap()
    }

    /// Takes the lock, if it is free, and says whether it got it. The times are in milliseconds.
    #[track_caller]
    pub fn locks(&self, name: &str, at_most: u32, at_least: u32) -> bool {
        self.ask(&format!("lock\t{name}\t{at_most}\t{at_least}"), ["granted", "held"])
    }

    /// The same, and `KeepAliveLockProvider` extends it every half of its time.
    #[track_caller]
    pub fn keeps(&self, name: &str, at_most: u32) -> bool {
        self.ask(&format!("keep\t{name}\t{at_most}"), ["granted", "held"])
    }

    /// Returns when each extension has been tried that was due.
    #[track_caller]
    pub fn has_tried_to_keep(&self) {
        assert!(self.ask("kept", ["tried", ""]));
    }

    /// Releases the lock that it took last by this name. The library does not say whether it was still there.
    #[track_caller]
    pub fn unlocks(&self, name: &str) {
        assert!(self.ask(&format!("unlock\t{name}"), ["unlocked", ""]));
    }

    /// The same of a lock that may have ended: `unlocked`, or what the library complains of.
    #[track_caller]
    pub fn tries_to_unlock(&self, name: &str) -> String {
        self.answer(&format!("unlock\t{name}"))
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
        let answer = self.answer(request);
        assert!(answer == yes || answer == no, "{request}: {answer}");
        answer == yes
    }

    #[track_caller]
    fn answer(&self, request: &str) -> String {
        let mut answers = locked(&self.answers);
        if !answers.is_open {
            assert_eq!(answers.next(), "open");
            answers.is_open = true;
        }
        self.java.send(self.number, request);
        answers.next()
    }
}

impl Answers {
    #[track_caller]
    fn next(&self) -> String {
        let answer = self.waiting.recv_timeout(PATIENCE);
        answer.unwrap_or_else(|why| panic!("the application in Java does not answer, or has ended: {why}"))
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        self.java.send(self.number, "close");
    }
}

impl Java {
    fn start(zone: &str, libraries: &str) -> Self {
        let place = built().display().to_string();
        let mut command = program::command("java");
        command.args(SMALL);
        command.arg(format!("-Duser.timezone={zone}"));
        command.args(["-cp", &format!("{place}/{libraries}/*:{place}/jars/*:{place}"), "Party"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let parties = Parties::default();
        let known = Arc::clone(&parties);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Java itself may say something too.
                let Some((number, answer)) = line.split_once('\t') else { continue };
                let number = number.parse().unwrap_or(u32::MAX);
                if let Some(tell) = locked(&known).get(&number) {
                    let _ = tell.send(answer.to_owned());
                }
            }
            // Nobody waits for a process that has ended.
            locked(&known).clear();
        });
        Self { child: child.into(), input: input.into(), next: AtomicU32::new(0), parties }
    }

    /// Sends a line. If the process has ended, the answer will say so.
    fn send(&self, number: u32, request: &str) {
        let _ = writeln!(locked(&self.input), "{number}\t{request}");
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The words that start the library's own tests of its providers, see tests/java/Kit.java.
pub fn kit() -> Vec<String> {
    let kit = built().join("kit").display().to_string();
    let words = ["java"].into_iter().chain(SMALL).chain(["-cp"]).map(str::to_owned);
    words.chain([format!("{kit}/*:{kit}"), "Kit".to_owned()]).collect()
}

/// The directory of libraries that a provider needs before the others: some come from an older version.
fn libraries(provider: &str) -> &'static str {
    match provider {
        "jdbc" => "older",
        "jedis" => "jedis",
        "zookeeper" => "zookeeper",
        _ => "jars",
    }
}

/// A test that failed while it had the lock is no reason for others to fail.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The directory that tests/java/build has made.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().map(|above| above.join("java"));
    places.find(|path| path.join("complete").is_file()).unwrap_or_else(|| {
        panic!("the Java library is not here; tests/run fetches it, or: tests/java/build target/java")
    })
}
