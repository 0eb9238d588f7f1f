//! One connection to a broker, with one request under way at a time.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use taffrail_protocol::frame::{FrameError, FrameReader};
use taffrail_protocol::message::Request;
use taffrail_protocol::request::{self, DecodeError, EncodeError};
use taffrail_protocol::response;
use taffrail_runtime::net::{self, TcpStream};
use taffrail_runtime::time;

/// How long an answer may take, which includes the wait that a broker was asked for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// Largest answer that is taken.
const ANSWER_MAX_BYTES: usize = 16 << 20;

/// Why a connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("no answer in time")]
    Silent,
    #[error("the broker closed the connection")]
    Closed,
    #[error(transparent)]
    Network(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    frames: FrameReader,
    received: BytesMut,
    number: i32,
}

impl Connection {
    pub(super) async fn dial(address: SocketAddr) -> Result<Self, Broken> {
        let dialled = time::timeout(ANSWER_TIMEOUT, net::connect(&address.to_string())).await;
        let stream = dialled.map_err(|_| Broken::Silent)??;
        Ok(Self { stream, frames: FrameReader::for_responses(ANSWER_MAX_BYTES), received: BytesMut::new(), number: 0 })
    }

    /// Sends a request and waits for its answer. After an error the connection is of no use.
    pub(super) async fn call<R: Request>(&mut self, version: i16, message: &R) -> Result<R::Response, Broken> {
        let answer = time::timeout(ANSWER_TIMEOUT, self.exchange(version, message)).await;
        answer.map_err(|_| Broken::Silent)?
    }

    async fn exchange<R: Request>(&mut self, version: i16, message: &R) -> Result<R::Response, Broken> {
        let mut out = BytesMut::new();
        self.number += 1;
        request::encode(version, self.number, Some("simulation"), message, &mut out)?;
        let (mut receiving, sending) = self.stream.split();
        let mut sent = 0;
        while sent < out.len() {
            sent += sending.write_vectored(&[IoSlice::new(&out[sent..])], false).await?;
        }
        loop {
            if let Some(frame) = self.frames.next(&mut self.received)? {
                return Ok(response::decode::<R>(version, frame)?.1);
            }
            self.received.reserve(1);
            if receiving.read_buf(&mut self.received).await? == 0 {
                return Err(Broken::Closed);
            }
        }
    }
}
