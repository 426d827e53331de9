//! A connection between the browser and the server that can be cut, and notes the answers: a forwarder at a port of its own, which the server
//! does not notice.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A forwarder.
pub struct Line {
    pub port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    streams: Vec<TcpStream>,
    answers: Vec<String>,
}

impl Line {
    /// Forwards connections to this port.
    pub fn to(server: u16) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = shared.lock().unwrap();
                let target = TcpStream::connect(("127.0.0.1", server));
                let (false, Ok(target)) = (state.is_cut, target) else { continue };
                let both = || (client.try_clone().unwrap(), target.try_clone().unwrap());
                let ((one, other), (kept, also_kept), (back, forth)) = (both(), both(), both());
                state.streams.extend([kept, also_kept]);
                // The server knows itself by its own port.
                let names = [port, server].map(|port| format!("127.0.0.1:{port}"));
                let answered = Arc::clone(&shared);
                thread::spawn(move || {
                    let replace = |piece: &[u8]| {
                        let [name, other] = &names;
                        String::from_utf8_lossy(piece).replace(name, other).into_bytes()
                    };
                    copy(one, other, replace);
                });
                thread::spawn(move || {
                    let note = |piece: &[u8]| {
                        if piece.starts_with(b"HTTP/") {
                            let line = String::from_utf8_lossy(piece).lines().next().unwrap_or_default().to_owned();
                            answered.lock().unwrap().answers.push(line);
                        }
                        piece.to_vec()
                    };
                    copy(forth, back, note);
                });
            }
        });
        Line { port, state }
    }

    /// Breaks all connections, and refuses new ones.
    pub fn cut(&mut self) {
        let mut state = self.state.lock().unwrap();
        state.is_cut = true;
        for stream in state.streams.drain(..) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns the first line of each answer of the server.
    pub fn answers(&self) -> Vec<String> {
        self.state.lock().unwrap().answers.clone()
    }

    /// Accepts connections again.
    pub fn mend(&mut self) {
        self.state.lock().unwrap().is_cut = false;
    }
}

/// Copies to the end, each piece as `pass` returns it. The head of a request or an answer arrives in one piece.
fn copy(mut from: TcpStream, mut to: TcpStream, pass: impl Fn(&[u8]) -> Vec<u8>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 || to.write_all(&pass(&buffer[..count])).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
