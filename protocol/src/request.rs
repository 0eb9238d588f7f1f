//! Requests: decoded by a broker, encoded by a client.

use bytes::{BufMut, Bytes, BytesMut};

use crate::frame::SIZE_BYTES;
use crate::guard::{self, Direction, ShapeError};
use crate::header::{self, RequestHeader};
use crate::message::{BodyError, Message, Request};
use crate::versions::ApiKey;
use crate::wire::WireError;

/// Why a body cannot be decoded. A broker closes the connection then, as Kafka does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The version is not one of the key's.
    #[error("{key} has no version {version}")]
    Version {
        /// The key.
        key: ApiKey,
        /// Version asked for.
        version: i16,
    },
    /// A count, length or nesting is beyond the bytes that are there or beyond a limit.
    #[error("{message} version {version}: {error}")]
    Shape {
        /// Name of the message.
        message: &'static str,
        /// Version of the message.
        version: i16,
        /// What is wrong, and where.
        error: ShapeError,
    },
    /// The shape is sound, a value is not.
    #[error("{message} version {version}: {error}")]
    Body {
        /// Name of the message.
        message: &'static str,
        /// Version of the message.
        version: i16,
        /// What is wrong.
        error: BodyError,
    },
}

/// Why a message cannot be encoded: it has a field that the version does not know, or is too large for a frame. A
/// mistake of ours, never the other side's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The version is not one of the key's.
    #[error("{key} has no version {version}")]
    Version {
        /// The key.
        key: ApiKey,
        /// Version asked for.
        version: i16,
    },
    /// The message does not fit the version.
    #[error("{message} version {version}: {error}")]
    Body {
        /// Name of the message.
        message: &'static str,
        /// Version of the message.
        version: i16,
        /// What is wrong.
        error: BodyError,
    },
    /// A frame's size has 31 bits.
    #[error("{message} of {bytes} bytes is larger than a frame can be")]
    TooLarge {
        /// Name of the message.
        message: &'static str,
        /// Bytes that it takes.
        bytes: usize,
    },
}

/// Decodes the body of a request: first its shape is checked ([`guard`]), then it is read. Names and records are slices
/// of `body` and keep it in memory: copy what outlives the request.
///
/// ```
/// use bytes::Bytes;
/// use taffrail_protocol::message::MetadataRequest;
/// use taffrail_protocol::request;
///
/// // Version 12, one topic by name, no auto-creation.
/// let mut body = b"\x02".to_vec();
/// body.extend([0; 16]);
/// body.extend(b"\x03ab\x00\x00\x00\x00");
/// let metadata: MetadataRequest = request::decode(12, body.into())?;
/// assert_eq!(metadata.topics.unwrap()[0].name.as_ref().unwrap().as_str(), "ab");
///
/// // Four bytes that claim 4,294,967,294 topics are refused before any memory is taken.
/// let hostile = Bytes::from_static(b"\xff\xff\xff\xff\x0f");
/// assert!(request::decode::<MetadataRequest>(12, hostile).is_err());
/// # Ok::<(), request::DecodeError>(())
/// ```
pub fn decode<R: Request>(version: i16, body: Bytes) -> Result<R, DecodeError> {
    decode_message(Direction::Request, version, body)
}

/// Checks the version and the shape of a message, then reads it.
pub(crate) fn decode_message<M: Message>(
    direction: Direction,
    version: i16,
    mut body: Bytes,
) -> Result<M, DecodeError> {
    check(M::KEY, M::NAME, direction, version, &body)?;
    M::decode_body(version, &mut body).map_err(|error| DecodeError::Body { message: M::NAME, version, error })
}

/// Checks the version and the shape of a message, then has `read` read it: for messages with a reader of their own.
pub(crate) fn decode_with<T>(
    key: ApiKey,
    direction: Direction,
    message: &'static str,
    version: i16,
    body: &Bytes,
    read: impl FnOnce(i16, &Bytes) -> Result<T, WireError>,
) -> Result<T, DecodeError> {
    check(key, message, direction, version, body)?;
    read(version, body).map_err(|error| DecodeError::Body { message, version, error: error.into() })
}

/// Refuses a version that the key does not have, and a body whose shape is not that of the message.
fn check(
    key: ApiKey,
    message: &'static str,
    direction: Direction,
    version: i16,
    body: &Bytes,
) -> Result<(), DecodeError> {
    if !key.versions().contains(version) {
        return Err(DecodeError::Version { key, version });
    }
    guard::check(key, direction, version, body).map_err(|error| DecodeError::Shape { message, version, error })
}

/// Appends a whole frame (size, header, body) of a request, as a client sends it.
///
/// ```
/// use bytes::BytesMut;
/// use taffrail_protocol::message::HeartbeatRequest;
/// use taffrail_protocol::request;
///
/// let mut out = BytesMut::new();
/// request::encode(0, 1, Some("me"), &HeartbeatRequest::default(), &mut out)?;
/// assert_eq!(&out[..], b"\0\0\0\x14\0\x0c\0\0\0\0\0\x01\0\x02me\0\0\0\0\0\0\0\0");
/// # Ok::<(), request::EncodeError>(())
/// ```
pub fn encode<R: Request>(
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    request: &R,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let client_id = client_id.map(|name| name.to_owned().into());
    let header = RequestHeader { key: R::KEY, version, correlation_id, client_id };
    encode_frame(request, version, out, |out| header::encode(&header, out))
}

/// Appends a frame of what `header` writes and a message.
pub(crate) fn encode_frame<M: Message>(
    message: &M,
    version: i16,
    out: &mut BytesMut,
    header: impl FnOnce(&mut BytesMut),
) -> Result<(), EncodeError> {
    encode_frame_with(M::KEY, M::NAME, version, out, |out| {
        header(out);
        message.encode_body(version, out)
    })
}

/// Appends a frame of what `content` writes, with its size in front; leaves `out` as it was on an error.
pub(crate) fn encode_frame_with(
    key: ApiKey,
    message: &'static str,
    version: i16,
    out: &mut BytesMut,
    content: impl FnOnce(&mut BytesMut) -> Result<(), BodyError>,
) -> Result<(), EncodeError> {
    if !key.versions().contains(version) {
        return Err(EncodeError::Version { key, version });
    }
    let start = out.len();
    out.put_i32(0);
    let encoded = content(out).map_err(|error| EncodeError::Body { message, version, error }).and_then(|()| {
        let bytes = out.len() - start - SIZE_BYTES;
        i32::try_from(bytes).map_err(|_| EncodeError::TooLarge { message, bytes })
    });
    match encoded {
        Ok(size) => {
            out[start..start + SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}
