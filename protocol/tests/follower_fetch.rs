//! A follower's side of Fetch: what it writes, the leader's reader reads; what it reads, the codec crate reads too.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use bytes::{Bytes, BytesMut};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Uuid;
use taffrail_protocol::data::{CurrentLeader, TopicRef};
use taffrail_protocol::fetch::{
    Chunk, FOLLOWER_VERSIONS, FetchPartition, FetchRequestView, FetchResponse, FollowerRequest, PartitionFetched,
};
use taffrail_protocol::guard::{self, Direction};
use taffrail_protocol::message::FetchRequest;
use taffrail_protocol::versions::ApiKey;
use taffrail_protocol::{header, response};

const ONE: Uuid = Uuid([1; 16]);
const TWO: Uuid = Uuid([2; 16]);

fn partition(index: i32) -> FetchPartition {
    FetchPartition {
        index,
        current_leader_epoch: 4,
        fetch_offset: 100 + i64::from(index),
        last_fetched_epoch: 3,
        log_start_offset: 7,
        max_bytes: 1 << 20,
        replica_directory_id: Uuid::ZERO,
        high_watermark: i64::MAX,
    }
}

fn request<'a>(asked: &'a [(Uuid, FetchPartition)], forgotten: &'a [(Uuid, i32)]) -> FollowerRequest<'a> {
    FollowerRequest {
        replica_id: 2,
        replica_epoch: 77,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 10 << 20,
        session_id: 5,
        session_epoch: 9,
        asked,
        forgotten,
    }
}

#[test]
fn the_leader_reads_what_a_follower_writes() {
    let asked = [(ONE, partition(0)), (ONE, partition(3)), (TWO, partition(1))];
    let forgotten = [(TWO, 4), (TWO, 5)];
    for version in FOLLOWER_VERSIONS.min..=FOLLOWER_VERSIONS.max {
        let mut out = BytesMut::new();
        request(&asked, &forgotten).encode(version, 42, "follower", &mut out).unwrap();
        let size = i32::from_be_bytes(out.split_to(4)[..].try_into().unwrap());
        assert_eq!(size as usize, out.len());
        let mut body = out.freeze();
        let read = header::parse(&mut body).unwrap();
        assert_eq!((read.key, read.version, read.correlation_id), (ApiKey::Fetch, version, 42));
        assert_eq!(read.client_id.as_deref(), Some("follower"));

        let view = FetchRequestView::decode(version, body).unwrap();
        assert_eq!((view.replica_id, view.replica_epoch), (2, 77));
        assert_eq!(view.cluster_id, None);
        assert_eq!((view.max_wait_ms, view.min_bytes, view.max_bytes), (500, 1, 10 << 20));
        assert_eq!((view.session_id, view.session_epoch, view.isolation_level), (5, 9, 0));
        let topics: Vec<_> = view.topics().map(|(topic, partitions)| (topic.clone(), partitions.to_vec())).collect();
        let expected = [(TopicRef::Id(ONE), vec![partition(0), partition(3)]), (TopicRef::Id(TWO), vec![partition(1)])];
        assert_eq!(topics, expected);
        assert_eq!(view.forgotten, [(TopicRef::Id(TWO), vec![4, 5])]);
    }
}

#[test]
fn a_version_in_which_followers_do_not_ask_is_refused() {
    for version in [FOLLOWER_VERSIONS.min - 1, FOLLOWER_VERSIONS.max + 1] {
        let mut out = BytesMut::from(&b"before"[..]);
        assert!(request(&[], &[]).encode(version, 1, "follower", &mut out).is_err());
        assert_eq!(&out[..], b"before");
    }
}

/// A frame (without its size) of what a leader answers.
fn frame(version: i16, response: FetchResponse<Bytes>) -> Bytes {
    let mut out = BytesMut::new();
    for Chunk::Bytes(bytes) | Chunk::Records(bytes) in response.into_chunks(version, 7).unwrap() {
        out.extend_from_slice(&bytes);
    }
    out.freeze().slice(4..)
}

#[test]
fn a_follower_reads_what_the_leader_writes_with_records_where_they_lie() {
    let with_records = PartitionFetched {
        high_watermark: 20,
        last_stable_offset: 19,
        log_start_offset: 1,
        records: vec![Bytes::from(vec![0x55; 1000])],
        ..PartitionFetched::failed(1, ErrorCode::None)
    };
    let diverging = PartitionFetched { diverging_epoch: Some((4, 44)), ..PartitionFetched::failed(2, ErrorCode::None) };
    let failed = PartitionFetched {
        current_leader: Some(CurrentLeader { leader_id: 3, leader_epoch: 9 }),
        ..PartitionFetched::failed(5, ErrorCode::FencedLeaderEpoch)
    };
    let written = FetchResponse {
        throttle_time_ms: 8,
        session_id: 12,
        topics: vec![(TopicRef::Id(ONE), vec![with_records, diverging]), (TopicRef::Id(TWO), vec![failed])],
        ..FetchResponse::default()
    };
    for version in FOLLOWER_VERSIONS.min..=FOLLOWER_VERSIONS.max {
        let frame = frame(version, written.clone());
        let (correlation_id, read) = FetchResponse::decode(version, frame.clone()).unwrap();
        assert_eq!((correlation_id, &read), (7, &written));
        let records = &read.topics[0].1[0].records[0];
        assert!(frame.as_ptr_range().contains(&records.as_ptr()), "records must not be copied");
    }
}

#[test]
fn an_epoch_that_is_told_to_be_none_is_none() {
    let undefined =
        PartitionFetched { diverging_epoch: Some((-1, -1)), ..PartitionFetched::failed(0, ErrorCode::None) };
    let written = FetchResponse { topics: vec![(TopicRef::Id(ONE), vec![undefined])], ..FetchResponse::default() };
    let (_, read) = FetchResponse::decode(17, frame(17, written)).unwrap();
    assert_eq!(read.topics[0].1[0].diverging_epoch, None);
}

#[test]
fn answers_read_as_the_codec_crate_reads_them_whole_or_cut_anywhere() {
    for version in ApiKey::Fetch.versions().min..=ApiKey::Fetch.versions().max {
        for seed in 0..40_usize {
            let mut state = seed;
            let mut choose = move |bound: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            let body = guard::sample(ApiKey::Fetch, Direction::Response, version, &mut choose);
            let mut whole = BytesMut::from(&7_i32.to_be_bytes()[..]);
            if version >= 12 {
                whole.extend_from_slice(&[0]);
            }
            whole.extend_from_slice(&body);
            let whole = whole.freeze();
            for end in (0..whole.len()).step_by(7).chain([whole.len()]) {
                let ours = FetchResponse::decode(version, whole.slice(..end));
                let codec = response::decode::<FetchRequest>(version, whole.slice(..end));
                assert_eq!(ours.is_ok(), codec.is_ok(), "{version} {seed} {end}");
                let (Ok((_, ours)), Ok((_, codec))) = (ours, codec) else { continue };
                assert_eq!((ours.session_id, ours.topics.len()), (codec.session_id, codec.responses.len()));
                for ((_, ours), codec) in ours.topics.iter().zip(&codec.responses) {
                    for (ours, codec) in ours.iter().zip(&codec.partitions) {
                        assert_eq!((ours.index, ours.high_watermark), (codec.partition_index, codec.high_watermark));
                        assert_eq!(ours.records.concat(), codec.records.clone().unwrap_or_default());
                    }
                }
            }
        }
    }
}

#[test]
fn counts_and_lengths_that_the_frame_does_not_cover_are_refused() {
    // Correlation id, no tags, throttle time, error, session; then as many topics as fit into 32 bits.
    let head = b"\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\x05";
    for tail in [
        &b"\xff\xff\xff\xff\x0f"[..],
        b"\x02\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\xff\xff\xff\xff\x0f",
        b"",
    ] {
        let frame = Bytes::from([&head[..], tail].concat());
        assert!(FetchResponse::decode(17, frame).is_err(), "{tail:?}");
    }
}
