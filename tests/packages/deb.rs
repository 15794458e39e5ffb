//! The Debian package, on a clean Debian without a network.

use std::process::Command;

use super::contents::{add, assert_contains, of_a_system};
use super::debian::on_clean_debian;
use super::made::{ALL, ARCH, MONGODB, Package, SHEDLOCK, VERSION, as_root, source};

/// Installs the package; dpkg has to be content with what is there.
const INSTALL: &str = "in_root dpkg --install $package >/mnt/log 2>&1 || { cat /mnt/log; exit 1; }\n";

/// Runs shell text on a clean Debian that has the package.
fn installed(text: &str) -> String {
    on_clean_debian(&SHEDLOCK.deb(), &format!("{INSTALL}{text}"))
}

/// The commands and files that have a page in man/.
fn pages() -> Vec<(String, String)> {
    let files = std::fs::read_dir(source("man")).unwrap().map(|entry| entry.unwrap().file_name());
    let split = |file: std::ffi::OsString| {
        let file = file.into_string().unwrap();
        file.rsplit_once('.').map(|(name, section)| (name.to_owned(), section.to_owned())).unwrap()
    };
    let mut pages: Vec<_> = files.map(split).collect();
    pages.sort();
    assert!(pages.len() > 15, "{pages:?}");
    pages
}

/// What dpkg-deb says of a package.
fn told(package: &Package, option: &str, words: &[&str]) -> String {
    as_root(&[&["dpkg-deb", option, package.deb().to_str().unwrap()], words].concat())
}

#[test]
fn the_deb_runs_nothing_when_it_is_installed() {
    for package in ALL {
        let listed = told(&package, "--info", &[]);
        assert!(listed.contains(" lines      md5sums "), "{listed}");
        for file in ["preinst", "postinst", "prerm", "postrm", "conffiles", "triggers"] {
            assert!(!listed.contains(&format!(" {file} ")), "{file}: {listed}");
        }
    }
}

#[test]
fn the_deb_says_what_it_is_and_needs_nothing_but_the_program_of_its_provider() {
    says_what_it_is(
        &SHEDLOCK,
        &[
            "Suggests: cron-daemon, man-db, bash-completion",
            "Description: Run a command under a named lock, so that it never runs twice at once",
        ],
    );
    says_what_it_is(
        &MONGODB,
        &["Depends: shedlock (>= 0.1)", "Enhances: shedlock", "Description: Keep the locks of shedlock in MongoDB"],
    );
}

#[track_caller]
fn says_what_it_is(package: &Package, last: &[&str]) {
    let control = told(package, "--field", &[]);
    let fields: Vec<&str> = control.lines().filter(|line| !line.starts_with(' ')).collect();
    let size = told(package, "--field", &["Installed-Size"]);
    let arch = if ARCH == "x86_64" { "amd64" } else { "arm64" };
    let expected = [
        &format!("Package: {}", package.name),
        &format!("Version: {VERSION}-1"),
        &format!("Architecture: {arch}"),
        "Section: utils",
        "Priority: optional",
        "Maintainer: the shedlock authors <maintainers@example.org>",
        &format!("Installed-Size: {}", size.trim()),
    ];
    assert_eq!(fields, [&expected, last].concat());
    // In KiB, each file rounded up, and one for each directory.
    let listed = told(package, "--contents", &[]);
    let taken = |line: &str| match line.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap() {
        0 => 1,
        bytes => bytes.div_ceil(1024),
    };
    assert_eq!(size.trim().parse(), Ok(listed.lines().map(taken).sum::<u64>()));
}

#[test]
fn the_deb_has_a_sum_for_every_file() {
    ALL.iter().for_each(has_a_sum_for_every_file);
}

#[track_caller]
fn has_a_sum_for_every_file(package: &Package) {
    let sums = told(package, "--info", &["md5sums"]);
    let summed: Vec<&str> = sums.lines().map(|line| line.split_once("  ").unwrap().1).collect();
    let contents = told(package, "--contents", &[]);
    let files = contents.lines().filter_map(|line| line.split_once(" ./").map(|(_, file)| file));
    let mut files: Vec<&str> = files.filter(|file| !file.is_empty() && !file.ends_with('/')).collect();
    files.sort_unstable();
    assert_eq!(summed, files);
}

#[test]
fn every_file_of_the_deb_is_roots_and_no_other_can_write_it() {
    ALL.iter().for_each(is_roots);
}

#[track_caller]
fn is_roots(package: &Package) {
    let contents = told(package, "--contents", &[]);
    for line in contents.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (mode, owner, file) = (words[0], words[1], words[5]);
        let expected = match file {
            _ if file.ends_with('/') => "drwxr-xr-x",
            _ if file[2..] == *package.program => "-rwxr-xr-x",
            _ => "-rw-r--r--",
        };
        assert_eq!((mode, owner), (expected, "root/root"), "{line}");
    }
}

#[test]
fn the_deb_has_every_file_and_no_other() {
    let mut contents = of_a_system();
    let completion = "usr/share/zsh/vendor-completions/_shedlock";
    add(&mut contents, completion, "packaging/completions/_shedlock");
    add(&mut contents, "usr/share/lintian/overrides/shedlock", "packaging/debian/lintian-overrides");
    let documents = "usr/share/doc/shedlock";
    add(&mut contents, &format!("{documents}/copyright"), "packaging/debian/copyright");
    add(&mut contents, &format!("{documents}/README.md.gz"), "README.md");
    add(&mut contents, &format!("{documents}/THIRD-PARTY.gz"), "packaging/THIRD-PARTY");
    add(&mut contents, &format!("{documents}/changelog.gz"), "CHANGELOG.md");
    contents.insert(format!("{documents}/changelog.Debian.gz"), None);
    let package = SHEDLOCK.deb();
    assert_contains(&package, &["dpkg-deb", "--extract", package.to_str().unwrap()], &contents);
}

#[test]
fn purging_leaves_nothing_but_the_data() {
    let printed = on_clean_debian(
        &SHEDLOCK.deb(),
        r#"
files >/mnt/before
in_root apt-get install -q -y $package >/mnt/log 2>&1 || { cat /mnt/log; exit 1; }
in_root dpkg --verify shedlock
in_root shedlock run --name first --at-most 1m -- true
# The same again, as an upgrade does it.
in_root dpkg --install $package >/mnt/log 2>&1 || { cat /mnt/log; exit 1; }
in_root shedlock run --name second --at-most 1m -- true
in_root shedlock history --json | grep -o '"name": *"[a-z]*"' | tr -d ' '
in_root dpkg --purge shedlock >/mnt/log 2>&1 || { cat /mnt/log; exit 1; }
files >/mnt/after
comm -3 /mnt/before /mnt/after
"#,
    );
    let lines: Vec<&str> = printed.lines().map(str::trim).collect();
    // What apt, dpkg and man keep for themselves.
    let books = ["./var/lib/dpkg/", "./var/log/", "./var/lib/apt/", "./var/cache/apt/", "./var/cache/man/"];
    let lines: Vec<&str> = lines.into_iter().filter(|line| !books.iter().any(|book| line.starts_with(book))).collect();
    let (runs, left) = lines.split_at(2);
    assert_eq!(runs, [r#""name":"second""#, r#""name":"first""#], "{printed}");
    assert_eq!(left[..2], ["./var/lib/shedlock", "./var/lib/shedlock/shedlock.db"], "{printed}");
    assert!(left.iter().all(|line| line.starts_with("./var/lib/shedlock")), "{printed}");
}

#[test]
fn every_page_of_the_manual_opens() {
    let pages = pages();
    let words: Vec<String> = pages.iter().map(|(name, section)| format!("{section}:{name}")).collect();
    let text = r#"
for page in PAGES; do
    echo "page $page"
    in_root env MANWIDTH=80 MANPAGER=cat man --warnings "${page%%:*}" "${page#*:}" 2>&1 | head -n 4
done
echo whatis
in_root whatis shedlock-run
in_root apropos 'named lock'
in_root env MANWIDTH=80 MANPAGER=cat man shedlock-run | grep -c -e --at-most
"#;
    let printed = installed(&text.replace("PAGES", &words.join(" ")));
    for (name, section) in pages {
        let head = format!("page {section}:{name}\n{}({section})", name.to_uppercase());
        assert!(printed.to_uppercase().contains(&head.to_uppercase()), "{head} is not in {printed}");
    }
    assert!(printed.contains("shedlock-run (1)     - "), "{printed}");
    assert!(!printed.contains("warning"), "{printed}");
}

#[test]
fn bash_zsh_and_fish_complete_the_options_and_the_names_of_locks() {
    let printed = installed(
        r#"
cat >/mnt/root/root/bash <<'END'
source /usr/share/bash-completion/bash_completion
complete -p shedlock && echo 'loaded before it was asked for'
_completion_loader shedlock
set -- $(complete -p shedlock)
while [ "$1" != -F ]; do shift; done
COMP_WORDS=(shedlock run --on-exp) COMP_CWORD=2 COMP_LINE='shedlock run --on-exp' COMP_POINT=21
"$2" shedlock --on-exp run
echo "bash: ${COMPREPLY[*]}"
COMP_WORDS=(shedlock run --name imp) COMP_CWORD=3 COMP_LINE='shedlock run --name imp' COMP_POINT=23
"$2" shedlock imp --name
echo "bash: ${COMPREPLY[*]}"
END
cat >/mnt/root/root/zsh <<'END'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1= TERM=dumb; autoload -Uz compinit; compinit -u; print ready-$((1 + 1))'
zpty -r shell answer '*ready-2*'
zpty -w -n shell $'shedlock run --on-exp\t'
zpty -r shell answer '*--on-expiry*'
print zsh: --on-expiry
zpty -w -n shell $'\x15shedlock history imp\t'
zpty -r shell answer '*import*of*orders*'
print zsh: import of orders
zpty -d shell
END
cat >/mnt/root/root/fish <<'END'
echo fish: (complete -C 'shedlock run --on-exp' | string split -f1 \t)
echo fish: (complete -C 'shedlock pause imp' | string split -f1 \t)
END
in_root shedlock run --name 'import of orders' --at-most 1m true
in_root bash /root/bash 2>/mnt/errors || { cat /mnt/errors; exit 1; }
in_root timeout 60 zsh -f /root/zsh
in_root fish /root/fish
"#,
    );
    assert_eq!(
        printed,
        "bash: --on-expiry\nbash: import\\ of\\ orders\nzsh: --on-expiry\nzsh: import of orders\n\
         fish: --on-expiry\nfish: import of orders\n"
    );
}

#[test]
fn two_lines_of_a_crontab_run_the_job_once_per_minute() {
    let printed = installed(
        r#"
cat >/mnt/root/etc/cron.d/report <<'END'
* * * * * root shedlock run --name report --at-most 5m --every 1m -E 75 -- sh -c 'echo run >> /root/runs'; echo $? >> /root/codes
* * * * * root shedlock run --name report --at-most 5m --every 1m -E 75 -- sh -c 'echo run >> /root/runs'; echo $? >> /root/codes
END
in_root cron -f &
tries=2600
while [ "$(cat /mnt/root/root/codes 2>/dev/null | wc -l)" -lt 2 ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { echo 'waited in vain for two lines of cron' >&2; exit 1; }
    sleep 0.05
done
kill $!
sort /mnt/root/root/codes
cat /mnt/root/root/runs
in_root shedlock history report --json | grep -c '"outcome": *"success"'
"#,
    );
    assert_eq!(printed, "0\n75\nrun\n1\n");
}

#[test]
fn lintian_has_nothing_to_say_that_is_not_explained() {
    for package in ALL {
        let mut lintian = Command::new("lintian");
        lintian.args(["--allow-root", "--display-info", "--pedantic", "--tag-display-limit", "0"]);
        lintian.args(["--fail-on", "error,warning,info,pedantic", "--color", "never"]).arg(package.deb());
        let output = lintian.output().expect("this test needs lintian");
        let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && printed.trim().is_empty(), "{printed}");
        // Each finding that is not to be heard of has its reason above it.
        let overrides = std::fs::read_to_string(source(&package.file("debian/lintian-overrides"))).unwrap();
        let finding = format!("{}: ", package.name);
        for (above, line) in std::iter::once("").chain(overrides.lines()).zip(overrides.lines()) {
            assert!(line.starts_with('#') || above.starts_with('#') || above.starts_with(&finding), "{line}");
        }
    }
}
