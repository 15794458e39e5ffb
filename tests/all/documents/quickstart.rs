//! The page from nothing to two hosts, carried out: hosts with a network, a name, files and a cron daemon of their own, and a
//! PostgreSQL that lets in only the role of the page.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sched::{CloneFlags, unshare};
use servers::Postgres;

use super::markdown::printed;
use crate::support::markdown::run_by;
use crate::support::process::write_script;
use crate::support::{Place, finish, wait_until};

/// Two firings of cron, which fires at whole minutes.
const PATIENCE: Duration = Duration::from_secs(150);

/// Where the server is, in the network that the page names.
const DB: &str = "10.77.0.1";

/// An address that `pg_hba.conf` does not let in.
const STRANGER: &str = "10.88.0.1";

/// What each host has beside the files that the page writes: the server's name, and no crontab.
const HOSTS: &str = "127.0.0.1 localhost\n10.77.0.1 db\n";

/// Is a host, as the first process of a pid namespace, in which nothing outlives it: `DIRECTORY NAME ADDRESS`. When its cable
/// is there it starts cron, and then runs the scripts whose names it reads, each with the exported variables of those before.
/// The files below /etc are a copy, and what the host installs, logs and mails is in the directory.
const HOST: &str = r#"
set -eu
export PATH=/usr/local/bin:/usr/bin:/bin HOME=/root LANG=C.UTF-8 TZ=UTC
directory=$1
hostname "$2"
mount -t tmpfs -o mode=755 tmpfs /run
cp -a /etc /run/etc
rm -rf /run/etc/cron.d /run/etc/shedlock
mkdir -p /run/etc/cron.d /run/sbin /run/spool/crontabs
: >/run/etc/crontab
cp "$directory/hosts" /run/etc/hosts
cp /usr/sbin/cron "$directory/sendmail" /run/sbin
chown -R root:root /run/etc/hosts /run/etc/crontab /run/sbin
# cron reads its tables again when these times are others, to the second.
touch -d @0 /run/etc/cron.d /run/etc/crontab /run/spool/crontabs
: >"$directory/made"
read -r _
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
ip addr add "$3/24" dev eth0
ip link set eth0 up
mount --bind /run/etc /etc
mount --bind /run/spool /var/spool/cron
mount -t tmpfs tmpfs /var/lib
mount --bind /run/sbin /usr/sbin
mount --bind "$directory/bin" /usr/local/bin
mount --bind "$directory/log" /var/log
/usr/sbin/cron -f &
export -p >/run/variables
while read -r script; do
    {
        echo '. /run/variables'
        cat "$directory/$script"
        echo
        echo 'export -p >/run/variables'
    } >/run/script
    code=0
    sh -eu /run/script >"$directory/$script.stdout" 2>"$directory/$script.stderr" </dev/null || code=$?
    echo "$code" >"$directory/$script.new"
    mv "$directory/$script.new" "$directory/$script.code"
done
"#;

/// A host that runs until it is switched off.
struct Host {
    name: &'static str,
    cable: String,
    place: Place,
    process: Child,
    scripts: usize,
}

impl Host {
    /// Starts a host. `copy` is the scp(1) of the host.
    fn start(name: &'static str, address: &str, copy: &str) -> Self {
        let place = Place::new();
        let directory = place.path("");
        let directory = directory.to_str().unwrap().trim_end_matches('/');
        for folder in ["bin", "log"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        fs::write(place.path("hosts"), HOSTS).unwrap();
        write_script(&place, "sendmail", &format!("#!/bin/sh\n{{ cat; echo 'end of mail'; }} >>{directory}/mail\n"));
        write_script(&place, "bin/scp", copy);
        // The exit code of a run is a file's, since cron tells nobody.
        let shedlock = env!("CARGO_BIN_EXE_shedlock");
        let witness = format!(
            "#!/bin/sh\ncode=0\n{shedlock} \"$@\" || code=$?\n[ \"$1\" != run ] || echo $code >>{directory}/codes\nexit $code\n"
        );
        write_script(&place, "bin/shedlock", &witness);
        let words = ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c"];
        let mut command = Command::new("unshare");
        command.args(words).args([HOST, "sh", directory, name, address]);
        command.stdin(Stdio::piped()).stderr(fs::File::create(place.path("stage")).unwrap());
        let mut host = Self { name, cable: format!("to-{name}"), place, process: command.spawn().unwrap(), scripts: 0 };
        host.wait_until("the host is made", |host| host.place.path("made").exists());
        ip(&format!("link add {} type veth peer name eth0 netns {}", host.cable, host.process.id()));
        ip(&format!("link set {} master br0", host.cable));
        ip(&format!("link set {} up", host.cable));
        host.say("begin");
        host
    }

    fn say(&mut self, line: &str) {
        writeln!(self.process.stdin.as_ref().unwrap(), "{line}").unwrap();
    }

    /// Runs a block of the page, which has to succeed; what it prints.
    #[track_caller]
    fn run(&mut self, block: &str) -> String {
        let (code, stdout, stderr) = self.try_run(block);
        assert_eq!((code.as_str(), stderr.as_str()), ("0", ""), "on {}:\n{block}\n{stdout}", self.name);
        stdout
    }

    /// Runs commands; their code and what they print.
    fn try_run(&mut self, block: &str) -> (String, String, String) {
        self.scripts += 1;
        let script = format!("script{}", self.scripts);
        fs::write(self.place.path(&script), block).unwrap();
        self.say(&script);
        self.wait_until(block, |host| host.place.path(&format!("{script}.code")).exists());
        let [code, stdout, stderr] =
            ["code", "stdout", "stderr"].map(|what| self.place.read(&format!("{script}.{what}")));
        (code.trim().to_owned(), stdout, stderr)
    }

    /// Waits for a sign. A host that ends before it is broken.
    #[track_caller]
    fn wait_until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "{} has ended; it needs root: {}", self.name, self.place.read("stage"));
            assert!(begun.elapsed() < PATIENCE, "waited in vain on {}: {what}", self.name);
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the lines that the host's job has written.
    fn reports(&self) -> Vec<String> {
        self.place.lines("log/report.log")
    }

    /// Returns the exit codes of the host's runs that have ended.
    fn codes(&self) -> Vec<String> {
        self.place.lines("codes")
    }

    /// Takes the network away, and then everything that runs.
    fn switch_off(&mut self) {
        ip(&format!("link del {}", self.cable));
        // The first process of its pid namespace dies with this one, and all others with that.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may be off already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The host of the database, and the commands that are typed there.
struct Database {
    server: Postgres,
}

impl Database {
    /// Runs a block of the page as the server's user, who is `postgres` to it, and waits until the server has read its files.
    fn run(&self, block: &str) {
        let block = format!("PATH=$(dirname /usr/lib/postgresql/*/bin/psql | tail -n 1):$PATH\n{block}");
        let mut shell = self.server.directory().command("sh");
        shell.env("PGHOST", self.server.path()).env("PGUSER", "postgres").args(["-euc", &block]);
        let finished = finish(&mut shell);
        assert_eq!(finished.code(), Some(0), "{finished:?}");
        wait_until("the server reads its files", || {
            self.server.log().contains("parameter \"ssl\" changed to \"on\"").then_some(())
        });
    }

    /// Returns the scp(1) of a host, which knows one file.
    fn copy(&self) -> String {
        let file = self.server.directory().file("db.crt");
        format!("#!/bin/sh\n[ \"$1\" = 'root@db:~postgres/db.crt' ] && cp {file} \"$2\"\n")
    }
}

/// Makes this thread's network: a bridge that the hosts are joined to, with the addresses of the server.
fn enter_a_network() {
    unshare(CloneFlags::CLONE_NEWNET).unwrap_or_else(|error| panic!("a network of the test's own needs root: {error}"));
    ip("link set lo up");
    ip("link add br0 type bridge");
    ip(&format!("addr add {DB}/24 dev br0"));
    ip(&format!("addr add {STRANGER}/24 dev br0"));
    ip("link set br0 up");
}

fn ip(words: &str) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let output = Command::new("ip").args(words.split(' ')).env("PATH", path).output();
    let output = output.expect("ip(8) of iproute2 is needed");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Asserts that the page shows what was printed. The page's `host1` is the host that runs the job first.
#[track_caller]
fn is_shown(shown: &str, printed: &str, first: &str) {
    let printed = match first {
        "host2" => printed.replace("host1", "host0").replace("host2", "host1").replace("host0", "host2"),
        _ => printed.to_owned(),
    };
    assert!(printed::matches(shown, &printed), "the page shows:\n{shown}\nand this was printed:\n{printed}");
}

#[test]
fn one_of_two_hosts_runs_the_job_also_when_the_other_is_off() {
    // The network is this thread's and its children's; another test may come on the thread of this one.
    if let Err(failure) = thread::spawn(story).join() {
        std::panic::resume_unwind(failure);
    }
}

fn story() {
    let blocks = run_by("docs/quickstart.md", "one_of_two_hosts_runs_the_job_also_when_the_other_is_off");
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let [database, backend, checked, crontab, refused, status, shown, history, past] = blocks[..] else {
        panic!("the page has other blocks: {blocks:?}");
    };
    enter_a_network();
    let server = Database { server: Postgres::in_a_network() };
    server.run(database);
    let mut hosts =
        ["host1", "host2", "host3"].map(|name| Host::start(name, &format!("10.77.0.1{}", &name[4..]), &server.copy()));
    for host in &mut hosts[..2] {
        let printed = host.run(backend);
        assert!(printed.lines().all(|line| !line.starts_with(['!', '✗'])), "{printed}");
        is_shown(checked, &printed, "host1");
    }
    lets_in_nobody_else(&mut hosts[0]);
    // All of them get the line within one minute, so that they first fire in the same one.
    wait_until("a minute has begun", || (seconds_of_the_minute() < 40).then_some(()));
    // The third host has the line, and nothing to go with it.
    hosts.iter_mut().for_each(|host| assert_eq!(host.run(crontab), ""));

    // All have fired when one has a line of its job, and the others the end of their runs.
    let [one, other, unready] = &mut hosts;
    one.wait_until("cron fires", |one| one.reports().len() + other.reports().len() > 0);
    let (first, second) = if one.reports().is_empty() { (other, one) } else { (one, other) };
    second.wait_until("the run ends at once", |second| second.codes().len() + second.reports().len() > 0);
    assert_eq!((second.reports().len(), second.codes()), (0, vec!["0".to_owned()]), "one of two hosts runs it");
    let runs_it = first.name;
    for host in [&mut *first, &mut *second] {
        is_shown(shown, &host.run(status), runs_it);
    }
    assert_eq!((first.reports().len(), first.codes().len()), (1, 0), "the job still runs");
    unready.wait_until("cron mails", |unready| unready.place.read("mail").contains("end of mail"));
    assert_eq!((unready.reports().len(), unready.codes()), (0, vec!["125".to_owned()]));
    let mail = unready.place.read("mail");
    assert!(mail.ends_with(&format!("\n\n{refused}end of mail\n")), "{mail}");

    first.switch_off();
    second.wait_until("the next firing runs", |second| !second.reports().is_empty());
    is_shown(past, &second.run(history), first.name);
    second.wait_until("the job ends", |second| second.codes().len() == 2);
    assert_eq!((first.reports().len(), second.reports().len()), (1, 1));
    assert_eq!(second.codes(), ["0", "0"]);
    assert_eq!(second.place.read("mail"), "");
}

fn seconds_of_the_minute() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() % 60
}

/// Asserts that the server lets in only the page's role, for its database, over TLS, from its network.
fn lets_in_nobody_else(host: &mut Host) {
    let verified = "sslmode=verify-full&sslrootcert=/etc/shedlock/db.crt";
    for (url, who) in [
        (format!("postgres://postgres:s3cret@db/ops?{verified}"), "another role"),
        (format!("postgres://jobs:s3cret@db/postgres?{verified}"), "another database"),
        ("postgres://jobs:s3cret@db/ops?sslmode=disable".to_owned(), "without TLS"),
        (format!("postgres://jobs:wrong@db/ops?{verified}"), "another password"),
    ] {
        let (code, stdout, stderr) = host.try_run(&format!("shedlock check --backend '{url}'"));
        let refused = ["no pg_hba.conf entry", "password authentication failed"].iter().any(|why| stdout.contains(why));
        assert!(code == "1" && refused, "{who} gets in: {code}\n{stdout}{stderr}");
    }
    let url = format!("postgres://jobs:s3cret@{STRANGER}/ops?sslmode=require");
    let stranger = finish(host.place.shedlock(["check"]).env("SHEDLOCK_BACKEND", url));
    assert!(stranger.stdout.contains("no pg_hba.conf entry"), "another network gets in: {stranger:?}");
}
