//! The URL of a MongoDB, and the options of its driver.

use std::time::Duration;

use ::mongodb::options::{
    ClientOptions, Credential, ReadConcern, SelectionCriteria, ServerAddress, Tls as DriverTls, TlsOptions,
    WriteConcern,
};

use crate::backend::hosts::Hosts;
use crate::backend::network::{Authority, Host, list};
use crate::backend::tls::{Checks, Mode, Roots, Tls};
use crate::backend::{Access, BackendError, Url};

pub(super) const PORT: u16 = 27017;
/// The parameters of the URL.
const PARAMETERS: [&str; 7] = ["collection", "authSource", "replicaSet", "sslmode", "sslrootcert", "sslcert", "sslkey"];
/// Part of an attempt's time for finding the primary server, so that the driver can say why there is none.
const SELECTION: f64 = 0.8;

/// The place of the locks, and how to get there.
pub(super) struct Place {
    pub(super) hosts: Hosts,
    /// User and password.
    pub(super) login: Option<(String, String)>,
    pub(super) database: String,
    pub(super) collection: String,
    pub(super) tls: Option<Tls>,
    /// The time for one try.
    pub(super) patience: Duration,
    /// The name in messages.
    pub(super) label: String,
    source: Option<String>,
    replica_set: Option<String>,
}

impl Place {
    pub(super) fn parse(url: &Url, access: &Access) -> Result<Self, String> {
        let collection = url.take("collection").unwrap_or_else(|| "shedLock".to_owned());
        let (source, replica_set) = (url.take("authSource"), url.take("replicaSet"));
        let tls = Tls::take(url, |_| None, Mode::Disable)?;
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
        if tls.as_ref().and_then(|tls| tls.identity.as_ref()).is_some_and(|own| own.certificate != own.key) {
            return Err("has sslcert and sslkey in two files; for MongoDB put both into one".to_owned());
        }
        let password = password.or_else(|| access.password.clone());
        let login = user.map(|user| (user, password.unwrap_or_default()));
        let label = format!("backend mongodb://{}/{path}", list(&hosts));
        let patience = access.patience;
        let hosts = Hosts::new(hosts, patience);
        Ok(Self { hosts, login, database: path, collection, tls, patience, label, source, replica_set })
    }

    /// Returns the options of the driver for attempts of this length.
    pub(super) fn options(&self, limit: Duration) -> Result<ClientOptions, BackendError> {
        let mut options = ClientOptions::default();
        let address =
            |host: &Host| ServerAddress::Tcp { host: host.name.clone(), port: Some(host.port.unwrap_or(PORT)) };
        options.hosts = self.hosts.all.iter().map(address).collect();
        options.app_name = Some("shedlock".to_owned());
        options.repl_set_name = self.replica_set.clone();
        options.direct_connection = Some(self.replica_set.is_none() && self.hosts.all.len() == 1);
        options.credential = self.login.as_ref().map(|(user, password)| {
            let source = self.source.clone().unwrap_or_else(|| "admin".to_owned());
            Credential::builder().username(user.clone()).password(password.clone()).source(source).build()
        });
        options.tls = self.tls.as_ref().map(driver_tls).transpose()?;
        // One connection, on which the clock and the document are read one after the other.
        options.max_pool_size = Some(1);
        options.connect_timeout = Some(limit);
        options.server_selection_timeout = Some(limit.mul_f64(SELECTION));
        // The worker tries again, and knows for how long.
        (options.retry_reads, options.retry_writes) = (Some(false), Some(false));
        options.selection_criteria =
            Some(SelectionCriteria::ReadPreference(::mongodb::options::ReadPreference::Primary));
        options.read_concern = Some(ReadConcern::local());
        options.write_concern =
            Some(WriteConcern::builder().w(::mongodb::options::Acknowledgment::Majority).w_timeout(limit).build());
        Ok(options)
    }

    /// Returns the commands that create the collection and give a user the rights that it needs.
    pub(super) fn schema(&self) -> String {
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
fn driver_tls(tls: &Tls) -> Result<DriverTls, BackendError> {
    tls.judge_files()?;
    let mut options = TlsOptions::default();
    options.allow_invalid_certificates = Some(tls.checks() == Checks::Nothing);
    options.ca_file_path = match &tls.roots {
        Some(Roots::File(path)) => Some(path.clone()),
        Some(Roots::System) | None => None,
    };
    options.cert_key_file_path = tls.identity.as_ref().map(|identity| identity.certificate.clone());
    Ok(DriverTls::Enabled(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<Place, String> {
        Place::parse(&Url::parse(url).unwrap(), &Access { password: Some("p".to_owned()), ..Access::default() })
    }

    #[test]
    fn a_url_names_hosts_and_a_database() {
        let place = parsed("mongodb://jobs@a:1,b/ops?collection=locks&replicaSet=rs0").unwrap();
        assert_eq!((place.database.as_str(), place.collection.as_str()), ("ops", "locks"));
        assert_eq!(place.login, Some(("jobs".to_owned(), "p".to_owned())));
        assert_eq!(place.label, "backend mongodb://a:1,b/ops");
        let options = place.options(Duration::from_secs(1)).unwrap();
        assert_eq!((options.hosts.len(), options.direct_connection), (2, Some(false)));
        assert_eq!(
            parsed("mongodb://a/ops").unwrap().options(Duration::from_secs(1)).unwrap().direct_connection,
            Some(true)
        );
    }

    #[test]
    fn a_wrong_url_says_what_is_wrong() {
        for (url, said) in [
            ("mongodb://a", "names no database"),
            ("mongodb://a/b.c", "names no database"),
            ("mongodb://a/b?collection=$x", "cannot be a collection's name"),
            ("mongodb://a/b?sslmode=prefer", "is not for MongoDB"),
            ("mongodb://a/b?sslcert=x&sslkey=y", "in two files"),
            ("mongodb://a/b?w=1", "unknown parameter `w`"),
        ] {
            let error = parsed(url).err().unwrap();
            assert!(error.contains(said), "{url}: {error}");
        }
    }
}
