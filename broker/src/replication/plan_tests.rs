//! The plan by what is asked and what counts.

use taffrail_core::ids::Uuid;

use super::*;

const TOPIC: Uuid = Uuid([7; 16]);
const BACKOFF_MS: i64 = 1000;

fn key(partition: i32) -> PartitionKey {
    (TOPIC, partition)
}

fn at(end: Offset) -> Place {
    Place { end, last_epoch: 3, log_start: 0 }
}

/// A plan with these partitions, in a session.
fn in_session(partitions: std::ops::Range<i32>) -> Plan {
    let mut plan = Plan::default();
    partitions.for_each(|partition| plan.follow(key(partition), 3, at(0)));
    let ask = plan.ask(0).unwrap();
    assert!(plan.answered(ask.position, ErrorCode::None, 9));
    plan
}

fn asked(ask: &Ask) -> Vec<(i32, Offset)> {
    ask.asked.iter().map(|asked| (asked.key.1, asked.place.end)).collect()
}

fn forgotten(ask: &Ask) -> Vec<i32> {
    ask.forgotten.iter().map(|key| key.1).collect()
}

#[test]
fn the_first_request_names_all_and_the_next_ones_what_changed() {
    let mut plan = Plan::default();
    assert_eq!(plan.ask(0), None, "there is nothing to fetch");
    (0..1000).for_each(|partition| plan.follow(key(partition), 3, at(0)));
    let first = plan.ask(0).unwrap();
    assert_eq!((first.asked.len(), first.position.is_full(), first.may_wait), (1000, true, false));
    assert!(plan.answered(first.position, ErrorCode::None, 9));
    let idle = plan.ask(0).unwrap();
    assert_eq!((asked(&idle), forgotten(&idle), idle.may_wait), (vec![], vec![], true));
    assert!(plan.answered(idle.position, ErrorCode::None, 9));
    plan.advanced(key(4), at(10));
    assert!(!plan.must_nudge(0), "it can wait for its turn");
    assert_eq!(asked(&plan.ask(0).unwrap()), [(4, 10)]);
}

#[test]
fn a_leader_without_room_for_sessions_is_asked_for_everything_and_may_hold_its_answer_back() {
    let mut plan = Plan::default();
    plan.follow(key(0), 3, at(0));
    let first = plan.ask(0).unwrap();
    assert!(plan.answered(first.position, ErrorCode::None, 0));
    let next = plan.ask(0).unwrap();
    assert_eq!((asked(&next), next.may_wait), (vec![(0, 0)], true));
    plan.follow(key(1), 3, at(0));
    assert!(!plan.must_nudge(0), "a second full request could not end the wait of the first");
}

#[test]
fn whoever_comes_in_while_the_leader_waits_nudges_it() {
    let mut plan = in_session(0..1);
    let waiting = plan.ask(0).unwrap();
    assert!(!plan.must_nudge(0));
    plan.follow(key(1), 3, at(5));
    assert!(plan.must_nudge(0));
    let nudge = plan.ask(0).unwrap();
    assert_eq!((asked(&nudge), nudge.position.epoch), (vec![(1, 5)], waiting.position.epoch + 1));
    assert!(!plan.must_nudge(0));
}

#[test]
fn an_answer_counts_only_for_what_the_session_knew_as_it_is() {
    let mut plan = in_session(0..2);
    let first = plan.ask(0).unwrap();
    plan.follow(key(2), 3, at(0));
    let second = plan.ask(0).unwrap();
    assert_eq!(plan.standing(first.number, key(0)), Standing::Current(3));
    assert_eq!(plan.standing(first.number, key(2)), Standing::Moved, "that request did not tell of it");
    plan.advanced(key(0), at(8));
    // The second request still told the old place.
    assert_eq!(plan.standing(second.number, key(0)), Standing::Outgrown(3));
    assert_eq!(plan.standing(second.number, key(1)), Standing::Current(3));
    assert_eq!(plan.standing(second.number, key(2)), Standing::Current(3));
    let third = plan.ask(0).unwrap();
    assert_eq!(asked(&third), [(0, 8)]);
    assert_eq!(plan.standing(second.number, key(0)), Standing::Moved);
    assert_eq!(plan.standing(third.number, key(0)), Standing::Current(3));
    assert_eq!(plan.standing(third.number, key(7)), Standing::Moved);
    plan.follow(key(0), 4, at(8));
    assert_eq!(plan.standing(third.number, key(0)), Standing::Moved, "the leadership is another one");
}

#[test]
fn failures_pause_longer_and_longer_and_success_forgets_them() {
    let mut plan = in_session(0..2);
    let mut now_ms = 0;
    let mut pauses = Vec::new();
    for failure in 1..=9 {
        assert_eq!(plan.failed(key(0), BACKOFF_MS, now_ms), failure);
        let due_ms = plan.next_due_ms().unwrap();
        pauses.push(due_ms - now_ms);
        let ask = plan.ask(now_ms).unwrap();
        assert_eq!((asked(&ask), forgotten(&ask)), (vec![], vec![0]), "it is out of the session");
        assert!(!plan.must_nudge(due_ms - 1));
        assert!(plan.must_nudge(due_ms));
        now_ms = due_ms;
        assert_eq!(asked(&plan.ask(now_ms).unwrap()), [(0, 0)]);
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    plan.advanced(key(0), at(1));
    assert_eq!(plan.failed(key(0), BACKOFF_MS, 0), 1);
    assert_eq!(plan.failed(key(9), BACKOFF_MS, 0), 0, "of a partition that left meanwhile");
}

#[test]
fn what_is_due_is_over_also_while_nothing_can_be_asked() {
    let mut plan = in_session(0..2);
    plan.failed(key(0), BACKOFF_MS, 0);
    let due_ms = plan.next_due_ms().unwrap();
    plan.end_pauses(due_ms - 1);
    assert_eq!(plan.next_due_ms(), Some(due_ms));
    plan.end_pauses(due_ms);
    assert_eq!(plan.next_due_ms(), None);
    assert_eq!(asked(&plan.ask(due_ms).unwrap()), [(0, 0)]);
}

#[test]
fn throttled_partitions_rest_together_and_others_go_on() {
    let mut plan = in_session(0..3);
    for partition in [0, 1] {
        plan.set_throttled(key(partition), true);
    }
    assert!(!plan.may_have_to_hold(true, 0), "an answer is due for them");
    assert!(plan.may_have_to_hold(false, 0));
    plan.hold(Some(95), false);
    assert_eq!(forgotten(&plan.ask(0).unwrap()), [0, 1]);
    assert!(!plan.may_have_to_hold(false, 94), "it is known until then");
    plan.follow(key(1), 3, at(3));
    assert!(!plan.must_nudge(94), "news of the metadata do not end it");
    assert!(plan.may_have_to_hold(true, 95), "before their pauses end");
    plan.hold(Some(195), true);
    assert!(!plan.must_nudge(100));
    assert!(!plan.must_nudge(199));
    assert!(plan.must_nudge(200));
    assert_eq!(asked(&plan.ask(200).unwrap()), [(0, 0), (1, 3)]);
    assert_eq!(plan.failed(key(0), BACKOFF_MS, 200), 1, "a rest was no failure");
}

#[test]
fn a_throttled_partition_that_comes_while_an_answer_is_due_rests_at_once_and_those_that_it_is_for_when_it_is_here() {
    let mut plan = in_session(0..2);
    plan.set_throttled(key(0), true);
    let under_way = plan.ask(0).unwrap().number;
    plan.set_throttled(key(5), true);
    plan.follow(key(5), 3, at(0));
    assert!(plan.may_have_to_hold(true, 0), "the one that came could be asked for now");
    plan.hold(Some(95), true);
    assert!(!plan.must_nudge(0));
    assert_eq!(plan.standing(under_way, key(0)), Standing::Current(3), "the answer is not lost");
    assert!(!plan.may_have_to_hold(true, 10));
    assert!(plan.may_have_to_hold(false, 10), "it is here");
    plan.hold(Some(95), false);
    assert_eq!(forgotten(&plan.ask(10).unwrap()), [0]);
    assert!(!plan.may_have_to_hold(false, 10));
}

#[test]
fn a_partition_that_is_not_throttled_any_more_goes_at_once() {
    let mut plan = in_session(0..1);
    plan.set_throttled(key(0), true);
    plan.hold(Some(1_000_000), false);
    assert_eq!(plan.ask(0), None);
    plan.set_throttled(key(0), false);
    plan.follow(key(0), 3, at(0));
    assert_eq!(asked(&plan.ask(0).unwrap()), [(0, 0)]);
}

#[test]
fn news_of_the_metadata_end_a_pause_and_a_stop() {
    let mut plan = in_session(0..2);
    plan.failed(key(0), BACKOFF_MS, 0);
    plan.stop(key(1));
    assert_eq!(plan.ask(0), None);
    plan.follow(key(0), 4, at(0));
    plan.follow(key(1), 4, at(2));
    assert!(plan.must_nudge(0));
    assert_eq!(plan.next_due_ms(), None);
    let ask = plan.ask(0).unwrap();
    assert_eq!((asked(&ask), forgotten(&ask)), (vec![(0, 0), (1, 2)], vec![]));
    assert_eq!(ask.asked[0].leader_epoch, 4);
    plan.follow(key(0), 4, at(0));
    assert!(!plan.must_nudge(0), "nothing is new");
}

#[test]
fn whoever_leaves_is_forgotten_once_and_may_come_back() {
    let mut plan = in_session(0..3);
    plan.leave(key(0));
    plan.leave(key(1));
    plan.follow(key(1), 5, at(7));
    let ask = plan.ask(0).unwrap();
    assert_eq!((asked(&ask), forgotten(&ask)), (vec![(1, 7)], vec![0]));
    assert_eq!(forgotten(&plan.ask(0).unwrap()), Vec::<i32>::new());
    plan.leave(key(8));
    assert_eq!(plan.len(), 2);
}

#[test]
fn work_on_the_log_ends_with_its_new_place_whatever_happened_meanwhile() {
    let mut plan = in_session(0..2);
    plan.working(key(0));
    assert_eq!(forgotten(&plan.ask(0).unwrap()), [0]);
    plan.follow(key(0), 4, at(9));
    assert!(!plan.must_nudge(0), "its place is not known before the work is done");
    plan.worked(key(0), at(6));
    let ask = plan.ask(0).unwrap();
    assert_eq!((asked(&ask), ask.asked[0].leader_epoch), (vec![(0, 6)], 4));
    plan.working(key(1));
    plan.leave(key(1));
    plan.worked(key(1), at(6));
    assert_eq!(plan.len(), 1);
}

#[test]
fn questions_for_ranges_are_asked_again_on_the_next_connection() {
    let mut plan = in_session(0..3);
    plan.ask_range(key(0));
    plan.ask_range(key(1));
    plan.leave(key(1));
    assert_eq!(plan.ranges_to_ask(), [(key(0), 3)]);
    assert_eq!(plan.ranges_to_ask(), []);
    assert_eq!((plan.ranging(key(0)), plan.ranging(key(2))), (Some(3), None));
    plan.disconnected();
    assert_eq!(plan.ranges_to_ask(), [(key(0), 3)]);
    let ask = plan.ask(0).unwrap();
    assert!(ask.position.is_full());
    assert_eq!(asked(&ask), [(2, 0)]);
}

#[test]
fn a_session_that_is_lost_is_opened_anew_with_all_that_is_fetched() {
    for error in [ErrorCode::FetchSessionIdNotFound, ErrorCode::InvalidFetchSessionEpoch] {
        let mut plan = in_session(0..3);
        plan.stop(key(1));
        let (first, second) = (plan.ask(0).unwrap(), plan.ask(0).unwrap());
        assert!(!plan.answered(first.position, error, 0));
        assert!(!plan.answered(second.position, ErrorCode::None, 9), "it was asked in the lost session");
        let ask = plan.ask(0).unwrap();
        assert!(ask.position.is_full() && !ask.may_wait);
        assert_eq!(asked(&ask), [(0, 0), (2, 0)]);
        assert!(plan.answered(ask.position, ErrorCode::None, 10));
        assert_eq!(plan.ask(0).unwrap().position, Position { id: 10, epoch: 1 });
    }
}
