//! Our sockets as axum takes them: not too many, and none on which nothing moves.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use taffrail_runtime::net::{TcpListener, Unstalled};
use taffrail_runtime::time;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::places::{Place, Places};

/// Pause after a connection could not be taken, for instance for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long a client may take nothing of its answer.
const STALL_MAX: Duration = Duration::from_secs(10);

/// See the module.
pub(crate) struct Listener {
    socket: TcpListener,
    places: Places,
    silence_max: Duration,
}

/// A connection, and the place that it takes.
pub(crate) struct Connection {
    stream: Unstalled,
    _place: Place,
}

impl Listener {
    /// Takes so many connections at a time, and closes more at once; each may be silent for `silence_max`.
    pub(crate) fn new(socket: TcpListener, connections_max: usize, silence_max: Duration) -> Self {
        Self { socket, places: Places::new(connections_max), silence_max }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.socket.accept().await.and_then(|(stream, peer)| Ok((stream.attach()?, peer))) {
                Ok((stream, peer)) => {
                    let Some(place) = self.places.take() else { continue };
                    let stream = Unstalled::new(stream, self.silence_max, STALL_MAX);
                    return (Connection { stream, _place: place }, peer);
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection over HTTP could not be taken");
                    time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
