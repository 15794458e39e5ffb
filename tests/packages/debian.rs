//! A clean Debian, made by debootstrap from the mirror of this machine. It is made once and kept in target/; each test
//! works on a layer of its own above it, which is gone with the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::made::{alone, as_root, source};

/// Debian's minimum with what is needed to see a package at work. Its shells are those that have completions.
const INCLUDE: &str = "cron,man-db,bash-completion,zsh,fish";
const SUITE: &str = "bookworm";

/// Where the mirror is, in `$1` the suite, in `$2` the packages, in `$3` the place.
const MAKE: &str = r#"
mirror=$(apt-get indextargets --no-release-info --format '$(SITE) $(RELEASE) $(CREATED_BY)' | awk -v suite="$1" '$2 == suite && $3 == "Packages" { print $1; exit }')
[ -n "$mirror" ] || { echo "no source of apt has $1" >&2; exit 1; }
rm -rf "$3.new"
debootstrap --variant=minbase --include="$2" "$1" "$3.new" "$mirror" >"$3.log" 2>&1 || { tail -n 20 "$3.log" >&2; exit 1; }
rm -rf "$3.new"/var/cache/apt/archives/*.deb "$3.new"/var/lib/apt/lists/*
mv "$3.new" "$3"
"#;

/// What goes before the text of a test: the layer is at /mnt/root, `in_root` runs a command there.
const LAYER: &str = r#"
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/root
mount -t proc proc /mnt/root/proc
mount -t devpts -o newinstance,ptmxmode=666 devpts /mnt/root/dev/pts
ln -sf pts/ptmx /mnt/root/dev/ptmx
cp "$2" /mnt/root/root/
package=/root/$(basename "$2")
in_root() { env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot /mnt/root "$@" </dev/null; }
files() { (cd /mnt/root && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp \) -prune -o -print) | sort; }
"#;

/// The clean root.
fn clean() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let directory = source("target/roots");
        let root = directory.join(format!("{SUITE}-{}", INCLUDE.replace(',', "-")));
        if !root.exists() {
            fs::create_dir_all(&directory).unwrap();
            // In a mount namespace of its own, nothing that debootstrap mounts is left if it is killed.
            as_root(&["unshare", "--mount", "sh", "-euc", MAKE, "sh", SUITE, INCLUDE, root.to_str().unwrap()]);
        }
        root
    })
}

/// Runs shell text above the clean root, with a file of ours in /root; it may call `in_root COMMAND`, the file is `$package` there, and `files` lists
/// what is there. Returns what it prints. There is no network.
pub(crate) fn on_clean_debian(file: &Path, text: &str) -> String {
    alone(&format!("{LAYER}\n{text}"), &[clean(), file])
}
