//! The contract, and what is special to this backend.

use std::io::Write;
use std::net::TcpListener;
use std::thread;

use super::stored_record::{UNKNOWN, read_record};
use super::*;
use crate::lock::RunRecord;
use servers::stores::Store;

crate::backend::testing::conformance::conformance!(
    #[ignore = "needs a server: --include-ignored"]
    servers::stores::ZooKeeperStore::new
);

fn open(text: &str) -> Result<Opened, String> {
    ZooKeeper::open(&Url::parse(text).unwrap(), &Access::default())
}

#[test]
fn a_url_names_servers_a_chroot_and_a_user() {
    for good in [
        "zookeeper://db",
        "zookeeper://h1,h2:2182,[::1]:3/app/prod",
        "zookeeper://u:p@db/app?path=/locks",
        "zookeeper://db/?sslmode=verify-full",
        "zookeeper://db?sslrootcert=ca.pem&sslcert=c.pem&sslkey=k.pem",
    ] {
        assert!(open(good).is_ok(), "{good}: {:?}", open(good).err());
    }
    assert_eq!(open("zookeeper://u:pw@db/app").unwrap().address, "zookeeper://u@db/app");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (bad, why) in [
        ("zookeeper:db", "no // after"),
        ("zookeeper://", "names no host"),
        ("zookeeper://%2Frun%2Fsock", "names no host"),
        ("zookeeper://db/a//b", "cannot be a node"),
        ("zookeeper://db/a/../b", "cannot be a node"),
        ("zookeeper://db?path=", "cannot be a node"),
        ("zookeeper://db?path=/a%0a", "cannot be a node"),
        ("zookeeper://:pw@db", "no user"),
        ("zookeeper://db?prefix=x", "unknown parameter `prefix`"),
        ("zookeeper://db?sslmode=prefer", "does not support"),
        ("zookeeper://db?sslmode=disable&sslrootcert=ca.pem", "certificates, and sslmode=disable"),
    ] {
        let error = open(bad).err().unwrap_or_else(|| panic!("{bad} is accepted"));
        assert!(error.contains(why), "{bad}: {error}");
    }
}

/// The record is another node, which the Java library does not touch: only the version of the lock's node tells.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_write_meets_what_java_has_written_since_the_reading() {
    let store = servers::stores::ZooKeeperStore::new();
    let access = Access { timeout: Duration::from_secs(10), ..Access::default() };
    let mut zookeeper = ZooKeeper::from_url(&Url::parse(&store.url()).unwrap(), &access).unwrap();
    let free = Record::default();
    let version = |zookeeper: &mut ZooKeeper| zookeeper.read("job").unwrap().found.unwrap().1;
    // Without a record of shedlock's.
    assert!(store.java_take("job", "", Duration::ZERO));
    assert_eq!(zookeeper.write("job", &free, None).unwrap(), WriteResult::Conflict);
    let read = version(&mut zookeeper);
    store.java_release("job", "", Duration::from_secs(60));
    assert_eq!(zookeeper.write("job", &free, Some(&read)).unwrap(), WriteResult::Conflict);
    // With a record of shedlock's.
    let read = version(&mut zookeeper);
    assert_eq!(zookeeper.write("job", &free, Some(&read)).unwrap(), WriteResult::Done);
    assert_eq!(zookeeper.write("job", &free, Some(&read)).unwrap(), WriteResult::Conflict);
    let read = version(&mut zookeeper);
    assert!(store.java_take("job", "", Duration::from_secs(60)));
    assert_eq!(zookeeper.write("job", &free, Some(&read)).unwrap(), WriteResult::Conflict);
    assert!(store.stored("job").unwrap().is_held());
}

/// The two nodes of a lock are read one after the other, and written together.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_lock_that_is_written_while_it_is_read_keeps_its_owner() {
    let store = servers::stores::ZooKeeperStore::new();
    let access = Access { timeout: Duration::from_secs(10), ..Access::default() };
    let open = || ZooKeeper::from_url(&Url::parse(&store.url()).unwrap(), &access).unwrap();
    let (mut writer, mut reader) = (open(), open());
    let record = Record {
        owner: "web1:42:00000000000000ff".to_owned(),
        until: Some(Timestamp(u64::MAX / 2)),
        ..Record::default()
    };
    writer.write("job", &record, None).unwrap();
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut owners = std::collections::BTreeSet::new();
            for _ in 0..3_000 {
                owners.insert(reader.read("job").unwrap().found.unwrap().0.owner);
                reader
                    .list(&mut |_, record| {
                        owners.insert(record.owner);
                    })
                    .unwrap();
            }
            owners
        });
        while !reading.is_finished() {
            let version = writer.read("job").unwrap().found.unwrap().1;
            assert_eq!(writer.write("job", &record, Some(&version)).unwrap(), WriteResult::Done);
        }
        let owners = reading.join().unwrap();
        assert!(owners.iter().eq([&record.owner]), "{owners:?}");
    });
}

/// Each event is a whole message, and comes in time.
#[test]
fn a_server_that_sends_events_and_no_answer_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("zookeeper://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let greeting = b"\0\0\0\x25\0\0\0\0\0\0\x0f\xa0\0\0\0\0\0\0\0\x01\0\0\0\x10aaaaaaaaaaaaaaaa\0";
        let event = [b"\0\0\0\x10\xff\xff\xff\xff".as_slice(), &[0; 12]].concat();
        let mut sent = stream.write_all(greeting);
        for _ in 0..1000 {
            thread::sleep(Duration::from_millis(10));
            sent = sent.and_then(|()| stream.write_all(&event));
        }
    });
    let access = Access { timeout: Duration::from_secs(3), ..Access::default() };
    let mut zookeeper = ZooKeeper::from_url(&Url::parse(&url).unwrap(), &access).unwrap();
    let error = zookeeper.read("job").err().unwrap();
    assert_eq!(error.message, network::silence().message);
    server.join().unwrap();
}

/// Both locks have the versions of new nodes.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_write_meets_a_lock_that_was_deleted_and_taken_anew() {
    let store = servers::stores::ZooKeeperStore::new();
    let access = Access { timeout: Duration::from_secs(10), ..Access::default() };
    let mut zookeeper = ZooKeeper::from_url(&Url::parse(&store.url()).unwrap(), &access).unwrap();
    let free = Record::default();
    let take = |zookeeper: &mut ZooKeeper| {
        assert!(zookeeper.read("job").unwrap().found.is_none());
        assert_eq!(zookeeper.write("job", &free, None).unwrap(), WriteResult::Done);
        zookeeper.read("job").unwrap().found.unwrap().1
    };
    let read = take(&mut zookeeper);
    store.delete("job");
    let again = take(&mut zookeeper);
    assert_eq!((read.lock, read.state), (again.lock, again.state));
    assert_eq!(zookeeper.write("job", &free, Some(&read)).unwrap(), WriteResult::Conflict);
    assert_eq!(zookeeper.write("job", &free, Some(&again)).unwrap(), WriteResult::Done);
}

fn written(data: &str, by: u64) -> Node {
    let stat = Stat { written_by: by, written_at: Timestamp(7_000), version: 3 };
    Node { data: data.as_bytes().to_vec(), stat }
}

#[test]
fn a_lock_that_another_client_has_written_has_no_owner_and_keeps_its_runs() {
    let run = RunRecord {
        token: 5,
        name: "job".to_owned(),
        owner: "host:1:2".to_owned(),
        host: "host".to_owned(),
        started_at: Some(Timestamp(1_000)),
        ended_at: None,
        exit_code: None,
        outcome: None,
    };
    let own = Record {
        owner: "host:1:2".to_owned(),
        since: Some(Timestamp(1_000)),
        until: Some(Timestamp(61_000)),
        set_at: Some(Timestamp(1_000)),
        token: 5,
        runs: vec![run],
    };
    let state = |by| written(&own.to_json(), by);
    let end = own.until.unwrap().to_string();
    assert_eq!(read_record("job", &written(&end, 9), Some(&state(9))), own);
    let later = Record { owner: UNKNOWN.to_owned(), since: Some(Timestamp(7_000)), set_at: None, ..own.clone() };
    assert_eq!(read_record("job", &written(&end, 10), Some(&state(9))), later);
    // Java's times may be finer than shedlock's.
    let java = read_record("job", &written("1970-01-01T00:02:00.123456Z", 10), None);
    assert_eq!((java.until, java.token, java.runs), (Some(Timestamp(120_123)), 0, vec![]));
    for no_time in ["", "yesterday"] {
        assert_eq!(read_record("job", &written(no_time, 10), None).until, None, "held without an end");
    }
    assert_eq!(read_record("job", &written(&end, 9), Some(&written("{}", 9))).owner, UNKNOWN);
}

/// A write with -1 would replace whatever is there.
#[test]
fn a_version_that_means_any_is_never_compared_with() {
    let node = |version| Node { data: Vec::new(), stat: Stat { written_by: 9, written_at: Timestamp(0), version } };
    for version in [0, i32::MAX, i32::MIN, -2] {
        let read = Version::from_nodes(&node(version), Some(&node(version))).unwrap();
        assert_eq!((read.lock, read.state), (version, Some(version)));
    }
    for (lock, state) in [(ANY_VERSION, 0), (0, ANY_VERSION)] {
        let error = Version::from_nodes(&node(lock), Some(&node(state))).err().unwrap();
        assert!(error.message.contains("version is -1") && error.hint.unwrap().contains("deleteall"));
    }
    let next =
        |lock, state| Version { lock, state, creation_mark: None }.next(None).map(|next| (next.lock, next.state));
    assert_eq!(next(i32::MAX, None), Ok((i32::MIN, Some(0))));
    assert!(next(-2, Some(0)).is_err() && next(0, Some(-2)).is_err());
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_lock_that_an_early_java_library_holds_by_its_session_is_named() {
    let store = servers::stores::ZooKeeperStore::new();
    let access = Access { timeout: Duration::from_secs(10), ..Access::default() };
    let mut zookeeper = ZooKeeper::from_url(&Url::parse(&store.url()).unwrap(), &access).unwrap();
    store.locks().make_root();
    store.make_ephemeral("job", "1970-01-01T00:00:00.000Z");
    let (_, version) = zookeeper.read("job").unwrap().found.unwrap();
    let error = zookeeper.write("job", &Record::default(), Some(&version)).unwrap_err();
    let node = format!("the node {}/shedlock/job is ephemeral", store.chroot());
    assert!(error.message.starts_with(&node), "{error:?}");
}
