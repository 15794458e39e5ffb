//! docs/install.md: its command lines, run as they stand.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::support::fixtures::{among_mounts, by_nobody, by_root, change, open_to_nobody};
use super::support::markdown::run_by;
use super::support::process::{copy_program, write_script};
use super::support::{Finished, Place, finish};

/// The archive as packaging/build makes it, as far as the document goes, unpacked.
fn unpacked(place: &Place) -> String {
    let name = format!("shedlock-{}-linux-x86_64", env!("CARGO_PKG_VERSION"));
    let script = "mkdir -p \"$1/completions\"; cp \"$2\" \"$1/shedlock\"; cp -R man \"$1/man\"
        for shell in bash zsh fish; do \"$2\" completions $shell >\"$1/completions/$shell\"; done
        cd \"$1/completions\"; mv bash shedlock.bash; mv zsh _shedlock; mv fish shedlock.fish";
    let mut make = Command::new("sh");
    make.args(["-euc", script, "sh"]).arg(place.path(&name)).arg(env!("CARGO_BIN_EXE_shedlock"));
    finish(make.current_dir(env!("CARGO_MANIFEST_DIR"))).is_silent_with(0);
    name
}

/// Runs a script as root where /usr/local, /var/lib and /etc/shedlock are the test's own.
fn as_root(place: &Place, script: &str) -> Finished {
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(place.path("")).env("HOME", place.path("home")).env_remove("GNUPGHOME");
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let setup = "mount -t tmpfs -o mode=755 tmpfs /run; cp -a /etc /run/etc; mount --bind /run/etc /etc; \
                 mount -t tmpfs -o mode=755 tmpfs /usr/local; mount -t tmpfs -o mode=755 tmpfs /var/lib";
    finish(&mut among_mounts(setup, &command))
}

#[test]
fn what_was_downloaded_is_checked_installed_and_removed_again() {
    let place = Place::new();
    let name = unpacked(&place);
    let steps = run_by("docs/install.md", "what_was_downloaded_is_checked_installed_and_removed_again");
    let [verify, install, remove, forget] = &steps[..] else { panic!("{steps:#?}") };
    let script = format!(
        "mkdir -m 700 -p home
         tar -czf {name}.tar.gz {name}; rm -r {name}
         sha256sum {name}.tar.gz >SHA256SUMS; echo '{zeros}  shedlock.deb' >>SHA256SUMS
         gpg -q --batch --passphrase '' --quick-generate-key t@example.org 2>/dev/null
         gpg -q --batch --armor --detach-sign SHA256SUMS
         {{ {verify} }} 2>gpg.log
         grep -q 'Good signature' gpg.log
         (\n{install})
         [ \"$(command -v shedlock)\" = /usr/local/bin/shedlock ]
         man -w shedlock-run shedlock.toml shedlock-fencing
         shedlock run --name old --at-most 1m -- sh -c '>up; until [ -e go ]; do sleep 0.02; done; echo the old one' &
         until [ -e up ]; do sleep 0.02; done
         ! cp {name}/shedlock /usr/local/bin/shedlock 2>busy
         grep -q 'Text file busy' busy
         (\n{install})
         >go; wait $!
         {remove}
         find /usr/local ! -type d; find /etc/fish -name 'shedlock*'
         test -e /var/lib/shedlock/shedlock.db
         {forget}
         test ! -e /var/lib/shedlock
         gpgconf --kill all",
        zeros = "0".repeat(64)
    );
    let finished = as_root(&place, &script);
    let man = "/usr/local/share/man/man";
    let printed = format!(
        "{name}.tar.gz: OK\n{man}1/shedlock-run.1\n{man}5/shedlock.toml.5\n{man}7/shedlock-fencing.7\nthe old one\n"
    );
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), printed.as_str()), "{finished:?}");
    assert_eq!(finished.stderr, "");
}

#[test]
fn somebody_without_root_installs_it_at_home() {
    let place = Place::new();
    let name = unpacked(&place);
    let home = open_to_nobody(&place, "home");
    let steps = run_by("docs/install.md", "somebody_without_root_installs_it_at_home");
    let [install] = &steps[..] else { panic!("{steps:#?}") };
    let script = format!(
        "{install}cd ~; shedlock run --name a --at-most 1m -- echo ran; find .local -type f | sort | grep -v man1/shedlock-"
    );
    let mut command = Command::new("sh");
    command.args(["-euc", &script]).current_dir(place.path(&name)).env_clear().env("HOME", &home);
    command.env("PATH", format!("{}/.local/bin:/usr/bin:/bin", home.display()));
    let finished = finish(&mut by_nobody(&command));
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    for line in ["ran", ".local/bin/shedlock", ".local/share/man/man7/shedlock-fencing.7"] {
        assert!(finished.stdout.lines().any(|found| found == line), "{line}: {}", finished.stdout);
    }
    assert!(finished.stdout.contains(".local/state/shedlock/shedlock.db\n"), "{}", finished.stdout);
}

/// A host of this name is a directory, in which the two directories of the loop are.
const SSH: &str = r#"#!/bin/sh
set -eu
[ "$1" = -n ] && shift && exec </dev/null
root=$HOSTS/${1#root@}
export PATH="$root/usr/local/bin:/usr/bin:/bin"
exec sh -c "$(echo "$2" | sed "s,/usr/local/bin,$root/usr/local/bin,g; s,/etc/shedlock,$root/etc/shedlock,g")"
"#;
const SCP: &str = r#"#!/bin/sh
[ "$1" = -q ] && exec cp "$2" "$HOSTS/$(echo "$3" | sed 's,^root@\([^:]*\):,\1,')"
"#;

#[test]
fn a_loop_over_ssh_installs_it_on_every_host() {
    let place = Place::new();
    let steps = run_by("docs/install.md", "a_loop_over_ssh_installs_it_on_every_host");
    let [script] = &steps[..] else { panic!("{steps:#?}") };
    for directory in ["bin", "web1/usr/local/bin", "web1/etc", "web2/usr/local/bin", "web2/etc"] {
        fs::create_dir_all(place.path(directory)).unwrap();
    }
    write_script(&place, "bin/ssh", SSH);
    write_script(&place, "bin/scp", SCP);
    fs::write(place.path("hosts"), "web1\nweb2\n").unwrap();
    fs::write(place.path("backend"), format!("sqlite:{}\n", place.path("shared.db").display())).unwrap();
    copy_program(env!("CARGO_BIN_EXE_shedlock"), place.path("shedlock"));
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(place.path("")).env_clear().env("HOSTS", place.path(""));
    command.env("PATH", format!("{}:/usr/bin:/bin", place.path("bin").display()));
    let finished = finish(&mut command);
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    assert_eq!(finished.stdout.matches("this host can lock here").count(), 2, "{}", finished.stdout);
    assert_eq!(super::support::fixtures::mode(&place.path("web2/etc/shedlock/backend")), 0o600);
    assert!(!place.path("web2/usr/local/bin/shedlock.new").exists());
    // A host that cannot lock is named, and the others are served all the same.
    fs::write(place.path("backend"), "sqlite:/nonexistent/shared.db\n").unwrap();
    let finished = finish(&mut command);
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), "web1 cannot lock\nweb2 cannot lock\n"));
    // The old program of a host to which the new one cannot be copied does not pass for the new one.
    fs::write(place.path("backend"), format!("sqlite:{}\n", place.path("shared.db").display())).unwrap();
    fs::create_dir(place.path("web1/usr/local/bin/shedlock.new")).unwrap();
    let finished = finish(&mut command);
    assert!(finished.stderr.ends_with("web1 cannot lock\n"), "{finished:?}");
    assert_eq!(finished.stdout.matches("this host can lock here").count(), 1, "{}", finished.stdout);
}

#[test]
fn the_users_of_a_group_share_their_locks_and_nobody_else_has_them() {
    let place = Place::new();
    let steps = run_by("docs/install.md", "the_users_of_a_group_share_their_locks_and_nobody_else_has_them");
    let [config] = &steps[..] else { panic!("{steps:#?}") };
    let locks = place.path("locks");
    fs::create_dir(&locks).unwrap();
    fs::write(place.path("config.toml"), config.replace("/srv/locks", locks.to_str().unwrap())).unwrap();
    change("chmod", "0755", &place.path(""));
    change("chgrp", "61000", &locks);
    change("chmod", "2770", &locks);
    let run = |user: &str, groups: &str| {
        let mut command = place.run("job", ["--at-least", "1m", "-E", "75", "echo", "ran"]);
        command.env_remove("SHEDLOCK_BACKEND").env("SHEDLOCK_CONFIG", place.path("config.toml")).current_dir("/");
        let words = ["setpriv", &format!("--reuid={user}"), &format!("--regid={user}"), &format!("--groups={groups}")];
        finish(&mut by_root(&words, &command))
    };
    let first = run("61001", "61000");
    assert_eq!((first.code(), first.stdout.as_str(), first.stderr.as_str()), (Some(0), "ran\n", ""));
    run("61002", "61000").is_silent_with(75);
    run("61003", "61003").complains(125, &locks.display().to_string());
    assert!(Path::new(&locks).join("shared.db").exists());
}
