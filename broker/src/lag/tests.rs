//! What becomes of committed offsets and the ends of logs.

use super::*;

const TOPIC: Uuid = Uuid([1; 16]);

fn group(offsets: &[(PartitionIndex, Offset)]) -> Committed {
    let offset = |(partition, offset): &(PartitionIndex, Offset)| CommittedPartition {
        topic: "orders".into(),
        topic_id: TOPIC,
        partition: *partition,
        offset: *offset,
        at_ms: 1_000,
    };
    Committed {
        group: "g".into(),
        state: GroupState::Empty,
        members: 0,
        stats: GroupStats::default(),
        offsets: offsets.iter().map(offset).collect(),
        uncommitted: BTreeMap::new(),
    }
}

/// Answer of a leader: partition, offsets that were asked for, start, end, ages.
type Answer<'a> = (PartitionIndex, &'a [Offset], Offset, Offset, &'a [Age]);

fn ends(answers: &[Answer<'_>]) -> BTreeMap<PartitionKey, (Asked, Ends)> {
    let answer = |(partition, offsets, start, end, ages): &Answer<'_>| {
        let asked = Asked { topic: "orders".into(), topic_id: TOPIC, partition: *partition, offsets: offsets.to_vec() };
        ((TOPIC, *partition), (asked, Ends { start: *start, end: *end, ages: ages.to_vec() }))
    };
    answers.iter().map(answer).collect()
}

#[test]
fn lag_is_what_can_still_be_read_and_never_negative() {
    let old = Age::Appended(7_000);
    // Committed, start and end of the log, age; records that can be read, that were deleted, and the age that is told.
    let cases = [
        (3, 0, 10, old, 7, 0, old),
        (10, 0, 10, old, 0, 0, Age::Appended(0)),
        // Everything has expired: there is nothing left to read (M-01).
        (100, 10_000, 10_000, old, 0, 9_900, Age::Appended(0)),
        (100, 9_000, 10_000, old, 1_000, 8_900, old),
        // The log was cut, or is that of a leader which knows less.
        (12, 0, 10, old, 0, 0, Age::Appended(0)),
        (3, 0, 10, Age::Stamped(9), 7, 0, Age::Stamped(9)),
        (3, 0, 10, Age::Unknown, 7, 0, Age::Unknown),
    ];
    for (committed, start, end, age, records, deleted, told) in cases {
        let lag = lag_of(group(&[(0, committed)]), &ends(&[(0, &[committed], start, end, &[age])]), 61_000);
        let [partition] = &lag.partitions[..] else { panic!("{lag:?}") };
        assert_eq!((partition.records, partition.deleted, partition.age), (records, deleted, told), "{committed}");
        assert_eq!((partition.committed_ago_ms, lag.unknown), (60_000, 0));
    }
}

#[test]
fn nothing_is_made_up_for_leaders_that_do_not_answer() {
    let lag = lag_of(group(&[(0, 3), (1, 4)]), &ends(&[(1, &[4], 0, 9, &[Age::Appended(1)])]), 0);
    assert_eq!(lag.unknown, 1);
    assert_eq!(lag.partitions.iter().map(|it| (it.partition, it.records)).collect::<Vec<_>>(), [(1, 5)]);
}

#[test]
fn each_group_gets_the_age_of_its_own_offset() {
    let ends = ends(&[(0, &[3, 5], 0, 9, &[Age::Appended(30), Age::Appended(10)])]);
    for (committed, age) in [(3, 30), (5, 10)] {
        let lag = lag_of(group(&[(0, committed)]), &ends, 0);
        assert_eq!(lag.partitions[0].age, Age::Appended(age));
    }
    // One whose age was not asked for, because too many groups read the partition.
    assert_eq!(lag_of(group(&[(0, 4)]), &ends, 0).partitions[0].age, Age::Unknown);
}
