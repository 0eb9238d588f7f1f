//! Static members (KIP-345), the parts of case G-05.

use super::*;

fn instance(name: &str) -> JoinRequest {
    JoinRequest { instance_id: Some(name.to_owned()), ..request() }
}

/// A stable group of static members "a" (leader) and "b"; gives their ids.
fn stable_pair(h: &mut Harness) -> (String, String) {
    let first = h.send_join(instance("a"));
    let a = h.join_reply(first, ErrorCode::None).member_id;
    let second = h.send_join(instance("b"));
    h.send_join(JoinRequest { member_id: a.clone(), ..instance("a") });
    let b = h.join_reply(second, ErrorCode::None).member_id;
    h.send_sync(&b, 2, &[]);
    h.send_sync(&a, 2, &[(&a, "0"), (&b, "1")]);
    assert_eq!(h.state(), Some(GroupState::Stable));
    (a, b)
}

#[test]
fn a_member_that_comes_back_keeps_its_place_without_a_rebalance() {
    let mut h = Harness::new();
    let (a, b) = stable_pair(&mut h);
    h.advance(5_000);
    let back = h.send_join(instance("b"));
    let reply = h.join_reply(back, ErrorCode::None);
    assert_eq!((reply.generation, reply.skip_assignment, &reply.leader), (2, false, &a));
    assert_ne!(reply.member_id, b);
    assert_eq!(h.state(), Some(GroupState::Stable));
    let sync = h.send_sync(&reply.member_id, 2, &[]);
    assert_eq!(&h.sync_reply(sync, ErrorCode::None)[..], b"1");
    // The former self is fenced.
    let request = HeartbeatRequest { group_id: "g", generation: 2, member_id: &b, instance_id: Some("b") };
    assert_eq!(h.shard.heartbeat(h.now, &request), ErrorCode::FencedInstanceId);
    let rejoin = h.send_join(JoinRequest { member_id: b, ..instance("b") });
    h.join_reply(rejoin, ErrorCode::FencedInstanceId);
    // The log knows the new id.
    h.restart();
    assert_eq!(h.heartbeat(&reply.member_id, 2), ErrorCode::None);
}

#[test]
fn a_leader_that_comes_back_keeps_its_assignment() {
    for (knows_skip, skip, lists_members) in [(true, true, true), (false, false, false)] {
        let mut h = Harness::new();
        let (a, _) = stable_pair(&mut h);
        let back = h.send_join(JoinRequest { supports_skipping_assignment: knows_skip, ..instance("a") });
        let reply = h.join_reply(back, ErrorCode::None);
        assert_eq!((reply.generation, reply.skip_assignment, !reply.members.is_empty()), (2, skip, lists_members));
        // Old clients are told the former leader, so that they do not assign.
        assert_eq!(reply.leader == reply.member_id, knows_skip);
        assert_eq!(reply.leader == a, !knows_skip);
    }
}

#[test]
fn a_member_that_stays_away_is_removed_when_its_session_ends() {
    let mut h = Harness::new();
    let (a, b) = stable_pair(&mut h);
    for _ in 0..3 {
        h.advance(4_000);
        h.heartbeat(&a, 2);
    }
    assert_eq!(h.heartbeat(&b, 2), ErrorCode::UnknownMemberId);
    assert_eq!(h.state(), Some(GroupState::PreparingRebalance));
}

#[test]
fn nobody_is_fenced_by_a_restart_of_the_coordinator() {
    let mut h = Harness::new();
    let (a, b) = stable_pair(&mut h);
    h.advance(9_000);
    h.restart();
    h.advance(9_000);
    for (id, name) in [(&a, "a"), (&b, "b")] {
        let request = HeartbeatRequest { group_id: "g", generation: 2, member_id: id, instance_id: Some(name) };
        assert_eq!(h.shard.heartbeat(h.now, &request), ErrorCode::None);
    }
}

#[test]
fn a_second_process_with_the_same_instance_id_fences_the_one_that_waits() {
    let mut h = Harness::new();
    let (a, _) = stable_pair(&mut h);
    // The leader asks for a rebalance and waits; another process takes its name.
    let waiting = h.send_join(JoinRequest { member_id: a, ..instance("a") });
    assert!(!h.replies.contains_key(&waiting));
    h.send_join(instance("a"));
    h.join_reply(waiting, ErrorCode::FencedInstanceId);
}

#[test]
fn an_administrator_removes_a_member_by_its_instance_id() {
    let mut h = Harness::new();
    let (a, _) = stable_pair(&mut h);
    assert_eq!(h.leave("", Some("nobody")).members[0].2, ErrorCode::UnknownMemberId);
    assert_eq!(h.leave(&a, Some("b")).members[0].2, ErrorCode::FencedInstanceId);
    assert_eq!(h.state(), Some(GroupState::Stable));
    assert_eq!(h.leave("", Some("b")).members[0].2, ErrorCode::None);
    assert_eq!(h.state(), Some(GroupState::PreparingRebalance));
}

#[test]
fn a_change_of_protocol_makes_the_group_rebalance() {
    let mut h = Harness::new();
    let first = h.send_join(instance("a"));
    let a = h.join_reply(first, ErrorCode::None).member_id;
    h.send_sync(&a, 1, &[(&a, "all")]);
    let sticky = Protocol { name: "sticky".to_owned(), metadata: subscription("t") };
    let mut changed = instance("a");
    changed.protocols.insert(0, sticky);
    let back = h.send_join(changed);
    let reply = h.join_reply(back, ErrorCode::None);
    assert_eq!((reply.generation, reply.protocol_name.as_deref()), (2, Some("sticky")));
}

#[test]
fn a_replacement_that_cannot_be_written_is_undone() {
    let mut h = Harness::new();
    let (_, b) = stable_pair(&mut h);
    h.hold = true;
    let back = h.send_join(instance("b"));
    assert!(!h.replies.contains_key(&back));
    h.fail_held(ErrorCode::NotEnoughReplicas);
    h.join_reply(back, ErrorCode::CoordinatorNotAvailable);
    let request = HeartbeatRequest { group_id: "g", generation: 2, member_id: &b, instance_id: Some("b") };
    assert_eq!(h.shard.heartbeat(h.now, &request), ErrorCode::None);
}

#[test]
fn static_members_that_are_away_are_waited_for_without_spinning() {
    let mut h = Harness::new();
    let first = h.send_join(JoinRequest { rebalance_timeout_ms: 0, session_timeout_ms: 1_800_000, ..instance("a") });
    let a = h.join_reply(first, ErrorCode::None).member_id;
    h.send_sync(&a, 1, &[(&a, "all")]);
    // A dynamic member comes and goes; "a" never joins again.
    let (_, dynamic) = h.join(request());
    h.leave(&dynamic, None);
    h.advance(60_000);
    assert_eq!(h.shard.group("g").unwrap().members.len(), 1);
}

#[test]
fn nobody_is_told_an_id_that_cannot_be_written() {
    let mut h = Harness::new();
    let (a, _) = stable_pair(&mut h);
    let leader = h.send_join(JoinRequest { member_id: a.clone(), ..instance("a") });
    h.hold = true;
    let back = h.send_join(instance("b"));
    assert!(!h.replies.contains_key(&back) && !h.replies.contains_key(&leader), "the log does not know the new id yet");
    h.fail_held(ErrorCode::NotEnoughReplicas);
    for waiter in [leader, back] {
        assert_eq!(h.join_reply(waiter, ErrorCode::CoordinatorNotAvailable).member_id, "");
    }
    // They ask again, and the log takes it.
    let leader = h.send_join(JoinRequest { member_id: a, ..instance("a") });
    let back = h.send_join(instance("b"));
    let told = h.join_reply(back, ErrorCode::None);
    assert_eq!((told.generation, h.join_reply(leader, ErrorCode::None).generation), (3, 3));
    h.restart();
    let request = HeartbeatRequest { group_id: "g", generation: 3, member_id: &told.member_id, instance_id: Some("b") };
    assert_eq!(h.shard.heartbeat(h.now, &request), ErrorCode::IllegalGeneration, "known, and to join again");
}
