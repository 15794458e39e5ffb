//! Where the servers' programs are, what one of them answers, and which port is free.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use nix::libc::{c_char, c_int, posix_spawn_file_actions_addchdir_np, posix_spawn_file_actions_t};

/// Ports that the kernel gives to nobody who did not ask for them. One of those that it hands out could go to somebody's
/// connection while a server is stopped, and a client of a stopped server could even be connected to itself.
const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 10_000;

/// A node of a Redis cluster takes a second port, this much higher.
const CLUSTER_BUS: u16 = 10_000;

/// The standard library sets a command's directory with this if it is linked in. In a static program it is only if somebody
/// names it, and each command would begin as a copy of the whole test process: a tenth of the processors' time.
#[used]
static SETS_DIRECTORY: unsafe extern "C" fn(*mut posix_spawn_file_actions_t, *const c_char) -> c_int =
    posix_spawn_file_actions_addchdir_np;

/// A program's path: in the places of PostgreSQL, newest version first, in PATH, and in those of a superuser's programs.
/// What Debian has in PATH by the name of psql is a script in Perl that looks for psql, for six times as long as psql takes.
/// `TESTS_SERVERS=none` makes every machine one without servers: a test that starts one is found out by it.
pub(crate) fn find(program: &str) -> PathBuf {
    assert!(instead("TESTS_SERVERS").as_deref() != Some("none"), "this test needs {program}, and does not say so");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    let places = versions
        .into_iter()
        .map(|(_, directory)| directory)
        .chain(std::env::split_paths(&path))
        .chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut candidates = places.map(|place| place.join(program));
    candidates
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("{program} is not installed; tests/run installs what the tests need"))
}

/// The program that an environment variable names in the place of a server's, such as another version of it.
pub(crate) fn instead(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|program| !program.is_empty())
}

/// The library of faketime, which a program loads before all others.
pub(crate) fn find_faketime() -> PathBuf {
    let below = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut places = ["/usr/lib".into(), "/usr/lib64".into()].into_iter().chain(below);
    let library = places.find_map(|place: PathBuf| {
        let library = place.join("faketime/libfaketime.so.1");
        library.is_file().then_some(library)
    });
    library.unwrap_or_else(|| panic!("faketime is not installed; tests/run installs what the tests need"))
}

/// A command with nothing of our environment but PATH: what a developer has set for psql or redis-cli means nothing here.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(find(program));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .stdin(Stdio::null());
    command
}

/// Runs a command to its end; its output without the last line's end, or what it complains of.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        // redis-cli complains on stdout.
        Err(format!("{}{}", text(&output.stderr), text(&output.stdout)))
    }
}

/// A port on 127.0.0.1 that nobody listens on, and the one above it for a cluster neither. This process gets none twice.
pub(crate) fn free_port() -> u16 {
    static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..1000 {
        // Every RandomState has keys of its own.
        let random = RandomState::new().hash_one(0) % u64::from(PORTS);
        let port = FIRST_PORT + u16::try_from(random).unwrap();
        if is_free(port) && is_free(port + CLUSTER_BUS) && taken.insert(port) {
            return port;
        }
    }
    panic!("no port is free");
}

/// A name that nothing else has: for a database, a table, a role or a lock.
pub fn unique(prefix: &str) -> String {
    format!("{prefix}_{:016x}", RandomState::new().hash_one(0))
}
