//! An application that stands still past the end of its lock, as in a long garbage collection or a frozen virtual machine.

use super::cases::{MINUTE, Shared};
use super::matrix::Late;
use crate::support::{kill, wait_until};
use servers::Party;
use servers::stores::{PostgresStore, RedisStore, Store};

/// Stops an application until shedlock holds its lock. When it goes on, `KeepAliveLockProvider` sees by its own clock that it
/// is too late and extends no more, even where it would take the lock over. Its release comes too late.
fn stands_still<S: Store>(provider: [&str; 2], store: S, late: Late) {
    let java = Party::start_alone("Europe/Berlin", provider, &store.url());
    let shared = Shared::new(store, java, late);
    // The first use may take longer than the lock lasts.
    assert!(shared.java_gets("first") && shared.java.keeps("kept", 2000));
    kill(shared.java.pid(), "STOP");
    let handle = wait_until("the lock to be ours", || shared.acquire("kept", "1m"));
    let ours = shared.site.stored("kept");
    kill(shared.java.pid(), "CONT");
    shared.java.has_tried_to_keep();
    shared.is_unchanged("kept", &ours);
    assert!(!shared.java.locks("kept", MINUTE, 0));
    shared.is_released_late("kept", &handle);
}

#[test]
fn on_postgres_an_application_that_stood_still_leaves_our_lock_alone() {
    let store = PostgresStore::new();
    store.make_table();
    stands_still(["jdbc-template", "database-time"], store, Late::Harmless);
}

#[test]
fn on_redis_an_application_that_stood_still_leaves_our_lock_alone_until_it_releases() {
    stands_still(["spring-jedis", "unsafe"], RedisStore::new(), Late::Takes);
}
