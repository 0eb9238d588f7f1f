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

/// Connections at a time; more are closed at once.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection may be silent. Who scrapes once a minute keeps its connection.
const SILENCE_MAX: Duration = Duration::from_secs(150);

/// How long a client may take nothing of its answer.
const STALL_MAX: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Listener {
    socket: TcpListener,
    places: Places,
}

/// A connection, and the place that it takes.
pub(super) struct Connection {
    stream: Unstalled,
    _place: Place,
}

impl Listener {
    pub(super) fn new(socket: TcpListener) -> Self {
        Self { socket, places: Places::new(CONNECTIONS_MAX) }
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
                    return (
                        Connection { stream: Unstalled::new(stream, SILENCE_MAX, STALL_MAX), _place: place },
                        peer,
                    );
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection to the metrics address could not be taken");
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
