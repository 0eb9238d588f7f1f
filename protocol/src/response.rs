//! Responses: encoded by a broker, decoded by a client.

use bytes::{Bytes, BytesMut};

use crate::guard::Direction;
use crate::header;
use crate::message::{BodyError, Message, Request, Response};
use crate::request::{self, DecodeError, EncodeError};

/// Appends a whole frame (size, header, body) of a response.
///
/// ```
/// use bytes::BytesMut;
/// use taffrail_protocol::message::HeartbeatResponse;
/// use taffrail_protocol::response;
///
/// let mut out = BytesMut::new();
/// response::encode(4, 7, &HeartbeatResponse::default().with_error_code(27), &mut out)?;
/// //                size     correlation  tags throttle  error tags
/// assert_eq!(&out[..], b"\0\0\0\x0c\0\0\0\x07\0\0\0\0\0\0\x1b\0");
/// # Ok::<(), taffrail_protocol::request::EncodeError>(())
/// ```
pub fn encode<R: Response>(
    version: i16,
    correlation_id: i32,
    response: &R,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    request::encode_frame(response, version, out, |out| {
        header::encode_response(R::KEY, version, correlation_id, out);
    })
}

/// Decodes the frame (without its size) that answers a request of type `R` sent at `version`: gives the correlation id
/// and the response.
///
/// ```
/// use bytes::Bytes;
/// use taffrail_protocol::message::HeartbeatRequest;
/// use taffrail_protocol::response;
///
/// let frame = Bytes::from_static(b"\0\0\0\x07\0\0\0\0\0\0\x1b\0");
/// let (correlation_id, response) = response::decode::<HeartbeatRequest>(4, frame)?;
/// assert_eq!((correlation_id, response.error_code), (7, 27));
/// # Ok::<(), taffrail_protocol::request::DecodeError>(())
/// ```
pub fn decode<R: Request>(version: i16, mut frame: Bytes) -> Result<(i32, R::Response), DecodeError> {
    let correlation_id = header::parse_response(R::KEY, version, &mut frame).map_err(|error| DecodeError::Body {
        message: <R::Response as Message>::NAME,
        version,
        error: BodyError::Wire(error),
    })?;
    let response = request::decode_message(Direction::Response, version, frame)?;
    Ok((correlation_id, response))
}
