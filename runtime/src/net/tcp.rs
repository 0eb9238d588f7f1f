//! TCP.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf};

use super::dial::dial;
use super::{same_machine, send_file, send_more};
#[cfg(feature = "simulation")]
use crate::simulation;

/// Connections that the kernel holds for us before we take them.
const BACKLOG: u32 = 4096;

/// A listening socket.
#[derive(Debug)]
pub struct TcpListener {
    inner: Listening,
}

#[derive(Debug)]
enum Listening {
    System(tokio::net::TcpListener),
    #[cfg(feature = "simulation")]
    Simulated(simulation::Listener),
}

impl TcpListener {
    /// Listens on `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    /// When the address is taken, not ours, or not allowed.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        #[cfg(feature = "simulation")]
        if let Some(listener) = simulation::listen(address) {
            return Ok(Self { inner: Listening::Simulated(listener?) });
        }
        let socket = match address {
            SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
            SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
        };
        // So that a restart need not wait for connections of the last run to be forgotten.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { inner: Listening::System(socket.listen(BACKLOG)?) })
    }

    /// The address that is listened on.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.inner {
            Listening::System(listener) => listener.local_addr(),
            #[cfg(feature = "simulation")]
            Listening::Simulated(listener) => Ok(listener.local_addr()),
        }
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// When none can be taken now, for instance for want of file descriptors; the listener stays usable.
    pub async fn accept(&self) -> io::Result<(DetachedStream, SocketAddr)> {
        match &self.inner {
            Listening::System(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                same_machine::tune(&stream);
                Ok((DetachedStream { inner: Detached::System(stream.into_std()?) }, peer))
            }
            #[cfg(feature = "simulation")]
            Listening::Simulated(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((DetachedStream { inner: Detached::Simulated(stream) }, peer))
            }
        }
    }
}

/// A connection that belongs to no shard yet: [`DetachedStream::attach`] binds it to the one that is current.
#[derive(Debug)]
pub struct DetachedStream {
    inner: Detached,
}

#[derive(Debug)]
enum Detached {
    System(std::net::TcpStream),
    #[cfg(feature = "simulation")]
    Simulated(simulation::Stream),
}

impl DetachedStream {
    /// Makes the current shard the connection's owner.
    ///
    /// # Errors
    /// When the event queue refuses it.
    pub fn attach(self) -> io::Result<TcpStream> {
        let inner = match self.inner {
            Detached::System(stream) => Connected::System(tokio::net::TcpStream::from_std(stream)?),
            #[cfg(feature = "simulation")]
            Detached::Simulated(stream) => Connected::Simulated(stream),
        };
        Ok(TcpStream { inner })
    }
}

/// Connects to `address`, a host and port; the name is resolved anew at each call.
///
/// # Errors
/// When the name does not resolve or nobody answers.
pub async fn connect(address: &str) -> io::Result<TcpStream> {
    #[cfg(feature = "simulation")]
    if let Some(stream) = simulation::connect(address).await {
        return Ok(TcpStream { inner: Connected::Simulated(stream?) });
    }
    let inner = dial(address).await?;
    inner.set_nodelay(true)?;
    same_machine::tune(&inner);
    Ok(TcpStream { inner: Connected::System(inner) })
}

/// The addresses of `host`, which is an address itself or a name.
///
/// # Errors
/// When the name does not resolve.
pub async fn lookup(host: &str) -> io::Result<Vec<IpAddr>> {
    #[cfg(feature = "simulation")]
    if simulation::is_on() {
        return Ok(host.parse().into_iter().collect());
    }
    Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
}

/// A connection.
#[derive(Debug)]
pub struct TcpStream {
    inner: Connected,
}

#[derive(Debug)]
enum Connected {
    System(tokio::net::TcpStream),
    #[cfg(feature = "simulation")]
    Simulated(simulation::Stream),
}

/// Does the same with either kind of connection.
macro_rules! either {
    ($connected:expr, $stream:ident => $work:expr) => {
        match $connected {
            Connected::System($stream) => $work,
            #[cfg(feature = "simulation")]
            Connected::Simulated($stream) => $work,
        }
    };
}

impl TcpStream {
    /// Address of the other end.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        either!(&self.inner, stream => stream.peer_addr())
    }

    /// Address of this end.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        either!(&self.inner, stream => stream.local_addr())
    }

    /// Waits until bytes can be read, or the other end has closed.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn readable(&self) -> io::Result<()> {
        either!(&self.inner, stream => stream.readable().await)
    }

    /// Reads what is there into `buffer`'s spare capacity without waiting. `Ok(0)` = the other end has closed (or there
    /// was no spare capacity).
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; other kinds when the connection is broken.
    pub fn try_read_buf(&self, buffer: &mut bytes::BytesMut) -> io::Result<usize> {
        either!(&self.inner, stream => stream.try_read_buf(buffer))
    }

    /// The two directions, for one task to use at a time each.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        match &mut self.inner {
            Connected::System(stream) => {
                let (read, write) = stream.split();
                (ReadHalf { inner: Receiving::System(read) }, WriteHalf { inner: Sending::System(write) })
            }
            #[cfg(feature = "simulation")]
            Connected::Simulated(stream) => {
                let stream = &*stream;
                (ReadHalf { inner: Receiving::Simulated(stream) }, WriteHalf { inner: Sending::Simulated(stream) })
            }
        }
    }
}

/// The receiving direction of a connection.
#[derive(Debug)]
pub struct ReadHalf<'a> {
    inner: Receiving<'a>,
}

#[derive(Debug)]
enum Receiving<'a> {
    System(tokio::net::tcp::ReadHalf<'a>),
    #[cfg(feature = "simulation")]
    Simulated(&'a simulation::Stream),
}

impl ReadHalf<'_> {
    /// Waits until bytes can be read, or the other end has closed.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn readable(&self) -> io::Result<()> {
        match &self.inner {
            Receiving::System(half) => half.readable().await,
            #[cfg(feature = "simulation")]
            Receiving::Simulated(stream) => stream.readable().await,
        }
    }

    /// Waits for bytes and puts them into `buffer`'s spare capacity. 0 = the other end has closed (or there was no spare
    /// capacity). Nothing is lost when the future is dropped.
    ///
    /// A read that does not fill the capacity has emptied the socket, so the next one waits without asking the system.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn read_buf(&mut self, buffer: &mut bytes::BytesMut) -> io::Result<usize> {
        match &mut self.inner {
            Receiving::System(half) => half.read_buf(buffer).await,
            #[cfg(feature = "simulation")]
            Receiving::Simulated(stream) => stream.read_buf(buffer).await,
        }
    }
}

/// The sending direction of a connection.
#[derive(Debug)]
pub struct WriteHalf<'a> {
    inner: Sending<'a>,
}

#[derive(Debug)]
enum Sending<'a> {
    System(tokio::net::tcp::WriteHalf<'a>),
    #[cfg(feature = "simulation")]
    Simulated(&'a simulation::Stream),
}

impl WriteHalf<'_> {
    /// Writes as much of `slices` as the socket takes, waiting until it takes something. `more`: other bytes follow at once,
    /// so the system may wait for them before it sends.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn write_vectored(&self, slices: &[io::IoSlice<'_>], more: bool) -> io::Result<usize> {
        let half = match &self.inner {
            Sending::System(half) => half,
            #[cfg(feature = "simulation")]
            Sending::Simulated(stream) => return stream.write_vectored(slices).await,
        };
        let socket = half.as_ref();
        loop {
            let written = if more {
                socket.try_io(Interest::WRITABLE, || send_more::send(socket, slices))
            } else {
                socket.try_write_vectored(slices)
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => half.writable().await?,
                result => return result,
            }
        }
    }

    /// Sends `length` bytes of `file` from `position` on, without copying them through this process where the system can.
    /// The range must exist in full.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends early; otherwise when the connection is broken or the file unreadable.
    pub async fn send_file(&self, file: &File, mut position: u64, length: u64) -> io::Result<()> {
        let half = match &self.inner {
            Sending::System(half) => half,
            // Files of a simulated disk are none of the operating system's.
            #[cfg(feature = "simulation")]
            Sending::Simulated(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let end = position + length;
        while position < end {
            half.writable().await?;
            let socket = half.as_ref();
            let sent = socket.try_io(Interest::WRITABLE, || send_file::send(socket, file, position, end - position));
            match sent {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => position += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Connected::System(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(feature = "simulation")]
            Connected::Simulated(stream) => stream.poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.inner {
            Connected::System(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(feature = "simulation")]
            Connected::Simulated(stream) => stream.poll_write(context, &[io::IoSlice::new(bytes)]),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Connected::System(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(feature = "simulation")]
            Connected::Simulated(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Connected::System(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(feature = "simulation")]
            Connected::Simulated(stream) => {
                stream.finish();
                Poll::Ready(Ok(()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn a_file_range_arrives_byte_for_byte_also_when_larger_than_the_socket_buffer() {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        file.write_all(&content).unwrap();
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let reader = crate::task::spawn(async move {
            let mut stream = connect(&address).await.unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).await.unwrap();
            received
        });
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = stream.attach().unwrap();
        stream.split().1.send_file(&file, 7, 2_900_000).await.unwrap();
        drop(stream);
        assert!(reader.await.unwrap() == content[7..2_900_007]);
    }

    #[tokio::test]
    async fn a_range_past_the_end_of_the_file_is_an_error_not_a_wait() {
        let file = tempfile::tempfile().unwrap();
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let peer = connect(&listener.local_addr().unwrap().to_string()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let error = stream.attach().unwrap().split().1.send_file(&file, 0, 10).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        drop(peer);
    }
}
