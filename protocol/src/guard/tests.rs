//! What the guard refuses, and that it agrees with the codecs on everything that is sound.

use bytes::{Bytes, BytesMut};

use super::*;
use crate::message::*;
use crate::request::{self, DecodeError};

/// Seeds tried for each message and version.
const SEEDS: u64 = 24;

/// A small generator of choices, the same in every run (SplitMix64).
fn chooser(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |bound| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// Decodes a body, encodes the message, decodes it again, and tells whether both are the same.
fn comes_back<M: Message + PartialEq + std::fmt::Debug>(direction: Direction, version: i16, body: Bytes) {
    let name = M::NAME;
    let message: M =
        request::decode_message(direction, version, body.clone()).unwrap_or_else(|error| panic!("{error}: {body:?}"));
    let mut out = BytesMut::new();
    message.encode_body(version, &mut out).unwrap_or_else(|error| panic!("{name} {version}: {error}"));
    let again: M = request::decode_message(direction, version, out.freeze())
        .unwrap_or_else(|error| panic!("{name} {version}, encoded by us: {error}"));
    assert_eq!(again, message, "{name} {version}");
}

macro_rules! all_come_back {
    ($($key:ident $request:ident $response:ident;)*) => {
        fn comes_back_by_key(key: ApiKey, direction: Direction, version: i16, body: Bytes) {
            match (key, direction) {
                $(
                    (ApiKey::$key, Direction::Request) => comes_back::<$request>(direction, version, body),
                    (ApiKey::$key, Direction::Response) => comes_back::<$response>(direction, version, body),
                )*
            }
        }
    };
}

crate::for_each_key!(all_come_back);

#[test]
fn guard_and_codecs_agree_on_every_message_at_every_version() {
    for &key in ApiKey::ALL {
        for version in key.versions().min..=key.versions().max {
            for direction in [Direction::Request, Direction::Response] {
                for seed in 0..SEEDS {
                    let body = sample(key, direction, version, &mut chooser(seed)).freeze();
                    comes_back_by_key(key, direction, version, body);
                }
            }
        }
    }
}

#[test]
fn a_sound_body_is_read_to_its_last_byte_and_no_shorter_one_is_sound() {
    for &key in ApiKey::ALL {
        for version in key.versions().min..=key.versions().max {
            for direction in [Direction::Request, Direction::Response] {
                let body = sample(key, direction, version, &mut chooser(7)).freeze();
                assert_eq!(check(key, direction, version, &body), Ok(()), "{key} {version}");
                for length in 0..body.len() {
                    let cut = check(key, direction, version, &body.slice(..length));
                    assert!(cut.is_err(), "{key} {direction:?} {version} cut to {length} of {} bytes", body.len());
                }
            }
        }
    }
}

#[test]
fn bytes_after_a_message_are_ignored_as_kafka_ignores_them() {
    let body = Bytes::from_static(b"\0\0\0\x01\0\x02ab\x01extra");
    let request: MetadataRequest = request::decode(4, body).unwrap();
    assert_eq!(request.topics.map(|topics| topics.len()), Some(1));
}

#[test]
fn five_bytes_cannot_ask_for_gigabytes() {
    let body = Bytes::from_static(b"\xff\xff\xff\xff\x0f");
    let error = request::decode::<MetadataRequest>(12, body).unwrap_err();
    assert_eq!(
        error,
        DecodeError::Shape {
            message: "MetadataRequest",
            version: 12,
            error: ShapeError::Broken { field: "topics", error: WireError::Truncated { wanted: 0xffff_fffe, left: 0 } },
        }
    );
}

#[test]
fn hostile_shapes_are_refused_with_the_field_that_is_wrong() {
    let metadata = |version, bytes: &[u8]| check(ApiKey::Metadata, Direction::Request, version, &bytes.to_vec().into());
    let broken = |field, error| Err(ShapeError::Broken { field, error });
    // Version 4 counts in 32 bits and names in 16.
    assert_eq!(
        metadata(4, b"\x7f\xff\xff\xff"),
        broken("topics", WireError::Truncated { wanted: 0x7fff_ffff, left: 0 })
    );
    assert_eq!(metadata(4, b"\xff\xff\xff\xfe\0"), broken("topics", WireError::Length(-2)));
    assert_eq!(metadata(4, b"\0\0\0\x01\xff\xfea"), broken("name", WireError::Length(-2)));
    assert_eq!(metadata(4, b"\0\0\0\x01\0\x05ab"), broken("name", WireError::Truncated { wanted: 5, left: 2 }));
    // Version 12 has compact lengths and tagged fields.
    let tags = broken("tagged fields", WireError::Truncated { wanted: 100, left: 1 });
    assert_eq!(metadata(12, b"\x00\0\0\x01\x09\x64a"), tags);
    assert_eq!(metadata(12, b"\x00\0\0\xff\xff\xff\xff\xff"), broken("tagged fields", WireError::Varint));
    assert_eq!(metadata(12, b"\x00\0\0\x91\x4e"), Err(ShapeError::TooManyTaggedFields { count: 10_001 }));
}

#[test]
fn a_known_tagged_field_must_have_the_size_it_claims() {
    // Fetch 12: no topics, no rack; the cluster id under tag 0 takes three bytes and claims four.
    let mut body = vec![0; 25];
    body.extend(b"\x01\x01\x01\x01\x00\x04\x03abX");
    let checked = check(ApiKey::Fetch, Direction::Request, 12, &body.into());
    assert_eq!(checked, Err(ShapeError::TaggedFieldSize { field: "cluster_id", claimed: 4, actual: 3 }));
}

#[test]
fn tags_of_other_versions_and_tags_beyond_31_bits_are_refused() {
    // Fetch 12: no topics, no rack; then tag 1, which is the replica state of version 15.
    let mut body = vec![0; 25];
    body.extend(b"\x01\x01\x01\x01\x01\x00");
    let checked = check(ApiKey::Fetch, Direction::Request, 12, &body.into());
    assert_eq!(checked, Err(ShapeError::Tag { tag: 1 }));
    let body = Bytes::from_static(b"\x00\0\0\x01\x80\x80\x80\x80\x08\x00");
    let checked = check(ApiKey::Metadata, Direction::Request, 12, &body);
    assert_eq!(checked, Err(ShapeError::Tag { tag: 1 << 31 }));
}

#[test]
fn arrays_are_no_longer_than_kafkas() {
    let mut body = BytesMut::new();
    body.extend_from_slice(&1_000_001_i32.to_be_bytes());
    body.resize(4 + 2 * 1_000_001, 0);
    let checked = check(ApiKey::DescribeGroups, Direction::Request, 0, &body.freeze());
    assert_eq!(checked, Err(ShapeError::TooManyElements { field: "groups", count: 1_000_001 }));
}

#[test]
fn short_elements_cannot_become_large_structs_without_end() {
    // 900,000 topics with empty names: 1.8 MB on the wire, 65 MB when decoded.
    let mut body = BytesMut::new();
    body.extend_from_slice(&900_000_i32.to_be_bytes());
    body.resize(4 + 2 * 900_000 + 1, 0);
    let checked = check(ApiKey::Metadata, Direction::Request, 4, &body.freeze());
    assert!(matches!(checked, Err(ShapeError::TooMuchMemory { field: "topics", .. })), "{checked:?}");
}

#[test]
fn unknown_tagged_fields_cannot_become_maps_without_end() {
    // 9,000 topics, each with an unknown tagged field of no bytes, 21 bytes a topic.
    let mut body = BytesMut::from(&b"\xa9\x46"[..]);
    for _ in 0..9_000 {
        body.extend_from_slice(&[0; 16]);
        body.extend_from_slice(b"\x01\x01\x09\x00");
    }
    body.extend_from_slice(b"\0\0\0");
    let body = body.freeze();
    let checked = check(ApiKey::Metadata, Direction::Request, 12, &body);
    assert!(matches!(checked, Err(ShapeError::TooMuchMemory { field: "tagged fields", .. })), "{checked:?}");
}

#[test]
fn a_request_for_a_hundred_thousand_partitions_passes() {
    let topics = (0..1_000).map(|topic| {
        let partitions = (0..100)
            .map(|index| offset_commit_request::OffsetCommitRequestPartition::default().with_partition_index(index));
        offset_commit_request::OffsetCommitRequestTopic::default()
            .with_name(TopicName(StrBytes::from_string(format!("topic-{topic}"))))
            .with_partitions(partitions.collect())
    });
    let commit = OffsetCommitRequest::default().with_topics(topics.collect());
    for version in 2..=9 {
        let mut out = BytesMut::new();
        commit.encode_body(version, &mut out).unwrap();
        assert_eq!(check(ApiKey::OffsetCommit, Direction::Request, version, &out.freeze()), Ok(()), "{version}");
    }
}
