//! A port that is listened at until it is dropped.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A port at which a thread accepts connections, each of which is served in a thread of its own.
pub struct Port {
    pub number: u16,
    is_over: Arc<AtomicBool>,
}

impl Port {
    /// Listens at a free port of this address. Connections are counted from 0.
    pub fn new(address: &str, serve: impl Fn(usize, &TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let number = listener.local_addr().unwrap().port();
        let (is_over, serve) = (Arc::new(AtomicBool::new(false)), Arc::new(serve));
        let shared = Arc::clone(&is_over);
        thread::spawn(move || {
            for (number, client) in listener.incoming().flatten().enumerate() {
                if shared.load(Ordering::SeqCst) {
                    return;
                }
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(number, &client));
            }
        });
        Self { number, is_over }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // The thread that listens looks once more.
        let _ = TcpStream::connect(("127.0.0.1", self.number));
    }
}
