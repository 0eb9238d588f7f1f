//! What stands behind a listener: it turns the frame of a request into the frame of a response.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::Bytes;
use taffrail_runtime::time::Instant;
use taffrail_storage::FileRange;

use super::memory::Share;
use crate::metrics::Times;

/// A request's answer, or what happens instead of one.
pub(crate) enum Reply {
    /// Bytes to send.
    Frame(Frame),
    /// Nothing is owed (a produce request with acks=0).
    Silent,
    /// The connection ends after the answers to earlier requests.
    Close(CloseReason),
}

/// A response frame, its length prefix included.
pub(crate) struct Frame {
    /// Sent in this order.
    pub(crate) chunks: Chunks,
    /// Memory of the response, counted until it has been sent.
    pub(crate) _held: Option<Share>,
    /// When what happened to the request, if that is to be counted.
    pub(crate) times: Option<Times>,
}

impl Reply {
    /// The same reply to a request that has waited for others since then.
    pub(super) fn having_waited(mut self, since: Instant) -> Self {
        if let Self::Frame(Frame { times: Some(times), .. }) = &mut self {
            times.waited_since = Some(since);
        }
        self
    }
}

/// The parts of a frame.
pub(crate) enum Chunks {
    /// What nearly every response is: one piece.
    One(Bytes),
    /// Pieces, some of which lie in files.
    Many(Vec<Chunk>),
}

/// A part of a frame.
pub(crate) enum Chunk {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes that go from the page cache to the socket.
    File(FileRange),
}

impl Frame {
    /// Bytes of it that are in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.chunks {
            Chunks::One(bytes) => bytes.len(),
            Chunks::Many(chunks) => {
                chunks.iter().map(|it| if let Chunk::Bytes(bytes) = it { bytes.len() } else { 0 }).sum()
            }
        }
    }
}

impl From<Bytes> for Frame {
    fn from(bytes: Bytes) -> Self {
        Self { chunks: Chunks::One(bytes), _held: None, times: None }
    }
}

/// How a request that is not answered at once gets along with those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The next request starts when this one is done, as in Kafka.
    Alone,
    /// Only waits for something to happen: later requests may start, and it is dropped when the connection ends.
    Waiting,
    /// Has had its effect and waits for durability: later requests may start, and it is seen through.
    Committing,
}

/// A request that has been started.
pub(crate) enum Started {
    /// Answered at once.
    Done(Reply),
    /// To be polled to its end.
    Running(Pin<Box<dyn Future<Output = Reply>>>, Pace),
}

/// Handles the requests of connections.
pub(crate) trait Service: Send + Sync + 'static {
    /// What is remembered for one connection.
    type Connection: 'static;

    /// A new connection from `peer`.
    fn connected(&self, peer: SocketAddr) -> Self::Connection;

    /// Starts the request in `frame` (without the length prefix), which was there at `arrived`.
    fn start(&self, connection: &Self::Connection, frame: Bytes, arrived: Instant) -> Started;

    /// Whether the request in `frame` gains from being started together with others of its kind that arrived with it. It
    /// must let later requests start at once.
    fn is_joinable(&self, frame: &[u8]) -> bool;

    /// Starts the joinable requests in `frames`, in their order. Fewer are started than there are if one of them ends the
    /// connection.
    fn start_together(&self, connection: &Self::Connection, frames: Vec<Bytes>, arrived: Instant) -> Vec<Started>;

    /// An answer was taken to be sent at `taken`, and has been sent at `sent`.
    fn sent(&self, times: &Times, taken: Instant, sent: Instant);
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CloseReason {
    #[error("the client closed it")]
    ClientClosed,
    #[error("the client closed it in the middle of a request ({received} of {announced} bytes)")]
    ClientClosedInFrame { received: usize, announced: usize },
    #[error("a request announces {0} bytes, which is no length that a request can have (limit {1})")]
    FrameSize(i32, usize),
    #[error("it was idle for too long")]
    Idle,
    #[error("the client took nothing of a response for too long")]
    StalledReader,
    #[error(
        "the client sent nothing more of a large request for too long, while others waited for the memory that it holds"
    )]
    StalledRequest,
    #[error("{0}")]
    NoMemory(super::memory::NoMemory),
    #[error("the broker stops")]
    Stopping,
    #[error("{0}")]
    Broken(String),
    #[error("{0}")]
    BadRequest(String),
    #[error("a produce request with acks=0 failed ({0}), which the client can only be told by closing")]
    SilentProduceFailed(&'static str),
}

impl CloseReason {
    /// Whether the ways of the world suffice to explain it, so that nobody need read about it.
    pub(crate) fn is_usual(&self) -> bool {
        matches!(self, Self::ClientClosed | Self::Idle | Self::Stopping)
    }
}
