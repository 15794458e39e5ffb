//! Finds out on which kind of file system a file is, and whether other hosts reach it over a network.

use std::fs;
use std::path::Path;

use nix::sys::statfs::statfs;

const FUSE: u32 = 0x6573_5546;

/// The `f_type` of each network file system, from statfs(2) and linux/magic.h.
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x2003_0528, "OrangeFS"),
    (0xaad7_aaea, "PanFS"),
    (0x786f_4256, "VirtualBox shared folder"),
];

/// FUSE types that are network file systems; other FUSE types serve local disks.
const NETWORK_FUSE: &[&str] = &[
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.ceph",
    "fuse.ceph-fuse",
    "fuse.s3fs",
    "fuse.gcsfuse",
    "fuse.rclone",
    "fuse.davfs",
    "fuse.curlftpfs",
    "fuse.juicefs",
    "fuse.seaweedfs",
    "fuse.moosefs",
    "fuse.mfs",
    "fuse.lizardfs",
    "fuse.goofys",
    "fuse.nfs",
    // A directory of the machine that runs this virtual one: other guests share it but do not see the locks of this one.
    "virtiofs",
];

/// Returns the name of the network file system that the file is on, or would be on in its directory. Returns `None`
/// for a local one, and if statfs fails: opening the file then reports why.
pub(crate) fn network(path: &Path, directory: &Path) -> Option<String> {
    let stat = statfs(path).ok().or_else(|| statfs(directory).ok())?;
    // The C library chooses the width and the sign of this field; the numbers have 32 bits.
    match stat.filesystem_type().0 as u32 {
        FUSE => kind(path).filter(|name| NETWORK_FUSE.contains(&name.as_str())),
        kind => NETWORK.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| (*name).to_owned()),
    }
}

/// Returns the type, such as `ext4` or `fuse.sshfs`, of the mount that contains `path`.
pub(crate) fn kind(path: &Path) -> Option<String> {
    let real = fs::canonicalize(path).or_else(|_| fs::canonicalize(path.parent().unwrap_or(path))).ok()?;
    longest_mount(&fs::read_to_string("/proc/self/mountinfo").ok()?, &real)
}

/// Returns true if `path` itself is known to be a mount point.
pub(crate) fn is_point(path: &Path) -> bool {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    fs::canonicalize(path).is_ok_and(|real| points(&mountinfo).any(|(point, _)| Path::new(&point) == real))
}

/// Returns the type of the innermost mount above `path`; of several mounts on one point, the last hides the others.
fn longest_mount(mountinfo: &str, path: &Path) -> Option<String> {
    let mut best = None;
    let mut depth = 0;
    for (point, rest) in points(mountinfo) {
        let here = Path::new(&point).components().count();
        if path.starts_with(&point) && here >= depth {
            depth = here;
            best = rest.split(' ').next().map(str::to_owned);
        }
    }
    best
}

/// Parses the mounts: the mount point of each, and the rest of its line, with type, source and options.
fn points(mountinfo: &str) -> impl Iterator<Item = (String, &str)> {
    mountinfo.lines().filter_map(|line| {
        let (mount, rest) = line.split_once(" - ")?;
        Some((mount.split(' ').nth(4)?.replace("\\040", " "), rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_decides() {
        let mounts = "21 1 8:1 / / rw - ext4 /dev/vda rw\n\
                      30 21 0:50 / /mnt/a\\040b rw shared:1 - fuse.sshfs host: rw\n\
                      31 21 0:51 / /mnt rw - tmpfs none rw\n";
        let kind = |path| longest_mount(mounts, Path::new(path)).unwrap();
        assert_eq!(kind("/mnt/a b/locks.db"), "fuse.sshfs");
        assert_eq!(kind("/mnt/a/locks.db"), "tmpfs");
        assert_eq!(kind("/mntx"), "ext4");
    }
}
