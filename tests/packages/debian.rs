//! A clean Debian, which tests/clean-debian makes once. Each test works on a layer of its own above it, which is gone with
//! the test.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::made::{alone, as_root, beside_servers, source};

/// What goes before the text of a test: the layer is at /mnt/root, `in_root` runs a command there.
const LAYER: &str = r#"
clean=$1
shift
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o "lowerdir=$clean,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/root
mount -t proc proc /mnt/root/proc
mount -t devpts -o newinstance,ptmxmode=666 devpts /mnt/root/dev/pts
ln -sf pts/ptmx /mnt/root/dev/ptmx
cp "$@" /mnt/root/root/
package=/root/$(basename "$1")
in_root() { env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot /mnt/root "$@" </dev/null; }
files() { (cd /mnt/root && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp \) -prune -o -print) | sort; }
"#;

/// The clean root.
fn clean() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let directory = source("target/clean-debian");
        as_root(&[source("tests/clean-debian"), directory.clone()]);
        directory.join("root")
    })
}

/// Runs shell text above the clean root, with a file of ours in /root; it may call `in_root COMMAND`, the file is `$package` there, and `files` lists
/// what is there. Returns what it prints. There is no network.
pub(crate) fn on_clean_debian(file: &Path, text: &str) -> String {
    alone(&format!("{LAYER}\n{text}"), &[clean(), file])
}

/// The same in the network of this host, with the servers of the tests in it, and with several files: `$package` is the first.
pub(crate) fn on_clean_debian_beside_servers(files: &[&Path], text: &str) -> String {
    beside_servers(&format!("{LAYER}\n{text}"), &[&[clean()], files].concat())
}
