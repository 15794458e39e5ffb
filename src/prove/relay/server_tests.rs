//! Tests backends behind a relay on real servers: they work, and a request that was cut off or frozen takes nothing after it
//! was undone.

#![cfg(test)]

use super::*;
use crate::backend::{Access, Admin, from_url};
use crate::lock::{Acquired, BackendError, Claim, Closing, LockName, Owner, Purpose, Reply, RunOutcome, StillHeld};
use servers::stores::{EtcdStore, KubernetesStore, MariaDbStore, PostgresStore, RedisStore, Store, ZooKeeperStore};
use servers::{ClientCertificates, certificates};

const LEASE: Duration = Duration::from_secs(60);
/// The time for one try: a frozen request waits for it in vain.
const TRY_TIME: Duration = Duration::from_secs(2);
/// After how many bytes a fault strikes: in the first request of an acquisition, or in a later one.
const AFTER: [usize; 9] = [0, 60, 150, 300, 500, 800, 1_200, 1_800, 2_600];
const LONG: Duration = Duration::from_secs(20);

fn open(url: &str, detour: Detour) -> Box<dyn Admin> {
    from_url(url, &Access { timeout: TRY_TIME, detour, ..Access::default() }).unwrap().backend
}

fn claim(number: u64) -> Claim {
    let name = LockName::new("job").unwrap();
    Claim { name, owner: Owner::new("host", 1, number), lease: LEASE, keep: 10, purpose: Purpose::Run }
}

/// Asks until there is an answer, as the caller of a backend does.
#[track_caller]
fn persist<T>(mut ask: impl FnMut() -> Result<T, BackendError>) -> T {
    let mut last = None;
    for _ in 0..10 {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => last = Some(error),
        }
    }
    panic!("{last:?}")
}

fn is_held(url: &str) -> bool {
    let found = persist(|| open(url, Detour::default()).locks(&["job"]));
    found.locks.iter().any(crate::lock::Lock::is_held)
}

/// Acquires, renews, lists and releases.
fn works(backend: &mut dyn Admin, number: u64) {
    let claim = claim(number);
    assert!(matches!(persist(|| backend.acquire(&claim)).answer, Acquired::Granted(_)));
    assert_eq!(persist(|| backend.renew(&claim)).answer, StillHeld::Held);
    assert_eq!(persist(|| backend.locks(&["job"])).locks[0].state.owner, claim.owner.as_str());
    let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
    assert_eq!(persist(|| backend.release(&claim, Duration::ZERO, closing)).answer, StillHeld::Held);
}

/// Lets faults strike acquisitions, on an open connection and on a new one, and undoes them.
fn survives(url: &str) {
    let relay = Relay::new().unwrap();
    let mut backend = open(url, relay.detour());
    works(&mut *backend, 1);
    assert!(relay.was_used(), "{url}");
    let kinds = |after| [Fault::CutRequest { after }, Fault::CutAnswer { after }, Fault::Freeze { after }];
    let delay = [Fault::Delay { by: Duration::from_millis(30) }];
    let open = AFTER.into_iter().flat_map(kinds).chain(delay).map(|fault| (fault, false));
    let new = [0, 30, 400].into_iter().flat_map(kinds).chain(delay).map(|fault| (fault, true));
    let (mut number, mut struck, mut ambiguous) = (1, 0, 0);
    for (fault, is_new) in open.chain(new) {
        number += 1;
        works(&mut *backend, 1_000 + number);
        if is_new {
            backend.disconnect();
        }
        let claim = claim(number);
        relay.arm(fault);
        let answer = backend.acquire(&claim);
        struck += u64::from(relay.struck());
        assert!(
            relay.struck() || matches!(answer, Ok(Reply { answer: Acquired::Granted(_), .. })),
            "{fault:?}: {answer:?}"
        );
        relay.disarm();
        if let Err(error) = &answer {
            ambiguous += u64::from(error.ambiguous);
            // A cluster or a sentinel names one of several servers.
            let address = url.split('?').next().unwrap();
            let real = address.rsplit(['@', '/']).find(|part| part.contains(':')).unwrap();
            assert!(url.contains("redis-") || error.message.contains(real), "{url}: {error:?}");
        }
        persist(|| backend.release(&claim, Duration::ZERO, Closing::Undone));
        backend.disconnect();
        relay.thaw();
        assert!(relay.settle(LONG), "{url}: {fault:?}");
        assert!(!is_held(url), "{url}: {fault:?}, {answer:?}");
    }
    println!("{struck} of {number} struck, {ambiguous} were ambiguous");
    assert!(ambiguous > 0, "{url}");
}

/// Freezes acquisitions, and undoes none before the thaw: one of them arrives late and takes the lock.
fn arrives_late(url: &str) {
    let relay = Relay::new().unwrap();
    let mut backend = open(url, relay.detour());
    let took = AFTER.into_iter().zip(5_000..).find(|(after, number)| {
        works(&mut *backend, 1_000 + number);
        relay.arm(Fault::Freeze { after: *after });
        let answer = backend.acquire(&claim(*number));
        backend.disconnect();
        relay.thaw();
        assert!(relay.settle(LONG));
        let is_late = answer.is_err() && is_held(url);
        persist(|| backend.release(&claim(*number), Duration::ZERO, Closing::Undone));
        is_late
    });
    println!("{took:?}");
    assert!(took.is_some(), "{url}");
}

fn strikes(url: &str) {
    arrives_late(url);
    survives(url);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn postgres_behind_a_relay() {
    strikes(&PostgresStore::new().url());
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn postgres_with_tls_behind_a_relay() {
    let url = servers::postgres_tls().database_of("clerk").login("clerk:s3cret").url_at("localhost");
    strikes(&format!("{url}?sslmode=verify-full&sslrootcert={}", certificates().authority()));
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn mariadb_behind_a_relay() {
    strikes(&MariaDbStore::new().url());
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn redis_behind_a_relay() {
    strikes(&RedisStore::new().url());
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn redis_with_tls_behind_a_relay() {
    let url = servers::redis_tls().database().url_at("localhost");
    strikes(&format!("{url}?sslrootcert={}", certificates().authority()));
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn redis_with_sentinel_behind_a_relay() {
    let servers = servers::redis_sentinel();
    strikes(&servers.url(&servers.master.database()));
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn redis_cluster_behind_a_relay() {
    strikes(&format!("{}?environment={}", servers::redis_cluster().url(), servers::unique("relay")));
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn etcd_behind_a_relay() {
    strikes(&EtcdStore::new().url());
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn etcd_with_tls_behind_a_relay() {
    let server = servers::Etcd::fresh_with_tls(ClientCertificates::Ignored);
    let authority = certificates().authority();
    strikes(&format!("etcd://localhost:{}?sslmode=verify-full&sslrootcert={authority}", server.port()));
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn zookeeper_behind_a_relay() {
    strikes(&ZooKeeperStore::new().url());
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn kubernetes_behind_a_relay() {
    strikes(&KubernetesStore::new().url());
}
