//! Checks of ZooKeeper.

use serde_json::json;

use super::{a_run_fails, check};
use servers::{ZooKeeperEnsemble, certificates, zookeeper, zookeeper_tls};

/// Returns a chroot of the shared server, and its URL.
fn space() -> (String, String) {
    let server = zookeeper();
    let chroot = server.chroot();
    let url = format!("zookeeper://127.0.0.1:{}{chroot}", server.port());
    (chroot, url)
}

#[test]
fn a_server_that_is_alone_is_unwise() {
    let (_, url) = space();
    let checked = check(&url);
    checked.can_lock_but(&["ensemble"]);
    checked.says("unwise", "ensemble", "alone");
    checked.says("good", "node", "will be created by the first lock");
    check(&url).says("good", "node", "is there");
    assert_eq!(
        checked.subjects(),
        [
            "backend",
            "address",
            "TLS",
            "login",
            "ensemble",
            "round trip",
            "clock",
            "node",
            "history",
            "take",
            "renew",
            "refuse",
            "verify",
            "again",
            "release"
        ]
    );
}

#[test]
fn an_ensemble_wants_all_its_servers_in_the_url() {
    let ensemble = ZooKeeperEnsemble::fresh();
    let all = check(&format!("zookeeper://{}", ensemble.hosts()));
    all.can_lock_but(&[]);
    all.says("good", "ensemble", "3 servers; the URL names 3");
    let one = check(&format!("zookeeper://127.0.0.1:{}", ensemble.members[0].plain_port()));
    one.can_lock_but(&["ensemble"]);
    one.says("unwise", "ensemble", "it has 3 servers, and the URL names one");
}

#[test]
fn a_node_that_everybody_may_write_is_unwise_for_a_user() {
    let (chroot, url) = space();
    zookeeper().client().request(&json!(["create", format!("{chroot}/shedlock"), ""]));
    let url = url.replace("//", "//clerk:s3cret@");
    check(&url).says("unwise", "rights", "every client may write");
    let (_, url) = space();
    let url = url.replace("//", "//clerk:s3cret@");
    check(&url).can_lock_but(&["ensemble"]);
    check(&url).says("good", "rights", "only some users may write");
    check(&url.replace("s3cret", "wrong")).says("bad", "rights", "the user lacks rights to the node");
    a_run_fails(&url.replace("s3cret", "wrong"));
}

#[test]
fn a_missing_chroot_is_in_the_way() {
    let (_, url) = space();
    check(&format!("{url}/missing")).says("bad", "rights", "does not exist");
    a_run_fails(&format!("{url}/missing"));
}

#[test]
fn tls_is_shown_with_its_version() {
    let server = zookeeper_tls();
    let url = format!("zookeeper://localhost:{}{}?sslmode=verify-full", server.port(), server.chroot());
    let checked = check(&format!("{url}&sslrootcert={}", certificates().authority()));
    checked.says("good", "TLS", "the server's certificate and name are verified");
    check(&format!("{url}&sslrootcert={}", certificates().stranger())).says("bad", "TLS", "not trusted");
}
