//! What a server stands: threads say over and over again what shedlock said to it once, without the cost of shedlock.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::relay::Conversation;
use servers::Server;

const THREADS: usize = 16;
const LONG: Duration = Duration::from_secs(2);
/// An answer may be so much shorter than the one that was taken down: numbers and times have no fixed length.
const SLACK: usize = 32;

/// How a server did while it could not have done more.
pub(crate) struct Load {
    /// Conversations in a second.
    pub(crate) rate: f64,
    /// The servers' own CPU time for each, in milliseconds.
    pub(crate) cpu: f64,
}

/// Keeps a server busy with one conversation. The CPU time is that of all `servers`. Wherever the conversation says
/// `name`, if there is one, another name of that length is said each time.
pub(crate) fn keep_busy(port: u16, servers: &[&Server], conversation: &Conversation, name: Option<&str>) -> Load {
    let (over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (begun, cpu) = (Instant::now(), cpu_time(servers));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let number = count.fetch_add(1, Ordering::Relaxed);
                    let renamed = |name: &str| {
                        let other = format!("{number:0>width$}", width = name.len());
                        conversation.iter().map(|flight| flight.renamed(name, &other)).collect()
                    };
                    drop(converse(port, &name.map_or_else(|| conversation.clone(), renamed)));
                }
            });
        }
        thread::sleep(LONG);
        over.store(true, Ordering::Relaxed);
    });
    let (count, seconds) = (count.into_inner() as f64, begun.elapsed().as_secs_f64());
    Load { rate: count / seconds, cpu: (cpu_time(servers) - cpu) * 1e3 / count }
}

/// Plays the client's part once. A server that refuses says less than was heard then, and hangs up.
pub(crate) fn converse(port: u16, conversation: &Conversation) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut bytes = vec![0; 65_536];
    for flight in conversation {
        if stream.write_all(&flight.said).is_err() {
            break;
        }
        let mut left = flight.heard.saturating_sub(SLACK).max(flight.heard.min(1));
        while left > 0 {
            match stream.read(&mut bytes) {
                Ok(0) | Err(_) => return stream,
                Ok(length) => left = left.saturating_sub(length),
            }
        }
    }
    stream
}

/// The CPU time, in seconds, that servers have used, with those of their processes that have ended.
pub(crate) fn cpu_time(servers: &[&Server]) -> f64 {
    let ticks = |pid: i32, with_children: bool| -> f64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The second field, the name, may have blanks, and ends with the last parenthesis.
        let fields: Vec<f64> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0.0))
            .collect();
        let places = if with_children { 11..15 } else { 11..13 };
        fields.get(places).unwrap_or_default().iter().sum()
    };
    let of = |server: &&Server| -> f64 {
        let own = server.pid();
        server.processes().into_iter().map(|pid| ticks(pid, pid == own)).sum()
    };
    // Linux counts in hundredths.
    servers.iter().map(of).sum::<f64>() / 100.0
}
