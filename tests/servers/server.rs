//! A server's process: it is started, stopped, killed, frozen, and started again on the same port with the same data.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::directory::Directory;
use super::program;

/// How long a server may take to start or to stop. Nothing takes so long unless something is broken.
const PATIENCE: Duration = Duration::from_secs(90);

/// What every server says if somebody else has its port.
const IN_USE: &str = "ddress already in use";

/// The file in the directory that says how much a clock is off.
const CLOCK: &str = "clock";

/// A command line: a program and its arguments.
pub(crate) type CommandLine = Vec<String>;

/// How a kind of server is started, asked and stopped.
pub(crate) struct Plan {
    pub(crate) start: CommandLine,
    /// A client that succeeds as soon as the server can be used.
    pub(crate) ask: CommandLine,
    pub(crate) stop: Signal,
}

/// A server on a port of 127.0.0.1, in a directory of its own. It ends with this value or this process.
pub struct Server {
    port: u16,
    plan: Plan,
    /// Empty while it is stopped.
    child: Mutex<Option<Child>>,
    directory: Directory,
}

impl Plan {
    /// The same with a clock that is off by so much, such as `-1h`. Its timers go right.
    pub(crate) fn with_clock(self, offset: &str) -> Self {
        self.under_faketime(&format!("FAKETIME={offset}"))
    }

    /// The same with a clock that [`Server::set_clock`] moves while it runs. Its timers go right.
    pub(crate) fn with_moving_clock(self, directory: &Directory) -> Self {
        fs::write(directory.file(CLOCK), "+0").unwrap();
        self.under_faketime(&format!("FAKETIME_TIMESTAMP_FILE={}", directory.file(CLOCK)))
    }

    /// The same of a Java program: where the library adjusts its timed waits it starts ten times as slowly, or never.
    pub(crate) fn of_java_with_moving_clock(self, directory: &Directory) -> Self {
        let mut plan = self.with_moving_clock(directory);
        plan.start.insert(1, "FAKETIME_FORCE_MONOTONIC_FIX=0".to_owned());
        plan
    }

    /// Not with faketime(1), which makes a semaphore that bears its pid: a server that is killed leaves it behind, and the
    /// next one with this pid does not start. Redis's allocator asks for the time before the library can answer, so that
    /// of the C library has to come before it.
    fn under_faketime(mut self, clock: &str) -> Self {
        let program = program::find(&self.start[0]).display().to_string();
        self.start[0] = program;
        let library = format!("LD_PRELOAD={}:libc.so.6", program::find_faketime().display());
        let before = ["env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1", clock, &library];
        self.start.splice(0..0, before.map(str::to_owned));
        self
    }
}

/// A port with TLS before one without, with this certificate and its key.
pub fn tls_before(server: u16, certificate: &str, key: &str) -> Server {
    Server::new(|_, port| {
        let listen =
            format!("OPENSSL-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork,cert={certificate},key={key},verify=0");
        let ask = ["socat", "-u", "/dev/null", &format!("OPENSSL:127.0.0.1:{port},verify=0")];
        Plan {
            start: ["socat", &listen, &format!("TCP:127.0.0.1:{server}")].map(str::to_owned).into(),
            ask: ask.map(str::to_owned).into(),
            stop: Signal::SIGTERM,
        }
    })
}

impl Server {
    /// Starts a server for the first time, on a port that is free. `prepare` fills the directory. It is called again with
    /// another port if somebody took the first one in between.
    pub(crate) fn new(prepare: impl Fn(&Directory, u16) -> Plan) -> Self {
        let mut attempts = 5;
        loop {
            let complaint = match Self::try_at(program::free_port(), &prepare) {
                Ok(server) => return server,
                Err(complaint) => complaint,
            };
            attempts -= 1;
            assert!(complaint.contains(IN_USE) && attempts > 0, "{complaint}");
        }
    }

    /// Starts a server for the first time, on this port of a network of the test's own.
    pub(crate) fn at(port: u16, prepare: impl Fn(&Directory, u16) -> Plan) -> Self {
        Self::try_at(port, &prepare).unwrap_or_else(|complaint| panic!("{complaint}"))
    }

    fn try_at(port: u16, prepare: &impl Fn(&Directory, u16) -> Plan) -> Result<Self, String> {
        let directory = Directory::new();
        let plan = prepare(&directory, port);
        let server = Self { port, plan, child: Mutex::new(None), directory };
        server.try_start().map(|()| server)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory with its socket, its log and its data.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The directory's path, which is that of the PostgreSQL and PgBouncer socket as well.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The ids of all its processes; PostgreSQL has one per connection.
    pub fn processes(&self) -> Vec<i32> {
        self.directory.processes()
    }

    /// The process id; that of PostgreSQL's postmaster.
    pub fn pid(&self) -> i32 {
        let child = self.child();
        child.as_ref().map(|child| i32::try_from(child.id()).unwrap()).expect("the server has been started")
    }

    /// All that the server has written, over all its starts.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path().join("log")).unwrap_or_default()).into_owned()
    }

    /// Starts it again after `stop` or `kill`, and waits until it answers.
    #[track_caller]
    pub fn start(&self) {
        self.try_start().unwrap_or_else(|complaint| panic!("{complaint}"));
    }

    /// Ends it in an orderly way. PostgreSQL and PgBouncer disconnect their clients, nobody waits for them.
    #[track_caller]
    pub fn stop(&self) {
        self.thaw();
        let mut child = self.child();
        if let Some(mut process) = child.take() {
            send(i32::try_from(process.id()).unwrap(), self.plan.stop);
            let begun = Instant::now();
            while process.try_wait().unwrap().is_none() {
                assert!(begun.elapsed() < PATIENCE, "the server does not stop:\n{}", self.log());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Ends it with SIGKILL, and PostgreSQL's other processes with it, as when a machine dies, but with its sockets closed.
    pub fn kill(&self) {
        let mut child = self.child();
        self.signal_all(Signal::SIGKILL);
        if let Some(mut process) = child.take() {
            process.wait().unwrap();
        }
        // What the server left to init has to be gone as well before it can be started again.
        while !self.directory.processes().is_empty() {
            self.signal_all(Signal::SIGKILL);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops it where it is: connections stay open, new ones are accepted by the kernel, nobody answers.
    pub fn freeze(&self) {
        let stat = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let stands_still =
            |pid: i32| stat(pid).rsplit_once(") ").is_none_or(|(_, rest)| !rest.starts_with(['R', 'S', 'D']));
        let begun = Instant::now();
        // Again, since one may have been born or about to end, and the signal takes its time.
        loop {
            self.signal_all(Signal::SIGSTOP);
            if self.processes().into_iter().all(stands_still) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "the server does not freeze");
        }
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.signal_all(Signal::SIGCONT);
    }

    /// Moves the clock of a server that was made `with_moving_clock`, such as by `+1h` from the true time.
    pub fn set_clock(&self, offset: &str) {
        // Renamed into its place: a file that is empty for a moment would be a clock that goes right for a moment.
        let new = self.path().join("clock.new");
        fs::write(&new, offset).unwrap();
        fs::rename(&new, self.path().join(CLOCK)).unwrap();
    }

    fn try_start(&self) -> Result<(), String> {
        let mut child = self.child();
        assert!(child.is_none(), "the server has been started already");
        let mut log = File::options().append(true).create(true).open(self.path().join("log")).unwrap();
        let begin = log.seek(SeekFrom::End(0)).unwrap();
        let complaint = |what: &str| {
            let log = fs::read(self.path().join("log")).unwrap_or_default();
            let log = String::from_utf8_lossy(&log[usize::try_from(begin).unwrap()..]).into_owned();
            format!("{} {what}; its log:\n{log}", self.plan.start.join(" "))
        };
        let [program, arguments @ ..] = self.plan.start.as_slice() else { unreachable!() };
        let [client, questions @ ..] = self.plan.ask.as_slice() else { unreachable!() };
        let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
        let mut command = self.directory.command(program);
        command.args(arguments).stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        let mut process = command.spawn().unwrap();
        let begun = Instant::now();
        loop {
            if let Some(status) = process.try_wait().unwrap() {
                return Err(complaint(&format!("ended with {status}")));
            }
            let Err(refusal) = self.directory.try_run(client, &questions) else { break };
            if begun.elapsed() > PATIENCE {
                *child = Some(process);
                return Err(complaint(&format!("does not answer ({refusal})")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        *child = Some(process);
        // PgBouncer is content with its socket.
        let said = complaint("answers, but not on its port");
        if said.contains(IN_USE) { Err(said) } else { Ok(()) }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // A test that failed while it had the lock is no reason for others to fail.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal_all(&self, signal: Signal) {
        for pid in self.directory.processes() {
            send(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The janitor would do it, but only we can reap it.
        self.kill();
    }
}

/// Sends a signal. The process may be gone already.
fn send(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}
