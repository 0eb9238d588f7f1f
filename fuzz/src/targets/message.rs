//! Headers, every request's decoder and every response's, through the guard.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use taffrail_protocol::fetch::{FetchRequestView, FetchResponse};
use taffrail_protocol::guard::{self, Direction};
use taffrail_protocol::header::{self, RequestHeader};
use taffrail_protocol::message::*;
use taffrail_protocol::produce::ProduceRequestView;
use taffrail_protocol::request::{self, DecodeError};
use taffrail_protocol::response;
use taffrail_protocol::versions::ApiKey;
use taffrail_protocol::{api_versions, for_each_key};

use crate::memory::bounded;
use crate::random::Random;

/// What a decoder may allocate for each byte, and whatever it reads; on top comes the text of an error.
const MEMORY_PER_BYTE: usize = guard::MEMORY_PER_BYTE;
const MEMORY_BYTES: usize = guard::MEMORY_FLOOR_BYTES + 64 * 1024;

/// A header costs next to nothing.
const HEADER_BYTES: usize = 4096;

/// A frame without its size: what a header says is what it says when written again.
pub(super) fn header(input: &[u8]) {
    let frame = Bytes::copy_from_slice(input);
    let mut body = frame.clone();
    let Ok(parsed) = bounded(input, 0, HEADER_BYTES, || header::parse(&mut body)) else { return };
    assert!(parsed.key.versions().contains(parsed.version));
    assert!(frame.ends_with(&body));
    let mut out = BytesMut::new();
    header::encode(&parsed, &mut out);
    let mut again = out.freeze();
    assert_eq!(header::parse(&mut again), Ok(parsed));
    assert!(again.is_empty());
}

/// A frame without its size, as a broker gets it.
pub(super) fn request(input: &[u8]) {
    let mut body = Bytes::copy_from_slice(input);
    match header::parse(&mut body) {
        Ok(header) => decode_request(&header, body),
        Err(header::HeaderError::UnsupportedVersion { correlation_id, .. }) => {
            let mut out = BytesMut::new();
            assert!(api_versions::encode_unsupported(correlation_id, &mut out).is_ok());
        }
        Err(_) => {}
    }
}

/// Decodes, and what is decoded comes back when it is encoded again.
fn read_request<R: Request + PartialEq + Debug>(version: i16, body: Bytes) {
    let decoded = bounded(&body, MEMORY_PER_BYTE, MEMORY_BYTES, || request::decode::<R>(version, body.clone()));
    let Ok(message) = decoded else { return };
    comes_back(version, &message, |body| request::decode::<R>(version, body));
}

fn comes_back<M: Message + PartialEq + Debug>(
    version: i16,
    message: &M,
    decode: impl FnOnce(Bytes) -> Result<M, DecodeError>,
) {
    let mut out = BytesMut::new();
    if let Err(error) = message.encode_body(version, &mut out) {
        panic!("{} {version} was decoded and cannot be encoded: {error}", M::NAME);
    }
    match decode(out.freeze()) {
        Ok(again) => assert_eq!(&again, message, "{} {version} does not come back", M::NAME),
        Err(error) => panic!("our own bytes are refused: {error}"),
    }
}

macro_rules! by_key {
    ($($key:ident $request:ident $response:ident;)*) => {
        fn decode_request(header: &RequestHeader, body: Bytes) {
            match header.key {
                $(ApiKey::$key => read_request::<$request>(header.version, body.clone()),)*
            }
            match header.key {
                ApiKey::Produce => read_produce(header.version, body),
                ApiKey::Fetch => read_fetch(header.version, body),
                _ => {}
            }
        }

        fn decode_response(key: ApiKey, version: i16, frame: Bytes) {
            match key {
                $(ApiKey::$key => read_response::<$request>(version, frame),)*
            }
        }
    };
}

for_each_key!(by_key);

/// The fast path takes exactly what the codec crate takes.
fn read_produce(version: i16, body: Bytes) {
    let view = bounded(&body, MEMORY_PER_BYTE, MEMORY_BYTES, || ProduceRequestView::decode(version, body.clone()));
    let codec = request::decode::<ProduceRequest>(version, body);
    let partitions =
        |request: ProduceRequest| request.topic_data.iter().map(|topic| topic.partition_data.len()).sum::<usize>();
    assert_eq!(view.ok().map(|view| view.partition_count()), codec.ok().map(partitions));
}

/// The fast path takes exactly what the codec crate takes.
fn read_fetch(version: i16, body: Bytes) {
    let view = bounded(&body, MEMORY_PER_BYTE, MEMORY_BYTES, || FetchRequestView::decode(version, body.clone()));
    let codec = request::decode::<FetchRequest>(version, body);
    let partitions = |request: FetchRequest| request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>();
    assert_eq!(view.ok().map(|view| view.partition_count()), codec.ok().map(partitions));
}

/// Two bytes of key, two of version, then a frame without its size, as a client gets it.
pub(super) fn response(input: &[u8]) {
    let Some((head, frame)) = input.split_first_chunk::<4>() else { return };
    let version = i16::from_be_bytes([head[2], head[3]]);
    let Some(key) = ApiKey::from_code(i16::from_be_bytes([head[0], head[1]])) else { return };
    if key.versions().contains(version) {
        let frame = Bytes::copy_from_slice(frame);
        decode_response(key, version, frame.clone());
        if key == ApiKey::Fetch {
            read_fetched(version, frame);
        }
    }
}

/// A follower's reader takes exactly what the codec crate takes, and the same records.
fn read_fetched(version: i16, frame: Bytes) {
    let ours = bounded(&frame, MEMORY_PER_BYTE, MEMORY_BYTES, || FetchResponse::decode(version, frame.clone()));
    let codec = response::decode::<FetchRequest>(version, frame);
    let ours = ours.ok().map(|(id, response)| (id, response.topics.len(), response.records_bytes()));
    let codec = codec.ok().map(|(id, response)| {
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        let bytes = partitions.map(|partition| partition.records.as_ref().map_or(0, Bytes::len)).sum::<usize>();
        (id, response.responses.len(), bytes)
    });
    assert_eq!(ours, codec);
}

fn read_response<R>(version: i16, frame: Bytes)
where
    R: Request<Response: PartialEq + Debug>,
{
    let decoded = bounded(&frame, MEMORY_PER_BYTE, MEMORY_BYTES, || response::decode::<R>(version, frame.clone()));
    let Ok((correlation_id, message)) = decoded else { return };
    let mut out = BytesMut::new();
    if let Err(error) = response::encode(version, correlation_id, &message, &mut out) {
        panic!("{} {version} was decoded and cannot be encoded: {error}", R::Response::NAME);
    }
    match response::decode::<R>(version, out.split_off(4).freeze()) {
        Ok(again) => assert_eq!(again, (correlation_id, message), "{} {version} does not come back", R::NAME),
        Err(error) => panic!("our own bytes are refused: {error}"),
    }
}

/// A request of any key and version that is served, header and body.
pub(super) fn sound_request(random: &mut Random) -> Vec<u8> {
    let (key, version) = any_version(random);
    let client_id = (random.below(4) > 0).then(|| StrBytes::from_static_str("client"));
    let mut out = BytesMut::new();
    header::encode(&RequestHeader { key, version, correlation_id: 7, client_id }, &mut out);
    out.extend_from_slice(&guard::sample(key, Direction::Request, version, &mut |bound| random.below(bound)));
    out.to_vec()
}

/// Key, version and a response of it.
pub(super) fn sound_response(random: &mut Random) -> Vec<u8> {
    let (key, version) = any_version(random);
    let mut out = BytesMut::new();
    out.extend_from_slice(&key.code().to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&7_i32.to_be_bytes());
    if key.response_header_version(version) >= 1 {
        out.extend_from_slice(&[0]);
    }
    out.extend_from_slice(&guard::sample(key, Direction::Response, version, &mut |bound| random.below(bound)));
    out.to_vec()
}

fn any_version(random: &mut Random) -> (ApiKey, i16) {
    let key = *random.one_of(ApiKey::ALL);
    let range = key.versions();
    (key, range.min + random.below((range.max - range.min + 1) as usize) as i16)
}
