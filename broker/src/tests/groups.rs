//! Groups and offsets over sockets, in every version.

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;
use taffrail_core::group::RESET_MARKER;
use taffrail_protocol::message::join_group_request::JoinGroupRequestProtocol;
use taffrail_protocol::message::leave_group_request::MemberIdentity;
use taffrail_protocol::message::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use taffrail_protocol::message::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use taffrail_protocol::message::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use taffrail_protocol::message::sync_group_request::SyncGroupRequestAssignment;
use taffrail_protocol::message::{
    DeleteGroupsRequest, DeleteTopicsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetDeleteRequest, OffsetFetchRequest, StrBytes, SyncGroupRequest, WireUuid,
};

use super::cluster::{Client, Cluster, SOON, topic_name};
use taffrail_runtime::time;

const JOIN_VERSION: i16 = 9;
const LOADING: i16 = ErrorCode::CoordinatorLoadInProgress.code();

fn text(value: &str) -> StrBytes {
    StrBytes::from(value.to_owned())
}

fn group_id(value: &str) -> GroupId {
    GroupId(text(value))
}

async fn cluster() -> Cluster {
    let settings = [
        ("offsets.topic.replication.factor", "1"),
        ("offsets.topic.num.partitions", "3"),
        ("group.initial.rebalance.delay.ms", "0"),
    ];
    Cluster::start_with(&settings).await
}

/// A client that has found the coordinator of groups, which serves.
async fn coordinator(cluster: &Cluster) -> Client {
    let mut client = cluster.client().await;
    let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g"), text("other")]);
    let found = client.call(4, &request).await;
    assert!(found.coordinators.iter().all(|node| (node.error_code, node.node_id.0) == (0, 1)), "{found:?}");
    let loaded = async {
        while client.call(4, &ListGroupsRequest::default()).await.error_code == LOADING {
            time::sleep(time_step()).await;
        }
    };
    time::timeout(SOON, loaded).await.expect("the groups load");
    client
}

fn time_step() -> std::time::Duration {
    std::time::Duration::from_millis(2)
}

fn join_request(member_id: &str) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"));
    JoinGroupRequest::default()
        .with_group_id(group_id("g"))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_member_id(text(member_id))
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

/// Joins as today's clients do: once for an id, once with it.
async fn join(client: &mut Client) -> JoinGroupResponse {
    let first = client.call(JOIN_VERSION, &join_request("")).await;
    assert_eq!(first.error_code, ErrorCode::MemberIdRequired.code());
    client.call(JOIN_VERSION, &join_request(&first.member_id)).await
}

fn sync_request(joined: &JoinGroupResponse, version: i16) -> SyncGroupRequest {
    let assignment = SyncGroupRequestAssignment::default()
        .with_member_id(joined.member_id.clone())
        .with_assignment(Bytes::from_static(b"all"));
    let request = SyncGroupRequest::default()
        .with_group_id(group_id("g"))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_assignments(vec![assignment]);
    match version {
        5.. => request.with_protocol_type(Some(text("consumer"))).with_protocol_name(Some(text("range"))),
        _ => request,
    }
}

async fn topic_id(client: &mut Client, name: &str) -> WireUuid {
    let response = client.call(12, &MetadataRequest::default().with_topics(None)).await;
    let topic = response.topics.iter().find(|topic| topic.name.as_ref().is_some_and(|n| &***n == name));
    topic.expect("the topic exists").topic_id
}

/// Commits offset `offset` of partition 0 in every form of the request; gives the partition's error.
async fn commit(client: &mut Client, version: i16, topic: &str, offset: i64, member: &JoinGroupResponse) -> i16 {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(offset)
        .with_committed_metadata(Some(text("words")));
    let partition = if version >= 6 { partition.with_committed_leader_epoch(4) } else { partition };
    let request_topic = OffsetCommitRequestTopic::default().with_partitions(vec![partition]);
    let request_topic = match version {
        10.. => request_topic.with_topic_id(topic_id(client, topic).await),
        _ => request_topic.with_name(topic_name(topic)),
    };
    let request = OffsetCommitRequest::default()
        .with_group_id(group_id("g"))
        .with_generation_id_or_member_epoch(member.generation_id)
        .with_member_id(member.member_id.clone())
        .with_topics(vec![request_topic]);
    let response = client.call(version, &request).await;
    response.topics[0].partitions[0].error_code
}

/// The committed offset of partition 0 with its leader epoch and metadata, and the error.
async fn fetch(client: &mut Client, version: i16, topic: &str, all: bool) -> (i64, i32, String, i16) {
    let request = OffsetFetchRequest::default();
    if version < 8 {
        let asked = OffsetFetchRequestTopic::default().with_name(topic_name(topic)).with_partition_indexes(vec![0]);
        let topics = if all { None } else { Some(vec![asked]) };
        let response = client.call(version, &request.with_group_id(group_id("g")).with_topics(topics)).await;
        assert_eq!(response.error_code, 0, "{response:?}");
        let Some(topic) = response.topics.first() else { return (-1, -1, String::new(), 0) };
        let found = &topic.partitions[0];
        let metadata = found.metadata.as_deref().unwrap_or_default().to_owned();
        return (found.committed_offset, found.committed_leader_epoch, metadata, found.error_code);
    }
    let asked = OffsetFetchRequestTopics::default().with_partition_indexes(vec![0]);
    let asked = match version {
        10.. => asked.with_topic_id(topic_id(client, topic).await),
        _ => asked.with_name(topic_name(topic)),
    };
    let group = OffsetFetchRequestGroup::default().with_group_id(group_id("g")).with_topics(if all {
        None
    } else {
        Some(vec![asked])
    });
    let group = if version >= 9 { group.with_member_epoch(-1) } else { group };
    let response = client.call(version, &request.with_groups(vec![group])).await;
    assert_eq!(response.groups[0].error_code, 0, "{response:?}");
    let Some(topic) = response.groups[0].topics.first() else { return (-1, -1, String::new(), 0) };
    let found = &topic.partitions[0];
    let metadata = found.metadata.as_deref().unwrap_or_default().to_owned();
    (found.committed_offset, found.committed_leader_epoch, metadata, found.error_code)
}

#[tokio::test]
async fn the_first_search_for_a_coordinator_makes_the_topic() {
    let cluster = cluster().await;
    let mut client = cluster.client().await;
    for version in 0..=6 {
        let response = match version {
            4.. => {
                let keys = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
                let coordinator = client.call(version, &keys).await.coordinators.remove(0);
                (coordinator.error_code, coordinator.node_id.0, coordinator.host)
            }
            _ => {
                let response = client.call(version, &FindCoordinatorRequest::default().with_key(text("g"))).await;
                (response.error_code, response.node_id.0, response.host)
            }
        };
        assert_eq!(response, (0, 1, text("127.0.0.1")), "version {version}");
    }
    for (key_type, error) in [(1, ErrorCode::TransactionalIdAuthorizationFailed), (7, ErrorCode::InvalidRequest)] {
        let request = FindCoordinatorRequest::default().with_key(text("x")).with_key_type(key_type);
        assert_eq!(client.call(3, &request).await.error_code, error.code());
    }
    topic_id(&mut client, "__consumer_offsets").await;
}

#[tokio::test]
async fn before_there_is_a_coordinator_clients_are_sent_to_look_for_it() {
    let cluster = cluster().await;
    let mut client = cluster.client().await;
    let joined = client.call(JOIN_VERSION, &join_request("")).await;
    assert_eq!(joined.error_code, ErrorCode::NotCoordinator.code());
    let listed = client.call(5, &ListGroupsRequest::default()).await;
    assert_eq!((listed.error_code, listed.groups.len()), (0, 0));
}

#[tokio::test]
async fn every_version_joins_syncs_beats_and_leaves() {
    let cluster = cluster().await;
    let mut client = coordinator(&cluster).await;
    for version in 0..=JOIN_VERSION {
        let request = if version == 0 { join_request("").with_rebalance_timeout_ms(-1) } else { join_request("") };
        let first = client.call(version, &request).await;
        let joined = match version {
            4.. => client.call(version, &join_request(&first.member_id)).await,
            _ => first,
        };
        assert_eq!((joined.error_code, &joined.leader), (0, &joined.member_id), "version {version}: {joined:?}");
        assert_eq!((joined.protocol_name.as_deref(), joined.members.len()), (Some("range"), 1));
        let sync_version = version.min(5);
        let synced = client.call(sync_version, &sync_request(&joined, sync_version)).await;
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"all"[..]), "version {sync_version}");
        let heartbeat = HeartbeatRequest::default()
            .with_group_id(group_id("g"))
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone());
        assert_eq!(client.call(version.min(4), &heartbeat).await.error_code, 0);
        let leave_version = version.min(5);
        let leave = LeaveGroupRequest::default().with_group_id(group_id("g"));
        let leave = match leave_version {
            3.. => leave.with_members(vec![MemberIdentity::default().with_member_id(joined.member_id.clone())]),
            _ => leave.with_member_id(joined.member_id.clone()),
        };
        assert_eq!(client.call(leave_version, &leave).await.error_code, 0);
        let again = client.call(leave_version, &leave).await;
        let error = again.members.first().map_or(again.error_code, |member| member.error_code);
        assert_eq!(error, ErrorCode::UnknownMemberId.code(), "version {leave_version}");
    }
}

#[tokio::test]
async fn a_heartbeat_behind_a_join_does_not_wait_for_it() {
    let cluster = cluster().await;
    let (mut first, mut second) = (coordinator(&cluster).await, cluster.client().await);
    let joined = join(&mut first).await;
    first.call(5, &sync_request(&joined, 5)).await;
    // The second waits for the first to join again, and asks for something else on the same connection meanwhile.
    let asked = second.call(JOIN_VERSION, &join_request("")).await;
    second.send(JOIN_VERSION, &join_request(&asked.member_id)).await;
    second.send(4, &HeartbeatRequest::default().with_group_id(group_id("g")).with_generation_id(7)).await;
    let again = first.call(JOIN_VERSION, &join_request(&joined.member_id)).await;
    assert_eq!((again.generation_id, again.members.len()), (2, 2));
    assert_eq!(second.receive::<JoinGroupRequest>(JOIN_VERSION, 1).await.generation_id, 2);
    let answer = second.receive::<HeartbeatRequest>(4, 0).await;
    assert_eq!(answer.error_code, ErrorCode::UnknownMemberId.code());
}

#[tokio::test]
async fn offsets_come_back_in_every_version() {
    let cluster = cluster().await;
    let mut client = coordinator(&cluster).await;
    client.create_topic("t", 1, &[]).await;
    let nobody = JoinGroupResponse::default().with_generation_id(-1);
    assert_eq!(fetch(&mut client, 5, "t", false).await, (-1, -1, String::new(), 0));
    for version in 2..=10 {
        let offset = 100 + i64::from(version);
        assert_eq!(commit(&mut client, version, "t", offset, &nobody).await, 0, "version {version}");
        let epoch = if version >= 6 { 4 } else { -1 };
        for fetch_version in [5, 7, 8, 9, 10] {
            for all in [false, true] {
                let expected = (offset, epoch, "words".to_owned(), 0);
                assert_eq!(fetch(&mut client, fetch_version, "t", all).await, expected, "{version} {fetch_version}");
            }
        }
        assert_eq!(fetch(&mut client, 1, "t", false).await.0, offset);
    }
    assert_eq!(commit(&mut client, 9, "none", 1, &nobody).await, ErrorCode::UnknownTopicOrPartition.code());
    let stranger = JoinGroupResponse::default().with_generation_id(3).with_member_id(text("who"));
    assert_eq!(commit(&mut client, 9, "t", 1, &stranger).await, ErrorCode::UnknownMemberId.code());
}

#[tokio::test]
async fn a_reset_is_remembered_beside_its_offsets_and_shown_only_to_who_asks_for_it() {
    let cluster = cluster().await;
    let mut client = coordinator(&cluster).await;
    let nobody = JoinGroupResponse::default().with_generation_id(-1);
    for expected in [ErrorCode::None, ErrorCode::DuplicateResource] {
        assert_eq!(commit(&mut client, 9, RESET_MARKER, 0, &nobody).await, expected.code());
    }
    assert_eq!(fetch(&mut client, 9, RESET_MARKER, false).await.2, "words");
    assert_eq!(fetch(&mut client, 9, "", true).await, (-1, -1, String::new(), 0), "it is no topic");
}

#[tokio::test]
async fn a_topic_made_again_has_no_old_offsets() {
    let cluster = cluster().await;
    let mut client = coordinator(&cluster).await;
    client.create_topic("t", 1, &[]).await;
    let nobody = JoinGroupResponse::default().with_generation_id(-1);
    assert_eq!(commit(&mut client, 9, "t", 7, &nobody).await, 0);
    let delete = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]).with_timeout_ms(10_000);
    assert_eq!(client.call(5, &delete).await.responses[0].error_code, 0);
    assert_eq!(fetch(&mut client, 9, "t", true).await.0, -1);
    client.create_topic("t", 1, &[]).await;
    assert_eq!(fetch(&mut client, 9, "t", false).await.0, -1);
}

#[tokio::test]
async fn groups_are_listed_described_and_deleted() {
    let cluster = cluster().await;
    let mut client = coordinator(&cluster).await;
    client.create_topic("t", 1, &[]).await;
    client.create_topic("u", 1, &[]).await;
    let joined = join(&mut client).await;
    client.call(5, &sync_request(&joined, 5)).await;
    assert_eq!(commit(&mut client, 9, "t", 5, &joined).await, 0);
    assert_eq!(commit(&mut client, 9, "u", 5, &joined).await, 0);

    let names = vec![group_id("g"), group_id("none")];
    for version in 0..=6 {
        let request = DescribeGroupsRequest::default().with_groups(names.clone());
        let request = if version >= 3 { request.with_include_authorized_operations(true) } else { request };
        let groups = client.call(version, &request).await.groups;
        assert_eq!((&*groups[0].group_state, groups[0].error_code), ("Stable", 0), "version {version}");
        assert_eq!((groups[0].members.len(), &groups[0].members[0].member_assignment[..]), (1, &b"all"[..]));
        assert_eq!(&*groups[0].members[0].client_id, "tests");
        let not_found = if version >= 6 { ErrorCode::GroupIdNotFound.code() } else { 0 };
        assert_eq!((&*groups[1].group_state, groups[1].error_code), ("Dead", not_found), "version {version}");
        let operations = if version >= 3 { 0b1101_0100_1000 } else { i32::MIN };
        assert_eq!(groups[0].authorized_operations, operations);
    }
    for version in 0..=5 {
        let listed = client.call(version, &ListGroupsRequest::default()).await;
        assert_eq!((listed.groups.len(), &*listed.groups[0].protocol_type), (1, "consumer"), "version {version}");
    }
    let filters = [(5, "stable", "classic", 1), (5, "Empty", "Classic", 0), (5, "Stable", "consumer", 0)];
    for (version, state, kind, count) in filters {
        let request =
            ListGroupsRequest::default().with_states_filter(vec![text(state)]).with_types_filter(vec![text(kind)]);
        assert_eq!(client.call(version, &request).await.groups.len(), count, "{state} {kind}");
    }

    let topic = |name: &str| {
        let partition = OffsetDeleteRequestPartition::default().with_partition_index(0);
        OffsetDeleteRequestTopic::default().with_name(topic_name(name)).with_partitions(vec![partition])
    };
    let topics = vec![topic("t"), topic("u"), topic("none")];
    let request = OffsetDeleteRequest::default().with_group_id(group_id("g")).with_topics(topics);
    let deleted = client.call(0, &request).await;
    let errors: Vec<i16> = deleted.topics.iter().map(|topic| topic.partitions[0].error_code).collect();
    let expected = [ErrorCode::GroupSubscribedToTopic, ErrorCode::None, ErrorCode::UnknownTopicOrPartition];
    assert_eq!(errors, expected.map(ErrorCode::code));

    let delete = DeleteGroupsRequest::default().with_groups_names(names);
    let results = client.call(2, &delete).await.results;
    let errors: Vec<i16> = results.iter().map(|result| result.error_code).collect();
    assert_eq!(errors, [ErrorCode::NonEmptyGroup, ErrorCode::GroupIdNotFound].map(ErrorCode::code));
    let member = MemberIdentity::default().with_member_id(joined.member_id.clone());
    client.call(5, &LeaveGroupRequest::default().with_group_id(group_id("g")).with_members(vec![member])).await;
    assert_eq!(client.call(3, &delete).await.results[0].error_code, 0);
    assert_eq!(client.call(5, &ListGroupsRequest::default()).await.groups.len(), 0);
    assert_eq!(fetch(&mut client, 9, "t", true).await.0, -1);
}
