//! Where the commands of a document are run: a user's own small world, in which the paths and servers that documents name
//! are directories and servers of the test.
//!
//! The user is never root: a command that would change the machine fails. What the program keeps in /var/lib for root, it
//! keeps for this user in the scene's /var/lib, and reads the settings of the scene's /etc, so that documents may speak as
//! to an administrator.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use super::ROOT;
use super::marks::{self, Use};
use super::names::Names;
use crate::support::markdown::Document;
use crate::support::process::stat;
use crate::support::{Place, finish};

/// Whom root runs the commands as.
const NOBODY: u32 = 65534;

/// No document takes so long unless something is broken.
const PATIENCE: Duration = Duration::from_secs(120);

/// Jobs that documents start, each of which prints its name.
const JOBS: [&str; 10] = [
    "backup",
    "build",
    "clean-files",
    "deploy",
    "import-files",
    "import-orders",
    "migrate",
    "nightly-report",
    "report",
    "switch-over",
];

/// Makes the scene at `$1`, with the jobs that follow and the repository's examples at `$2`. Who becomes another user, or
/// looks at the manual, finds a stand-in.
const SET: &str = r#"
root=$1 examples=$2
shift 2
mkdir -p "$root/etc/shedlock" "$root/home/jobs" "$root/mnt" "$root/opt" "$root/run" "$root/srv" "$root/tmp" \
    "$root/usr/bin" "$root/usr/local/bin" "$root/usr/share/doc/shedlock" "$root/var/lib/shedlock" "$root/var/log"
chmod 700 "$root/var/lib/shedlock"
ln -s "$root/etc" "$root/home/jobs/.config"
ln -s "$root/usr/local/bin/shedlock" "$root/usr/bin/shedlock"
cp -R "$examples" "$root/usr/share/doc/shedlock/examples"
cd "$root/usr/local/bin"
for job; do
    printf '#!/bin/sh\necho %s\n' "$job" > "$job"
done
cat > sudo <<'END'
#!/bin/sh
while :; do
    case $1 in
        -u) shift 2 ;;
        -*) shift ;;
        *) exec env "$@" ;;
    esac
done
END
cat > man <<'END'
#!/bin/sh
[ "$*" = '-l -' ] && exec groff -man -Tutf8
END
chmod +x ./*
"#;

/// The commands of a document are run here.
pub(super) struct Scene {
    place: Place,
    names: Names,
}

/// What a block has printed, in the names of the document.
pub(super) struct Ran {
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// `None` if the shell was killed, or left before the end.
    pub(super) code: Option<i32>,
}

impl Scene {
    pub(super) fn new(text: &str) -> Self {
        let place = Place::new();
        let scene = Self { names: Names::new(text, &place.path("root")), place };
        // By another process: a sibling test that forks meanwhile would have it open for writing.
        let binary = scene.place.path("shedlock");
        finish(Command::new("cp").arg(env!("CARGO_BIN_EXE_shedlock")).arg(&binary)).is_silent_with(0);
        if geteuid().is_root() {
            chown(scene.place.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut set = scene.command("sh");
        set.args(["-euc", SET, "sh"])
            .arg(scene.root())
            .arg(format!("{ROOT}/packaging/examples"))
            .args(JOBS)
            .current_dir(scene.place.path(""));
        finish(&mut set).is_silent_with(0);
        std::os::unix::fs::symlink(binary, scene.root().join("usr/local/bin/shedlock")).unwrap();
        scene
    }

    fn root(&self) -> PathBuf {
        self.place.path("root")
    }

    /// Returns a command that runs as the scene's user.
    fn command(&self, program: &str) -> Command {
        let (root, home) = (self.root(), self.root().join("home/jobs"));
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", format!("{}:{}", root.join("usr/local/bin").display(), std::env::var("PATH").unwrap()))
            .envs([("HOME", &home), ("XDG_CONFIG_HOME", &root.join("etc")), ("XDG_STATE_HOME", &root.join("var/lib"))])
            .envs([("LANG", "C.UTF-8"), ("TZ", "UTC"), ("LOGNAME", "jobs"), ("USER", "jobs")])
            .stdin(Stdio::null());
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Runs the blocks of a document in turn, up to one that ends otherwise than it says.
    pub(super) fn run(&self, document: &Document) -> Vec<Ran> {
        let mut scripts = vec![String::new()];
        let mut count = 0;
        for block in &document.blocks {
            match marks::of(block) {
                Ok(Use::File(name)) => {
                    let file = format!(
                        "mkdir -p \"$(dirname {name})\"\ncat > {name} <<'END OF FILE'\n{}END OF FILE\n",
                        block.text
                    );
                    *scripts.last_mut().unwrap() += &self.names.here(&file);
                }
                Ok(Use::Run { code, new }) => {
                    if new {
                        scripts.push(String::new());
                    }
                    *scripts.last_mut().unwrap() += &self.script(count, &self.names.here(&block.text), code);
                    count += 1;
                }
                _ => {}
            }
        }
        let mut sessions = Vec::new();
        let ends = scripts.iter().map(|script| self.shell(script)).map(|(session, end)| {
            sessions.push(session);
            end
        });
        let end = { ends }.find(|end| !end.success());
        end_all(&sessions);
        let reached = (0..count).take_while(|number| self.file(*number, "stdout").exists());
        reached.map(|number| self.ran(number, end)).collect()
    }

    /// Returns the lines that run a block, keep what it prints, and tell that its end was reached.
    fn script(&self, number: usize, block: &str, code: i32) -> String {
        let [stdout, stderr, code_file] = ["stdout", "stderr", "code"].map(|what| self.file(number, what));
        let run = match code {
            0 => format!("{block}\necho 0"),
            // Within `if` or before `||` the shell would not stop at a command that fails.
            _ => format!("set +e\n(set -e\n{block}\n)\ncode=$?\nset -e\necho $code"),
        };
        format!("exec > '{}' 2> '{}'\n{run} > '{}'\n", stdout.display(), stderr.display(), code_file.display())
    }

    fn file(&self, number: usize, what: &str) -> PathBuf {
        self.place.path(&format!("{what}.{number}"))
    }

    /// Runs a script to its end, in a session of its own, which it names.
    fn shell(&self, script: &str) -> (i32, ExitStatus) {
        let file = self.place.path("script");
        fs::write(&file, script).unwrap();
        let mut command = self.command("setsid");
        command.args(["sh", "-eu"]).arg(&file).current_dir(self.root().join("home/jobs"));
        let mut shell = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let end = loop {
            if let Some(end) = shell.try_wait().unwrap() {
                break end;
            }
            if begun.elapsed() > PATIENCE {
                shell.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        (i32::try_from(shell.id()).unwrap(), end)
    }

    fn ran(&self, number: usize, end: Option<ExitStatus>) -> Ran {
        let read = |what| fs::read_to_string(self.file(number, what)).unwrap_or_default();
        let code = read("code").trim().parse().ok();
        let code = code.or_else(|| end.and_then(|end| end.code()));
        Ran { stdout: self.names.there(&read("stdout")), stderr: self.names.there(&read("stderr")), code }
    }
}

/// Ends what was left in the background.
fn end_all(sessions: &[i32]) {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let processes = processes.filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?));
    for process in processes.filter(|process| sessions.contains(&process.session) && !"ZX".contains(process.state)) {
        // It may have ended by now.
        let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
    }
}
