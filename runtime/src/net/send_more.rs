//! Bytes to a socket that others follow at once: a few bytes in front of a file leave in one packet with its first ones,
//! where the system can be told so.

use std::io::{self, IoSlice};

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// Linux holds the bytes back until more come (`MSG_MORE`).
#[cfg(target_os = "linux")]
const FLAGS: SendFlags = SendFlags::MORE;
#[cfg(not(target_os = "linux"))]
const FLAGS: SendFlags = SendFlags::empty();

/// Sends what the socket takes of `slices` without waiting; tells how many bytes.
pub(super) fn send(socket: &tokio::net::TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), FLAGS)?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn bytes_that_are_held_back_arrive_with_those_that_follow() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        assert_eq!(send(&socket, &[IoSlice::new(b"ab"), IoSlice::new(b"c")]).unwrap(), 3);
        assert_eq!(socket.try_write(b"de").unwrap(), 2);
        let mut received = [0; 5];
        peer.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"abcde");
    }
}
