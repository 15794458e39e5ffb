//! A place and a store on one of the backends, and what gives every backend the same tests.

use std::process::Command;
use std::time::Duration;

use super::Place;
use super::fixtures::Holder;
use super::process::{DETACHED, under};
use servers::stores::{Store, Stored};

/// A place, and a store on one of the backends.
pub(crate) struct Site<S> {
    pub(crate) place: Place,
    pub(crate) store: S,
}

impl<S: Store> Site<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { place: Place::new(), store }
    }

    /// Returns `shedlock WORDS` in this store.
    pub(crate) fn shedlock(&self, words: &[&str]) -> Command {
        let mut command = self.place.shedlock(words);
        command.env("SHEDLOCK_BACKEND", self.store.url());
        command
    }

    /// Returns `shedlock run --name NAME --at-most 1m WORDS`.
    pub(crate) fn run(&self, name: &str, words: &[&str]) -> Command {
        self.shedlock(&[&["run", "--name", name, "--at-most", "1m"], words].concat())
    }

    /// Returns `shedlock run --name NAME --at-most 1m WORDS`, with exit code 75 where the run does not get in.
    pub(crate) fn run_or_75(&self, name: &str, words: &[&str]) -> Command {
        self.run(name, &[&["-E", "75"], words].concat())
    }

    /// Starts a job without a terminal that holds the lock until it is told to end, and then does `last`.
    pub(crate) fn hold(&self, name: &str, options: &[&str], last: &str) -> Holder {
        Holder::start(&self.place, &mut under::<&str>(&DETACHED, &self.run(name, options)), last)
    }

    /// Has a Java application take the lock that shows this owner. Where its layout has none, another program writes one.
    #[track_caller]
    pub(crate) fn taken_by(&self, name: &str, owner: &str, at_most: Duration) {
        assert!(self.store.java_take(name, owner, at_most));
        if self.store.java_owner(owner) != owner {
            self.store.steal(name, owner);
        }
    }

    #[track_caller]
    pub(crate) fn stored(&self, name: &str) -> Stored {
        self.store.stored(name).unwrap_or_else(|| panic!("{name} is not stored"))
    }

    /// Returns the milliseconds that a lock ends later where the store's clock is coarse.
    pub(crate) fn grain(&self) -> i64 {
        i64::try_from(self.store.grain().as_millis()).unwrap()
    }

    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.store.stored(name).is_some_and(|stored| stored.is_held())
    }
}

/// Gives every backend these tests, which are functions of a [`Site`].
macro_rules! on_every_backend {
    ($($test:ident)*) => {
        $crate::support::per_backend::on_every_backend!(sqlite: SqliteStore; $($test)*);
        #[cfg(feature = "postgres")]
        $crate::support::per_backend::on_every_backend!(postgres: PostgresStore; $($test)*);
        #[cfg(feature = "mysql")]
        $crate::support::per_backend::on_every_backend!(mariadb: MariaDbStore; $($test)*);
        #[cfg(feature = "redis")]
        $crate::support::per_backend::on_every_backend!(redis: RedisStore; $($test)*);
        #[cfg(feature = "etcd")]
        $crate::support::per_backend::on_every_backend!(etcd: EtcdStore; $($test)*);
        #[cfg(feature = "provider")]
        $crate::support::per_backend::on_every_backend!(example: ExampleStore; $($test)*);
        #[cfg(feature = "provider")]
        $crate::support::per_backend::on_every_backend!(mongodb: MongoDbStore; $($test)*);
        #[cfg(feature = "kubernetes")]
        $crate::support::per_backend::on_every_backend!(kubernetes: KubernetesStore; $($test)*);
        #[cfg(feature = "zookeeper")]
        $crate::support::per_backend::on_every_backend!(zookeeper: ZooKeeperStore; $($test)*);
    };
    ($backend:ident: $store:ident; $($test:ident)*) => {
        mod $backend {
            use servers::stores::$store;
            use $crate::support::per_backend::Site;
            $(
                #[test]
                fn $test() {
                    super::$test(&Site::new($store::new()));
                }
            )*
        }
    };
}
pub(crate) use on_every_backend;
