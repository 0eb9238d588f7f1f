//! File to socket, in the cheapest way that the system has.
//!
//! Linux has `sendfile`, which moves pages from the page cache to the socket without a copy through this process. Elsewhere
//! (people try the product on macOS) the portable way is used, and tests run both.

use std::fs::File;
use std::io;

/// Bytes that the portable way copies in one step.
#[cfg(any(test, not(target_os = "linux")))]
const PORTABLE_STEP_BYTES: usize = 64 * 1024;

/// Sends up to `length` bytes of `file` from `position` to `socket` without waiting; tells how many. 0 = the file ends.
#[cfg(target_os = "linux")]
pub(super) fn send(socket: &tokio::net::TcpStream, file: &File, position: u64, length: u64) -> io::Result<u64> {
    // Linux moves at most 0x7ffff000 bytes a call; asking for more is allowed, but a fixed step keeps a call short.
    const STEP_BYTES: u64 = 1024 * 1024;
    let mut offset = position;
    let count = usize::try_from(length.min(STEP_BYTES)).unwrap_or(usize::MAX);
    Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), count)? as u64)
}

/// The portable way; see [`send_portably`].
#[cfg(not(target_os = "linux"))]
pub(super) fn send(socket: &tokio::net::TcpStream, file: &File, position: u64, length: u64) -> io::Result<u64> {
    send_portably(socket, file, position, length)
}

/// Reads from the file and writes to the socket. What the socket does not take is read again at the next call.
#[cfg(any(test, not(target_os = "linux")))]
pub(super) fn send_portably(
    socket: &tokio::net::TcpStream,
    file: &File,
    position: u64,
    length: u64,
) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut buffer = [0; PORTABLE_STEP_BYTES];
    let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(PORTABLE_STEP_BYTES);
    let read = file.read_at(&mut buffer[..wanted], position)?;
    if read == 0 {
        return Ok(0);
    }
    Ok(rustix::net::send(socket, &buffer[..read], rustix::net::SendFlags::empty())? as u64)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[tokio::test]
    async fn both_ways_send_the_same_bytes() {
        type Way = fn(&tokio::net::TcpStream, &File, u64, u64) -> io::Result<u64>;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        for way in [send as Way, send_portably] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let socket = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            assert_eq!(way(&socket, &file, 3, 4).unwrap(), 4);
            assert_eq!(way(&socket, &file, 10, 4).unwrap(), 0, "the file ends there");
            let mut received = [0; 4];
            peer.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"3456");
        }
    }
}
