//! Dynamic members: joining, syncing, leaving, dying.

use super::*;

#[test]
fn two_members_share_and_the_rest_goes_on_when_one_leaves() {
    let mut h = Harness::new();
    let (first, a) = h.join(request());
    let reply = h.join_reply(first, ErrorCode::None);
    assert_eq!((reply.generation, &reply.leader, reply.members.len()), (1, &a, 1));
    assert_eq!((reply.protocol_type.as_deref(), reply.protocol_name.as_deref()), (Some("consumer"), Some("range")));

    // The second starts a rebalance, which waits for the first.
    let (second, b) = h.join(request());
    assert!(!h.replies.contains_key(&second));
    assert_eq!(h.heartbeat(&a, 1), ErrorCode::RebalanceInProgress);
    let again = h.send_join(JoinRequest { member_id: a.clone(), ..request() });
    let (leader, follower) = (h.join_reply(again, ErrorCode::None), h.join_reply(second, ErrorCode::None));
    assert_eq!((leader.generation, leader.members.len(), follower.members.len()), (2, 2, 0));
    assert_eq!((&leader.leader, &follower.leader), (&a, &a));

    // The follower's assignment waits for the leader's.
    let waiting = h.send_sync(&b, 2, &[]);
    assert!(!h.replies.contains_key(&waiting));
    assert_eq!(h.heartbeat(&b, 2), ErrorCode::None);
    let leading = h.send_sync(&a, 2, &[(&a, "0"), (&b, "1")]);
    assert_eq!(&h.sync_reply(leading, ErrorCode::None)[..], b"0");
    assert_eq!(&h.sync_reply(waiting, ErrorCode::None)[..], b"1");
    assert_eq!(h.state(), Some(GroupState::Stable));

    assert_eq!(h.leave(&a, None).members[0].2, ErrorCode::None);
    assert_eq!(h.heartbeat(&b, 2), ErrorCode::RebalanceInProgress);
    let alone = h.send_join(JoinRequest { member_id: b.clone(), ..request() });
    assert_eq!(h.join_reply(alone, ErrorCode::None).leader, b);
    assert_eq!(h.leave(&b, None).error, ErrorCode::None);
    assert_eq!(h.state(), Some(GroupState::Empty));
}

#[test]
fn bad_requests_get_kafkas_errors() {
    let consumer = |change: fn(&mut JoinRequest)| {
        let mut request = request();
        change(&mut request);
        request
    };
    let cases = [
        ("no group id", consumer(|r| r.group_id.clear()), ErrorCode::InvalidGroupId),
        ("session too short", consumer(|r| r.session_timeout_ms = 5_999), ErrorCode::InvalidSessionTimeout),
        ("session too long", consumer(|r| r.session_timeout_ms = 1_800_001), ErrorCode::InvalidSessionTimeout),
        ("unknown id in an unknown group", consumer(|r| r.group_id = "other".to_owned()), ErrorCode::MemberIdRequired),
        ("unknown id", consumer(|r| r.member_id = "who".to_owned()), ErrorCode::UnknownMemberId),
        ("other type", consumer(|r| r.protocol_type = "connect".to_owned()), ErrorCode::InconsistentGroupProtocol),
        (
            "no common protocol",
            consumer(|r| r.protocols[0].name = "sticky".to_owned()),
            ErrorCode::InconsistentGroupProtocol,
        ),
        ("no protocol", consumer(|r| r.protocols.clear()), ErrorCode::InconsistentGroupProtocol),
    ];
    for (name, request, error) in cases {
        let mut h = Harness::new();
        h.stable_group_of_one();
        let waiter = h.send_join(request);
        assert!(
            matches!(&h.replies[&waiter], Reply::Join(reply) if reply.error == error),
            "{name}: {:?}",
            h.replies[&waiter]
        );
    }
    let mut h = Harness::new();
    let waiter = h.send_join(JoinRequest { protocols: Vec::new(), ..request() });
    h.join_reply(waiter, ErrorCode::InconsistentGroupProtocol);
    assert_eq!(h.shard.group_count(), 0, "a refused first join leaves no group behind");
    let waiter = h.send_join(JoinRequest { member_id: "who".to_owned(), ..request() });
    h.join_reply(waiter, ErrorCode::UnknownMemberId);
}

#[test]
fn syncs_and_heartbeats_of_others_are_refused() {
    let mut h = Harness::new();
    let member = h.stable_group_of_one();
    let sync = |h: &mut Harness, id: &str, generation, kind: Option<&str>| {
        let waiter = h.waiter();
        let request = SyncRequest {
            waiter,
            group_id: "g".to_owned(),
            generation,
            member_id: id.to_owned(),
            instance_id: None,
            protocol_type: kind.map(str::to_owned),
            protocol_name: None,
            assignments: Vec::new(),
        };
        let effects = h.shard.sync(h.now, request);
        h.run(effects);
        match &h.replies[&waiter] {
            Reply::Sync(reply) => reply.error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(sync(&mut h, "who", 1, None), ErrorCode::UnknownMemberId);
    assert_eq!(sync(&mut h, &member, 0, None), ErrorCode::IllegalGeneration);
    assert_eq!(sync(&mut h, &member, 1, Some("connect")), ErrorCode::InconsistentGroupProtocol);
    assert_eq!(sync(&mut h, &member, 1, Some("consumer")), ErrorCode::None);
    assert_eq!(h.heartbeat("who", 1), ErrorCode::UnknownMemberId);
    assert_eq!(h.heartbeat(&member, 2), ErrorCode::IllegalGeneration);
    assert_eq!(h.heartbeat(&member, 1), ErrorCode::None);
    assert_eq!(h.leave("who", None).members[0].2, ErrorCode::UnknownMemberId);
}

#[test]
fn old_clients_join_without_being_given_an_id_first() {
    let mut h = Harness::new();
    let waiter = h.send_join(JoinRequest { requires_known_member_id: false, ..request() });
    assert!(!h.join_reply(waiter, ErrorCode::None).member_id.is_empty());
}

#[test]
fn an_empty_group_waits_for_more_members_but_not_for_ever() {
    let mut h = Harness::with(GroupConfig::default());
    let (first, _) = h.join(request());
    h.advance(2_000);
    let (second, _) = h.join(request());
    h.advance(1_000);
    assert!(!h.replies.contains_key(&first), "the second came during the delay: it is prolonged once");
    h.advance(3_000);
    assert_eq!(h.join_reply(first, ErrorCode::None).members.len(), 2);
    assert_eq!(h.join_reply(second, ErrorCode::None).generation, 1);

    // Members that keep coming cannot put it off beyond the rebalance timeout.
    let mut h = Harness::with(GroupConfig::default());
    let (first, _) = h.join(request());
    for _ in 0..20 {
        h.advance(1_800);
        h.join(request());
    }
    assert!(h.replies.contains_key(&first));
}

#[test]
fn a_stable_member_that_repeats_itself_gets_the_present_generation() {
    let mut h = Harness::new();
    let (_, a) = h.join(request());
    let (_, b) = h.join(request());
    h.send_join(JoinRequest { member_id: a.clone(), ..request() });
    h.send_sync(&a, 2, &[(&a, "0"), (&b, "1")]);
    let waiter = h.send_join(JoinRequest { member_id: b.clone(), ..request() });
    assert_eq!(h.join_reply(waiter, ErrorCode::None).generation, 2);
    assert_eq!(h.state(), Some(GroupState::Stable));
    // The leader asks for a rebalance by the same request; so does a member that changed its mind.
    h.send_join(JoinRequest { member_id: a, ..request() });
    assert_eq!(h.state(), Some(GroupState::PreparingRebalance));
}

#[test]
fn the_protocol_that_most_members_want_is_chosen_among_those_that_all_support() {
    let protocol = |name: &str| Protocol { name: name.to_owned(), metadata: subscription("t") };
    let mut h = Harness::new();
    let lists = [["roundrobin", "range", "sticky"], ["range", "roundrobin", "x"], ["range", "y", "roundrobin"]];
    let mut ids = Vec::new();
    let mut last = 0;
    for list in lists {
        let protocols = list.iter().map(|name| protocol(name)).collect();
        last = h.send_join(JoinRequest { protocols, requires_known_member_id: false, ..request() });
        ids.push(last);
    }
    // The first completed alone; it has to join again with the others.
    let first = h.join_reply(ids[0], ErrorCode::None).member_id;
    assert_eq!(h.join_reply(ids[0], ErrorCode::None).protocol_name.as_deref(), Some("roundrobin"));
    h.send_join(JoinRequest {
        member_id: first,
        protocols: lists[0].iter().map(|n| protocol(n)).collect(),
        ..request()
    });
    assert_eq!(h.join_reply(last, ErrorCode::None).protocol_name.as_deref(), Some("range"));
}

#[test]
fn a_group_takes_no_more_than_its_size() {
    let mut h = Harness::with(GroupConfig { max_size: 2, initial_rebalance_delay_ms: 0, ..GroupConfig::default() });
    let first = h.send_join(JoinRequest { requires_known_member_id: false, ..request() });
    let a = h.join_reply(first, ErrorCode::None).member_id;
    h.send_join(JoinRequest { requires_known_member_id: false, ..request() });
    h.send_join(JoinRequest { member_id: a, ..request() });
    let third = h.send_join(request());
    h.join_reply(third, ErrorCode::GroupMaxSizeReached);
}

#[test]
fn silent_members_are_removed_and_the_others_are_told() {
    let mut h = Harness::new();
    let (_, a) = h.join(request());
    let (_, b) = h.join(request());
    h.send_join(JoinRequest { member_id: a.clone(), ..request() });
    h.send_sync(&b, 2, &[]);
    h.send_sync(&a, 2, &[(&a, "0"), (&b, "1")]);
    for _ in 0..3 {
        h.advance(5_000);
        h.heartbeat(&a, 2);
    }
    assert_eq!(h.heartbeat(&b, 2), ErrorCode::UnknownMemberId);
    assert_eq!(h.heartbeat(&a, 2), ErrorCode::RebalanceInProgress);
}

#[test]
fn members_that_die_in_the_join_phase_do_not_hold_it_up() {
    // G-06. The one that leaves completes the phase at once; the one that is silent, when its time is over.
    let mut h = Harness::new();
    let (_, a) = h.join(request());
    let (waiting, b) = h.join(request());
    assert_eq!(h.leave(&a, None).error, ErrorCode::None);
    assert_eq!(h.join_reply(waiting, ErrorCode::None).leader, b);

    let (waiting, _) = h.join(request());
    h.advance(31_000);
    assert_eq!(h.join_reply(waiting, ErrorCode::None).members.len(), 1, "the silent leader was replaced");
    h.advance(40_000);
    assert_eq!(h.state(), Some(GroupState::Empty), "no sync came, and no heartbeat");
}

#[test]
fn an_id_that_nobody_joins_with_does_not_hold_up_a_rebalance() {
    let mut h = Harness::new();
    let member = h.stable_group_of_one();
    let asked = h.send_join(request());
    h.join_reply(asked, ErrorCode::MemberIdRequired);
    let again = h.send_join(JoinRequest { member_id: member, ..request() });
    assert!(!h.replies.contains_key(&again), "the id may still come");
    h.advance(10_000);
    h.join_reply(again, ErrorCode::None);
}

#[test]
fn ids_that_are_handed_out_are_bounded() {
    let mut h = Harness::new();
    for _ in 0..MAX_PENDING_MEMBERS {
        h.send_join(request());
    }
    let one_more = h.send_join(request());
    h.join_reply(one_more, ErrorCode::GroupMaxSizeReached);
    h.advance(10_000);
    let later = h.send_join(request());
    h.join_reply(later, ErrorCode::MemberIdRequired);
}

#[test]
fn a_leader_that_does_not_assign_is_removed() {
    let mut h = Harness::new();
    let (_, a) = h.join(request());
    let (_, b) = h.join(request());
    h.send_join(JoinRequest { member_id: a.clone(), ..request() });
    let waiting = h.send_sync(&b, 2, &[]);
    for _ in 0..7 {
        h.advance(5_000);
        h.heartbeat(&a, 2);
    }
    h.sync_reply(waiting, ErrorCode::RebalanceInProgress);
    assert_eq!(h.heartbeat(&a, 2), ErrorCode::UnknownMemberId);
}

#[test]
fn an_assignment_that_cannot_be_written_is_one_clear_error() {
    // G-07: too large for the log, and what a client is told for other failures.
    let cases = [
        (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
        (ErrorCode::NotLeaderOrFollower, ErrorCode::NotCoordinator),
        (ErrorCode::KafkaStorageError, ErrorCode::NotCoordinator),
        (ErrorCode::NotEnoughReplicas, ErrorCode::CoordinatorNotAvailable),
        (ErrorCode::RequestTimedOut, ErrorCode::CoordinatorNotAvailable),
    ];
    for (failure, told) in cases {
        let mut h = Harness::new();
        let (_, a) = h.join(request());
        h.hold = true;
        let waiter = h.send_sync(&a, 1, &[(&a, "all")]);
        assert!(!h.replies.contains_key(&waiter), "no reply before the record is committed");
        assert_eq!(h.state(), Some(GroupState::CompletingRebalance));
        h.fail_held(failure);
        h.sync_reply(waiter, told);
        assert_eq!(h.state(), Some(GroupState::PreparingRebalance));
    }
}

#[test]
fn a_rebalance_overtakes_an_assignment_that_is_being_written() {
    let mut h = Harness::new();
    let (_, a) = h.join(request());
    h.hold = true;
    let sync = h.send_sync(&a, 1, &[(&a, "all")]);
    let (joined, _) = h.join(request());
    h.sync_reply(sync, ErrorCode::RebalanceInProgress);
    h.commit_held();
    assert_eq!(h.state(), Some(GroupState::PreparingRebalance));
    let again = h.send_join(JoinRequest { member_id: a, ..request() });
    assert_eq!(h.join_reply(again, ErrorCode::None).generation, 2);
    h.join_reply(joined, ErrorCode::None);
}

#[test]
fn a_second_request_of_a_member_answers_its_first() {
    let mut h = Harness::new();
    let (_, a) = h.join(request());
    h.join(request());
    // "a" is alone in not having joined; its member list is complete only with the other's second request.
    let (waiting, b) = h.join(request());
    let again = h.send_join(JoinRequest { member_id: b, ..request() });
    h.join_reply(waiting, ErrorCode::RebalanceInProgress);
    assert!(!h.replies.contains_key(&again));
    h.send_join(JoinRequest { member_id: a, ..request() });
    h.join_reply(again, ErrorCode::None);
}

#[test]
fn groups_are_described_and_deleted_by_their_state() {
    // G-08.
    let mut h = Harness::new();
    let delete = |h: &mut Harness| {
        let waiter = h.waiter();
        let effects = h.shard.delete_group(waiter, "g");
        h.run(effects);
        h.done(waiter)
    };
    assert_eq!(h.shard.describe("g"), None);
    assert_eq!(delete(&mut h), ErrorCode::GroupIdNotFound);
    let member = h.stable_group_of_one();
    let described = h.shard.describe("g").unwrap();
    assert_eq!(
        (described.state.name(), &*described.protocol_type, &*described.protocol_name),
        ("Stable", "consumer", "range")
    );
    assert_eq!(described.members[0].member_id, member);
    assert_eq!(
        (&described.members[0].assignment[..], described.members[0].client_host.as_str()),
        (&b"all"[..], "/127.0.0.1")
    );
    assert_eq!(delete(&mut h), ErrorCode::NonEmptyGroup);
    h.leave(&member, None);
    let listed: Vec<_> = h.shard.list().map(|g| (g.group_id.to_string(), g.state.name(), g.protocol_type)).collect();
    assert_eq!(listed, [("g".to_owned(), "Empty", "consumer".to_owned())]);
    assert_eq!(delete(&mut h), ErrorCode::None);
    assert_eq!(h.shard.group_count(), 0);
    h.restart();
    assert_eq!(h.shard.group_count(), 0);
}

#[test]
fn who_was_only_given_an_id_keeps_no_group_from_being_deleted() {
    let mut h = Harness::new();
    let member = h.stable_group_of_one();
    h.leave(&member, None);
    let waiter = h.send_join(JoinRequest { member_id: String::new(), requires_known_member_id: true, ..request() });
    let given = h.join_reply(waiter, ErrorCode::MemberIdRequired).member_id;
    let waiter = h.waiter();
    let effects = h.shard.delete_group(waiter, "g");
    h.run(effects);
    assert_eq!((h.done(waiter), h.shard.group_count()), (ErrorCode::None, 0));
    let waiter = h.send_join(JoinRequest { member_id: given, ..request() });
    h.join_reply(waiter, ErrorCode::UnknownMemberId);
    h.advance(60_000);
    assert_eq!(h.shard.group_count(), 0);
}

#[test]
fn after_a_restart_the_group_is_as_it_was() {
    let mut h = Harness::new();
    let (_, a) = h.join(request());
    let (_, b) = h.join(request());
    h.send_join(JoinRequest { member_id: a.clone(), ..request() });
    h.send_sync(&a, 2, &[(&a, "0"), (&b, "1")]);
    let before = h.shard.describe("g");
    h.restart();
    assert_eq!(h.shard.describe("g"), before);
    assert_eq!(h.heartbeat(&a, 2), ErrorCode::None);
    let sync = h.send_sync(&b, 2, &[]);
    assert_eq!(&h.sync_reply(sync, ErrorCode::None)[..], b"1");
    // Sessions began anew with the restart; nobody shows up.
    h.advance(45_000);
    assert_eq!(h.state(), Some(GroupState::Empty));
}
