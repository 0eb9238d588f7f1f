//! Frames: a size of 32 bits, then that many bytes.
//!
//! The size is checked before memory is taken, so that a peer cannot make us hold more than the limit it was given.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes of the size in front of a frame.
pub const SIZE_BYTES: usize = 4;

/// Bytes that are reserved at once for a frame that is not there yet. A larger frame grows the buffer as its bytes
/// arrive, so a size alone, without bytes, never takes much memory.
const RESERVE_BYTES_MAX: usize = 64 * 1024;

/// Why a frame cannot be read. What follows on the connection has no meaning any more: close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The size is negative.
    #[error("frame size {0} is negative")]
    Negative(i32),
    /// Nothing that a client may send fits.
    #[error("frame of {size} bytes is smaller than the smallest header, {min} bytes")]
    TooSmall {
        /// Size that the peer sent.
        size: usize,
        /// Smallest size that can be a message.
        min: usize,
    },
    /// The size is above the limit (`socket.request.max.bytes`).
    #[error("frame of {size} bytes is above the limit of {limit_bytes} bytes")]
    TooLarge {
        /// Size that the peer sent.
        size: usize,
        /// The limit.
        limit_bytes: usize,
    },
}

/// Cuts frames from what arrives on one connection.
///
/// ```
/// use bytes::BytesMut;
/// use taffrail_protocol::frame::FrameReader;
///
/// let reader = FrameReader::for_requests(1_000);
/// let mut received = BytesMut::from(&b"\0\0\0\x08requestA\0\0\0\x08requ"[..]);
/// assert_eq!(reader.next(&mut received)?.unwrap(), &b"requestA"[..]);
/// assert_eq!(reader.next(&mut received)?, None); // the second one has not arrived yet
/// received.extend_from_slice(b"estB");
/// assert_eq!(reader.next(&mut received)?.unwrap(), &b"requestB"[..]);
/// # Ok::<(), taffrail_protocol::frame::FrameError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FrameReader {
    min: usize,
    limit_bytes: usize,
}

impl FrameReader {
    /// For a broker: frames of requests, each at most `limit_bytes` long (`socket.request.max.bytes`).
    pub fn for_requests(limit_bytes: usize) -> Self {
        // Key, version and correlation id: nothing shorter can be told from garbage.
        Self { min: 8, limit_bytes }
    }

    /// For a client: frames of responses, each at most `limit_bytes` long.
    pub fn for_responses(limit_bytes: usize) -> Self {
        // A correlation id.
        Self { min: 4, limit_bytes }
    }

    /// Takes the next frame, without its size, off the front of what was received; `None` if it is not complete. Then
    /// there is room for more bytes at the end of `received`.
    pub fn next(&self, received: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some(size) = self.size(received)? else {
            received.reserve(SIZE_BYTES);
            return Ok(None);
        };
        let missing = (SIZE_BYTES + size).saturating_sub(received.len());
        if missing > 0 {
            received.reserve(missing.min(RESERVE_BYTES_MAX));
            return Ok(None);
        }
        received.advance(SIZE_BYTES);
        Ok(Some(received.split_to(size).freeze()))
    }

    /// The checked size of the frame at the front; `None` if not even the size has arrived.
    fn size(&self, received: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(bytes) = received.first_chunk::<SIZE_BYTES>() else { return Ok(None) };
        let size = i32::from_be_bytes(*bytes);
        let size = usize::try_from(size).map_err(|_| FrameError::Negative(size))?;
        if size < self.min {
            return Err(FrameError::TooSmall { size, min: self.min });
        }
        if size > self.limit_bytes {
            return Err(FrameError::TooLarge { size, limit_bytes: self.limit_bytes });
        }
        Ok(Some(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: FrameReader = FrameReader { min: 8, limit_bytes: 100 };

    #[test]
    fn a_frame_arrives_whole_however_it_is_cut() {
        let sent = b"\0\0\0\x09frame oneXX";
        for cut in 0..sent.len() - 2 {
            let mut received = BytesMut::from(&sent[..cut]);
            assert_eq!(READER.next(&mut received), Ok(None), "{cut} bytes");
            received.extend_from_slice(&sent[cut..]);
            assert_eq!(READER.next(&mut received), Ok(Some(Bytes::from_static(b"frame one"))));
            assert_eq!(&received[..], b"XX");
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused_before_the_frame_is_there() {
        let cases = [
            (-1, FrameError::Negative(-1)),
            (i32::MIN, FrameError::Negative(i32::MIN)),
            (0, FrameError::TooSmall { size: 0, min: 8 }),
            (7, FrameError::TooSmall { size: 7, min: 8 }),
            (101, FrameError::TooLarge { size: 101, limit_bytes: 100 }),
            (i32::MAX, FrameError::TooLarge { size: 2_147_483_647, limit_bytes: 100 }),
        ];
        for (size, error) in cases {
            let mut received = BytesMut::from(&size.to_be_bytes()[..]);
            assert_eq!(READER.next(&mut received), Err(error));
        }
    }

    #[test]
    fn a_size_without_bytes_takes_little_memory() {
        let reader = FrameReader::for_requests(100 * 1024 * 1024);
        let mut received = BytesMut::from(&(100 * 1024 * 1024_i32).to_be_bytes()[..]);
        assert_eq!(reader.next(&mut received), Ok(None));
        assert!(received.capacity() <= 2 * RESERVE_BYTES_MAX, "{} bytes", received.capacity());
    }
}
