//! The URL of a MongoDB, and the options of its driver.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use ::mongodb::options::{
    ClientOptions, Credential, ReadConcern, SelectionCriteria, ServerAddress, Tls as DriverTls, TlsOptions,
    WriteConcern,
};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::backend::net::hosts::Hosts;
use crate::backend::net::network::{Authority, Host, list};
use crate::backend::net::tls::{Checks, Mode, Tls};
use crate::backend::{Access, Contact, Url};
use crate::lock::BackendError;
use crate::system::error_text;

pub(crate) const PORT: u16 = 27017;
/// The parameters of the URL.
const PARAMETERS: [&str; 5] = ["collection", "authSource", "replicaSet", "tls", "ssl"];
/// Part of an attempt's time for finding the primary server, so that the driver can say why there is none.
const SELECTION_TIME_SHARE: f64 = 0.8;

/// Holds the servers, the database and the collection of the locks, with the login.
pub(crate) struct DatabaseAddress {
    pub(crate) hosts: Hosts,
    /// User and password.
    pub(crate) login: Option<(String, String)>,
    pub(crate) database: String,
    pub(crate) collection: String,
    pub(crate) tls: Option<Tls>,
    /// The time for one try.
    pub(crate) timeout: Duration,
    /// The name in messages.
    pub(crate) label: String,
    source: Option<String>,
    replica_set: Option<String>,
    pub(crate) contact: Contact,
}

impl DatabaseAddress {
    pub(crate) fn parse(url: &Url, access: &Access) -> Result<Self, String> {
        if url.scheme() == "mongodb+srv" {
            return Err("has the scheme mongodb+srv:, which is not supported; name the members that its SRV record \
                        lists: mongodb://HOST,HOST/DATABASE?replicaSet=NAME&tls=true"
                .to_owned());
        }
        let collection = url.take("collection").unwrap_or_else(|| "shedLock".to_owned());
        let [source, replica_set] = ["authSource", "replicaSet"].map(|key| url.take(key).filter(|it| !it.is_empty()));
        let mode = match url.take("tls").or_else(|| url.take("ssl")).as_deref() {
            None | Some("false") => Mode::Disable,
            Some("true") => Mode::VerifyFull,
            Some(other) => return Err(format!("has tls={other}; known are true, false")),
        };
        let tls = Tls::take(url, |_| None, mode, access.timeout)?;
        url.nothing_left(&[&PARAMETERS[..], &Tls::PARAMETERS[..]].concat())?;
        let Authority { user, password, hosts, path } = Authority::parse(url)?;
        if path.is_empty() || path.contains(['/', '\\', '.', '"', '$', ' ', '\0']) {
            return Err("names no database; write mongodb://HOST/DATABASE".to_owned());
        }
        if collection.is_empty() || collection.contains(['$', '\0']) || collection.starts_with("system.") {
            return Err(format!("has collection={collection}, which cannot be a collection's name"));
        }
        let tls = match tls.mode {
            Mode::Disable => None,
            Mode::Require | Mode::VerifyFull => Some(tls),
            Mode::Allow | Mode::Prefer | Mode::VerifyCa => {
                return Err(
                    "has an sslmode that is not for MongoDB; known are disable, require, verify-full".to_owned()
                );
            }
        };
        let password = password.or_else(|| access.password.clone());
        let login = user.map(|user| (user, password.unwrap_or_default()));
        let label = format!("backend mongodb://{}/{path}", list(&hosts));
        let timeout = access.timeout;
        let hosts = Hosts::new(hosts, timeout);
        Ok(Self {
            hosts,
            login,
            database: path,
            collection,
            tls,
            timeout,
            label,
            source,
            replica_set,
            contact: access.contact.clone(),
        })
    }

    /// Returns the options of the driver for attempts of this length, and the files that it reads when it starts.
    pub(crate) fn options(&self, limit: Duration) -> Result<(ClientOptions, Vec<File>), BackendError> {
        let mut options = ClientOptions::default();
        let address =
            |host: &Host| ServerAddress::Tcp { host: host.name.clone(), port: Some(host.port.unwrap_or(PORT)) };
        options.hosts = self.hosts.all.iter().map(address).collect();
        options.app_name = Some("shedlock".to_owned());
        options.repl_set_name = self.replica_set.clone();
        options.direct_connection = Some(self.replica_set.is_none() && self.hosts.all.len() == 1);
        options.credential = self.login.as_ref().map(|(user, password)| {
            // As in every other client of MongoDB.
            let source = self.source.as_ref().unwrap_or(&self.database).clone();
            Credential::builder().username(user.clone()).password(password.clone()).source(source).build()
        });
        let mut files = Vec::new();
        options.tls = self.tls.as_ref().map(|tls| driver_tls(tls, &mut files)).transpose()?;
        // The driver has one connection, on which the clock and the document are read one after the other.
        options.max_pool_size = Some(1);
        options.connect_timeout = Some(limit);
        options.server_selection_timeout = Some(limit.mul_f64(SELECTION_TIME_SHARE));
        // The worker tries again, and knows for how long.
        (options.retry_reads, options.retry_writes) = (Some(false), Some(false));
        options.selection_criteria =
            Some(SelectionCriteria::ReadPreference(::mongodb::options::ReadPreference::Primary));
        options.read_concern = Some(ReadConcern::local());
        options.write_concern =
            Some(WriteConcern::builder().w(::mongodb::options::Acknowledgment::Majority).w_timeout(limit).build());
        Ok((options, files))
    }

    /// Returns the commands that create the collection and give a user the rights that it needs.
    pub(crate) fn schema(&self) -> String {
        let (database, collection) = (&self.database, &self.collection);
        let user = self.login.as_ref().map_or("USER", |(user, _)| user);
        format!(
            "// shedlock creates the collection with the first lock. This user has all the rights that it needs, and no more:\n\
             use {database}\n\
             db.createCollection(\"{collection}\")\n\
             db.createRole({{role: \"shedlock\", roles: [], privileges: [{{resource: {{db: \"{database}\", collection: \"{collection}\"}}, actions: [\"find\", \"insert\", \"update\"]}}]}})\n\
             db.createUser({{user: \"{user}\", pwd: passwordPrompt(), roles: [\"shedlock\"]}})\n"
        )
    }
}

/// Converts the TLS settings. The driver reads the files itself; reading them first shows which one is wrong.
fn driver_tls(tls: &Tls, files: &mut Vec<File>) -> Result<DriverTls, BackendError> {
    tls.judge_files()?;
    let mut file = |pem: &[u8]| {
        let file = in_memory(pem).map_err(|error| {
            BackendError::permanent(format!("TLS cannot be set up: no file in memory: {}", error_text(&error)))
        })?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        files.push(file);
        Ok::<_, BackendError>(path)
    };
    let mut options = TlsOptions::default();
    options.allow_invalid_certificates = Some(tls.checks() == Checks::Nothing);
    options.ca_file_path = tls.authorities()?.map(|pem| file(&pem)).transpose()?;
    options.cert_key_file_path = match &tls.identity {
        Some(own) => {
            let [certificate, key] =
                [("sslcert", &own.certificate), ("sslkey", &own.key)].map(|(of, path)| tls.read(of, path));
            Some(file(&[certificate?, b"\n".to_vec(), key?].concat())?)
        }
        None => None,
    };
    Ok(DriverTls::Enabled(options))
}

/// Returns a file with this text. The driver reads certificates from files only, the system's may be many files, and a
/// client's certificate and its key have to be in one.
fn in_memory(text: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("certificates", MemfdFlags::CLOEXEC)?);
    file.write_all(text)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<DatabaseAddress, String> {
        DatabaseAddress::parse(
            &Url::parse(url).unwrap(),
            &Access { password: Some("p".to_owned()), ..Access::default() },
        )
    }

    #[test]
    fn a_url_names_hosts_and_a_database() {
        let address = parsed("mongodb://jobs@a:1,b/ops?collection=locks&replicaSet=rs0").unwrap();
        assert_eq!((address.database.as_str(), address.collection.as_str()), ("ops", "locks"));
        assert_eq!(address.login, Some(("jobs".to_owned(), "p".to_owned())));
        assert_eq!(address.label, "backend mongodb://a:1,b/ops");
        let (options, _) = address.options(Duration::from_secs(1)).unwrap();
        assert_eq!((options.hosts.len(), options.direct_connection), (2, Some(false)));
        assert_eq!(
            parsed("mongodb://a/ops").unwrap().options(Duration::from_secs(1)).unwrap().0.direct_connection,
            Some(true)
        );
    }

    #[test]
    fn a_url_says_whether_tls_is_spoken() {
        let mode = |query: &str| parsed(&format!("mongodb://a/ops?{query}")).unwrap().tls.map(|tls| tls.mode);
        assert_eq!(["tls=false", "ssl=false", "replicaSet="].map(mode), [None, None, None]);
        assert_eq!(["tls=true", "ssl=true"].map(mode), [Some(Mode::VerifyFull); 2]);
        assert_eq!(mode("tls=true&sslmode=require"), Some(Mode::Require));
    }

    #[test]
    fn a_wrong_url_says_what_is_wrong() {
        for (url, said) in [
            ("mongodb://a", "names no database"),
            ("mongodb://a/b.c", "names no database"),
            ("mongodb://a/b?collection=$x", "cannot be a collection's name"),
            ("mongodb://a/b?sslmode=prefer", "is not for MongoDB"),
            ("mongodb://a/b?tls=yes", "has tls=yes; known are true, false"),
            ("mongodb+srv://a/b", "mongodb://HOST,HOST/DATABASE?replicaSet=NAME&tls=true"),
            ("mongodb://a/b?w=1", "unknown parameter `w`"),
        ] {
            let error = parsed(url).err().unwrap();
            assert!(error.contains(said), "{url}: {error}");
        }
    }
}
