//! One connection to a broker, as Kafka's clients have it: a request goes out, its answer comes back.

use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::BytesMut;
use taffrail_core::errors::ErrorCode;
use taffrail_protocol::frame::{FrameError, FrameReader};
use taffrail_protocol::message::Request;
use taffrail_protocol::request::{self, DecodeError, EncodeError};
use taffrail_protocol::response;
use taffrail_protocol::versions::{ApiKey, VersionRange};
use taffrail_runtime::net::{self, TcpStream};
use taffrail_runtime::time;

/// Largest answer that is taken: a fetch of one batch may be as large as brokers let a batch be.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Why a call has no answer. The connection is of no use afterwards.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Nobody answers there.
    #[error("{address} cannot be reached: {source}")]
    Dial {
        /// Host and port.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to {address} broke: {source}")]
    Broken {
        /// Host and port.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The broker closed the connection.
    #[error("{0} closed the connection")]
    Closed(String),
    /// The broker took too long.
    #[error("{0} did not answer in time")]
    Silent(String),
    /// What came is no frame.
    #[error("what came is no answer: {0}")]
    Frame(#[from] FrameError),
    /// What came cannot be read.
    #[error("an answer cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// The request does not fit the version.
    #[error("a request cannot be written: {0}")]
    Encode(#[from] EncodeError),
    /// The broker and this client have no version of a request in common.
    #[error("{address} speaks {} in no version of {asked}", .key.name())]
    Versions {
        /// Host and port.
        address: String,
        /// The request.
        key: ApiKey,
        /// Versions that this client speaks.
        asked: VersionRange,
    },
    /// The broker does not say which versions it speaks.
    #[error("{address} does not tell its versions: {}", .error.name())]
    Introduction {
        /// Host and port.
        address: String,
        /// Why.
        error: ErrorCode,
    },
    /// The answer is one to another request.
    #[error("an answer has the number {found} where {expected} was due")]
    OutOfOrder {
        /// What came.
        found: i32,
        /// What was due.
        expected: i32,
    },
}

/// A connection to a broker's listener for clients.
#[derive(Debug)]
pub struct KafkaConnection {
    pub(super) address: String,
    client_id: String,
    pub(super) timeout: Duration,
    stream: TcpStream,
    frames: FrameReader,
    received: BytesMut,
    next_number: i32,
}

impl KafkaConnection {
    /// Connects to `address`, a host and port. This and each call may take `timeout`.
    ///
    /// # Errors
    /// When nobody answers there in time.
    pub async fn dial(address: &str, client_id: &str, timeout: Duration) -> Result<Self, ConnectionError> {
        let dialled = time::timeout(timeout, net::connect(address)).await;
        let stream = dialled
            .map_err(|_| ConnectionError::Silent(address.to_owned()))?
            .map_err(|source| ConnectionError::Dial { address: address.to_owned(), source })?;
        Ok(Self {
            address: address.to_owned(),
            client_id: client_id.to_owned(),
            timeout,
            stream,
            frames: FrameReader::for_responses(ANSWER_BYTES_MAX),
            received: BytesMut::new(),
            next_number: 0,
        })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// When there is none in time, or none that can be read.
    pub async fn call<R: Request>(&mut self, version: i16, message: &R) -> Result<R::Response, ConnectionError> {
        self.call_within(self.timeout, version, message).await
    }

    /// The same for a request that may take `timeout`.
    pub(super) async fn call_within<R: Request>(
        &mut self,
        timeout: Duration,
        version: i16,
        message: &R,
    ) -> Result<R::Response, ConnectionError> {
        let address = self.address.clone();
        let answered = time::timeout(timeout, self.exchange(version, message)).await;
        answered.map_err(|_| ConnectionError::Silent(address))?
    }

    async fn exchange<R: Request>(&mut self, version: i16, message: &R) -> Result<R::Response, ConnectionError> {
        let expected = self.next_number;
        self.next_number = expected.checked_add(1).unwrap_or(0);
        let mut sending = BytesMut::new();
        request::encode(version, expected, Some(&self.client_id), message, &mut sending)?;
        let broken = |source| ConnectionError::Broken { address: self.address.clone(), source };
        let (mut receiving, writing) = self.stream.split();
        let mut sent = 0;
        while sent < sending.len() {
            sent += writing.write_vectored(&[IoSlice::new(&sending[sent..])], false).await.map_err(broken)?;
        }
        loop {
            if let Some(frame) = self.frames.next(&mut self.received)? {
                let (found, answer) = response::decode::<R>(version, frame)?;
                return if found == expected {
                    Ok(answer)
                } else {
                    Err(ConnectionError::OutOfOrder { found, expected })
                };
            }
            if receiving.read_buf(&mut self.received).await.map_err(broken)? == 0 {
                return Err(ConnectionError::Closed(self.address.clone()));
            }
        }
    }
}
