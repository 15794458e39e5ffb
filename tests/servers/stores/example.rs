//! The locks of the example provider: files in a directory, which this reads and writes as the provider does.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Run, Shift, Store, Stored};
use crate::sockets::processes_with;
use crate::unique;

/// The file name of the example.
const PROGRAM: &str = "shedlock-provider-example";

/// A directory of the example's that nobody else uses.
pub struct ExampleStore {
    _directory: Option<TempDir>,
    locks: PathBuf,
}

impl ExampleStore {
    pub fn new() -> Self {
        install(PROGRAM);
        let directory = tempfile::Builder::new().prefix("example-").tempdir().unwrap();
        // Others' processes enter it, too: the tests of other users.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let locks = directory.path().join("locks");
        Self { _directory: Some(directory), locks }
    }

    /// A directory that others keep, and in which no example of this host writes.
    pub(super) fn at(locks: &Path) -> Self {
        Self { _directory: None, locks: locks.to_owned() }
    }

    /// The directory of the locks.
    pub fn locks(&self) -> &Path {
        &self.locks
    }

    /// The file of a lock with its name, version and record.
    fn find(&self, name: &str) -> Option<(PathBuf, Value)> {
        let files = fs::read_dir(&self.locks).ok()?.map(|entry| entry.unwrap().path());
        let locks = files.filter(|path| path.extension().is_some_and(|extension| extension == "lock"));
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).ok()?;
            Some((path, serde_json::from_str::<Value>(&text).unwrap()))
        };
        locks.filter_map(read).find(|(_, lock)| lock[0] == name)
    }

    /// Changes the record of a lock that is there, and so its version.
    fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        // As the example does, so that no write of its own comes in between.
        let directory = fs::File::open(&self.locks).unwrap();
        let _mutex = Flock::lock(directory, FlockArg::LockExclusive).map_err(|(_, error)| error).unwrap();
        let (path, mut lock) = self.find(name).unwrap();
        change(&mut lock[2]);
        lock[1] = json!(unique("changed"));
        write(&path, &lock);
    }
}

fn write(path: &Path, lock: &Value) {
    let new = path.with_extension(unique("new"));
    fs::write(&new, format!("{lock}\n")).unwrap();
    fs::rename(new, path).unwrap();
}

/// The file of an example of the project.
pub fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../providers/example").join(name)
}

/// Puts a program of the project where shedlock looks first: beside this test's own file, and beside the program under test. It
/// is a copy: a checkout may belong to a user that nobody should trust.
pub fn install(name: &str) {
    install_text(name, &fs::read_to_string(program(name)).unwrap());
}

/// Puts a script there, once.
pub(super) fn install_text(name: &str, text: &str) {
    static INSTALLED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if installed.contains(name) {
        return;
    }
    let source = tempfile::NamedTempFile::new().unwrap();
    fs::write(source.path(), text).unwrap();
    let own = std::env::current_exe().unwrap();
    for directory in own.ancestors().skip(1).take(2) {
        let (new, place) = (directory.join(unique("new")), directory.join(name));
        // By another process: a child of another test would have the file open for writing while it is executed.
        let copied = Command::new("install").args(["-m", "755"]).arg(source.path()).arg(&new).status().unwrap();
        assert!(copied.success(), "{name}");
        fs::rename(&new, &place).unwrap();
    }
    installed.insert(name.to_owned());
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

impl Store for ExampleStore {
    fn url(&self) -> String {
        format!("example:{}", self.locks.display())
    }

    fn in_one_record(&self) -> bool {
        true
    }

    fn starts_programs(&self) -> bool {
        true
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        let (_, lock) = self.find(name)?;
        let record = &lock[2];
        Some(Stored {
            owner: record["owner"].as_str()?.to_owned(),
            since: record["since"].as_i64().unwrap_or_default(),
            until: record["until"].as_i64()?,
            now: now(),
        })
    }

    fn delete(&self, name: &str) {
        let (path, _) = self.find(name).unwrap();
        fs::remove_file(path).unwrap();
    }

    fn steal(&self, name: &str, owner: &str) {
        self.change(name, |record| record["owner"] = json!(owner));
    }

    fn shift(&self, name: &str, by: Shift) {
        self.change(name, |record| {
            for key in ["since", "until", "set_at"] {
                if let Some(time) = record[key].as_i64() {
                    record[key] = json!(time + by.millis());
                }
            }
        });
    }

    /// The provider has no connection; it is one, for as long as it runs.
    fn connections(&self) -> usize {
        processes_with(PROGRAM, &self.url())
    }

    fn make_table(&self) {
        fs::create_dir_all(&self.locks).unwrap();
    }

    /// No other program knows these files: this writes what one would, with an owner and times, and leaves the rest.
    fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
        let (found, now) = (self.find(name), now());
        if found.as_ref().is_some_and(|(_, lock)| lock[2]["until"].as_i64().is_none_or(|until| until > now)) {
            return false;
        }
        let until = now + i64::try_from(at_most.as_millis()).unwrap();
        if found.is_none() {
            // As the example names its files does not matter to it, as long as a lock has one only.
            let mut program = Command::new("python3");
            let script = "import hashlib, sys; print(hashlib.sha256(sys.argv[1].encode()).hexdigest())";
            let hash = program.args(["-c", script, name]).output().unwrap();
            let hash = String::from_utf8(hash.stdout).unwrap();
            self.make_table();
            let record = json!({"owner": "", "since": null, "until": 0, "set_at": null, "token": 0, "runs": []});
            write(&self.locks.join(format!("{}.lock", hash.trim())), &json!([name, unique("made"), record]));
        }
        self.change(name, |record| {
            record["owner"] = json!(owner);
            (record["since"], record["until"], record["set_at"]) = (json!(now), json!(until), Value::Null);
        });
        true
    }

    fn java_release(&self, name: &str, owner: &str, rest: Duration) {
        let until = now() + i64::try_from(rest.as_millis()).unwrap();
        if self.stored(name).is_some_and(|stored| stored.owner == owner) {
            self.change(name, |record| (record["until"], record["set_at"]) = (json!(until), Value::Null));
        }
    }

    fn history(&self, name: &str) -> Vec<Run> {
        let Some((_, lock)) = self.find(name) else { return Vec::new() };
        let read = |run: &Value| {
            let owner = run["owner"].as_str().unwrap();
            Run {
                token: run["token"].as_u64().unwrap(),
                owner: owner.to_owned(),
                host: owner.split(':').next().unwrap().to_owned(),
                started: run["started_at"].as_i64().unwrap(),
                ended: run["ended_at"].as_i64(),
                exit_code: run["exit_code"].as_i64(),
                outcome: run["outcome"].as_str().map(str::to_owned),
            }
        };
        lock[2]["runs"].as_array().unwrap().iter().rev().map(read).collect()
    }

    fn things(&self) -> Vec<String> {
        let names = self.locks.parent().unwrap().read_dir().unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn carry_out(&self, _: &str) {
        self.make_table();
    }
}
