//! The real Java library ShedLock and shedlock, at the same locks: an application of the library for each way in which it can
//! be set up, and what each of the two sees of the other.

mod cases;
mod frozen_application;
mod kit;
mod matrix;
mod page;

use crate::support::finish_in_time;
use crate::support::per_backend::Site;
use servers::Party;
use servers::stores::{MariaDbStore, Store};

/// The library inserts such a name as `???`, calls that granted, and can do nothing more with it. shedlock refuses it.
#[test]
fn a_table_in_latin1_takes_no_names_in_other_scripts() {
    let store = MariaDbStore::new();
    store.0.mariadb(&format!("alter database {} character set latin1", store.0.name));
    let java = Party::start("Asia/Tokyo", ["jdbc-template", "database-time"], &store.url());
    let site = Site::new(store);
    site.store.make_table();
    assert!(java.locks("日本語", 60_000, 0));
    assert_eq!(site.store.0.mariadb("select name from shedlock"), "???");
    let complaint = java.tries_to_unlock("日本語");
    assert!(complaint.contains("Illegal mix of collations"), "{complaint}");
    finish_in_time(&mut site.run_or_75("日本語", &["true"])).complains(125, "日本語");
}
