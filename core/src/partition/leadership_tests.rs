//! What a leader makes of its followers' fetches, of the controllers' answers and of the metadata.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{AfterProposal, FollowerFetch, Leadership};
use crate::control::{BrokerIdentity, FollowerLag, IsrChange};
use crate::errors::ErrorCode;
use crate::event::{BrokerRegistration, Listener, MetadataEvent, PartitionState, SecurityProtocol};
use crate::ids::{BrokerId, Offset, Uuid};
use crate::image::{MetadataImage, PartitionKey};

const KEY: PartitionKey = (Uuid([1; 16]), 0);
const LAG_MS: i64 = 100;

fn ids(numbers: &[i32]) -> Vec<BrokerId> {
    numbers.iter().copied().map(BrokerId).collect()
}

/// Epoch of the registration of a broker in these tests.
fn epoch_of(id: BrokerId) -> i64 {
    i64::from(id.0) * 10
}

/// A cluster whose brokers 1 to 4 serve, except those `away`. Those with even numbers are in one rack.
fn image(away: &[i32]) -> MetadataImage {
    let mut image = MetadataImage::default();
    image.apply(&MetadataEvent::ClusterCreated { cluster_id: Uuid([9; 16]) }).unwrap();
    for id in ids(&[1, 2, 3, 4]) {
        let listener = Listener { name: "A".into(), host: "h".into(), port: 1, security: SecurityProtocol::Plaintext };
        let registration = BrokerRegistration {
            id,
            epoch: epoch_of(id),
            incarnation: Uuid([id.0 as u8; 16]),
            rack: Some(if id.0 % 2 == 0 { "even" } else { "odd" }.into()),
            listeners: vec![listener],
            log_dirs: vec![Uuid([id.0 as u8; 16])],
            features: BTreeMap::new(),
            fenced: away.contains(&id.0),
            shutting_down: false,
            min_in_sync: None,
        };
        image.apply(&MetadataEvent::BrokerRegistered(Arc::new(registration))).unwrap();
    }
    image
}

fn state(replicas: &[i32], isr: &[i32]) -> PartitionState {
    PartitionState { leader_epoch: 5, partition_epoch: 7, ..PartitionState::new(ids(replicas), ids(isr)) }
}

/// Broker 1 leads, with a log that ends at 10, at time 0.
fn leading(replicas: &[i32], isr: &[i32]) -> Leadership {
    let own = BrokerIdentity { id: BrokerId(1), epoch: epoch_of(BrokerId(1)) };
    Leadership::begin(KEY, own, Arc::new(state(replicas, isr)), 10, 0)
}

fn fetch(leadership: &mut Leadership, id: i32, offset: Offset, leader_end: Offset, now_ms: i64) {
    let broker = BrokerId(id);
    let fetch = FollowerFetch { broker, broker_epoch: epoch_of(broker), log_start: 0, offset };
    leadership.fetched(fetch, Some(epoch_of(broker)), leader_end, now_ms).unwrap();
}

fn members(change: &IsrChange) -> Vec<i32> {
    change.isr.iter().map(|member| member.id.0).collect()
}

#[test]
fn whoever_had_everything_while_another_joined_is_proposed_next_without_asking_again() {
    let mut leadership = leading(&[1, 2, 3], &[1]);
    fetch(&mut leadership, 2, 10, 10, 10);
    let first = leadership.propose_join(BrokerId(2), 10, &image(&[])).unwrap();
    fetch(&mut leadership, 3, 10, 10, 10);
    assert_eq!(leadership.propose_join(BrokerId(3), 10, &image(&[])), None, "one proposal at a time");
    let next = |leadership: &mut Leadership, image: &MetadataImage, now_ms| {
        leadership.propose_next_join(10, 10, LAG_MS, image, now_ms).map(|change| members(&change))
    };
    assert_eq!(next(&mut leadership, &image(&[]), 20), None, "still one at a time");
    let both = Arc::new(PartitionState { partition_epoch: 8, ..state(&[1, 2, 3], &[1, 2]) });
    assert_eq!(leadership.answered(&first, Ok(&both)), AfterProposal::Settled);
    assert_eq!(next(&mut leadership, &image(&[3]), 20), None, "it does not serve yet");
    assert_eq!(next(&mut leadership, &image(&[]), 20), Some(vec![1, 2, 3]));
}

#[test]
fn whoever_did_not_keep_up_is_not_proposed_until_it_asks() {
    let mut leadership = leading(&[1, 2, 3], &[1, 2]);
    fetch(&mut leadership, 3, 10, 10, 10);
    leadership.grown(10, 20);
    let late = 20 + LAG_MS + 1;
    assert_eq!(leadership.propose_next_join(10, 12, LAG_MS, &image(&[]), late), None);
    assert!(leadership.propose_next_join(10, 12, LAG_MS, &image(&[]), 20 + LAG_MS).is_some());
}

#[test]
fn the_high_watermark_waits_for_every_member_of_the_isr() {
    let image = image(&[]);
    let mut leadership = leading(&[1, 2, 3], &[1, 2, 3]);
    let at = |leadership: &Leadership, current| leadership.high_watermark(current, 12, 2, LAG_MS, &image, 50);
    assert_eq!(at(&leadership, 4), 4, "nobody has fetched from this leader yet");
    fetch(&mut leadership, 2, 12, 12, 10);
    assert_eq!(at(&leadership, 4), 4);
    fetch(&mut leadership, 3, 9, 12, 10);
    assert_eq!(at(&leadership, 4), 9);
    fetch(&mut leadership, 3, 12, 12, 20);
    assert_eq!(at(&leadership, 9), 12);
}

#[test]
fn below_the_minimum_nothing_is_committed_and_producers_are_told() {
    let image = image(&[3]);
    let mut leadership = leading(&[1, 2, 3], &[1, 2]);
    fetch(&mut leadership, 2, 12, 12, 10);
    for (configured, high_watermark) in [(1, 12), (2, 12), (3, 4), (9, 4)] {
        assert_eq!(leadership.high_watermark(4, 12, configured, LAG_MS, &image, 10), high_watermark, "{configured}");
        let refused = (high_watermark == 4).then_some(ErrorCode::NotEnoughReplicas);
        assert_eq!(leadership.check_append(configured).err(), refused, "{configured}");
    }
    let after = ErrorCode::NotEnoughReplicasAfterAppend;
    let cases = [(12, 4, 2, None), (12, 12, 2, Some(Ok(()))), (12, 12, 3, Some(Err(after))), (4, 12, 1, Some(Ok(())))];
    for (end, high_watermark, configured, expected) in cases {
        assert_eq!(leadership.acknowledge(end, high_watermark, configured), expected, "{end} {high_watermark}");
    }
}

#[test]
fn a_follower_joins_when_it_has_all_that_is_committed_and_all_of_this_leadership() {
    // Fetched up to, high watermark, brokers away, whether it may join.
    let cases: [(Offset, Offset, &[i32], bool); 5] =
        [(12, 12, &[], true), (11, 12, &[], false), (10, 5, &[], true), (9, 5, &[], false), (12, 12, &[3], false)];
    for (offset, high_watermark, away, joins) in cases {
        let mut leadership = leading(&[1, 2, 3], &[1, 2]);
        assert_eq!(leadership.propose_join(BrokerId(3), high_watermark, &image(&[])), None, "it has not fetched");
        fetch(&mut leadership, 3, offset, 12, 10);
        let change = leadership.propose_join(BrokerId(3), high_watermark, &image(away));
        assert_eq!(change.is_some(), joins, "{offset} {high_watermark} {away:?}");
        if let Some(change) = change {
            assert_eq!(members(&change), [1, 2, 3]);
            assert_eq!((change.leader_epoch, change.partition_epoch), (5, 7));
            assert_eq!(change.isr[2].epoch, epoch_of(BrokerId(3)));
            let other = leadership.propose_leave(12, LAG_MS, 10_000);
            assert_eq!(other, None, "one proposal at a time");
        }
    }
}

#[test]
fn a_follower_of_an_earlier_life_neither_counts_nor_joins() {
    let mut leadership = leading(&[1, 2, 3], &[1, 2]);
    let broker = BrokerId(3);
    let fetch = FollowerFetch { broker, broker_epoch: 29, log_start: 0, offset: 12 };
    let refused = leadership.fetched(fetch, Some(30), 12, 10);
    assert_eq!(refused, Err(ErrorCode::NotLeaderOrFollower));
    let stranger = FollowerFetch { broker: BrokerId(4), broker_epoch: 40, log_start: 0, offset: 12 };
    assert_eq!(leadership.fetched(stranger, Some(40), 12, 10), Err(ErrorCode::NotLeaderOrFollower));
    // The registration is not known here yet.
    leadership.fetched(FollowerFetch { broker_epoch: 31, ..fetch }, Some(30), 12, 10).unwrap();
    assert_eq!(leadership.propose_join(broker, 12, &image(&[])), None);
    leadership.fetched(FollowerFetch { broker_epoch: 30, ..fetch }, Some(30), 12, 10).unwrap();
    assert!(leadership.propose_join(broker, 12, &image(&[])).is_some());
}

#[test]
fn whoever_does_not_keep_up_leaves() {
    let mut leadership = leading(&[1, 2, 3], &[1, 2, 3]);
    assert_eq!(leadership.propose_leave(10, LAG_MS, LAG_MS), None, "a new leader gives everybody a whole lag time");
    // Broker 2 stays level. Broker 3 is always a little behind, but has each time what was there the time before.
    for (now_ms, end) in [(50, 20), (100, 30), (150, 40), (200, 50)] {
        fetch(&mut leadership, 2, end, end, now_ms);
        fetch(&mut leadership, 3, end - 10, end, now_ms);
    }
    assert_eq!(leadership.propose_leave(60, LAG_MS, 250), None);
    let change = leadership.propose_leave(60, LAG_MS, 251).unwrap();
    assert_eq!(members(&change), [1, 2], "broker 3 had caught up by its fetch at 150 for the last time");
    assert_eq!(leadership.propose_leave(60, LAG_MS, 251), None, "one proposal at a time");

    let mut idle = leading(&[1, 2], &[1, 2]);
    fetch(&mut idle, 2, 10, 10, 10);
    assert_eq!(idle.propose_leave(10, LAG_MS, 1_000_000), None, "who has everything needs not ask again");
    idle.grown(10, 1_000_000);
    idle.grown(11, 1_000_050);
    assert_eq!(idle.propose_leave(12, LAG_MS, 1_000_000 + LAG_MS), None, "it had everything until the log grew");
    assert!(idle.propose_leave(12, LAG_MS, 1_000_001 + LAG_MS).is_some());
}

#[test]
fn until_the_answer_is_known_the_largest_isr_counts() {
    let image = image(&[]);
    let at = |leadership: &Leadership| leadership.high_watermark(5, 20, 2, LAG_MS, &image, 1_000);
    let mut leaving = leading(&[1, 2, 3], &[1, 2, 3]);
    fetch(&mut leaving, 2, 20, 20, 990);
    fetch(&mut leaving, 3, 8, 20, 10);
    let change = leaving.propose_leave(20, LAG_MS, 1_000).unwrap();
    assert_eq!(members(&change), [1, 2]);
    assert_eq!(at(&leaving), 8, "who is about to leave counts still");
    let without = PartitionState { partition_epoch: 8, ..state(&[1, 2, 3], &[1, 2]) };
    assert_eq!(leaving.answered(&change, Ok(&Arc::new(without))), AfterProposal::Settled);
    assert_eq!(at(&leaving), 20);

    let mut joining = leading(&[1, 2, 3], &[1, 2]);
    fetch(&mut joining, 2, 20, 20, 990);
    fetch(&mut joining, 3, 12, 20, 10);
    assert_eq!(at(&joining), 20, "broker 3 does not keep up, so nobody waits for it");
    let change = joining.propose_join(BrokerId(3), 11, &image).unwrap();
    assert_eq!(at(&joining), 12, "who is about to join counts already");
    assert_eq!(joining.answered(&change, Err(ErrorCode::IneligibleReplica)), AfterProposal::Settled);
    assert_eq!(at(&joining), 20);
}

#[test]
fn a_follower_that_keeps_up_is_waited_for_before_it_joins() {
    let mut leadership = leading(&[1, 2, 3], &[1, 2]);
    fetch(&mut leadership, 2, 20, 20, 10);
    fetch(&mut leadership, 3, 15, 15, 10);
    for (now_ms, away, expected) in [(50, &[][..], 15), (200, &[], 20), (50, &[3], 20)] {
        assert_eq!(leadership.high_watermark(5, 20, 2, LAG_MS, &image(away), now_ms), expected, "{now_ms} {away:?}");
    }
}

#[test]
fn answers_settle_wait_or_are_tried_again() {
    use AfterProposal::{AwaitMetadata, Retry, Settled};
    let accepted = |partition_epoch, leader_epoch| {
        Ok(PartitionState { partition_epoch, leader_epoch, ..state(&[1, 2, 3], &[1, 2, 3]) })
    };
    let cases = [
        (accepted(8, 5), Settled, false),
        (accepted(7, 5), Settled, false),
        (accepted(6, 5), AwaitMetadata, true),
        (accepted(8, 6), AwaitMetadata, true),
        (Err(ErrorCode::IneligibleReplica), Settled, false),
        (Err(ErrorCode::FencedLeaderEpoch), AwaitMetadata, true),
        (Err(ErrorCode::InvalidUpdateVersion), AwaitMetadata, true),
        (Err(ErrorCode::NewLeaderElected), AwaitMetadata, true),
        (Err(ErrorCode::UnknownTopicId), AwaitMetadata, true),
        (Err(ErrorCode::NotController), Retry, true),
        (Err(ErrorCode::RequestTimedOut), Retry, true),
        (Err(ErrorCode::StaleBrokerEpoch), Retry, true),
    ];
    for (answer, after, is_proposing) in cases {
        let mut leadership = leading(&[1, 2, 3], &[1, 2]);
        fetch(&mut leadership, 3, 12, 12, 10);
        let change = leadership.propose_join(BrokerId(3), 12, &image(&[])).unwrap();
        let answer = answer.map(Arc::new);
        let found = leadership.answered(&change, answer.as_ref().map_err(|code| *code));
        assert_eq!((found, leadership.is_proposing()), (after, is_proposing), "{answer:?}");
        // The metadata always tell in the end.
        let newer = PartitionState { partition_epoch: 9, ..state(&[1, 2, 3], &[1]) };
        assert!(leadership.follow(&Arc::new(newer), 12, 20));
        assert!(!leadership.is_proposing());
        assert_eq!(leadership.answered(&change, Err(ErrorCode::NotController)), Settled, "too late to matter");
        assert_eq!(leadership.state().isr, ids(&[1]));
    }
}

#[test]
fn metadata_change_the_followers_and_keep_what_is_known_of_those_that_stay() {
    let mut leadership = leading(&[1, 2, 3], &[1, 2, 3]);
    fetch(&mut leadership, 2, 12, 12, 10);
    fetch(&mut leadership, 3, 11, 12, 10);
    assert!(!leadership.follow(&Arc::new(state(&[1, 2], &[1])), 12, 20), "no newer than what is known");
    let moved = PartitionState { partition_epoch: 8, ..state(&[1, 2, 4], &[1, 2]) };
    assert!(leadership.follow(&Arc::new(moved), 12, 20));
    let image = image(&[]);
    assert_eq!(leadership.high_watermark(5, 12, 1, LAG_MS, &image, 20), 12, "broker 3 is no replica any more");
    fetch(&mut leadership, 4, 2, 12, 30);
    assert_eq!(leadership.lags(12), [FollowerLag { broker: BrokerId(4), records: 10 }]);
    // Led under a new epoch: who is in sync has to say again that it is, but where its log ends is known.
    let again = PartitionState { partition_epoch: 9, leader_epoch: 6, ..state(&[1, 2, 4], &[1, 2]) };
    assert!(leadership.follow(&Arc::new(again), 15, 500));
    assert_eq!(leadership.leader_epoch(), 6);
    assert_eq!(leadership.propose_leave(15, LAG_MS, 600), None);
    fetch(&mut leadership, 4, 14, 15, 600);
    assert_eq!(leadership.propose_join(BrokerId(4), 12, &image), None, "this leadership began at 15");
    assert_eq!(leadership.propose_leave(15, LAG_MS, 601).map(|change| members(&change)), Some(vec![1]));
}

#[test]
fn a_leader_of_an_unclean_election_says_when_it_is_done() {
    let mut clean = leading(&[1, 2], &[1]);
    assert_eq!(clean.propose_recovered(), None);
    let unclean = PartitionState { partition_epoch: 8, leader_epoch: 6, recovering: true, ..state(&[1, 2], &[1]) };
    clean.follow(&Arc::new(unclean), 10, 0);
    let change = clean.propose_recovered().unwrap();
    assert_eq!((members(&change), change.recovering), (vec![1], false));
}

#[test]
fn records_are_gone_for_all_when_every_live_replica_has_dropped_them() {
    let mut leadership = leading(&[1, 2, 3], &[1, 2, 3]);
    assert_eq!(leadership.low_watermark(6, &image(&[])), None);
    for (id, log_start) in [(2, 4), (3, 9)] {
        let fetch = FollowerFetch { broker: BrokerId(id), broker_epoch: epoch_of(BrokerId(id)), log_start, offset: 10 };
        leadership.fetched(fetch, Some(epoch_of(BrokerId(id))), 10, 0).unwrap();
    }
    for (own, away, expected) in [(6, &[][..], 4), (3, &[], 3), (6, &[2], 6)] {
        assert_eq!(leadership.low_watermark(own, &image(away)), Some(expected), "{own} {away:?}");
    }
}

#[test]
fn consumers_read_from_a_follower_in_their_rack_that_has_what_they_ask_for() {
    let mut leadership = leading(&[1, 2, 3, 4], &[1, 2, 3, 4]);
    assert_eq!(leadership.read_replica("even", 5, &image(&[])), None, "nobody has fetched yet");
    for (id, log_start, offset) in [(2, 4, 8), (4, 0, 10)] {
        let broker = BrokerId(id);
        let fetch = FollowerFetch { broker, broker_epoch: epoch_of(broker), log_start, offset };
        leadership.fetched(fetch, Some(epoch_of(broker)), 10, 0).unwrap();
    }
    let cases = [
        ("odd", 5, &[][..], None),
        ("elsewhere", 5, &[], None),
        ("even", 5, &[], Some(4)),
        ("even", 10, &[], Some(4)),
        ("even", 11, &[], None),
        ("even", 5, &[4], Some(2)),
        ("even", 3, &[4], None),
        ("even", 9, &[4], None),
    ];
    for (rack, offset, away, expected) in cases {
        let found = leadership.read_replica(rack, offset, &image(away));
        assert_eq!(found, expected.map(BrokerId), "{rack} {offset} {away:?}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Append,
    Fetch { id: i32, behind: Offset },
    Join { id: i32 },
    Leave,
    Answer { accept: bool },
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Append),
        4 => (2..5, 0..4_i64).prop_map(|(id, behind)| Step::Fetch { id, behind }),
        2 => (2..5).prop_map(|id| Step::Join { id }),
        1 => Just(Step::Leave),
        2 => any::<bool>().prop_map(|accept| Step::Answer { accept }),
    ]
}

proptest! {
    #[test]
    fn the_high_watermark_is_never_past_a_member_of_any_isr_that_the_controllers_may_have(
        steps in proptest::collection::vec(steps(), 0..80),
        configured in 1..4_usize,
    ) {
        let image = image(&[]);
        let mut leadership = leading(&[1, 2, 3, 4], &[1, 2, 3]);
        // What the controllers have, and what they have been asked and not answered.
        let mut committed = state(&[1, 2, 3, 4], &[1, 2, 3]);
        let mut asked: Option<IsrChange> = None;
        let mut ends: BTreeMap<i32, Offset> = [(1, 10), (2, -1), (3, -1), (4, -1)].into();
        let mut high_watermark = 0;
        for (now_ms, step) in (0..).map(|tick| tick * 20).zip(steps) {
            match step {
                Step::Append => *ends.get_mut(&1).unwrap() += 1,
                Step::Fetch { id, behind } => {
                    let end = (ends[&1] - behind).max(ends[&id]).max(0);
                    ends.insert(id, end);
                    fetch(&mut leadership, id, end, ends[&1], now_ms);
                }
                Step::Join { id } => {
                    asked = leadership.propose_join(BrokerId(id), high_watermark, &image).or(asked);
                }
                Step::Leave => asked = leadership.propose_leave(ends[&1], LAG_MS, now_ms).or(asked),
                Step::Answer { accept } => {
                    let Some(change) = asked.take() else { continue };
                    if accept {
                        committed.isr = change.isr.iter().map(|member| member.id).collect();
                        committed.partition_epoch += 1;
                        let answer = Arc::new(committed.clone());
                        leadership.answered(&change, Ok(&answer));
                    } else {
                        leadership.answered(&change, Err(ErrorCode::IneligibleReplica));
                    }
                }
            }
            let next = leadership.high_watermark(high_watermark, ends[&1], configured, LAG_MS, &image, now_ms);
            prop_assert!(next >= high_watermark);
            prop_assert!(next == high_watermark || committed.isr.len() >= configured.min(4));
            high_watermark = next;
            let mut possible: Vec<i32> = committed.isr.iter().map(|id| id.0).collect();
            possible.extend(asked.iter().flat_map(members));
            for id in possible {
                prop_assert!(high_watermark <= ends[&id].max(0), "{high_watermark} {id} {ends:?} {committed:?}");
            }
        }
    }
}
