//! What a follower asks its leader, and what it makes of the answers: the leader is played by the test.

use std::path::Path;

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;
use taffrail_protocol::fetch::PartitionFetched;

use super::cluster::Cluster;
use super::replication::until;
use super::scripted::{Leader, SESSION, gave, led, log, told};

#[tokio::test]
async fn a_follower_opens_a_session_appends_what_it_gets_and_asks_for_what_comes_next() {
    let cluster = Cluster::start().await;
    let mut leader = Leader::of(&cluster, 2).await;
    let first = leader.fetch().await;
    assert_eq!((first.request.session_id, first.request.session_epoch), (0, 0));
    assert_eq!((first.request.replica_id, first.request.replica_epoch), (1, cluster.identity().epoch));
    assert_eq!((first.request.max_wait_ms, first.request.min_bytes), (0, 1), "nothing holds back a new session");
    assert_eq!((first.request.max_bytes, first.request.isolation_level), (10 << 20, 0));
    assert_eq!(first.asked(), [(0, 0, -1), (1, 0, -1)]);
    let (_, partitions) = first.request.topics().next().unwrap();
    assert_eq!((partitions[0].current_leader_epoch, partitions[0].log_start_offset), (0, 0));
    assert_eq!(partitions[0].max_bytes, 1 << 20);
    first.answer(leader.topic, vec![gave(0, 3, &[led(0, 0, 2), led(2, 0, 3)]), told(1, 0)]);

    let second = leader.fetch().await;
    assert_eq!((second.request.session_id, second.request.session_epoch), (SESSION, 1));
    assert_eq!((second.asked(), second.request.max_wait_ms), (vec![(0, 5, 0)], 500), "partition 1 is known as it is");
    assert_eq!((log(&cluster, 0).end_offset(), log(&cluster, 0).high_watermark()), (5, 3));
    second.answer(leader.topic, vec![told(0, 5)]);

    let third = leader.fetch().await;
    assert_eq!((third.asked(), third.request.session_epoch), (vec![], 2));
    assert_eq!(log(&cluster, 0).high_watermark(), 5);
    assert!(cluster.metrics().contains("replicationbytesin_total"), "{}", cluster.metrics());
}

#[tokio::test]
async fn where_each_record_is_to_be_flushed_a_follower_tells_of_it_when_it_is_on_the_disk() {
    let cluster = Cluster::start_with(&[("log.flush.interval.messages", "1")]).await;
    let mut leader = Leader::of(&cluster, 1).await;
    let second = leader.answer(vec![gave(0, 0, &[led(0, 0, 2), led(2, 0, 3)])]).await;
    assert_eq!(second.asked(), [(0, 5, 0)]);
    assert_eq!(log(&cluster, 0).offsets().flushed_offset, 5);
}

#[tokio::test]
async fn how_far_a_follower_is_behind_shows_until_it_is_not() {
    let cluster = Cluster::start().await;
    let mut leader = Leader::of(&cluster, 1).await;
    let second = leader.answer(vec![gave(0, 9, &[led(0, 0, 2)])]).await;
    let printed = cluster.metrics();
    assert!(printed.contains("replicafetchermanager_maxlag{clientId=\"Replica\"} 7\n"), "{printed}");
    assert!(printed.contains("consumerlag{clientId=\"Replica\",partition=\"0\",topic=\"t\"} 7\n"), "{printed}");
    second.answer(leader.topic, vec![gave(0, 9, &[led(2, 0, 8)])]);
    let _third = leader.fetch().await;
    let printed = cluster.metrics();
    assert!(printed.contains("replicafetchermanager_maxlag{clientId=\"Replica\"} 0\n"), "{printed}");
    assert!(!printed.contains("consumerlag{"), "{printed}");
}

#[tokio::test]
async fn damaged_records_are_never_appended_and_asked_for_again() {
    let cluster = Cluster::start().await;
    let mut leader = Leader::of(&cluster, 2).await;
    let mut damaged = led(2, 0, 3);
    damaged[70] ^= 1;
    let mut next = leader.answer(vec![gave(0, 5, &[led(0, 0, 2), damaged]), gave(1, 1, &[led(0, 0, 1)])]).await;
    assert_eq!(log(&cluster, 0).end_offset(), 2, "what is sound before it is kept");
    // The other partition goes on at once, this one after a pause.
    let mut asked = next.asked();
    assert!(asked.contains(&(1, 1, 0)), "{asked:?}");
    while !asked.contains(&(0, 2, 0)) {
        next.answer(leader.topic, vec![]);
        next = leader.fetch().await;
        asked.extend(next.asked());
    }
    next.answer(leader.topic, vec![gave(0, 5, &[led(2, 0, 3)])]);
    until(|| log(&cluster, 0).end_offset() == 5).await;
    assert!(cluster.metrics().contains("damaged_answers_total 1\n"), "{}", cluster.metrics());
}

#[tokio::test]
async fn a_log_that_parts_from_the_leaders_is_cut_by_epoch() {
    let cluster = Cluster::start().await;
    let mut leader = Leader::of(&cluster, 1).await;
    let next = leader.answer(vec![gave(0, 2, &[led(0, 0, 2), led(2, 0, 2), led(4, 0, 3)])]).await;
    assert_eq!(next.asked(), [(0, 7, 0)]);
    next.answer(leader.topic, vec![PartitionFetched { diverging_epoch: Some((0, 4)), ..told(0, 4) }]);
    let mut next = leader.fetch().await;
    while next.asked().is_empty() {
        next.answer(leader.topic, vec![]);
        next = leader.fetch().await;
    }
    assert_eq!(next.asked(), [(0, 4, 0)]);
    assert_eq!(log(&cluster, 0).end_offset(), 4);
    let printed = cluster.metrics();
    assert!(printed.contains("taffrail_replica_truncations_total 1\n"), "{printed}");
    assert!(printed.contains("committed_records_lost_total 0\n"), "{printed}");
}

#[tokio::test]
async fn a_cut_below_the_high_watermark_is_told_as_a_loss() {
    let cluster = Cluster::start().await;
    let mut leader = Leader::of(&cluster, 1).await;
    let next = leader.answer(vec![gave(0, 7, &[led(0, 0, 2), led(2, 0, 2), led(4, 0, 3)])]).await;
    next.answer(leader.topic, vec![PartitionFetched { diverging_epoch: Some((0, 4)), ..told(0, 4) }]);
    until(|| log(&cluster, 0).end_offset() == 4).await;
    until(|| cluster.metrics().contains("committed_records_lost_total 3\n")).await;
}

#[tokio::test]
async fn a_follower_that_has_nothing_of_what_is_left_begins_where_the_leader_does() {
    let cluster = Cluster::start().await;
    let mut leader = Leader::of(&cluster, 1).await;
    let out_of_range = || PartitionFetched::failed(0, ErrorCode::OffsetOutOfRange);
    leader.fetch().await.answer(leader.topic, vec![out_of_range()]);
    assert_eq!(leader.tell_offset(40).await, -2);
    assert_eq!(leader.tell_offset(50).await, -1);
    let next = leader.fetch().await;
    assert_eq!(next.asked(), [(0, 40, -1)]);
    assert_eq!(log(&cluster, 0).log_start_offset(), 40);
    // The leader's log begins within a batch.
    let records = PartitionFetched { log_start_offset: 40, ..gave(0, 45, &[led(38, 0, 5), led(43, 0, 2)]) };
    next.answer(leader.topic, vec![records]);
    until(|| (log(&cluster, 0).log_start_offset(), log(&cluster, 0).end_offset()) == (40, 45)).await;
}

#[tokio::test]
async fn the_log_starts_where_the_leaders_does() {
    let cluster = Cluster::start().await;
    let mut leader = Leader::of(&cluster, 1).await;
    let mut next = leader.answer(vec![gave(0, 5, &[led(0, 0, 5)])]).await;
    next.answer(leader.topic, vec![PartitionFetched { log_start_offset: 3, ..told(0, 5) }]);
    next = leader.fetch().await;
    while next.asked().is_empty() {
        next.answer(leader.topic, vec![]);
        next = leader.fetch().await;
    }
    let (_, partitions) = next.request.topics().next().unwrap();
    assert_eq!((partitions[0].fetch_offset, partitions[0].log_start_offset), (5, 3), "and it says so");
    assert_eq!(log(&cluster, 0).log_start_offset(), 3);
}

#[tokio::test]
async fn a_refused_partition_leaves_the_session_and_comes_back() {
    let cluster = Cluster::start().await;
    let mut leader = Leader::of(&cluster, 2).await;
    let refused = PartitionFetched::failed(0, ErrorCode::NotLeaderOrFollower);
    let mut next = leader.answer(vec![refused, told(1, 0)]).await;
    let (mut asked, mut forgotten) = (next.asked(), next.forgotten());
    while asked.is_empty() {
        next.answer(leader.topic, vec![]);
        next = leader.fetch().await;
        asked.extend(next.asked());
        forgotten.extend(next.forgotten());
    }
    assert_eq!((asked, forgotten), (vec![(0, 0, -1)], vec![0]));
    next.answer(leader.topic, vec![gave(0, 1, &[led(0, 0, 1)])]);
    until(|| log(&cluster, 0).end_offset() == 1).await;
}

#[tokio::test]
async fn a_lost_session_and_a_lost_connection_are_begun_anew() {
    let cluster = Cluster::start().await;
    let mut leader = Leader::of(&cluster, 2).await;
    let next = leader.answer(vec![gave(0, 1, &[led(0, 0, 1)]), told(1, 0)]).await;
    next.refuse(ErrorCode::FetchSessionIdNotFound);
    let next = leader.fetch().await;
    assert_eq!((next.request.session_id, next.request.session_epoch), (0, 0));
    assert_eq!(next.asked(), [(0, 1, 0), (1, 0, -1)]);
    next.hang_up();
    let mut next = leader.fetch().await;
    // A frame of two gigabytes, one that is none, and an answer that nobody waits for.
    for bytes in [&b"\x7f\xff\xff\xff"[..], b"\xff\xff\xff\xff", b"\0\0\0\x05\0\0\x01\0\0"] {
        assert_eq!(next.asked(), [(0, 1, 0), (1, 0, -1)]);
        next.answer_raw(Bytes::from_static(bytes));
        next = leader.fetch().await;
    }
    assert_eq!(next.asked(), [(0, 1, 0), (1, 0, -1)]);
}

#[tokio::test]
async fn whoever_comes_in_does_not_wait_for_records_of_others() {
    let cluster = Cluster::start_with(&[("replica.fetch.wait.max.ms", "60000")]).await;
    let mut leader = Leader::of(&cluster, 1).await;
    let held_back = leader.answer(vec![told(0, 0)]).await;
    assert_eq!(held_back.request.max_wait_ms, 60_000);
    let mut client = cluster.client().await;
    client.create_topic_on("u", &[&[2, 1]], &[]).await;
    let nudge = leader.fetch().await;
    assert_eq!((nudge.request.session_id, nudge.request.session_epoch), (SESSION, 2));
    assert_eq!(nudge.asked(), [(0, 0, -1)]);
    let topics: Vec<_> = nudge.request.topics().map(|(topic, _)| topic.clone()).collect();
    assert_eq!(topics, [taffrail_protocol::data::TopicRef::Id(cluster.topic("u").id)]);
    // Each answer brings records of the older partition: the second one's are here already.
    held_back.answer(leader.topic, vec![gave(0, 0, &[led(0, 0, 2)])]);
    nudge.answer(leader.topic, vec![gave(0, 2, &[led(0, 0, 2)])]);
    let next = leader.fetch().await;
    assert_eq!(next.asked(), [(0, 2, 0)]);
    assert_eq!((log(&cluster, 0).end_offset(), log(&cluster, 0).high_watermark()), (2, 2));
}

#[tokio::test]
async fn a_log_that_does_not_serve_is_left_alone_and_others_go_on() {
    let cluster = Cluster::start().await;
    let mut leader = Leader::of(&cluster, 2).await;
    let next = leader.answer(vec![gave(0, 1, &[led(0, 0, 1)]), gave(1, 1, &[led(0, 0, 1)])]).await;
    // Where its file was is a folder now, so the next write to it fails.
    let file = cluster.dir().join("t-0").join("00000000000000000000.log");
    damage(&file);
    next.answer(leader.topic, vec![PartitionFetched { diverging_epoch: Some((0, 0)), ..told(0, 0) }]);
    until(|| log(&cluster, 0).offline().is_some()).await;
    let mut next = leader.fetch().await;
    while !next.asked().is_empty() || !next.forgotten().is_empty() {
        next.answer(leader.topic, vec![]);
        next = leader.fetch().await;
    }
    next.answer(leader.topic, vec![gave(1, 2, &[led(1, 0, 1)])]);
    until(|| log(&cluster, 1).end_offset() == 2).await;
    let printed = cluster.metrics();
    assert!(printed.contains("failedpartitionscount{clientId=\"Replica\"} 1\n"), "{printed}");
}

/// Makes a segment's file one that cannot be renamed nor opened.
fn damage(file: &Path) {
    let folder = file.parent().unwrap();
    let aside = folder.with_extension("aside");
    std::fs::rename(folder, aside).unwrap();
}
