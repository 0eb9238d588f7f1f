//! The coordinator over a log in memory whose high watermark the test moves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use taffrail_core::group::{
    CommitRequest, CommittedOffset, JoinReply, JoinRequest, PartitionOffset, Protocol, Reply, SyncRequest,
};
use taffrail_core::ids::{Offset, Uuid};
use taffrail_core::record::{Batch, patch_prefix, split_batches};
use tokio::sync::Notify;

use super::log::LogFuture;
use super::*;

/// A log in memory.
#[derive(Default)]
struct MemoryLog {
    bytes: Mutex<BytesMut>,
    end: AtomicI64,
    high_watermark: AtomicI64,
    /// The high watermark follows every append.
    alone: AtomicBool,
    refuses: Mutex<Option<ErrorCode>>,
    lost: AtomicBool,
    moved: Notify,
    /// Reads wait for this, to look at a shard that loads.
    readable: Notify,
    slow: AtomicBool,
}

impl MemoryLog {
    fn alone() -> Arc<Self> {
        Arc::new(Self { alone: AtomicBool::new(true), ..Self::default() })
    }

    fn replicated() -> Arc<Self> {
        Arc::new(Self::default())
    }

    fn commit_all(&self) {
        self.high_watermark.store(self.end.load(Ordering::SeqCst), Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

impl OffsetsLog for MemoryLog {
    fn append(&self, batch: Batch, _now_ms: i64) -> Result<Offset, ErrorCode> {
        if let Some(error) = *self.refuses.lock() {
            return Err(error);
        }
        let base = self.end.load(Ordering::SeqCst);
        let mut bytes = self.bytes.lock();
        bytes.extend_from_slice(&patch_prefix(base, 0, batch.header()));
        bytes.extend_from_slice(&batch.bytes()[16..]);
        let end = base + i64::from(batch.header().record_count);
        self.end.store(end, Ordering::SeqCst);
        if self.alone.load(Ordering::SeqCst) {
            self.high_watermark.store(end, Ordering::SeqCst);
        }
        Ok(end - 1)
    }

    fn is_committed(&self, offset: Offset) -> bool {
        self.high_watermark.load(Ordering::SeqCst) > offset
    }

    fn wait_committed(&self, offset: Offset) -> LogFuture<'_, Result<(), ErrorCode>> {
        Box::pin(async move {
            loop {
                let moved = self.moved.notified();
                tokio::pin!(moved);
                moved.as_mut().enable();
                if self.lost.load(Ordering::SeqCst) {
                    return Err(ErrorCode::NotLeaderOrFollower);
                }
                if self.is_committed(offset) {
                    return Ok(());
                }
                moved.await;
            }
        })
    }

    fn bounds(&self) -> (Offset, Offset) {
        (0, self.end.load(Ordering::SeqCst))
    }

    fn read(&self, from: Offset, _max_bytes: usize) -> LogFuture<'_, Result<Bytes, ErrorCode>> {
        Box::pin(async move {
            if self.slow.load(Ordering::SeqCst) {
                self.readable.notified().await;
            }
            let bytes = if from == 0 { Bytes::copy_from_slice(&self.bytes.lock()) } else { Bytes::new() };
            Ok(bytes)
        })
    }
}

fn term(leader_epoch: i32) -> Term {
    Term { topic_id: Uuid([5; 16]), leader_epoch }
}

fn config() -> CoordinatorConfig {
    CoordinatorConfig {
        groups: GroupConfig { initial_rebalance_delay_ms: 0, min_session_timeout_ms: 1, ..GroupConfig::default() },
        expiry_interval: Duration::from_secs(600),
        load_bytes: 1 << 20,
        write_wait_max: Duration::from_secs(5),
        compression: Compression::None,
    }
}

/// A coordinator that leads the only partition.
async fn leading(log: &Arc<MemoryLog>) -> GroupCoordinator {
    let coordinator = GroupCoordinator::new(config());
    coordinator.set_partitions(1);
    coordinator.lead(0, term(0), || Arc::clone(log));
    wait_loaded(&coordinator).await;
    coordinator
}

async fn wait_loaded(coordinator: &GroupCoordinator) {
    let loaded = async {
        while coordinator.shard("g").and_then(|shard| shard.look(|_, _| ())).is_err() {
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(Duration::from_secs(5), loaded).await.expect("the shard loads");
}

fn commit(
    offset: i64,
) -> impl FnOnce(&mut taffrail_core::group::GroupShard, taffrail_core::group::Now, u64) -> taffrail_core::group::Effects
{
    move |machine, now, waiter| {
        let value = CommittedOffset {
            offset,
            leader_epoch: -1,
            metadata: String::new(),
            commit_timestamp_ms: now.unix_ms,
            expire_timestamp_ms: None,
            topic_id: Uuid([1; 16]),
        };
        let request = CommitRequest {
            waiter,
            group_id: "g".to_owned(),
            generation: -1,
            member_id: String::new(),
            instance_id: None,
            knows_group_id_not_found: true,
            offsets: vec![PartitionOffset { topic: "t".into(), partition: 0, value }],
        };
        machine.commit_offsets(now, request)
    }
}

fn committed(shard: &Shard) -> Option<i64> {
    let read = |machine: &mut taffrail_core::group::GroupShard| Some(machine.offsets("g")?.get("t")?.get(&0)?.offset);
    shard.look(|machine, _| read(machine)).unwrap()
}

fn join_request(waiter: u64, member_id: &str) -> JoinRequest {
    JoinRequest {
        waiter,
        group_id: "g".to_owned(),
        member_id: member_id.to_owned(),
        instance_id: None,
        new_member_id: format!("m-{waiter}"),
        client_id: "m".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        session_timeout_ms: 300,
        rebalance_timeout_ms: 300,
        protocol_type: "consumer".to_owned(),
        protocols: vec![Protocol { name: "range".to_owned(), metadata: Bytes::new() }],
        requires_known_member_id: false,
        supports_skipping_assignment: true,
    }
}

async fn join(shard: &Shard) -> JoinReply {
    match shard.ask(|machine, now, waiter| machine.join(now, &join_request(waiter, ""))).await {
        Ok(Reply::Join(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn groups_are_where_kafka_has_them() {
    // Computed by Java: Utils.abs(id.hashCode()) % 50.
    let cases = [("", 0), ("g1", 42), ("console-consumer-12345", 6), ("\u{fc}mlaut", 13), ("polygenelubricants", 0)];
    for (group_id, partition) in cases {
        assert_eq!(partition_of(group_id, 50), Some(partition), "{group_id}");
    }
    assert_eq!(partition_of("g", 0), None);
}

#[tokio::test]
async fn an_offset_survives_a_change_of_leader() {
    let log = MemoryLog::alone();
    let coordinator = leading(&log).await;
    let shard = coordinator.shard("g").unwrap();
    assert_eq!(shard.ask(commit(7)).await, Ok(Reply::Done(ErrorCode::None)));
    coordinator.resign(0);
    assert_eq!(coordinator.shard("g").err(), Some(ErrorCode::NotCoordinator));
    assert_eq!(shard.ask(commit(8)).await, Err(ErrorCode::NotCoordinator));
    coordinator.lead(0, term(1), || log);
    wait_loaded(&coordinator).await;
    assert_eq!(committed(&coordinator.shard("g").unwrap()), Some(7));
}

#[tokio::test]
async fn while_it_loads_nothing_is_answered_but_that() {
    let log = MemoryLog::alone();
    let coordinator = leading(&log).await;
    coordinator.shard("g").unwrap().ask(commit(7)).await.unwrap();
    coordinator.resign(0);
    log.slow.store(true, Ordering::SeqCst);
    coordinator.lead(0, term(1), || Arc::clone(&log));
    let shard = coordinator.shard("g").unwrap();
    assert_eq!(shard.ask(commit(8)).await, Err(ErrorCode::CoordinatorLoadInProgress));
    assert_eq!(shard.look(|_, _| ()), Err(ErrorCode::CoordinatorLoadInProgress));
    // A topic that is deleted meanwhile is not forgotten.
    coordinator.topics_deleted(&BTreeSet::from([Arc::from("other"), Arc::from("t")]));
    log.slow.store(false, Ordering::SeqCst);
    log.readable.notify_one();
    wait_loaded(&coordinator).await;
    assert_eq!(committed(&shard), None);
}

#[tokio::test]
async fn what_a_new_leader_does_not_know_to_be_committed_is_not_shown() {
    let log = MemoryLog::alone();
    let former = leading(&log).await;
    assert_eq!(former.shard("g").unwrap().ask(commit(7)).await, Ok(Reply::Done(ErrorCode::None)));
    // The next leader has the record, and knows of no commit.
    log.alone.store(false, Ordering::SeqCst);
    log.high_watermark.store(0, Ordering::SeqCst);
    let coordinator = GroupCoordinator::new(config());
    coordinator.set_partitions(1);
    coordinator.lead(0, term(1), || Arc::clone(&log));
    let shard = coordinator.shard("g").unwrap();
    for _ in 0..20 {
        task::yield_now().await;
        assert_eq!(shard.look(|_, _| ()), Err(ErrorCode::CoordinatorLoadInProgress));
    }
    log.commit_all();
    wait_loaded(&coordinator).await;
    assert_eq!(committed(&shard), Some(7));
}

#[tokio::test]
async fn a_reply_waits_for_the_high_watermark() {
    let log = MemoryLog::replicated();
    let coordinator = leading(&log).await;
    let shard = coordinator.shard("g").unwrap();
    let asking = Arc::clone(&shard);
    let reply = task::spawn(async move { asking.ask(commit(7)).await });
    while log.bounds().1 == 0 {
        time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(committed(&shard), None, "not visible before it is committed");
    assert!(!reply.is_finished());
    log.commit_all();
    let reply = time::timeout(Duration::from_secs(5), reply).await.unwrap().unwrap();
    assert_eq!((reply, committed(&shard)), (Ok(Reply::Done(ErrorCode::None)), Some(7)));
}

#[tokio::test]
async fn a_commit_that_is_not_replicated_in_time_is_told_so_and_may_count_later() {
    let log = MemoryLog::replicated();
    let coordinator = leading(&log).await;
    coordinator.set_config(CoordinatorConfig { write_wait_max: Duration::from_millis(1), ..config() });
    let shard = coordinator.shard("g").unwrap();
    assert_eq!(shard.ask_to_write(commit(7)).await, Err(ErrorCode::CoordinatorNotAvailable));
    coordinator.set_config(config());
    let asking = Arc::clone(&shard);
    let reply = task::spawn(async move { asking.ask_to_write(commit(8)).await });
    while log.bounds().1 < 2 {
        time::sleep(Duration::from_millis(1)).await;
    }
    log.commit_all();
    let reply = time::timeout(Duration::from_secs(5), reply).await.unwrap().unwrap();
    assert_eq!((reply, committed(&shard)), (Ok(Reply::Done(ErrorCode::None)), Some(8)));
}

#[tokio::test]
async fn records_are_written_with_the_codec_of_the_settings_and_loaded_with_any() {
    let log = MemoryLog::alone();
    let coordinator = leading(&log).await;
    for (offset, codec) in Compression::ALL.into_iter().enumerate() {
        coordinator.set_config(CoordinatorConfig { compression: codec, ..config() });
        coordinator.shard("g").unwrap().ask(commit(offset as i64)).await.unwrap();
    }
    let written: Vec<Compression> = split_batches(Bytes::copy_from_slice(&log.bytes.lock()))
        .map(|batch| batch.unwrap().header().compression().unwrap())
        .collect();
    assert_eq!(written, Compression::ALL);
    let again = leading(&log).await;
    assert_eq!(committed(&again.shard("g").unwrap()), Some(4));
}

#[tokio::test]
async fn who_waits_when_leadership_goes_is_told_to_look_elsewhere() {
    for resigns in [true, false] {
        let log = MemoryLog::replicated();
        let coordinator = leading(&log).await;
        let shard = coordinator.shard("g").unwrap();
        let asking = Arc::clone(&shard);
        let reply = task::spawn(async move { asking.ask(commit(7)).await });
        while log.bounds().1 == 0 {
            time::sleep(Duration::from_millis(1)).await;
        }
        if resigns {
            coordinator.resign(0);
        } else {
            log.lost.store(true, Ordering::SeqCst);
            log.moved.notify_waiters();
        }
        let reply = time::timeout(Duration::from_secs(5), reply).await.unwrap().unwrap();
        assert_eq!(reply, Err(ErrorCode::NotCoordinator));
    }
}

#[tokio::test]
async fn what_the_log_refuses_is_told_as_kafka_does() {
    let log = MemoryLog::alone();
    let coordinator = leading(&log).await;
    let shard = coordinator.shard("g").unwrap();
    *log.refuses.lock() = Some(ErrorCode::KafkaStorageError);
    assert_eq!(shard.ask(commit(7)).await, Ok(Reply::Done(ErrorCode::NotCoordinator)));
    *log.refuses.lock() = Some(ErrorCode::NotEnoughReplicas);
    assert_eq!(shard.ask(commit(7)).await, Ok(Reply::Done(ErrorCode::CoordinatorNotAvailable)));
    *log.refuses.lock() = None;
    assert_eq!(shard.ask(commit(7)).await, Ok(Reply::Done(ErrorCode::None)));
}

#[tokio::test]
async fn a_damaged_log_is_not_served() {
    let log = MemoryLog::alone();
    log.bytes.lock().extend_from_slice(&[0; 100]);
    log.end.store(1, Ordering::SeqCst);
    let coordinator = GroupCoordinator::new(config());
    coordinator.set_partitions(1);
    coordinator.lead(0, term(0), || log);
    let shard = coordinator.shard("g").unwrap();
    let gone = async {
        while shard.look(|_, _| ()) != Err(ErrorCode::NotCoordinator) {
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(Duration::from_secs(5), gone).await.unwrap();
}

#[tokio::test]
async fn deadlines_pass_by_the_clock() {
    let log = MemoryLog::alone();
    let coordinator = leading(&log).await;
    let shard = coordinator.shard("g").unwrap();
    let reply = join(&shard).await;
    let sync = SyncRequest {
        waiter: 0,
        group_id: "g".to_owned(),
        generation: reply.generation,
        member_id: reply.member_id.clone(),
        instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments: Vec::new(),
    };
    let synced = shard.ask(|machine, now, waiter| machine.sync(now, SyncRequest { waiter, ..sync })).await;
    assert!(matches!(synced, Ok(Reply::Sync(reply)) if reply.error.is_none()));
    let state = || shard.look(|machine, _| machine.describe("g").map(|group| group.state.name())).unwrap();
    assert_eq!(state(), Some("Stable"));
    let emptied = async {
        while state() != Some("Empty") {
            time::sleep(Duration::from_millis(5)).await;
        }
    };
    time::timeout(Duration::from_secs(10), emptied).await.expect("the silent member is removed, and then nobody joins");
}

#[tokio::test]
async fn offsets_of_deleted_topics_are_gone_after_a_restart_too() {
    let log = MemoryLog::alone();
    let coordinator = leading(&log).await;
    coordinator.shard("g").unwrap().ask(commit(7)).await.unwrap();
    coordinator.topics_deleted(&BTreeSet::from([Arc::from("t")]));
    assert_eq!(committed(&coordinator.shard("g").unwrap()), None);
    coordinator.lead(0, term(1), || log);
    wait_loaded(&coordinator).await;
    assert_eq!(committed(&coordinator.shard("g").unwrap()), None);
}
