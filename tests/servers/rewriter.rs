//! A port before Redis that changes what it is asked: each of the texts that it is given becomes another one, in every argument of a
//! request. So a script does a little less than it should, on a real server.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::thread;

use crate::port::Port;

/// The port. It is closed with this value.
pub struct Rewriter(Port);

impl Rewriter {
    /// Listens before the server at this port.
    pub fn new(server: u16, changes: &[(&str, &str)]) -> Self {
        let changes: Vec<(String, String)> =
            changes.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
        let scripts = Scripts::default();
        Self(Port::new("127.0.0.1", move |_, client| {
            let _ = serve(client, server, &changes, &scripts);
            let _ = client.shutdown(Shutdown::Both);
        }))
    }

    pub fn port(&self) -> u16 {
        self.0.number
    }
}

/// The scripts by their sums, once a client has sent them: the server knows them by others.
type Scripts = Mutex<HashMap<Vec<u8>, Vec<u8>>>;

fn serve(client: &TcpStream, server: u16, changes: &[(String, String)], scripts: &Scripts) -> std::io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", server))?;
    let (mut answers, mut back) = (server.try_clone()?, client.try_clone()?);
    let answering = thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Write);
    });
    let mut requests = BufReader::new(client);
    let mut last_sum = None;
    while let Some(count) = number(&mut requests)? {
        let mut arguments = Vec::new();
        for _ in 0..count {
            let length = number(&mut requests)?.unwrap_or_default();
            let mut argument = vec![0; length + 2];
            requests.read_exact(&mut argument)?;
            argument.truncate(length);
            arguments.push(match String::from_utf8(argument) {
                Ok(text) => changes.iter().fold(text, |text, (from, to)| text.replace(from, to)).into_bytes(),
                Err(binary) => binary.into_bytes(),
            });
        }
        let mut scripts = scripts.lock().unwrap();
        match (&arguments[0][..], scripts.get(arguments.get(1).unwrap_or(&Vec::new()))) {
            (b"EVALSHA", Some(script)) => (arguments[0], arguments[1]) = (b"EVAL".to_vec(), script.clone()),
            (b"EVALSHA", None) => last_sum = Some(arguments[1].clone()),
            (b"EVAL", _) => scripts.extend(last_sum.take().map(|sum| (sum, arguments[1].clone()))),
            _ => {}
        }
        drop(scripts);
        let mut request = format!("*{count}\r\n").into_bytes();
        for argument in arguments {
            request.extend(format!("${}\r\n", argument.len()).bytes());
            request.extend(argument);
            request.extend(b"\r\n");
        }
        server.write_all(&request)?;
    }
    let _ = server.shutdown(Shutdown::Write);
    let _ = answering.join();
    Ok(())
}

/// Reads a line such as `*3` or `$12`; `None` at the end.
fn number(from: &mut impl BufRead) -> std::io::Result<Option<usize>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.get(1..).and_then(|digits| digits.trim().parse().ok()))
}
