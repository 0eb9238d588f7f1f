//! One GET over HTTP/1.0, whose answer ends with the connection: no more is needed to read what our own processes tell.

use std::io::{self, IoSlice};

use bytes::{Bytes, BytesMut};

use super::connect;

/// Bytes that are read at once.
const READ_BYTES: usize = 8 << 10;

/// The whole answer, head and body, of the process at `address` for `path`; of no more than `answer_bytes_max`.
///
/// # Errors
/// When nobody answers, the connection breaks, or the answer is longer.
pub async fn http_get(address: &str, path: &str, answer_bytes_max: usize) -> io::Result<Bytes> {
    let mut stream = connect(address).await?;
    let (mut receiving, sending) = stream.split();
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let mut rest = request.as_bytes();
    while !rest.is_empty() {
        let written = sending.write_vectored(&[IoSlice::new(rest)], false).await?;
        rest = rest.get(written..).unwrap_or_default();
    }
    let mut answer = BytesMut::new();
    loop {
        answer.reserve(READ_BYTES);
        if receiving.read_buf(&mut answer).await? == 0 {
            return Ok(answer.freeze());
        }
        if answer.len() > answer_bytes_max {
            return Err(io::Error::other(format!("more than {answer_bytes_max} bytes")));
        }
    }
}
