//! The header in front of every request and every response.
//!
//! A request's header is parsed by hand, because what is wrong with it decides what happens: an unknown newer version of
//! ApiVersions gets an answer ([`crate::api_versions::encode_unsupported`]), everything else unknown closes the
//! connection, as Kafka does.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::message::StrBytes;
use crate::versions::{ApiKey, VersionRange};
use crate::wire::{Reader, WireError, Writer};

/// Bytes that every request header starts with: key, version and correlation id.
const FIXED_HEADER_BYTES: usize = 8;

/// What a client says before a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Which request it is.
    pub key: ApiKey,
    /// Version of body and answer, within [`ApiKey::versions`].
    pub version: i16,
    /// Comes back in the answer.
    pub correlation_id: i32,
    /// Name that the client gave itself. It pins the frame in memory: copy it before keeping it.
    pub client_id: Option<StrBytes>,
}

/// Why a header cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Too few bytes, or a broken client id or tagged field.
    #[error("request header is malformed: {0}")]
    Malformed(#[from] WireError),
    /// The key is not served.
    #[error("request key {key} (version {version}) is not served")]
    UnknownKey {
        /// Number of the key.
        key: i16,
        /// Version asked for.
        version: i16,
        /// For the log line.
        correlation_id: i32,
    },
    /// The key is served, this version of it is not.
    #[error("{key} version {version} is not served, only {}", served(*key))]
    UnsupportedVersion {
        /// The key. ApiVersions is owed an answer.
        key: ApiKey,
        /// Version asked for.
        version: i16,
        /// For the answer to ApiVersions.
        correlation_id: i32,
    },
}

fn served(key: ApiKey) -> VersionRange {
    key.versions()
}

/// Which request a frame holds, if it is one that is served.
pub fn peek_key(frame: &[u8]) -> Option<ApiKey> {
    frame.first_chunk().and_then(|code| ApiKey::from_code(i16::from_be_bytes(*code)))
}

/// Takes the header off the front of a frame and leaves the body.
///
/// ```
/// use bytes::Bytes;
/// use taffrail_protocol::header;
/// use taffrail_protocol::versions::ApiKey;
///
/// let mut frame = Bytes::from_static(b"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02me\x00body");
/// let header = header::parse(&mut frame)?;
/// assert_eq!((header.key, header.version, header.correlation_id), (ApiKey::Metadata, 9, 7));
/// assert_eq!(header.client_id.as_deref(), Some("me"));
/// assert_eq!(&frame[..], b"body");
/// # Ok::<(), header::HeaderError>(())
/// ```
pub fn parse(frame: &mut Bytes) -> Result<RequestHeader, HeaderError> {
    let mut reader = Reader::new(frame, false);
    if reader.remaining() < FIXED_HEADER_BYTES {
        return Err(WireError::Truncated { wanted: FIXED_HEADER_BYTES, left: reader.remaining() }.into());
    }
    let (code, version, correlation_id) = (reader.i16()?, reader.i16()?, reader.i32()?);
    let key = ApiKey::from_code(code).ok_or(HeaderError::UnknownKey { key: code, version, correlation_id })?;
    if !key.versions().contains(version) {
        return Err(HeaderError::UnsupportedVersion { key, version, correlation_id });
    }
    // The client id keeps its old form in every header version, so that a broker can read it before all else.
    let client_id = reader.nullable_string()?;
    let mut position = reader.position();
    if key.request_header_version(version) >= 2 {
        let rest = frame.slice(position..);
        let mut tags = Reader::new(&rest, true);
        tags.skip_tagged_fields()?;
        position += tags.position();
    }
    frame.advance(position);
    Ok(RequestHeader { key, version, correlation_id, client_id })
}

/// Writes the header of a request, as a client does.
pub fn encode(header: &RequestHeader, out: &mut BytesMut) {
    out.put_i16(header.key.code());
    out.put_i16(header.version);
    out.put_i32(header.correlation_id);
    Writer::new(out, false).nullable_string(header.client_id.as_deref());
    if header.key.request_header_version(header.version) >= 2 {
        out.put_u8(0);
    }
}

/// Writes the header of a response: the correlation id and, in header version 1, no tagged fields.
pub(crate) fn encode_response(key: ApiKey, version: i16, correlation_id: i32, out: &mut BytesMut) {
    out.put_i32(correlation_id);
    if key.response_header_version(version) >= 1 {
        out.put_u8(0);
    }
}

/// Takes the header off the front of a response's frame and returns the correlation id.
pub fn parse_response(key: ApiKey, version: i16, frame: &mut Bytes) -> Result<i32, WireError> {
    let mut reader = Reader::new(frame, true);
    let correlation_id = reader.i32()?;
    if key.response_header_version(version) >= 1 {
        reader.skip_tagged_fields()?;
    }
    let position = reader.position();
    frame.advance(position);
    Ok(correlation_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &'static [u8]) -> (Result<RequestHeader, HeaderError>, usize) {
        let mut frame = Bytes::from_static(bytes);
        let header = parse(&mut frame);
        (header, frame.len())
    }

    #[test]
    fn a_header_comes_back_as_it_was_written() {
        for (key, version, client_id) in [
            (ApiKey::Metadata, 8, Some("tests")),
            (ApiKey::Metadata, 9, Some("")),
            (ApiKey::Metadata, 13, None),
            (ApiKey::ApiVersions, 5, Some("a")),
            (ApiKey::SaslHandshake, 1, None),
        ] {
            let client_id = client_id.map(StrBytes::from_static_str);
            let header = RequestHeader { key, version, correlation_id: -3, client_id };
            let mut out = BytesMut::new();
            encode(&header, &mut out);
            out.put_slice(b"body");
            let mut frame = out.freeze();
            assert_eq!(parse(&mut frame), Ok(header));
            assert_eq!(&frame[..], b"body");
        }
    }

    #[test]
    fn unknown_tagged_fields_of_a_header_are_passed_over() {
        let (header, left) = parsed(b"\x00\x03\x00\x09\x00\x00\x00\x07\xff\xff\x02\x00\x01x\x05\x02yzbody");
        assert_eq!(header.map(|header| header.client_id), Ok(None));
        assert_eq!(left, 4);
    }

    #[test]
    fn broken_headers_are_refused() {
        let cases: [(&'static [u8], HeaderError); 7] = [
            (b"", WireError::Truncated { wanted: 8, left: 0 }.into()),
            (b"\x00\x12\x00\x00\x00\x00\x00", WireError::Truncated { wanted: 8, left: 7 }.into()),
            (b"\x00\x12\x00\x00\x00\x00\x00\x01", WireError::Truncated { wanted: 2, left: 0 }.into()),
            (b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x09ab", WireError::Truncated { wanted: 9, left: 2 }.into()),
            (b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xfe", WireError::Length(-2).into()),
            (b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x01\xff", WireError::Utf8.into()),
            (
                b"\x00\x03\x00\x09\x00\x00\x00\x07\xff\xff\xff\xff\xff\xff\x0f",
                WireError::Truncated { wanted: 1, left: 0 }.into(),
            ),
        ];
        for (bytes, error) in cases {
            assert_eq!(parsed(bytes).0, Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_not_served_keeps_its_correlation_id() {
        let (unknown, _) = parsed(b"\x03\xe7\x00\x00\x00\x00\x00\x05\xff\xff");
        assert_eq!(unknown, Err(HeaderError::UnknownKey { key: 999, version: 0, correlation_id: 5 }));
        let (newer, _) = parsed(b"\x00\x12\x00\x63\x00\x00\x00\x05\xff\xff\x00");
        let expected = HeaderError::UnsupportedVersion { key: ApiKey::ApiVersions, version: 99, correlation_id: 5 };
        assert_eq!(newer, Err(expected));
        let (older, _) = parsed(b"\x00\x00\x00\x02\x00\x00\x00\x05\xff\xff");
        let expected = HeaderError::UnsupportedVersion { key: ApiKey::Produce, version: 2, correlation_id: 5 };
        assert_eq!(older, Err(expected));
    }
}
