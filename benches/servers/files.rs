//! A provider in Rust that keeps records in files, so that what is measured is what any provider costs. This program is it when it
//! is started by its name.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};
use shedlock_provider::{Listing, Open, Opened, Reading, Record, Store, StoreError, serve};

/// The file name of the provider, whose scheme is `files`.
const PROGRAM: &str = "shedlock-provider-files";

/// Serves as the provider if that is the name by which this was started.
pub(crate) fn serve_by_name() -> Option<ExitCode> {
    let name = std::env::args().next()?;
    (Path::new(&name).file_name()? == PROGRAM).then(|| serve::<Files>(PROGRAM, "1.0"))
}

/// Puts the provider into a directory.
pub(crate) fn install(directory: &Path) -> PathBuf {
    let path = directory.join(PROGRAM);
    fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    path
}

struct Files {
    directory: PathBuf,
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

fn failed(error: &impl ToString) -> StoreError {
    StoreError::permanent(error.to_string()).sent()
}

impl Files {
    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.lock"))
    }

    fn find(&self, name: &str) -> Option<(String, Record)> {
        let text = fs::read(self.file(name)).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        Some((value[0].as_str()?.to_owned(), Record::from_json(&value[1]).ok()?))
    }

    /// Replaces or removes a record that has this version. The directory is the mutex.
    fn replace(&self, name: &str, version: Option<&str>, record: Option<&Record>) -> std::io::Result<bool> {
        let directory = File::open(&self.directory)?;
        let directory = Flock::lock(directory, FlockArg::LockExclusive).map_err(|(_, error)| error)?;
        if self.find(name).map(|(version, _)| version).as_deref() != version {
            return Ok(false);
        }
        match record {
            Some(record) => {
                let mut random = [0; 16];
                File::open("/dev/urandom")?.read_exact(&mut random)?;
                let new = self.directory.join("new");
                let mut file = File::create(&new)?;
                file.write_all(
                    json!([format!("{:032x}", u128::from_ne_bytes(random)), record.to_json()]).to_string().as_bytes(),
                )?;
                file.sync_all()?;
                fs::rename(new, self.file(name))?;
            }
            None => fs::remove_file(self.file(name))?,
        }
        directory.sync_all()?;
        Ok(true)
    }
}

impl Store for Files {
    fn open(request: &Open) -> Result<(Self, Opened), StoreError> {
        let (_, path) = request.url.split_once("?directory=").ok_or_else(|| StoreError::permanent("no directory"))?;
        Ok((Self { directory: path.into() }, Opened { label: "files".to_owned(), ..Opened::default() }))
    }

    fn read(&mut self, name: &str) -> Result<Reading, StoreError> {
        Ok(Reading { now: now(), floor: 0, found: self.find(name) })
    }

    fn write(&mut self, name: &str, version: Option<&str>, record: &Record) -> Result<bool, StoreError> {
        self.replace(name, version, Some(record)).map_err(|error| failed(&error))
    }

    fn remove(&mut self, name: &str, version: &str) -> Result<bool, StoreError> {
        self.replace(name, Some(version), None).map_err(|error| failed(&error))
    }

    fn list(&mut self, _: Listing<'_>) -> Result<u64, StoreError> {
        Ok(now())
    }
}
