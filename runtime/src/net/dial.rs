//! Dialling once more when nothing is heard. The system sends the first packet of a connection again only after a second, which
//! is long where a session ends after a second and a half of silence.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time;

/// How long an attempt has to itself. Over a network that takes longer one more packet is sent, and nothing else changes.
const HEAD_START: Duration = Duration::from_millis(250);

/// Attempts beside each other at most.
const ATTEMPTS_MAX: usize = 4;

/// Connects to `address`; the first attempt that ends, in whichever way, decides.
pub(super) async fn dial(address: &str) -> io::Result<TcpStream> {
    // The others are given up when this is dropped.
    let mut attempts = JoinSet::new();
    loop {
        attempts.spawn(TcpStream::connect(address.to_owned()));
        let may_begin_another = attempts.len() < ATTEMPTS_MAX;
        tokio::select! {
            Some(ended) = attempts.join_next() => return ended.map_err(io::Error::other)?,
            () = time::sleep(HEAD_START), if may_begin_another => {}
        }
    }
}
