//! The URL of a MongoDB, and the options of its driver.

use std::fs::File;
use std::net::IpAddr;
use std::time::Duration;

use mongodb::options::{
    Acknowledgment, AuthMechanism, ClientOptions, ConnectionString, Credential, HostInfo, ReadConcern, ReadPreference,
    SelectionCriteria, ServerAddress, ServerMonitoringMode, Tls as DriverTls, WriteConcern,
};
use shedlock_provider::{Open, StoreError};

use crate::errors::{self, RequestKind};
use crate::tls::Tls;
use crate::url::{Host, Url, hide_password};

const PORT: u16 = 27017;
/// The parameters of the URL.
const PARAMETERS: [&str; 6] = ["collection", "authSource", "authMechanism", "replicaSet", "tls", "ssl"];
const MECHANISMS: [(&str, AuthMechanism); 3] = [
    ("SCRAM-SHA-1", AuthMechanism::ScramSha1),
    ("SCRAM-SHA-256", AuthMechanism::ScramSha256),
    ("MONGODB-X509", AuthMechanism::MongoDbX509),
];
/// The database of the users that have a certificate.
const EXTERNAL: &str = "$external";
/// Part of a request's time for finding the primary server, or a majority, so that the driver can say why there is none.
const SELECTION_TIME_SHARE: f64 = 0.8;

/// Holds the servers, the database and the collection of the locks, with the login.
pub(crate) struct Address {
    hosts: HostInfo,
    pub(crate) user: Option<String>,
    password: Option<String>,
    pub(crate) mechanism: Option<AuthMechanism>,
    pub(crate) database: String,
    pub(crate) collection: String,
    pub(crate) tls: Option<Tls>,
    /// The name in messages.
    pub(crate) label: String,
    source: Option<String>,
    replica_set: Option<String>,
}

impl Address {
    /// Parses the URL of a request.
    pub(crate) fn parse(request: &Open) -> Result<Self, StoreError> {
        let parsed = Url::parse(&request.url).and_then(|url| Self::from_url(url, request.password.clone()));
        parsed.map_err(|why| StoreError::permanent(format!("the URL {}", hide_password(&request.url, why))))
    }

    /// The error is the end of a sentence.
    fn from_url(mut url: Url, password: Option<String>) -> Result<Self, String> {
        let is_cluster = match url.scheme.as_str() {
            "mongodb" => false,
            "mongodb+srv" => true,
            other => return Err(format!("has the scheme `{other}:`; known are mongodb, mongodb+srv")),
        };
        let collection = url.take("collection").unwrap_or_else(|| "shedLock".to_owned());
        let [source, mechanism, replica_set] = ["authSource", "authMechanism", "replicaSet"].map(|key| url.take(key));
        let [tls, ssl] = ["tls", "ssl"].map(|key| url.take(key));
        let has_tls = match tls.or(ssl).as_deref() {
            None => is_cluster,
            Some("false") => false,
            Some("true") => true,
            Some(other) => return Err(format!("has tls={other}; known are true, false")),
        };
        let tls = Tls::take(&mut url, has_tls)?;
        url.nothing_left(&[&PARAMETERS[..], &Tls::PARAMETERS[..]].concat())?;
        let Url { scheme, user, password: own_password, hosts, path: database, .. } = url;
        let listed = hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        if database.is_empty() || database.contains(['/', '\\', '.', '"', '$', ' ', '\0']) {
            return Err(format!("names no database; write {scheme}://HOST/DATABASE"));
        }
        if collection.contains(['$', '\0']) || collection.starts_with("system.") {
            return Err(format!("has collection={collection}, which cannot be a collection's name"));
        }
        let label = format!("{scheme}://{listed}/{database}");
        let mechanism = mechanism.map(|name| {
            let found = MECHANISMS.into_iter().find(|(known, _)| *known == name).map(|(_, mechanism)| mechanism);
            let known = MECHANISMS.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| format!("has authMechanism={name}; known are {known}"))
        });
        let mechanism = mechanism.transpose()?;
        match &mechanism {
            None => {}
            Some(AuthMechanism::MongoDbX509) if !tls.as_ref().is_some_and(Tls::has_certificate) => {
                return Err("has authMechanism=MONGODB-X509 without sslcert and sslkey".to_owned());
            }
            Some(AuthMechanism::MongoDbX509) if source.as_ref().is_some_and(|source| source != EXTERNAL) => {
                return Err(format!("has authMechanism=MONGODB-X509, whose authSource is {EXTERNAL}"));
            }
            Some(AuthMechanism::MongoDbX509) => {}
            Some(_) if user.is_none() => return Err("has an authMechanism without a user".to_owned()),
            Some(_) => {}
        }
        let hosts = match (&hosts[..], is_cluster) {
            ([], _) => return Err(format!("names no host; write {scheme}://HOST/DATABASE")),
            ([Host { name, port: None }], true) => HostInfo::DnsRecord(name.clone()),
            (_, true) => {
                return Err(
                    "names several hosts or a port; mongodb+srv: takes the name of a cluster, whose servers and \
                            ports the DNS lists"
                        .to_owned(),
                );
            }
            (hosts, false) => HostInfo::HostIdentifiers(hosts.iter().map(|host| host.address(PORT)).collect()),
        };
        let password = password.filter(|password| !password.is_empty()).or(own_password);
        Ok(Self { hosts, user, password, mechanism, database, collection, tls, label, source, replica_set })
    }

    fn credential(&self) -> Option<Credential> {
        let mut credential = Credential::default();
        credential.username.clone_from(&self.user);
        credential.mechanism.clone_from(&self.mechanism);
        if self.mechanism == Some(AuthMechanism::MongoDbX509) {
            credential.source = Some(EXTERNAL.to_owned());
            return Some(credential);
        }
        self.user.as_ref()?;
        credential.password = Some(self.password.clone().unwrap_or_default());
        // Without it, what the DNS says of a cluster counts, and then the database, as in every other client of MongoDB.
        credential.source.clone_from(&self.source);
        Some(credential)
    }

    /// Returns the options of the driver for connecting and for writing in so much time, and the files that it reads when it
    /// starts. Of a cluster, the servers are looked up in the DNS.
    pub(crate) async fn options(
        &self,
        limit: Duration,
        write: Duration,
    ) -> Result<(ClientOptions, Vec<File>), StoreError> {
        let (tls, files) = self.tls.as_ref().map(|tls| tls.options(limit)).transpose()?.unzip();
        let mut wanted = ConnectionString::default();
        wanted.host_info = self.hosts.clone();
        wanted.default_database = Some(self.database.clone());
        wanted.replica_set.clone_from(&self.replica_set);
        wanted.credential = self.credential();
        wanted.tls = Some(tls.map_or(DriverTls::Disabled, DriverTls::Enabled));
        let parsed = ClientOptions::parse(wanted).await;
        let mut options = parsed.map_err(|error| errors::explain(&error, RequestKind::Read))?;
        options.app_name = Some("shedlock".to_owned());
        if let HostInfo::HostIdentifiers(hosts) = &self.hosts {
            options.direct_connection = Some(self.replica_set.is_none() && hosts.len() == 1);
        }
        // One connection for the requests, on which the clock and the document are read one after the other, and one to
        // each server that finds out which is the primary: a second one would only measure how far away it is.
        options.max_pool_size = Some(1);
        options.server_monitoring_mode = Some(ServerMonitoringMode::Poll);
        options.connect_timeout = Some(limit);
        options.server_selection_timeout = Some(limit.mul_f64(SELECTION_TIME_SHARE));
        let majority = write.mul_f64(SELECTION_TIME_SHARE);
        // shedlock tries again, and knows for how long.
        (options.retry_reads, options.retry_writes, options.max_adaptive_retries) = (Some(false), Some(false), Some(0));
        // Only the primary is read, and what it has is enough, whether a majority has it yet or not: each write names the
        // values that were read, the server compares and writes in one step, and waits for a majority. So a write that
        // succeeds proves that what was read was the newest, that its writer's write is on a majority too, and that the
        // server is the primary still. Who read something old, from a server that has been replaced without knowing it, or
        // something that will be rolled back, gets a conflict or no majority, and never a lock. At worst he reads that a lock
        // is held that was released a moment ago, and skips his run as if he had come that moment earlier. Linearizable
        // reads would wait for a majority with each of them, and add nothing to that.
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        options.read_concern = Some(ReadConcern::local());
        options.write_concern = Some(WriteConcern::builder().w(Acknowledgment::Majority).w_timeout(majority).build());
        Ok((options, files.unwrap_or_default()))
    }

    /// Returns whether the servers have names that have to be looked up.
    pub(crate) fn has_names(&self) -> bool {
        match &self.hosts {
            HostInfo::HostIdentifiers(hosts) => hosts.iter().any(is_name),
            _ => true,
        }
    }

    /// Returns the commands that create the collection and give a user the rights that it needs.
    pub(crate) fn schema(&self) -> String {
        let (database, collection) = (&self.database, &self.collection);
        let user = match self.mechanism {
            Some(AuthMechanism::MongoDbX509) => {
                let user = self.user.as_deref().unwrap_or("SUBJECT OF THE CERTIFICATE");
                format!(
                    "db.getSiblingDB(\"{EXTERNAL}\").runCommand({{createUser: \"{user}\", roles: [{{role: \"shedlock\", db: \"{database}\"}}]}})"
                )
            }
            _ => {
                let user = self.user.as_deref().unwrap_or("USER");
                format!("db.createUser({{user: \"{user}\", pwd: passwordPrompt(), roles: [\"shedlock\"]}})")
            }
        };
        format!(
            "// shedlock creates the collection with the first lock. This user has all the rights that it needs, and no more:\n\
             use {database}\n\
             db.createCollection(\"{collection}\")\n\
             db.createRole({{role: \"shedlock\", roles: [], privileges: [{{resource: {{db: \"{database}\", collection: \"{collection}\"}}, actions: [\"find\", \"insert\", \"update\"]}}]}})\n\
             {user}\n"
        )
    }
}

/// Returns whether a server has a name that has to be looked up.
pub(crate) fn is_name(host: &ServerAddress) -> bool {
    matches!(host, ServerAddress::Tcp { host, .. } if host.parse::<IpAddr>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<Address, StoreError> {
        let password = Some("p".to_owned());
        Address::parse(&Open { protocol: 1, url: url.to_owned(), password, timeout: 1000 })
    }

    fn options(url: &str) -> ClientOptions {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(parsed(url).unwrap().options(Duration::from_secs(1), Duration::from_secs(1))).unwrap().0
    }

    #[test]
    fn a_url_names_hosts_and_a_database() {
        let url = "mongodb://jobs:secret@a:1,b/ops?collection=locks&replicaSet=rs0&authMechanism=SCRAM-SHA-256";
        let address = parsed(url).unwrap();
        assert_eq!((address.database.as_str(), address.collection.as_str()), ("ops", "locks"));
        assert_eq!(address.label, "mongodb://a:1,b/ops");
        let found = options(url);
        let hosts: Vec<_> = found.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["a:1", "b:27017"]);
        assert_eq!((found.direct_connection, found.repl_set_name.as_deref()), (Some(false), Some("rs0")));
        let credential = found.credential.unwrap();
        assert_eq!((credential.username.as_deref(), credential.password.as_deref()), (Some("jobs"), Some("p")));
        assert_eq!(
            (credential.source.as_deref(), credential.mechanism),
            (Some("ops"), Some(AuthMechanism::ScramSha256))
        );
        assert_eq!(options("mongodb://a/ops").direct_connection, Some(true));
        assert!(options("mongodb://a/ops").credential.is_none(), "a password without a user");
        assert_eq!(options("mongodb://jobs@a/ops?authSource=x").credential.unwrap().source.as_deref(), Some("x"));
    }

    #[test]
    fn a_cluster_has_one_name_and_tls() {
        let address = parsed("mongodb+srv://jobs@locks.example.com/ops").unwrap();
        assert_eq!(address.label, "mongodb+srv://locks.example.com/ops");
        assert!(address.tls.as_ref().is_some_and(|tls| tls.verifies) && address.has_names());
        assert!(parsed("mongodb+srv://a.b.c/ops?tls=false").unwrap().tls.is_none());
    }

    #[test]
    fn a_certificate_logs_in() {
        let files = servers::certificates();
        let own = format!("sslcert={}&sslkey={}", files.client(), files.client_key());
        let credential = options(&format!("mongodb://a/ops?authMechanism=MONGODB-X509&{own}")).credential.unwrap();
        assert_eq!(
            (credential.username, credential.password, credential.source.as_deref()),
            (None, None, Some("$external"))
        );
        let schema = parsed(&format!("mongodb://a/ops?authMechanism=MONGODB-X509&{own}")).unwrap().schema();
        assert!(schema.contains("$external") && !schema.contains("passwordPrompt"), "{schema}");
    }

    #[test]
    fn a_url_says_whether_tls_is_spoken() {
        let verifies = |query: &str| parsed(&format!("mongodb://a/ops?{query}")).unwrap().tls.map(|tls| tls.verifies);
        assert_eq!(["tls=false", "ssl=false", "replicaSet="].map(verifies), [None, None, None]);
        assert_eq!(["tls=true", "ssl=true", "tls=false&sslrootcert=ca"].map(verifies), [Some(true); 3]);
        assert_eq!(verifies("tls=true&sslmode=require"), Some(false));
    }

    #[test]
    fn only_names_are_looked_up() {
        let has_names = |url: &str| parsed(url).unwrap().has_names();
        assert!(has_names("mongodb://127.0.0.1,db/ops") && !has_names("mongodb://127.0.0.1,[::1]:1/ops"));
    }

    #[test]
    fn a_wrong_url_says_what_is_wrong() {
        for (url, said) in [
            ("mongodb://a", "the URL names no database; write mongodb://HOST/DATABASE"),
            ("mongodb://a/b.c", "names no database"),
            ("mongodb:///b", "names no host"),
            ("mongodb://a/b?collection=$x", "cannot be a collection's name"),
            ("mongodb://a/b?sslmode=prefer", "known are disable, require, verify-full"),
            ("mongodb://a/b?tls=yes", "has tls=yes; known are true, false"),
            ("mongodb+srv://a,b/c", "takes the name of a cluster"),
            ("mongodb+srv://a:1/c", "takes the name of a cluster"),
            ("mysql://a/c", "has the scheme `mysql:`"),
            ("mongodb://a/b?w=1", "unknown parameter `w`; known are collection, authSource"),
            ("mongodb://u:secret?w=1@a/b", "in a password, write it as %3F"),
            ("mongodb://a/b?authMechanism=PLAIN", "known are SCRAM-SHA-1, SCRAM-SHA-256, MONGODB-X509"),
            ("mongodb://a/b?authMechanism=SCRAM-SHA-1", "without a user"),
            ("mongodb://a/b?authMechanism=MONGODB-X509", "without sslcert and sslkey"),
        ] {
            let error = parsed(url).err().unwrap();
            assert!(error.error.contains(said) && !error.error.contains("secret"), "{url}: {error:?}");
        }
    }
}
