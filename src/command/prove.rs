//! `shedlock prove`: tries the rules of a lock on the backend, and reports each.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::ArgMatches;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::operator::failure;
use super::process::{host, random};
use crate::backend::{Finding, Grade};
use crate::config::{self, BackendAccess, Configuration, Mistake};
use crate::exit::{self, Exit, ExitReason};
use crate::job::{self, Signals};
use crate::lock::ErrorClass;
use crate::prove::{Order, Outcome, Progress, Relay, findings, prove as try_rules};
use crate::report::{Findings, ProofReport, printable};
use crate::system::Signal;

/// How long it tries, if nothing is said.
const LASTING: Duration = Duration::from_secs(10);
/// The clients, if nothing is said, and how many there may be.
const CLIENTS: usize = 8;
const MOST_CLIENTS: usize = 64;
/// The longest time that a client waits for an answer: it is about to be cut off now and then.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Tries the rules of a lock, and prints a line for each, and figures.
pub(crate) fn prove(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let lasting = text("for").map_or(Ok(LASTING), config::parse_from_one_second);
    let lasting = lasting.map_err(|why| Mistake::new(format!("--for {why}")))?;
    let count = text("clients").map_or(Ok(CLIENTS), clients)?;
    let seed = text("seed").map_or_else(random, seed)?;
    let access = BackendAccess::new(&Configuration::read(matches)?, None)?;
    // Before the relays start their threads, or a signal would be delivered to one of them.
    let (signals, _) = Signals::block_stop_signals()?;
    let client = |_| {
        let relay = Relay::new()?;
        Ok::<_, anyhow::Error>((access.another(ANSWER_LIMIT, relay.detour())?, relay))
    };
    let opened = (0..count).map(client).collect::<Result<Vec<_>, _>>()?;
    let address = access.backend.address.clone();
    let order = Order { seed, lasting, timeout: access.timeout, host: host(), random: random()? };
    job::ignore_pipe();
    let json = matches.get_flag("json");
    let mut shown = Findings::new(json);
    shown.add(Finding::good("backend", format!("{}, from {}", printable(&address), access.source)));
    let stop = Stop { stopped: AtomicBool::new(false), by: Mutex::new(None) };
    let ended = AtomicBool::new(false);
    let (outcome, by) = thread::scope(|scope| {
        let watching = scope.spawn(|| stop.watch(&signals, &ended));
        let mut progress = ProgressLine::new();
        let outcome = try_rules(&order, opened, &mut |now| {
            progress.draw(now);
            !stop.stopped.load(Ordering::Relaxed)
        });
        progress.wipe();
        ended.store(true, Ordering::Relaxed);
        let _ = watching.join();
        (outcome, stop.by.lock().ok().and_then(|by| *by))
    });
    let outcome = match (outcome, by) {
        (Ok(outcome), _) => outcome,
        (Err(_), Some(signal)) => return Ok(ExitReason::Stopped(signal).exit(0)),
        (Err(error), None) => return Err(failure(error)),
    };
    findings(&outcome).into_iter().for_each(|finding| shown.add(finding));
    about_names(&outcome).into_iter().for_each(|finding| shown.add(finding));
    let report = ProofReport {
        address: &address,
        seed,
        lasting,
        clients: count,
        figures: &outcome.figures,
        forgotten: outcome.judgement.forgotten,
        rounds: outcome.rounds,
    };
    shown.finish_proof(&report)?;
    Ok(match by {
        Some(signal) => ExitReason::Stopped(signal).exit(0),
        None => Exit { code: if shown.worst() == Grade::Bad { exit::NO } else { 0 }, raise: None },
    })
}

/// Returns the finding about names that are left behind, or that were found.
fn about_names(outcome: &Outcome) -> Vec<Finding> {
    let mut all = Vec::new();
    if outcome.leftovers > 0 {
        all.push(Finding::good("leftovers", format!("removed {} names of an earlier prove", outcome.leftovers)));
    }
    if let Some((count, pattern, why)) = &outcome.left {
        // A user who may not delete has freed them; of a server that is away nothing is known.
        let (state, remedy) = match why.as_ref().is_some_and(|error| error.class == ErrorClass::Permanent) {
            true => ("free locks", "they harm nothing; remove them with `shedlock forget`, as a user who may delete"),
            false => ("locks", "they are free within a minute, and the next prove removes them"),
        };
        let why = why.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
        all.push(Finding::unwise("names", format!("{count} {state} {pattern}* are still there{why}"), remedy));
    }
    all
}

fn clients(text: &str) -> Result<usize, Mistake> {
    let number = text.trim().parse().ok().filter(|number| (2..=MOST_CLIENTS).contains(number));
    number.ok_or_else(|| {
        Mistake::new(format!("--clients `{text}` is not a number of clients; write a number from 2 to {MOST_CLIENTS}"))
    })
}

fn seed(text: &str) -> Result<u64, Mistake> {
    text.trim()
        .parse()
        .map_err(|_| Mistake::new(format!("--seed `{text}` is not a seed; write the number that a report has printed")))
}

/// Says whether a signal asked to stop.
struct Stop {
    stopped: AtomicBool,
    by: Mutex<Option<Signal>>,
}

impl Stop {
    /// Waits for signals: the first one asks to stop and clean up, and the second ends the process at once.
    fn watch(&self, signals: &Signals, ended: &AtomicBool) {
        while !ended.load(Ordering::Relaxed) {
            let mut ready = [PollFd::new(signals.ready_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut ready, PollTimeout::from(50_u16));
            let Some(received) = signals.next() else { continue };
            if self.stopped.swap(true, Ordering::Relaxed) {
                let exit = ExitReason::Stopped(received.signal).exit(0);
                if let Some(signal) = exit.raise {
                    job::raise_and_die(signal);
                }
                job::exit(exit.code);
            }
            if let Ok(mut by) = self.by.lock() {
                *by = Some(received.signal);
            }
        }
    }
}

/// Shows on a terminal how far it has come.
struct ProgressLine {
    is_shown: bool,
    drawn: String,
}

impl ProgressLine {
    fn new() -> Self {
        Self { is_shown: stderr().is_terminal(), drawn: String::new() }
    }

    fn draw(&mut self, now: Progress) {
        if !self.is_shown {
            return;
        }
        let text = format!("round {}, {} takings, {} s left", now.round, now.takings, now.left.as_secs());
        if text != self.drawn {
            let _ = write!(stderr(), "\r\x1b[K{text}");
            self.drawn = text;
        }
    }

    fn wipe(&mut self) {
        if !self.drawn.is_empty() {
            let _ = write!(stderr(), "\r\x1b[K");
            self.drawn.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_clients_is_between_2_and_64() {
        assert_eq!(clients(" 2 ").unwrap(), 2);
        assert_eq!(clients("64").unwrap(), 64);
        for wrong in ["1", "0", "65", "-2", "x", ""] {
            assert!(clients(wrong).unwrap_err().message.contains("from 2 to 64"), "{wrong}");
        }
        assert!(seed("x").is_err());
    }
}
