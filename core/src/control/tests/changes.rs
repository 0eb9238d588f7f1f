use super::super::partition_change::{Election, Loss, PartitionChange};
use super::super::topic_rules::TopicRules;
use super::*;
use crate::event::PartitionState;

fn ids(numbers: &[i32]) -> Vec<BrokerId> {
    numbers.iter().copied().map(BrokerId).collect()
}

fn numbers(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|id| id.0).collect()
}

/// A partition of brokers 1, 2 and 3. An ISR that begins with 0 is led by nobody.
fn partition(isr: &[i32], leader: i32, eligible: &[i32], last_known: &[i32]) -> PartitionState {
    PartitionState {
        leader: BrokerId(leader),
        leader_epoch: 5,
        partition_epoch: 9,
        eligible: ids(eligible),
        last_known: ids(last_known),
        ..PartitionState::new(ids(&[1, 2, 3]), ids(isr))
    }
}

/// What a change came to: ISR, leader, eligible replicas, last known ones, and by how much the leader epoch rose.
type Outcome<'a> = (&'a [i32], i32, &'a [i32], &'a [i32], i32);

fn assert_outcome(what: &str, before: &PartitionState, after: Option<PartitionState>, expected: Option<Outcome<'_>>) {
    let found = after.as_ref().map(|it| {
        assert_eq!(it.partition_epoch, before.partition_epoch + 1, "{what}");
        let lists = [&it.isr, &it.eligible, &it.last_known].map(|list| numbers(list));
        (lists, it.leader.0, it.leader_epoch - before.leader_epoch)
    });
    let expected = expected.map(|(isr, leader, eligible, last_known, rise)| {
        ([isr, eligible, last_known].map(<[i32]>::to_vec), leader, rise)
    });
    assert_eq!(found, expected, "{what}: {before:?}");
}

/// Brokers agree on how many must be in sync, and only those lead that have all that was committed.
fn clean_rules(min_in_sync: usize) -> TopicRules {
    TopicRules { min_in_sync, strictest_min_in_sync: min_in_sync, unclean: false }
}

#[test]
fn who_leaves_an_isr_that_can_commit_no_more_stays_eligible() {
    type Case<'a> = (&'a str, PartitionState, i32, &'a [i32], usize, Option<Outcome<'a>>);
    // Before; who goes; who may lead; the minimum; after.
    let cases: [Case<'_>; 9] = [
        ("a follower goes", partition(&[1, 2, 3], 1, &[], &[]), 2, &[1, 3], 2, Some((&[1, 3], 1, &[], &[], 0))),
        ("the leader goes", partition(&[1, 2, 3], 1, &[], &[]), 1, &[2, 3], 2, Some((&[2, 3], 2, &[], &[], 1))),
        ("below the minimum", partition(&[1, 3], 1, &[], &[]), 1, &[2, 3], 2, Some((&[3], 3, &[1], &[], 1))),
        ("the last of two as good", partition(&[3], 3, &[1], &[]), 3, &[2], 2, Some((&[], -1, &[1, 3], &[], 1))),
        ("the other leads at once", partition(&[3], 3, &[1], &[]), 3, &[1, 2], 2, Some((&[1], 1, &[3], &[], 1))),
        ("the last one waits", partition(&[3], 3, &[], &[]), 3, &[1, 2], 1, Some((&[3], -1, &[], &[], 1))),
        ("the last one, minimum 2", partition(&[3], 3, &[], &[]), 3, &[1, 2], 2, Some((&[3], -1, &[], &[], 1))),
        ("it waits already", partition(&[3], -1, &[], &[]), 3, &[1, 2], 1, None),
        ("all as good go", partition(&[1, 2], 1, &[3], &[]), 1, &[], 3, Some((&[2], -1, &[1, 3], &[], 1))),
    ];
    for (what, before, gone, active, min_in_sync, expected) in cases {
        let may_lead = |id: BrokerId| active.contains(&id.0);
        let rules = clean_rules(min_in_sync);
        let after = PartitionChange::new(&before, rules, &may_lead).without(BrokerId(gone)).build();
        assert_outcome(what, &before, after, expected);
    }
}

#[test]
fn who_may_lack_records_is_trusted_with_nothing() {
    type Case<'a> = (&'a str, PartitionState, Loss, Option<Outcome<'a>>);
    let tail = Loss::Tail;
    // Broker 1 lost something; brokers 2 and 3 serve, the minimum is 2.
    let cases: [Case<'_>; 6] = [
        ("others have all", partition(&[1, 2, 3], 1, &[], &[]), tail, Some((&[2, 3], 2, &[], &[], 1))),
        ("it led", partition(&[1, 2], 1, &[], &[]), tail, Some((&[2], 2, &[], &[1], 1))),
        ("its disk is new", partition(&[1, 2], 1, &[], &[]), Loss::All, Some((&[2], 2, &[], &[], 1))),
        ("it was eligible", partition(&[2], 2, &[1], &[]), tail, Some((&[2], 2, &[], &[1], 0))),
        ("nobody has all", partition(&[1], -1, &[], &[]), tail, Some((&[], -1, &[], &[1], 0))),
        ("nor is it the best", partition(&[], -1, &[], &[1]), Loss::All, Some((&[], -1, &[], &[], 0))),
    ];
    for (what, before, loss, expected) in cases {
        let may_lead = |id: BrokerId| id != BrokerId(1);
        let rules = clean_rules(2);
        let after = PartitionChange::new(&before, rules, &may_lead).lost(BrokerId(1), loss).build();
        assert_outcome(what, &before, after, expected);
    }
    let only = PartitionState::new(ids(&[1]), ids(&[1]));
    let rules = clean_rules(1);
    let change = |loss| PartitionChange::new(&only, rules, &|_| true).lost(BrokerId(1), loss).build();
    assert_eq!(change(Loss::Tail), None, "nobody has more than the only replica");
    let empty = change(Loss::All).unwrap();
    assert_eq!((empty.isr, empty.leader), (Vec::new(), BrokerId::NONE));
}

#[test]
fn leaders_are_chosen_in_the_order_of_the_replicas() {
    use Election::{Online, Preferred, Unclean};
    type Case<'a> = (&'a str, PartitionState, Election, &'a [i32], Option<Outcome<'a>>);
    let cases: [Case<'_>; 11] = [
        ("who leads goes on", partition(&[1, 2, 3], 2, &[], &[]), Online, &[1, 2, 3], None),
        (
            "the preferred one",
            partition(&[1, 2, 3], 2, &[], &[]),
            Preferred,
            &[1, 2, 3],
            Some((&[1, 2, 3], 1, &[], &[], 1)),
        ),
        ("the preferred one is away", partition(&[1, 2, 3], 2, &[], &[]), Preferred, &[2, 3], None),
        ("the preferred one is behind", partition(&[2, 3], 2, &[], &[]), Preferred, &[1, 2, 3], None),
        ("out of the ISR", partition(&[2, 3], -1, &[], &[]), Online, &[1, 2, 3], Some((&[2, 3], 2, &[], &[], 1))),
        ("out of the eligible", partition(&[], -1, &[2, 3], &[]), Online, &[1, 3], Some((&[3], 3, &[2], &[], 1))),
        ("the eligible wait for the ISR", partition(&[3], -1, &[2], &[]), Online, &[1, 2], None),
        ("nobody has all", partition(&[], -1, &[], &[3]), Online, &[1, 2, 3], None),
        ("the last leader rather", partition(&[], -1, &[], &[3]), Unclean, &[1, 2, 3], Some((&[3], 3, &[], &[], 1))),
        ("then in order", partition(&[], -1, &[], &[3]), Unclean, &[1, 2], Some((&[1], 1, &[], &[], 1))),
        ("clean if it can be", partition(&[2], -1, &[], &[]), Unclean, &[1, 2], Some((&[2], 2, &[], &[], 1))),
    ];
    for (what, before, election, active, expected) in cases {
        let may_lead = |id: BrokerId| active.contains(&id.0);
        let rules = clean_rules(2);
        let after = PartitionChange::new(&before, rules, &may_lead).election(election).build();
        let is_clean = !matches!(what, "the last leader rather" | "then in order");
        assert!(after.as_ref().is_none_or(|after| after.recovering != is_clean), "{what}");
        assert_outcome(what, &before, after, expected);
    }
}

#[test]
fn a_smaller_minimum_ends_the_trust_in_who_is_out_of_sync() {
    let before = partition(&[1], 1, &[2], &[3]);
    for (min_in_sync, expected) in [(1, Some((&[1][..], 1, &[][..], &[][..], 0))), (2, None), (3, None)] {
        let after = PartitionChange::new(&before, clean_rules(min_in_sync), &|_| true).build();
        assert_outcome("the leader commits alone", &before, after, expected);
    }
    let leaderless = partition(&[], -1, &[2, 3], &[]);
    let after = PartitionChange::new(&leaderless, clean_rules(1), &|_| true).build();
    assert_outcome("who leads now commits alone", &leaderless, after, Some((&[2], 2, &[], &[], 1)));
}

#[test]
fn a_reassignment_ends_when_all_that_stay_are_in_sync() {
    let moving =
        PartitionState { adding: ids(&[2, 3]), removing: ids(&[1]), ..PartitionState::new(ids(&[2, 3, 1]), ids(&[1])) };
    let rules = clean_rules(2);
    let with = |isr: &[i32]| PartitionChange::new(&moving, rules, &|_| true).isr(ids(isr)).build().unwrap();
    let on_the_way = with(&[1, 2]);
    assert_eq!((numbers(&on_the_way.isr), on_the_way.leader, on_the_way.leader_epoch), (vec![2, 1], BrokerId(1), 0));
    assert!(on_the_way.is_reassigning());
    assert_eq!(on_the_way.min_in_sync(2), 1, "what is being added does not raise the minimum yet");
    let done = with(&[1, 2, 3]);
    assert_eq!((numbers(&done.replicas), numbers(&done.isr)), (vec![2, 3], vec![2, 3]));
    assert_eq!((done.leader, done.leader_epoch, done.is_reassigning()), (BrokerId(2), 1, false));
    // The leader stays, but who is no replica any more must not be served as one.
    let shrinking = PartitionState { removing: ids(&[3]), ..PartitionState::new(ids(&[1, 2, 3]), ids(&[1, 3])) };
    let done = PartitionChange::new(&shrinking, rules, &|_| true).isr(ids(&[1, 2, 3])).build().unwrap();
    assert_eq!((numbers(&done.replicas), done.leader, done.leader_epoch), (vec![1, 2], BrokerId(1), 1));
}
