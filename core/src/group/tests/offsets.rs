//! Committed offsets: visible when written, kept while in use, gone when expired.

use super::*;
use std::collections::BTreeSet;

const DAY_MS: i64 = 24 * 3_600_000;

fn expire(h: &mut Harness) {
    let effects = h.shard.expire_offsets(h.now);
    h.run(effects);
}

/// Lets time pass while a member keeps sending heartbeats.
fn live(h: &mut Harness, member: &str, generation: i32, ms: i64) {
    // A heartbeat a day is enough for the clock of this test, with the session moved out of the way.
    let mut left = ms;
    while left > 0 {
        let step = left.min(9_000_000);
        h.now = Now { unix_ms: h.now.unix_ms + step, monotonic_ms: h.now.monotonic_ms + 1 };
        assert_eq!(h.heartbeat(member, generation), ErrorCode::None);
        left -= step;
    }
}

#[test]
fn an_offset_is_visible_when_it_is_written_and_survives() {
    // G-02.
    let mut h = Harness::new();
    let member = h.stable_group_of_one();
    let waiter = h.send_commit(&member, 1, "t", 5);
    assert_eq!((h.done(waiter), h.offset("t")), (ErrorCode::None, Some(5)));
    h.hold = true;
    let waiter = h.send_commit(&member, 1, "t", 9);
    assert!(!h.replies.contains_key(&waiter));
    assert_eq!(h.offset("t"), Some(5), "not committed yet");
    h.commit_held();
    assert_eq!((h.done(waiter), h.offset("t")), (ErrorCode::None, Some(9)));
    h.hold = true;
    let waiter = h.send_commit(&member, 1, "t", 11);
    h.fail_held(ErrorCode::NotLeaderOrFollower);
    assert_eq!((h.done(waiter), h.offset("t")), (ErrorCode::NotCoordinator, Some(9)));
    h.restart();
    assert_eq!(h.offset("t"), Some(9));
    let stored = &h.shard.offsets("g").unwrap()["t"][&0];
    assert_eq!((stored.metadata.as_str(), stored.leader_epoch), ("words", 3));
}

#[test]
fn who_may_commit_depends_on_the_groups_state() {
    let mut h = Harness::new();
    // Without a group, by a client that assigns partitions to itself.
    let waiter = h.send_commit("", -1, "t", 1);
    assert_eq!(h.done(waiter), ErrorCode::None);
    let waiter = h.send_commit("who", 3, "t", 1);
    assert_eq!(h.done(waiter), ErrorCode::UnknownMemberId);

    let member = h.stable_group_of_one();
    let cases = [
        ("", -1, ErrorCode::UnknownMemberId),
        ("who", 1, ErrorCode::UnknownMemberId),
        (member.as_str(), 0, ErrorCode::IllegalGeneration),
        (member.as_str(), -1, ErrorCode::IllegalGeneration),
        (member.as_str(), 1, ErrorCode::None),
    ];
    for (id, generation, expected) in cases {
        let waiter = h.send_commit(id, generation, "t", 2);
        assert_eq!(h.done(waiter), expected, "{id} {generation}");
    }
    // During the join phase members may still commit what they have read; after it not before their assignment.
    let (_, _) = h.join(request());
    let waiter = h.send_commit(&member, 1, "t", 3);
    assert_eq!((h.state(), h.done(waiter)), (Some(GroupState::PreparingRebalance), ErrorCode::None));
    h.send_join(JoinRequest { member_id: member.clone(), ..request() });
    let waiter = h.send_commit(&member, 2, "t", 3);
    assert_eq!((h.state(), h.done(waiter)), (Some(GroupState::CompletingRebalance), ErrorCode::RebalanceInProgress));
}

#[test]
fn a_reset_is_done_once_and_only_to_an_empty_group() {
    let mut h = Harness::new();
    let member = h.stable_group_of_one();
    let waiter = h.send_commit("", -1, RESET_MARKER, 0);
    assert_eq!(h.done(waiter), ErrorCode::UnknownMemberId, "it has a member");
    h.leave(&member, None);
    for expected in [ErrorCode::None, ErrorCode::DuplicateResource] {
        let waiter = h.send_commit("", -1, RESET_MARKER, 0);
        assert_eq!(h.done(waiter), expected);
        h.restart();
    }
    let waiter = h.send_commit("", -1, "t", 5);
    assert_eq!(h.done(waiter), ErrorCode::None, "who asks for no reset is not in its way");
}

#[test]
fn a_reset_is_remembered_as_long_as_any_offset() {
    let mut h = Harness::new();
    h.send_commit("", -1, RESET_MARKER, 0);
    h.advance(6 * DAY_MS);
    h.send_commit("", -1, "t", 5);
    h.advance(2 * DAY_MS);
    expire(&mut h);
    assert_eq!((h.offset("t"), h.offset(RESET_MARKER)), (Some(5), Some(0)));
    h.advance(6 * DAY_MS);
    expire(&mut h);
    assert_eq!((h.offset("t"), h.offset(RESET_MARKER)), (None, None));
}

#[test]
fn an_unknown_group_is_named_to_clients_that_know_the_error() {
    let mut h = Harness::new();
    for (knows, error) in [(true, ErrorCode::GroupIdNotFound), (false, ErrorCode::IllegalGeneration)] {
        let waiter = h.waiter();
        let request = CommitRequest {
            waiter,
            group_id: "none".to_owned(),
            generation: 3,
            member_id: "m".to_owned(),
            instance_id: None,
            knows_group_id_not_found: knows,
            offsets: Vec::new(),
        };
        let effects = h.shard.commit_offsets(h.now, request);
        h.run(effects);
        assert_eq!(h.done(waiter), error);
    }
}

#[test]
fn offsets_of_a_running_group_stay_and_those_of_a_stopped_one_go() {
    // G-03, groups A and B: the clock starts when the group becomes empty, and a restart does not start it anew.
    let mut h = Harness::new();
    let member = h.stable_group_of_one();
    h.send_commit(&member, 1, "t", 5);
    h.send_commit(&member, 1, "unread", 5);
    live(&mut h, &member, 1, 6 * DAY_MS);
    expire(&mut h);
    assert_eq!((h.offset("t"), h.offset("unread")), (Some(5), Some(5)));
    live(&mut h, &member, 1, 2 * DAY_MS);
    expire(&mut h);
    assert_eq!((h.offset("t"), h.offset("unread")), (Some(5), None), "subscribed topics stay");
    h.restart();
    expire(&mut h);
    assert_eq!(h.offset("t"), Some(5));

    h.leave(&member, None);
    h.advance(6 * DAY_MS);
    expire(&mut h);
    h.restart();
    assert_eq!(h.offset("t"), Some(5));
    h.advance(DAY_MS);
    expire(&mut h);
    assert_eq!((h.offset("t"), h.shard.group_count()), (None, 0), "the group leaves the list");
    h.restart();
    assert_eq!((h.offset("t"), h.shard.group_count()), (None, 0));
}

#[test]
fn offsets_of_a_client_without_a_group_expire_after_its_last_commit() {
    // G-03, group C.
    let mut h = Harness::new();
    h.send_commit("", -1, "t", 5);
    h.advance(7 * DAY_MS - 1);
    expire(&mut h);
    assert_eq!(h.offset("t"), Some(5));
    h.advance(1);
    expire(&mut h);
    assert_eq!(h.offset("t"), None);
    expire(&mut h);
    assert_eq!(h.shard.group_count(), 0);
}

#[test]
fn an_explicit_expiry_goes_before_the_retention() {
    let mut h = Harness::new();
    h.send_commit("", -1, "t", 5);
    let mut record = h.log[0].clone();
    if let GroupRecord::Offset { value: Some(value), .. } = &mut record {
        value.expire_timestamp_ms = Some(h.now.unix_ms + 1_000);
    }
    h.log = vec![record];
    h.restart();
    h.advance(999);
    expire(&mut h);
    assert_eq!(h.offset("t"), Some(5));
    h.advance(1);
    expire(&mut h);
    assert_eq!(h.offset("t"), None);
}

#[test]
fn offsets_of_deleted_topics_go() {
    // G-04.
    let mut h = Harness::new();
    h.send_commit("", -1, "t", 5);
    h.send_commit("", -1, "u", 6);
    let deleted = BTreeSet::from([Arc::from("t"), Arc::from("other")]);
    let effects = h.shard.on_topics_deleted(&deleted);
    h.run(effects);
    assert_eq!((h.offset("t"), h.offset("u")), (None, Some(6)));
    h.restart();
    assert_eq!((h.offset("t"), h.offset("u")), (None, Some(6)));
}

#[test]
fn offsets_in_use_cannot_be_deleted() {
    let mut h = Harness::new();
    let delete = |h: &mut Harness, group: &str| {
        let waiter = h.waiter();
        let partitions = [(Arc::from("t"), 0), (Arc::from("u"), 0), (Arc::from("none"), 7)];
        let effects = h.shard.delete_offsets(waiter, group, &partitions);
        h.run(effects);
        match h.replies[&waiter].clone() {
            Reply::OffsetsDeleted { error, subscribed } => (error, subscribed.into_iter().collect::<Vec<_>>()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(delete(&mut h, "g"), (ErrorCode::GroupIdNotFound, vec![]));
    let member = h.stable_group_of_one();
    h.send_commit(&member, 1, "t", 5);
    h.send_commit(&member, 1, "u", 6);
    assert_eq!(delete(&mut h, "g"), (ErrorCode::None, vec!["t".to_owned()]));
    assert_eq!((h.offset("t"), h.offset("u")), (Some(5), None));
    h.leave(&member, None);
    assert_eq!(delete(&mut h, "g"), (ErrorCode::None, vec![]));
    assert_eq!(h.offset("t"), None);

    let mut h = Harness::new();
    let waiter =
        h.send_join(JoinRequest { protocol_type: "connect".to_owned(), requires_known_member_id: false, ..request() });
    h.join_reply(waiter, ErrorCode::None);
    assert_eq!(delete(&mut h, "g"), (ErrorCode::NonEmptyGroup, vec![]));
}

#[test]
fn deleting_a_group_takes_its_offsets_along_also_those_on_their_way() {
    let mut h = Harness::new();
    h.send_commit("", -1, "t", 5);
    h.hold = true;
    h.send_commit("", -1, "u", 6);
    let waiter = h.waiter();
    let effects = h.shard.delete_group(waiter, "g");
    h.run(effects);
    assert_eq!(h.done(waiter), ErrorCode::CoordinatorLoadInProgress, "the client tries again");
    h.commit_held();
    let waiter = h.waiter();
    let effects = h.shard.delete_group(waiter, "g");
    h.run(effects);
    assert_eq!((h.done(waiter), h.offset("t"), h.offset("u")), (ErrorCode::None, None, None));
    h.restart();
    assert_eq!((h.shard.group_count(), h.offset("u")), (0, None));
}

#[test]
fn long_metadata_is_measured_as_java_does() {
    let config = GroupConfig { offset_metadata_max_bytes: 4, ..GroupConfig::default() };
    for (metadata, too_large) in [
        ("", false),
        ("abcd", false),
        ("abcde", true),
        ("\u{e9}\u{e9}\u{e9}\u{e9}", false),
        ("\u{1f600}\u{1f600}\u{1f600}", true),
    ] {
        assert_eq!(config.is_metadata_too_large(metadata), too_large, "{metadata}");
    }
}
