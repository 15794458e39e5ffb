//! Every server that the tests start keeps the rules.

use super::prove;
#[cfg(feature = "default")]
use crate::support::Place;
use crate::support::per_backend::{Site, on_every_backend};
use servers::stores::Store;
#[cfg(feature = "default")]
use servers::{EtcdCluster, ZooKeeperEnsemble};

on_every_backend! {
    prove_finds_nothing_wrong
}

/// Whether the connections to this backend can be cut.
fn is_relayed(url: &str) -> bool {
    // A provider is killed and stopped instead.
    !url.starts_with("sqlite:")
}

/// Proves a server of another kind, or one that is reached in another way.
#[cfg(feature = "default")]
#[track_caller]
fn is_kept(url: &str, cuts: bool) {
    is_kept_for("10s", url, cuts);
}

#[cfg(feature = "default")]
#[track_caller]
fn is_kept_for(time: &str, url: &str, cuts: bool) {
    let report = prove(&Place::new(), url, &["--for", time]);
    report.is_kept();
    assert_eq!((report.line("cut off").0 == "good", report.forgotten()), (cuts, 0), "{:?}", report.finished);
}

#[cfg(feature = "default")]
#[test]
fn postgres_behind_pgbouncer_and_by_its_socket_is_kept() {
    let database = servers::postgres().database();
    is_kept(&servers::pgbouncer().url(&database), true);
    is_kept(&servers::postgres().database().socket_url(), false);
}

#[cfg(feature = "default")]
#[test]
fn redis_with_tls_behind_a_sentinel_and_in_a_cluster_is_kept() {
    let secure = servers::redis_tls().database();
    let authority = servers::certificates().authority();
    is_kept(&format!("{}?sslrootcert={authority}", secure.url_at("localhost")), true);
    let group = servers::redis_sentinel();
    is_kept(&group.url(&group.master.database()), true);
    is_kept(&servers::redis_cluster().url(), true);
}

#[cfg(feature = "default")]
#[test]
fn clusters_of_three_are_kept() {
    // So many servers are slow on a busy machine, and each rule has to be tried.
    is_kept_for("30s", &EtcdCluster::fresh().url(), true);
    let ensemble = ZooKeeperEnsemble::fresh();
    is_kept_for("30s", &format!("zookeeper://{}", ensemble.hosts()), true);
}

fn prove_finds_nothing_wrong<S: Store>(site: &Site<S>) {
    let url = site.store.url();
    let report = prove(&site.place, &url, &["--for", "10s"]);
    report.is_kept();
    assert_eq!(report.line("cut off").0 == "good", is_relayed(&url), "{:?}", report.finished);
    assert_eq!(report.forgotten(), 0);
    assert!(report.figure("takings")["count"].as_u64() > Some(20), "{:?}", report.finished);
    let status = crate::support::finish(&mut site.shedlock(&["status", "--json"]));
    assert_eq!(status.stdout, "[]\n", "nothing is left");
}

/// A provider is killed and frozen with every seed, at once with others of its kind.
#[cfg(feature = "provider")]
#[test]
#[ignore = "takes five minutes of all processors: --ignored a_minute"]
fn a_minute_with_five_seeds_and_three_at_once_finds_nothing_wrong_with_providers() {
    use servers::stores::{ExampleStore, MongoDbStore};

    let (example, mongodb, other) = (ExampleStore::new(), MongoDbStore::new(), MongoDbStore::new());
    let urls = [example.url(), mongodb.url(), other.url()];
    for seed in 1..=5 {
        let seed = seed.to_string();
        std::thread::scope(|scope| {
            for url in &urls {
                let seed = &seed;
                scope.spawn(move || {
                    let report = prove(&Place::new(), url, &["--for", "60s", "--seed", seed]);
                    let (cuts, takings) = (report.line("cut off"), &report.figure("takings")["count"]);
                    println!("{seed} {url}: {takings} takings, {} cuts; {}", report.figure("cuts"), cuts.1);
                    report.is_kept();
                    assert_eq!((cuts.0, report.line("functions").0, report.forgotten()), ("good", "good", 0));
                });
            }
        });
    }
}

/// Proves every server for a minute with ten seeds, all at once: on two processors that is a load of more than eight.
#[cfg(feature = "default")]
#[test]
#[ignore = "takes eleven minutes of all processors: --ignored a_minute"]
fn a_minute_with_ten_seeds_and_all_servers_at_once_finds_nothing_wrong() {
    use servers::stores::{
        EtcdStore, KubernetesStore, MariaDbStore, PostgresStore, RedisStore, SqliteStore, ZooKeeperStore,
    };

    let (sqlite, postgres, mariadb, redis) =
        (SqliteStore::new(), PostgresStore::new(), MariaDbStore::new(), RedisStore::new());
    let (etcd, kubernetes, zookeeper) = (EtcdStore::new(), KubernetesStore::new(), ZooKeeperStore::new());
    let (pooled, secure) = (servers::postgres().database(), servers::redis_tls().database());
    let (members, ensemble) = (EtcdCluster::fresh(), ZooKeeperEnsemble::fresh());
    let urls = [
        sqlite.url(),
        postgres.url(),
        mariadb.url(),
        redis.url(),
        etcd.url(),
        kubernetes.url(),
        zookeeper.url(),
        servers::pgbouncer().url(&pooled),
        format!("{}?sslrootcert={}", secure.url_at("localhost"), servers::certificates().authority()),
        members.url(),
        format!("zookeeper://{}", ensemble.hosts()),
    ];
    for seed in 1..=10 {
        let seed = seed.to_string();
        std::thread::scope(|scope| {
            for url in &urls {
                let seed = &seed;
                scope.spawn(move || {
                    let report = prove(&Place::new(), url, &["--for", "60s", "--seed", seed]);
                    println!("{seed} {url}: {} takings", report.figure("takings")["count"]);
                    report.is_kept();
                    assert_eq!(report.forgotten(), 0);
                });
            }
        });
    }
}
