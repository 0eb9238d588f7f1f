//! The hand-written codecs of Produce and Fetch against the codec crate's, at every version.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use bytes::{Bytes, BytesMut};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Uuid;
use taffrail_protocol::data::{CurrentLeader, NodeEndpoint, TopicRef};
use taffrail_protocol::fetch::{Chunk, FetchRequestView, FetchResponse, PartitionFetched};
use taffrail_protocol::guard::{self, Direction};
use taffrail_protocol::message::{self, FetchRequest, ProduceRequest, from_wire_id};
use taffrail_protocol::produce::{PartitionProduced, ProduceRequestView, ProduceResponse};
use taffrail_protocol::request;
use taffrail_protocol::response;
use taffrail_protocol::versions::ApiKey;

const ID: Uuid = Uuid([7; 16]);

/// A sound body whose open choices follow from `seed`.
fn sample(key: ApiKey, version: i16, seed: usize) -> Bytes {
    let mut state = seed;
    let mut choose = move |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    guard::sample(key, Direction::Request, version, &mut choose).freeze()
}

fn versions(key: ApiKey) -> std::ops::RangeInclusive<i16> {
    key.versions().min..=key.versions().max
}

/// The topic as the view of a version should have it.
fn topic_ref(by_id: bool, name: &str, id: message::WireUuid) -> TopicRef {
    if by_id { TopicRef::Id(from_wire_id(id)) } else { TopicRef::Name(name.to_owned().into()) }
}

/// The topic as a response at a version has to name it.
fn topic(version: i16) -> TopicRef {
    if version >= 13 { TopicRef::Id(ID) } else { TopicRef::Name("a-topic".into()) }
}

fn endpoint() -> NodeEndpoint {
    NodeEndpoint { node_id: 3, host: "host".into(), port: 9092, rack: Some("rack".into()) }
}

#[test]
fn produce_requests_read_as_the_codec_crate_reads_them() {
    for version in versions(ApiKey::Produce) {
        for seed in 0..50 {
            let body = sample(ApiKey::Produce, version, seed);
            let view = ProduceRequestView::decode(version, body.clone()).unwrap();
            let expected: ProduceRequest = request::decode(version, body).unwrap();
            assert_eq!(view.transactional_id, expected.transactional_id.map(|id| id.0));
            assert_eq!((view.acks, view.timeout_ms), (expected.acks, expected.timeout_ms));
            let topics: Vec<_> = view
                .topics()
                .map(|(topic, partitions)| {
                    (topic.clone(), partitions.iter().map(|p| (p.index, p.records.clone())).collect::<Vec<_>>())
                })
                .collect();
            let expected: Vec<_> = expected
                .topic_data
                .into_iter()
                .map(|topic| {
                    let partitions = topic.partition_data.into_iter().map(|p| (p.index, p.records));
                    (topic_ref(version >= 13, &topic.name, topic.topic_id), partitions.collect::<Vec<_>>())
                })
                .collect();
            assert_eq!(topics, expected);
            assert_eq!(view.partition_count(), topics.iter().map(|(_, partitions)| partitions.len()).sum::<usize>());
        }
    }
}

#[test]
fn produced_records_are_slices_of_the_frame() {
    let mut body = b"\x00\xff\xff\0\0\x05\xdc\x02\x03ab\x02\0\0\0\x07\xe9\x07".to_vec();
    body.extend([0x55; 1000]);
    body.extend([0; 3]);
    let body = Bytes::from(body);
    let view = ProduceRequestView::decode(9, body.clone()).unwrap();
    let (_, partitions) = view.topics().next().unwrap();
    let records = partitions[0].records.as_ref().unwrap();
    assert_eq!(records.len(), 1000);
    assert!(body.as_ptr_range().contains(&records.as_ptr()), "records must not be copied");
}

#[test]
fn null_records_and_a_null_transactional_id_are_kept_apart_from_empty_ones() {
    let mut body = BytesMut::from(&b"\xff\xff\x00\x01\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x02"[..]);
    body.extend_from_slice(b"\0\0\0\0\xff\xff\xff\xff");
    body.extend_from_slice(b"\0\0\0\x01\0\0\0\0");
    let view = ProduceRequestView::decode(3, body.freeze()).unwrap();
    assert_eq!(view.transactional_id, None);
    let (_, partitions) = view.topics().next().unwrap();
    assert_eq!(partitions[0].records, None);
    assert_eq!(partitions[1].records, Some(Bytes::new()));
}

#[test]
fn hostile_produce_and_fetch_requests_are_refused() {
    for (version, body) in [
        (9, &b"\x00\xff\xff\0\0\x05\xdc\xff\xff\xff\xff\x0f"[..]),
        (9, b"\x00\xff\xff\0\0\x05\xdc\x02\x03ab\xff\xff\xff\xff\x0f"),
        (9, b"\x00\xff\xff\0\0\x05\xdc\x02\x03ab\x02\0\0\0\x07\xff\xff\xff\xff\x0f"),
        (3, b"\xff\xff\xff\xff\0\0\x05\xdc\0\0\0\x01\xff\xff\0\0\0\0"),
        (2, b""),
        (14, b""),
    ] {
        assert!(ProduceRequestView::decode(version, Bytes::from_static(body)).is_err(), "{version} {body:?}");
        assert!(FetchRequestView::decode(version, Bytes::from_static(body)).is_err(), "{version} {body:?}");
    }
}

#[test]
fn produce_responses_are_written_as_the_codec_crate_writes_them() {
    use message::produce_response::{
        BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint as Endpoint, PartitionProduceResponse,
        TopicProduceResponse,
    };
    for version in versions(ApiKey::Produce) {
        let refused = PartitionProduced {
            record_errors: vec![(4, Some("bad".into())), (5, None)],
            error_message: Some("worse".into()),
            current_leader: Some(CurrentLeader { leader_id: 3, leader_epoch: 9 }),
            ..PartitionProduced::refused(2, ErrorCode::NotLeaderOrFollower)
        };
        let ours = ProduceResponse {
            topics: vec![(topic(version), vec![PartitionProduced::taken(1, 100, 55, 10), refused])],
            throttle_time_ms: 8,
            node_endpoints: vec![endpoint()],
        };
        let mut out = BytesMut::new();
        ours.encode(version, 77, &mut out).unwrap();

        let mut refused = PartitionProduceResponse::default()
            .with_index(2)
            .with_error_code(6)
            .with_base_offset(-1)
            .with_record_errors(vec![
                BatchIndexAndErrorMessage::default()
                    .with_batch_index(4)
                    .with_batch_index_error_message(Some("bad".into())),
                BatchIndexAndErrorMessage::default().with_batch_index(5),
            ])
            .with_error_message(Some("worse".into()));
        let taken = PartitionProduceResponse::default()
            .with_index(1)
            .with_base_offset(100)
            .with_log_append_time_ms(55)
            .with_log_start_offset(10);
        let mut theirs = message::ProduceResponse::default().with_throttle_time_ms(8);
        if version >= 10 {
            refused =
                refused.with_current_leader(LeaderIdAndEpoch::default().with_leader_id(3.into()).with_leader_epoch(9));
            theirs = theirs.with_node_endpoints(vec![
                Endpoint::default()
                    .with_node_id(3.into())
                    .with_host("host".into())
                    .with_port(9092)
                    .with_rack(Some("rack".into())),
            ]);
        }
        let named = TopicProduceResponse::default().with_partition_responses(vec![taken, refused]);
        let named = match topic(version) {
            TopicRef::Name(name) => named.with_name(message::TopicName(name)),
            TopicRef::Id(id) => named.with_topic_id(message::to_wire_id(id)),
        };
        let mut expected = BytesMut::new();
        response::encode(version, 77, &theirs.with_responses(vec![named]), &mut expected).unwrap();
        assert_eq!(out, expected, "version {version}");
    }
}

#[test]
fn fetch_requests_read_as_the_codec_crate_reads_them() {
    for version in versions(ApiKey::Fetch) {
        for seed in 0..50 {
            let body = sample(ApiKey::Fetch, version, seed);
            let view = FetchRequestView::decode(version, body.clone()).unwrap();
            let expected: FetchRequest = request::decode(version, body).unwrap();
            let replica_id = if version >= 15 { expected.replica_state.replica_id } else { expected.replica_id };
            assert_eq!(view.replica_id, replica_id.0, "version {version} seed {seed}");
            assert_eq!(view.replica_epoch, expected.replica_state.replica_epoch);
            assert_eq!(view.cluster_id, expected.cluster_id);
            assert_eq!(
                (view.max_wait_ms, view.min_bytes, view.max_bytes, view.isolation_level),
                (expected.max_wait_ms, expected.min_bytes, expected.max_bytes, expected.isolation_level)
            );
            assert_eq!(
                (view.session_id, view.session_epoch, &view.rack_id),
                (expected.session_id, expected.session_epoch, &expected.rack_id)
            );
            let by_id = version >= 13;
            let forgotten: Vec<_> = expected
                .forgotten_topics_data
                .into_iter()
                .map(|topic| (topic_ref(by_id, &topic.topic, topic.topic_id), topic.partitions))
                .collect();
            assert_eq!(view.forgotten, forgotten);
            for ((topic, partitions), expected) in view.topics().zip(&expected.topics) {
                assert_eq!(topic, &topic_ref(by_id, &expected.topic, expected.topic_id));
                assert_eq!(partitions.len(), expected.partitions.len());
                for (partition, expected) in partitions.iter().zip(&expected.partitions) {
                    assert_eq!(
                        (partition.index, partition.current_leader_epoch, partition.fetch_offset),
                        (expected.partition, expected.current_leader_epoch, expected.fetch_offset)
                    );
                    assert_eq!(
                        (partition.last_fetched_epoch, partition.log_start_offset, partition.max_bytes),
                        (expected.last_fetched_epoch, expected.log_start_offset, expected.partition_max_bytes)
                    );
                    assert_eq!(partition.replica_directory_id, from_wire_id(expected.replica_directory_id));
                    assert_eq!(partition.high_watermark, expected.high_watermark);
                }
            }
            assert_eq!(view.topics().count(), expected.topics.len());
        }
    }
}

/// A response with records in two ranges, no records, and an error with all hints.
fn fetched(version: i16) -> FetchResponse<Bytes> {
    let with_records = PartitionFetched {
        high_watermark: 20,
        last_stable_offset: 19,
        log_start_offset: 1,
        aborted_transactions: Some(vec![(1000, 5), (1001, 6)]),
        records: vec![Bytes::from_static(b"first"), Bytes::new(), Bytes::from_static(b"second")],
        ..PartitionFetched::failed(1, ErrorCode::None)
    };
    let without = PartitionFetched { high_watermark: 3, ..PartitionFetched::failed(2, ErrorCode::None) };
    let failed = PartitionFetched {
        diverging_epoch: Some((4, 44)),
        current_leader: Some(CurrentLeader { leader_id: 3, leader_epoch: 9 }),
        ..PartitionFetched::failed(5, ErrorCode::FencedLeaderEpoch)
    };
    FetchResponse {
        throttle_time_ms: 8,
        error: ErrorCode::None,
        session_id: 12,
        topics: vec![(topic(version), vec![with_records, without, failed])],
        node_endpoints: vec![endpoint()],
    }
}

#[test]
fn fetch_responses_decode_with_the_codec_crate_and_their_size_is_right() {
    for version in versions(ApiKey::Fetch) {
        let response = fetched(version);
        assert_eq!(response.records_bytes(), 11);
        let chunks = response.into_chunks(version, 77).unwrap();
        let kinds: String =
            chunks.iter().map(|chunk| if matches!(chunk, Chunk::Bytes(_)) { 'b' } else { 'r' }).collect();
        assert_eq!(kinds, "brrb", "pieces between records are joined, empty ranges left out");

        let mut frame = BytesMut::new();
        for chunk in chunks {
            let (Chunk::Bytes(bytes) | Chunk::Records(bytes)) = chunk;
            frame.extend_from_slice(&bytes);
        }
        let size = i32::from_be_bytes(frame.split_to(4)[..].try_into().unwrap());
        assert_eq!(size as usize, frame.len());
        let (correlation_id, read) = response::decode::<FetchRequest>(version, frame.freeze()).unwrap();
        assert_eq!((correlation_id, read.throttle_time_ms), (77, 8));
        assert_eq!(read.session_id, if version >= 7 { 12 } else { 0 });
        assert_eq!(read.node_endpoints.len(), usize::from(version >= 16));

        let partitions = &read.responses[0].partitions;
        assert_eq!(partitions[0].records.as_deref(), Some(&b"firstsecond"[..]));
        assert_eq!(partitions[0].aborted_transactions.as_ref().map(Vec::len), Some(2));
        assert_eq!(partitions[0].log_start_offset, if version >= 5 { 1 } else { -1 });
        assert_eq!(partitions[1].records.as_deref(), Some(&b""[..]), "empty, not null");
        assert_eq!(partitions[1].aborted_transactions, None);
        assert_eq!((partitions[2].error_code, partitions[2].high_watermark), (74, -1));
        assert_eq!(partitions[2].diverging_epoch.end_offset, if version >= 12 { 44 } else { -1 });
        assert_eq!(partitions[2].current_leader.leader_epoch, if version >= 12 { 9 } else { -1 });
    }
}

#[test]
fn old_readers_get_no_storage_error() {
    for (version, code) in [(4, 6), (5, 6), (6, 56), (18, 56)] {
        let failed = PartitionFetched::failed(0, ErrorCode::KafkaStorageError);
        let response =
            FetchResponse::<Bytes> { topics: vec![(topic(version), vec![failed])], ..FetchResponse::default() };
        let [Chunk::Bytes(frame)] = &response.into_chunks(version, 1).unwrap()[..] else { panic!("one chunk") };
        let (_, read) = response::decode::<FetchRequest>(version, frame.slice(4..)).unwrap();
        assert_eq!(read.responses[0].partitions[0].error_code, code);
    }
}

#[test]
fn a_response_beyond_a_frame_is_an_error_not_a_wrong_size() {
    struct Huge;
    impl taffrail_protocol::fetch::Records for Huge {
        fn size_bytes(&self) -> usize {
            1 << 30
        }
    }
    let partition = PartitionFetched { records: vec![Huge, Huge], ..PartitionFetched::failed(0, ErrorCode::None) };
    let response = FetchResponse { topics: vec![(topic(12), vec![partition])], ..FetchResponse::default() };
    assert!(response.into_chunks(12, 1).is_err());
}

#[test]
fn a_topic_must_be_named_as_the_version_names_topics() {
    for (version, wrong) in [(12, TopicRef::Id(ID)), (13, TopicRef::Name("a-topic".into()))] {
        let mut out = BytesMut::from(&b"before"[..]);
        let produced = ProduceResponse { topics: vec![(wrong.clone(), Vec::new())], ..ProduceResponse::default() };
        assert!(produced.encode(version, 1, &mut out).is_err());
        assert_eq!(&out[..], b"before", "a failed encode leaves nothing behind");
        let fetched = FetchResponse::<Bytes> { topics: vec![(wrong, Vec::new())], ..FetchResponse::default() };
        assert!(fetched.into_chunks(version, 1).is_err());
    }
}
