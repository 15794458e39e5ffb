//! One file, shared by containers of one kernel: each may have a boot id of its own, and each may have another name for the file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{directory, is_refused, on, set_clock, url};
use crate::support::fixtures::{Holder, among_mounts, by_root, edit, names_in};
use crate::support::{Place, finish, finish_child, start};

/// Returns a command in a mount namespace with this boot id, as LXC and systemd-nspawn make one.
fn with_boot_id(place: &Place, id: &str, inner: &Command) -> Command {
    let file = place.path(id);
    fs::write(&file, format!("{id}\n")).unwrap();
    among_mounts(&format!("mount --bind {} /proc/sys/kernel/random/boot_id", file.display()), inner)
}

const IDS: [&str; 2] = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];

#[test]
fn containers_with_boot_ids_of_their_own_exclude_each_other() {
    for [one, other] in [IDS, [IDS[1], IDS[0]]] {
        let place = Place::new();
        let holder = Holder::start(&place, &mut with_boot_id(&place, one, &place.run::<_, &str>("a", [])), "true");
        assert_eq!(place.row("a").unwrap().boot_id.as_deref(), Some(one));
        let next = place.run("a", ["-E", "75", "touch", "ran"]);
        finish(&mut with_boot_id(&place, other, &next)).is_silent_with(75);
        // Nor does the host, whose id is a third one.
        finish(&mut place.run("a", ["-E", "75", "touch", "ran"])).is_silent_with(75);
        let status = finish(&mut with_boot_id(&place, other, &place.shedlock(["status", "a"])));
        assert!(status.stdout.contains("held"), "{status:?}");
        holder.end().is_silent_with(0);
        finish(&mut with_boot_id(&place, other, &next)).is_silent_with(0);
        assert!(place.path("ran").exists());
    }
}

#[test]
fn a_lock_of_another_containers_job_frees_when_its_time_is_up() {
    let place = Place::new();
    let holder = Holder::start(&place, &mut with_boot_id(&place, IDS[0], &place.run::<_, &str>("a", [])), "true");
    set_clock(&place, "2026-01-31T18:01:00.000Z", "2026-01-31T18:00:00.000Z");
    edit(&place, "UPDATE shedlock SET locked_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 seconds')");
    finish(&mut with_boot_id(&place, IDS[1], &place.run("a", ["-E", "75", "true"]))).is_silent_with(0);
    assert_eq!(holder.end().code(), Some(0));
}

#[test]
fn what_was_freed_in_another_container_stays_free_when_the_clock_is_set_back() {
    let place = Place::new();
    finish(&mut with_boot_id(&place, IDS[0], &place.run("a", ["true"]))).is_silent_with(0);
    set_clock(&place, "2099-01-01T00:00:01.000Z", "2099-01-01T00:00:00.000Z");
    finish(&mut with_boot_id(&place, IDS[1], &place.run("a", ["-E", "75", "true"]))).is_silent_with(0);
}

/// Returns a directory that systemd-nspawn takes for a system, with the host's programs in it.
fn root(place: &Place, name: &str) -> PathBuf {
    let root = place.path(name);
    fs::create_dir_all(root.join("usr")).unwrap();
    for name in ["bin", "sbin", "lib", "lib64"] {
        symlink(Path::new("usr").join(name), root.join(name)).unwrap();
    }
    root
}

/// Returns a command in a container of systemd-nspawn, which gives each one a boot id of its own.
fn in_nspawn(place: &Place, root: &Path, inner: &Command) -> Command {
    assert!(Path::new("/usr/bin/systemd-nspawn").exists(), "install systemd-container");
    let program = Path::new(env!("CARGO_BIN_EXE_shedlock")).parent().unwrap();
    let here = place.path("");
    let mut words = vec!["systemd-nspawn".to_owned(), "--quiet".to_owned(), "--register=no".to_owned()];
    words.extend(["--keep-unit".to_owned(), format!("--directory={}", root.display())]);
    words.extend(["--bind-ro=/usr".to_owned(), format!("--bind-ro={}", program.display())]);
    words.extend([format!("--bind={}", here.display()), format!("--chdir={}", here.display())]);
    words.push(format!("--machine={}", servers::unique("shedlock").replace('_', "-")));
    for (key, value) in inner.get_envs() {
        words.extend(value.map(|value| format!("--setenv={}={}", key.display(), value.display())));
    }
    by_root(&words.iter().map(String::as_str).collect::<Vec<_>>(), inner)
}

#[test]
fn containers_of_systemd_nspawn_exclude_each_other() {
    let place = Place::new();
    // One that runs keeps its directory to itself.
    let roots = ["one", "two"].map(|name| root(&place, name));
    let id = "cat /proc/sys/kernel/random/boot_id >> ids";
    let mut first = in_nspawn(&place, &roots[0], &place.run::<_, &str>("a", []));
    let holder = Holder::start(&place, &mut first, id);
    let second = place.run("a", ["-E", "75", "sh", "-c", id]);
    let skipped = finish(&mut in_nspawn(&place, &roots[1], &second));
    assert_eq!((skipped.code(), place.read("ids").as_str()), (Some(75), ""), "{skipped:?}");
    assert_eq!(holder.end().code(), Some(0));
    let ran = finish(&mut in_nspawn(&place, &roots[1], &second));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let ids = place.lines("ids");
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn a_file_with_a_hard_link_is_refused_under_either_name() {
    let place = Place::new();
    let directory = directory(&place);
    let names = ["one.db", "two.db"].map(|name| directory.join(name));
    finish(&mut on(&place, &url(&names[0]), &["true"])).is_silent_with(0);
    fs::hard_link(&names[0], &names[1]).unwrap();
    // At the same moment, so that neither finds the other's row in the file.
    for child in names.each_ref().map(|name| start(&mut on(&place, &url(name), &["touch", "ran"]))) {
        let finished = finish_child(child);
        is_refused(&place, &finished, "the file has 2 names (hard links), each with a log of its own");
        assert!(finished.stderr.contains("hint: `find DIRECTORY -xdev -samefile /"), "{finished:?}");
    }
    assert_eq!(names_in(&directory), ["one.db", "one.db-shm", "one.db-wal", "two.db"]);
    fs::remove_file(&names[1]).unwrap();
    finish(&mut on(&place, &url(&names[0]), &["true"])).is_silent_with(0);
}

#[test]
fn a_file_that_is_itself_mounted_is_refused_and_its_directory_is_not() {
    let place = Place::new();
    let real = directory(&place).join("locks.db");
    finish(&mut on(&place, &url(&real), &["true"])).is_silent_with(0);
    fs::create_dir(place.path("other")).unwrap();
    let other = place.path("other/locks.db");
    // As `-v /x/locks.db:/y/locks.db` does it, also where both are called alike.
    let commands = [&real, &other].map(|name| {
        let mount = format!("touch {1}; mount --bind {0} {1}", real.display(), name.display());
        among_mounts(&mount, &on(&place, &url(name), &["touch", "ran"]))
    });
    for child in commands.map(|mut command| start(&mut command)) {
        let finished = finish_child(child);
        is_refused(&place, &finished, "the file itself is mounted there");
        assert!(finished.stderr.contains("hint: mount the file's directory instead"), "{finished:?}");
    }
    fs::remove_file(&other).unwrap();
    let mount = format!("mount --bind {} {}", place.path("db").display(), place.path("other").display());
    let holder = Holder::start(&place, &mut on(&place, &url(&real), &[]), "true");
    let next = on(&place, &url(&other), &["-E", "75", "touch", "ran"]);
    finish(&mut among_mounts(&mount, &next)).is_silent_with(75);
    holder.end().is_silent_with(0);
    finish(&mut among_mounts(&mount, &next)).is_silent_with(0);
    assert!(place.path("ran").exists());
}
