//! A port before a server that speaks MongoDB's protocol, which it passes off as another one: in every answer, a text becomes
//! another one of the same length.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use crate::port::Port;

/// The bytes of a message's length, which counts them too.
const LENGTH: usize = 4;

/// The port. It is closed with this value.
pub struct Disguise(Port);

impl Disguise {
    /// Listens before the server at this port.
    pub fn new(server: u16, from: &'static str, to: &'static str) -> Self {
        assert_eq!(from.len(), to.len(), "the lengths in an answer would be wrong");
        Self(Port::new("127.0.0.1", move |_, client| {
            let _ = serve(client, server, from.as_bytes(), to.as_bytes());
            let _ = client.shutdown(Shutdown::Both);
        }))
    }

    pub fn port(&self) -> u16 {
        self.0.number
    }
}

fn serve(mut client: &TcpStream, server: u16, from: &[u8], to: &[u8]) -> std::io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", server))?;
    let (mut requests, mut passed_on) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut requests, &mut passed_on);
        let _ = passed_on.shutdown(Shutdown::Both);
    });
    loop {
        let mut length = [0; LENGTH];
        server.read_exact(&mut length)?;
        let rest = usize::try_from(u32::from_le_bytes(length)).unwrap() - LENGTH;
        let mut answer = Vec::from(length);
        (&mut server).take(rest as u64).read_to_end(&mut answer)?;
        for place in 0..answer.len() {
            if answer[place..].starts_with(from) {
                answer[place..place + to.len()].copy_from_slice(to);
            }
        }
        client.write_all(&answer)?;
    }
}
