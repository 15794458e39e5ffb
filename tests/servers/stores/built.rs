//! Programs of the project that cargo builds, where shedlock looks first.

use std::fs;

use crate::unique;

/// The provider of MongoDB.
const MONGODB: &str = "shedlock-provider-mongodb";

/// Puts the provider of MongoDB beside this test's own file, too; cargo puts it beside the program under test. A hard link: who
/// copied it would have it open for writing while another test executes it.
pub fn install_mongodb() {
    let own = std::env::current_exe().unwrap();
    let [place, built] = [1, 2].map(|above| own.ancestors().nth(above).unwrap().join(MONGODB));
    assert!(built.is_file(), "there is no {}; cargo build -p {MONGODB}", built.display());
    let new = place.with_file_name(unique("new"));
    fs::hard_link(&built, &new).unwrap();
    fs::rename(&new, &place).unwrap();
    // A name of the same file is not renamed.
    let _ = fs::remove_file(new);
}
