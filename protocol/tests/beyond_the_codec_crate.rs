//! Versions that the codec crate does not know, byte for byte as Apache Kafka 4.4's client library writes them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use taffrail_core::ids::Uuid;
use taffrail_protocol::message::delete_groups_response::DeletableGroupResult;
use taffrail_protocol::message::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use taffrail_protocol::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use taffrail_protocol::message::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use taffrail_protocol::message::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use taffrail_protocol::message::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use taffrail_protocol::message::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use taffrail_protocol::message::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use taffrail_protocol::message::{
    ApiVersionsRequest, DeleteGroupsRequest, DeleteGroupsResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
    GroupId, ListOffsetsRequest, ListOffsetsResponse, Message, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse, TopicName, WireUuid, to_wire_id,
};

/// Both ways: our bytes are Kafka's, and Kafka's bytes are our message.
fn is_written_as<M: Message + PartialEq + Debug>(version: i16, message: &M, kafkas_bytes: &str) {
    let bytes: Vec<u8> = (0..kafkas_bytes.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&kafkas_bytes[at..at + 2], 16).unwrap())
        .collect();
    let mut out = BytesMut::new();
    message.encode_body(version, &mut out).unwrap();
    assert_eq!(out, bytes, "{} {version}", M::NAME);
    let mut body = Bytes::from(bytes);
    assert_eq!(&M::decode_body(version, &mut body).unwrap(), message, "{} {version}", M::NAME);
    assert!(body.is_empty(), "{} {version} is read to its end", M::NAME);
}

fn id() -> WireUuid {
    to_wire_id(Uuid(std::array::from_fn(|index| index as u8 + 1)))
}

fn group(name: &'static str) -> GroupId {
    GroupId(name.into())
}

fn topic(name: &'static str) -> TopicName {
    TopicName(name.into())
}

#[test]
fn api_versions_5_says_whom_the_client_means() {
    let request =
        ApiVersionsRequest::default().with_client_software_name("me".into()).with_client_software_version("1.2".into());
    is_written_as(0, &ApiVersionsRequest::default(), "");
    is_written_as(4, &request, "036d6504312e3200");
    is_written_as(5, &request, "036d6504312e3200ffffffff00");
    let request = request.with_cluster_id(Some("c1".into())).with_node_id(7);
    is_written_as(5, &request, "036d6504312e320363310000000700");
}

#[test]
fn delete_groups_3_gives_reasons() {
    is_written_as(3, &DeleteGroupsRequest::default().with_groups_names(vec![group("g")]), "02026700");
    for (version, reason, bytes) in [
        (1, None, "000000050000000200016700440001680000"),
        (2, None, "00000005030267004400026800000000"),
        (3, Some("no".into()), "000000050302670044036e6f0002680000000000"),
    ] {
        let failed =
            DeletableGroupResult::default().with_group_id(group("g")).with_error_code(68).with_error_message(reason);
        let deleted = DeletableGroupResult::default().with_group_id(group("h"));
        let response = DeleteGroupsResponse::default().with_throttle_time_ms(5).with_results(vec![failed, deleted]);
        is_written_as(version, &response, bytes);
    }
}

#[test]
fn describe_log_dirs_5_tells_cordoned_directories() {
    is_written_as(5, &DescribeLogDirsRequest::default().with_topics(None), "0000");
    let partition = DescribeLogDirsPartition::default()
        .with_partition_index(3)
        .with_partition_size(4)
        .with_offset_lag(5)
        .with_is_future_key(true);
    let result = DescribeLogDirsResult::default()
        .with_error_code(56)
        .with_log_dir("/d".into())
        .with_topics(vec![DescribeLogDirsTopic::default().with_name(topic("t")).with_partitions(vec![partition])]);
    let sized = result.clone().with_total_bytes(100).with_usable_bytes(50);
    for (version, error, result, bytes) in [
        (
            1,
            0,
            result.clone(),
            "0000000500000001003800022f640000000100017400000001000000030000000000000004000000000000000501",
        ),
        (2, 0, result.clone(), "00000005020038032f640202740200000003000000000000000400000000000000050100000000"),
        (3, 1, result, "000000050001020038032f640202740200000003000000000000000400000000000000050100000000"),
        (
            4,
            1,
            sized.clone(),
            "000000050001020038032f64020274020000000300000000000000040000000000000005010000000000000000006400000000\
             000000320000",
        ),
        (
            5,
            1,
            sized.with_is_cordoned(true),
            "000000050001020038032f64020274020000000300000000000000040000000000000005010000000000000000006400000000\
             00000032010000",
        ),
    ] {
        let response = DescribeLogDirsResponse::default()
            .with_throttle_time_ms(5)
            .with_error_code(error)
            .with_results(vec![result]);
        is_written_as(version, &response, bytes);
    }
}

#[test]
fn offset_commit_10_names_topics_by_id() {
    let with_metadata = OffsetCommitRequestPartition::default()
        .with_partition_index(1)
        .with_committed_offset(2)
        .with_committed_leader_epoch(4)
        .with_committed_metadata(Some("x".into()));
    let without = OffsetCommitRequestPartition::default()
        .with_partition_index(2)
        .with_committed_offset(9)
        .with_committed_metadata(None);
    let topic = OffsetCommitRequestTopic::default().with_topic_id(id()).with_partitions(vec![with_metadata, without]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group("g"))
        .with_generation_id_or_member_epoch(3)
        .with_member_id("m".into())
        .with_group_instance_id(Some("i".into()))
        .with_topics(vec![topic]);
    is_written_as(
        10,
        &request,
        "026700000003026d0269020102030405060708090a0b0c0d0e0f10030000000100000000000000020000000402780000000002000000\
         0000000009ffffffff00000000",
    );
    let partition = OffsetCommitResponsePartition::default().with_partition_index(1).with_error_code(100);
    let topic = OffsetCommitResponseTopic::default().with_topic_id(id()).with_partitions(vec![partition]);
    let response = OffsetCommitResponse::default().with_throttle_time_ms(5).with_topics(vec![topic]);
    is_written_as(10, &response, "00000005020102030405060708090a0b0c0d0e0f1002000000010064000000");
}

#[test]
fn offset_fetch_10_names_topics_by_id() {
    let topic = OffsetFetchRequestTopics::default().with_topic_id(id()).with_partition_indexes(vec![1, 2]);
    let one = OffsetFetchRequestGroup::default()
        .with_group_id(group("g"))
        .with_member_id(Some("m".into()))
        .with_member_epoch(2)
        .with_topics(Some(vec![topic]));
    let all = OffsetFetchRequestGroup::default().with_group_id(group("h")).with_topics(None);
    let request = OffsetFetchRequest::default().with_groups(vec![one, all]).with_require_stable(true);
    is_written_as(
        10,
        &request,
        "030267026d00000002020102030405060708090a0b0c0d0e0f100300000001000000020000026800ffffffff00000100",
    );
    let partition = OffsetFetchResponsePartitions::default()
        .with_partition_index(1)
        .with_committed_offset(2)
        .with_committed_leader_epoch(3)
        .with_metadata(Some("x".into()))
        .with_error_code(100);
    let topic = OffsetFetchResponseTopics::default().with_topic_id(id()).with_partitions(vec![partition]);
    let answered =
        OffsetFetchResponseGroup::default().with_group_id(group("g")).with_topics(vec![topic]).with_error_code(16);
    let response = OffsetFetchResponse::default().with_throttle_time_ms(5).with_groups(vec![answered]);
    is_written_as(
        10,
        &response,
        "00000005020267020102030405060708090a0b0c0d0e0f10020000000100000000000000020000000302780064000000100000",
    );
}

#[test]
fn list_offsets_11_has_the_bytes_of_10() {
    let partition =
        ListOffsetsPartition::default().with_partition_index(1).with_current_leader_epoch(2).with_timestamp(-6);
    let request = ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(1)
        .with_timeout_ms(6)
        .with_topics(vec![ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition])]);
    is_written_as(11, &request, "ffffffff01020274020000000100000002fffffffffffffffa00000000000600");
    let partition = ListOffsetsPartitionResponse::default()
        .with_partition_index(1)
        .with_error_code(3)
        .with_timestamp(8)
        .with_offset(9)
        .with_leader_epoch(4);
    let response = ListOffsetsResponse::default()
        .with_throttle_time_ms(5)
        .with_topics(vec![ListOffsetsTopicResponse::default().with_name(topic("t")).with_partitions(vec![partition])]);
    is_written_as(11, &response, "00000005020274020000000100030000000000000008000000000000000900000004000000");
}
