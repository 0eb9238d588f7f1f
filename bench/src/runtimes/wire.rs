//! The measured protocol: as much of Kafka's Produce as matters here, with frames of the same sizes.
//!
//! Request: length, correlation id, partition (4 bytes each, big endian), one record batch. Answer: length, correlation
//! id, base offset (8 bytes), zeros up to the size of a usual answer.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use taffrail_core::record::{BatchBuilder, BatchOptions};
use taffrail_runtime::net::TcpStream;
use taffrail_runtime::{task, time};
use tokio::io::AsyncWriteExt;

/// Bytes of the length in front of a frame.
pub(super) const LENGTH_BYTES: usize = 4;
/// Bytes of an answer, with its length.
pub(super) const ANSWER_BYTES: usize = 60;
/// Bytes between a request's length and its batch.
const REQUEST_HEADER_BYTES: usize = 8;
/// Bytes of the one record's value; makes a frame of about 150 bytes.
const VALUE_BYTES: usize = 70;
/// Room for a read.
const READ_BYTES: usize = 16 * 1024;
/// Largest request that is taken.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// A request, in the buffer it arrived in.
pub(super) struct Request {
    pub(super) correlation: u32,
    pub(super) partition: usize,
    pub(super) batch: Bytes,
}

/// Writes a request with a batch of one record, stamped now.
pub(super) fn request() -> io::Result<BytesMut> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(time::unix_ms(), None, Some(&[b'v'; VALUE_BYTES])).map_err(io::Error::other)?;
    let batch = builder.build().map_err(io::Error::other)?;
    let mut frame = BytesMut::new();
    frame.put_u32((REQUEST_HEADER_BYTES + batch.len()) as u32);
    frame.put_u64(0);
    frame.put_slice(&batch);
    Ok(frame)
}

/// Gives a request that [`request`] has made another correlation id and partition.
pub(super) fn readdress(frame: &mut [u8], correlation: u32, partition: usize) {
    frame[LENGTH_BYTES..][..4].copy_from_slice(&correlation.to_be_bytes());
    frame[LENGTH_BYTES + 4..][..4].copy_from_slice(&(partition as u32).to_be_bytes());
}

/// The server's end of a connection. Reads and writes as the broker's listener does: all complete requests are taken
/// before anything is answered, and all their answers leave in one system call.
pub(super) struct Wire {
    stream: TcpStream,
    received: BytesMut,
    answers: BytesMut,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, received: BytesMut::new(), answers: BytesMut::new() }
    }

    /// Adds all requests that have arrived to `requests`, waiting for the first one. `false`: the client has gone.
    ///
    /// # Errors
    /// When the connection breaks or a request makes no sense.
    pub(super) async fn receive(&mut self, requests: &mut Vec<Request>) -> io::Result<bool> {
        let mut waited = false;
        loop {
            self.received.reserve(READ_BYTES / 2);
            match self.stream.try_read_buf(&mut self.received) {
                Ok(0) => return Ok(false),
                // Other connections get their turn, however fast this client sends.
                Ok(_) if !waited => task::yield_now().await,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.readable().await?;
                    waited = true;
                    continue;
                }
                Err(error) => return Err(error),
            }
            while let Some(request) = self.next_request()? {
                requests.push(request);
            }
            if !requests.is_empty() {
                return Ok(true);
            }
        }
    }

    fn next_request(&mut self) -> io::Result<Option<Request>> {
        let Some(prefix) = self.received.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if !(REQUEST_HEADER_BYTES..=REQUEST_BYTES_MAX).contains(&length) {
            return Err(io::Error::other(format!("a request of {length} bytes")));
        }
        if self.received.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        self.received.advance(LENGTH_BYTES);
        let mut frame = self.received.split_to(length).freeze();
        Ok(Some(Request { correlation: frame.get_u32(), partition: frame.get_u32() as usize, batch: frame }))
    }

    /// Adds an answer to those that [`Wire::send`] sends.
    pub(super) fn answer(&mut self, correlation: u32, base_offset: i64) {
        let end = self.answers.len() + ANSWER_BYTES;
        self.answers.put_u32((ANSWER_BYTES - LENGTH_BYTES) as u32);
        self.answers.put_u32(correlation);
        self.answers.put_i64(base_offset);
        self.answers.resize(end, 0);
    }

    /// Sends the answers.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.answers).await?;
        self.answers.clear();
        Ok(())
    }
}
