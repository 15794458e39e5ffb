//! packaging/build itself, where something is missing, and that who runs it and where leaves no trace in a package: its
//! compilers and installers are made up, and note what they are asked for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::made::{ALL, ARCH, VERSION};
use super::recipes::copy;
use super::support::fixtures::names_in;
use super::support::process::{copy_program, write_script};
use super::support::{Finished, Place, finish};

/// The programs of this machine that it finds.
const PROGRAMS: &str =
    "bash cat chmod cp dirname env flock git grep mkdir mv objcopy readelf rm sed sh stat tail touch uname";

/// Programs that it needs for packages beside them.
const PACKERS: &str = "awk date dpkg-deb find gzip install md5sum rpmbuild sort tar xargs";

/// They are in `$SCENE/bin`; what they can fetch has a file of its name in `$SCENE/offers`.
const RUSTC: &str = "#!/bin/sh\n[ \"$*\" = '--print sysroot' ] && echo \"$SCENE/sysroot\"\n";
const RUSTUP: &str = "#!/bin/sh
echo \"rustup $*\" >>\"$SCENE/asked\"
[ -e \"$SCENE/offers/$3\" ] && mkdir -p \"$SCENE/sysroot/lib/rustlib/$3/lib\"
";
const APT_GET: &str = "#!/bin/sh
echo \"apt-get $*\" >>\"$SCENE/asked\"
case $1 in
    update) ;;
    *) for package; do :; done; [ -e \"$SCENE/offers/$package\" ] && cp \"$SCENE/bin/true\" \"$SCENE/bin/musl-gcc\" ;;
esac
";
const SUDO: &str = "#!/bin/sh
echo \"sudo $1\" >>\"$SCENE/asked\"
shift
exec \"$@\"
";
const CARGO: &str = "#!/bin/sh
echo \"cargo $*\" >>\"$SCENE/asked\"
echo \"flags ${RUSTFLAGS-none} ${CARGO_INCREMENTAL-none} $(env | sed -n 's/^CARGO_TARGET_.*_RUSTFLAGS=//p')\" >>\"$SCENE/asked\"
[ \"$4 $6\" = '--package --target' ]
mkdir -p \"target/$7/release\"
cp \"$SCENE/built\" \"target/$7/release/$5\"
";

/// A copy of the sources on a machine that has Rust and nothing else.
struct Machine {
    place: Place,
    copy: PathBuf,
}

impl Machine {
    /// What rustup and apt-get can fetch.
    fn that_offers(names: &[&str]) -> Self {
        let place = Place::new();
        drop(copy(&place));
        fs::create_dir_all(place.path("bin")).unwrap();
        fs::create_dir_all(place.path("offers")).unwrap();
        for name in names {
            fs::write(place.path("offers").join(name), "").unwrap();
        }
        let scripts = [("rustc", RUSTC), ("rustup", RUSTUP), ("apt-get", APT_GET), ("sudo", SUDO), ("cargo", CARGO)];
        for (name, text) in scripts.into_iter().chain([("true", "#!/bin/sh\n"), ("id", "#!/bin/sh\necho 0\n")]) {
            write_script(&place, &format!("bin/{name}"), text);
        }
        copy_program(env!("CARGO_BIN_EXE_shedlock"), place.path("built"));
        let machine = Self { copy: place.path("copy"), place };
        machine.has(PROGRAMS);
        machine
    }

    /// Makes a machine that can build for another one as well, and make packages, of a small program.
    fn that_makes_packages() -> Self {
        let machine = Self::that_offers(&[&musl(), &format!("{FOREIGN}-unknown-linux-musl"), "musl-tools"]);
        machine.has(PACKERS);
        write_script(&machine.place, &format!("bin/{FOREIGN}-linux-gnu-gcc"), "#!/bin/sh\n");
        symlink("objcopy", machine.place.path("bin").join(format!("{FOREIGN}-linux-gnu-objcopy"))).unwrap();
        let fetched = machine.copy.join("target/tools").join(format!("musl-{FOREIGN}"));
        let headers = fetched.join(format!("root/usr/include/{FOREIGN}-linux-musl"));
        fs::create_dir_all(&headers).unwrap();
        fs::write(headers.join("stdio.h"), "").unwrap();
        fs::write(fetched.join("done"), "").unwrap();
        copy_program("/bin/busybox", machine.place.path("built"));
        machine
    }

    /// Gives it programs of this machine.
    fn has(&self, programs: &str) {
        for program in programs.split(' ') {
            let found = ["/usr/bin", "/bin"].map(|directory| Path::new(directory).join(program));
            let found = found.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{program} is missing"));
            symlink(found, self.place.path("bin").join(program)).unwrap();
        }
    }

    fn build(&self) -> Finished {
        self.build_with("umask 022", &["binary"])
    }

    /// The same, after a command of the shell that starts it.
    fn build_with(&self, before: &str, arguments: &[&str]) -> Finished {
        let mut build = Command::new("sh");
        build.args(["-c", &format!("{before} && exec packaging/build \"$@\""), "sh"]).args(arguments);
        build.current_dir(&self.copy).env_clear();
        build.env("PATH", self.place.path("bin")).env("SCENE", self.place.path("")).env("HOME", self.place.path(""));
        build.env("SOURCE_DATE_EPOCH", "1700000000");
        finish(build.env("RUSTFLAGS", "-C some=flag").env("CARGO_INCREMENTAL", "1"))
    }

    /// The bytes of a package, and where it is.
    fn package(&self, before: &str, arguments: &[&str]) -> (Vec<u8>, PathBuf) {
        let finished = self.build_with(before, arguments);
        assert_eq!(finished.code(), Some(0), "{finished:?}");
        let path = self.copy.join(finished.stdout.trim());
        (fs::read(&path).unwrap(), path)
    }

    fn asked(&self) -> Vec<String> {
        self.place.lines("asked")
    }
}

/// The machine that this is not.
const FOREIGN: &str = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };

fn musl() -> String {
    format!("{ARCH}-unknown-linux-musl")
}

fn gnu() -> String {
    format!("{ARCH}-unknown-linux-gnu")
}

const UPDATE: &str = "apt-get update -q";
const INSTALL: &str = "apt-get install -q -y --no-install-recommends musl-tools";

#[track_caller]
fn made(finished: &Finished) {
    let path = format!("target/packages/{ARCH}/shedlock\n");
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), path.as_str()), "{finished:?}");
}

#[test]
fn the_target_and_the_compiler_of_musl_are_fetched_once() {
    let machine = Machine::that_offers(&[&musl(), "musl-tools"]);
    made(&machine.build());
    let build = format!("cargo build --release --locked --package shedlock --target {}", musl());
    let mut asked = machine.asked();
    let flags = asked.pop().unwrap();
    assert_eq!(asked, [&format!("rustup target add {}", musl()), UPDATE, INSTALL, &build]);
    // Those of the caller are not in it, and no path of this machine is.
    assert!(flags.starts_with("flags none none --remap-path-prefix="), "{flags}");
    made(&machine.build());
    assert_eq!(machine.asked()[5..], [build, flags]);
}

#[test]
fn who_is_not_root_installs_with_sudo() {
    let machine = Machine::that_offers(&[&musl(), "musl-tools"]);
    write_script(&machine.place, "bin/id", "#!/bin/sh\necho 1000\n");
    made(&machine.build());
    assert_eq!(machine.asked()[1..5], ["sudo -n", UPDATE, "sudo -n", INSTALL]);
}

#[test]
fn without_musl_it_is_linked_with_glibc_and_says_so() {
    for (offers, hides) in [(vec![gnu()], ""), (vec![gnu(), musl()], ""), (vec![gnu(), "musl-tools".into()], "rustup")]
    {
        let machine = Machine::that_offers(&offers.iter().map(String::as_str).collect::<Vec<_>>());
        if !hides.is_empty() {
            // A Rust that is not rustup's has the standard library for this machine.
            fs::remove_file(machine.place.path("bin").join(hides)).unwrap();
            fs::create_dir_all(machine.place.path(&format!("sysroot/lib/rustlib/{}/lib", gnu()))).unwrap();
        }
        let finished = machine.build();
        made(&finished);
        let said = format!("the target {} cannot be had here: linked statically with glibc instead", musl());
        assert!(finished.stderr.contains(&said), "{finished:?}");
        let build = format!("cargo build --release --locked --package shedlock --target {}", gnu());
        assert!(machine.asked().contains(&build), "{:?}", machine.asked());
    }
}

#[test]
fn where_no_target_can_be_had_nothing_is_built() {
    let machine = Machine::that_offers(&[]);
    let finished = machine.build();
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(1), ""), "{finished:?}");
    let said = format!("packaging/build: the target {} cannot be had either\n", gnu());
    assert!(finished.stderr.ends_with(&said), "{finished:?}");
    assert!(!machine.asked().iter().any(|line| line.starts_with("cargo ")), "{:?}", machine.asked());
}

#[test]
fn a_program_that_needs_a_loader_is_not_taken() {
    let machine = Machine::that_offers(&[&musl(), "musl-tools"]);
    copy_program("/bin/cat", machine.place.path("built"));
    let finished = machine.build();
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(1), ""), "{finished:?}");
    assert!(finished.stderr.ends_with("packaging/build: the program is not static\n"), "{finished:?}");
    assert!(!machine.copy.join("target/packages").join(ARCH).join("shedlock").exists());
}

#[test]
fn who_makes_a_package_and_where_leaves_no_trace_in_it() {
    let mut machines = [Machine::that_makes_packages(), Machine::that_makes_packages()];
    let elsewhere = machines[1].place.path("50% of 100 %s");
    fs::rename(&machines[1].copy, &elsewhere).unwrap();
    machines[1].copy = elsewhere;
    let settings = "%packager someone\n%_binary_payload w1.gzdio\n%_topdir /nowhere\n";
    fs::write(machines[1].place.path(".rpmmacros"), settings).unwrap();
    for [kind, name] in ALL.iter().flat_map(|of| [["deb", of.name], ["rpm", of.name], ["archive", of.name]]) {
        let (package, path) = machines[0].package("umask 022", &[kind, name]);
        let (again, _) = machines[1].package("umask 077 && export TZ=Asia/Tokyo LC_ALL=C.UTF-8", &[kind, name]);
        assert!(package == again, "{}", path.display());
        let place = machines[0].place.path("");
        let place = place.to_str().unwrap().trim_end_matches('/').as_bytes();
        assert!(!package.windows(place.len()).any(|bytes| bytes == place), "{}", path.display());
    }
    for machine in machines {
        let all = fs::read_dir(machine.place.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        let others: Vec<_> = all.filter(|name| name.to_str().unwrap().contains("rpm")).collect();
        assert!(others.is_empty() || others == [".rpmmacros"], "{others:?}");
        // The packages, and nothing that they were made of but the programs.
        let left = names_in(&machine.copy.join("target/packages"));
        assert_eq!(left.len(), 8, "{left:?}");
    }
}

#[test]
fn a_package_for_another_machine_says_so() {
    let machine = Machine::that_makes_packages();
    let of_debian = if FOREIGN == "aarch64" { "arm64" } else { "amd64" };
    let asked = |words: &[&str], path: &Path| finish(Command::new(words[0]).args(&words[1..]).arg(path)).stdout;
    let (_, deb) = machine.package("umask 022", &["deb", "--arch", FOREIGN]);
    assert!(deb.ends_with(format!("shedlock_{VERSION}-1_{of_debian}.deb")), "{}", deb.display());
    assert!(asked(&["dpkg-deb", "--info"], &deb).contains(&format!("\n Architecture: {of_debian}\n")));
    let (_, rpm) = machine.package("umask 022", &["rpm", "--arch", FOREIGN]);
    assert!(rpm.ends_with(format!("shedlock-{VERSION}-1.{FOREIGN}.rpm")), "{}", rpm.display());
    assert_eq!(asked(&["rpm", "-qp", "--queryformat", "%{ARCH} %{OS}"], &rpm), format!("{FOREIGN} linux"));
}

#[test]
fn without_what_makes_a_package_nothing_is_compiled() {
    let machine = Machine::that_makes_packages();
    for (kind, program, package) in [("deb", "dpkg-deb", "dpkg"), ("rpm", "rpmbuild", "rpm")] {
        fs::remove_file(machine.place.path("bin").join(program)).unwrap();
        let finished = machine.build_with("umask 022", &[kind]);
        let said = format!("packaging/build: {program} is missing; it comes in the package {package}");
        assert!(finished.code() == Some(1) && finished.stderr.contains(&said), "{finished:?}");
        let install = format!("apt-get install -q -y --no-install-recommends {package}");
        assert_eq!(machine.asked()[machine.asked().len() - 2..], [UPDATE, &install]);
    }
    assert!(!machine.asked().iter().any(|line| line.starts_with("cargo ")), "{:?}", machine.asked());
}
