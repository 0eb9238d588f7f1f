use super::*;
use crate::event::BrokerDuty;

const INTERVAL_MS: i64 = 300_000;

/// What is due after `command`, a second later, if nothing was before.
fn due_after(cluster: &mut Cluster, command: &Command) -> (bool, bool) {
    let mut tending = quiet();
    let decision = cluster.decide(command).unwrap();
    for event in &decision.events {
        cluster.image.apply(event).unwrap();
        tending.saw(event, &cluster.image, 1_000);
    }
    let mut due = (false, false);
    while let Some(work) = tending.due(2_000) {
        due = (due.0 || work.leaders, due.1 || work.replicas);
        tending.ran(work, Some(Tended::default()), 2_000);
    }
    due
}

/// Nothing is due before the interval is over.
fn quiet() -> Tending {
    let mut tending = Tending::begin(true, INTERVAL_MS, 0);
    for _ in 0..2 {
        let work = tending.due(900).unwrap();
        tending.ran(work, Some(Tended::default()), 900);
    }
    assert_eq!((tending.due(2_000), tending.next_due_ms()), (None, 900 + INTERVAL_MS));
    tending
}

#[test]
fn work_is_due_soon_after_what_may_make_some() {
    let mut cluster = Cluster::with_brokers(3);
    let id = cluster.create_on("t", &[&[0, 1, 2]]);
    let [first, second] = [0, 1].map(|id| cluster.identity(id));
    let set_isr = |cluster: &Cluster, isr: &[i32]| {
        let state = cluster.image.partition((id, 0)).unwrap();
        let change = IsrChange {
            topic_id: id,
            partition: 0,
            leader_epoch: state.leader_epoch,
            partition_epoch: state.partition_epoch,
            isr: isr.iter().map(|id| BrokerIdentity { id: BrokerId(*id), epoch: -1 }).collect(),
            recovering: false,
        };
        Command::AlterPartition(AlterPartition { broker: cluster.identity(state.leader.0), partitions: vec![change] })
    };
    assert_eq!(due_after(&mut cluster, &Command::FenceBroker(first)), (false, false), "nobody can take over from it");
    assert_eq!(due_after(&mut cluster, &Command::UnfenceBroker(first)), (true, true));
    let back = set_isr(&cluster, &[0, 1, 2]);
    assert_eq!(due_after(&mut cluster, &back), (true, false), "the preferred leader is in sync again");
    let drain = Command::SetBrokerDuty { broker: BrokerId(2), duty: BrokerDuty::Draining };
    assert_eq!(due_after(&mut cluster, &drain), (true, true));
    let shrink = set_isr(&cluster, &[1, 2]);
    assert_eq!(due_after(&mut cluster, &shrink), (false, true), "a move of the drain may have ended");
    assert_eq!(due_after(&mut cluster, &Command::FenceBroker(second)), (false, true));
}

#[test]
fn what_is_unfinished_is_due_again_and_the_rest_after_the_interval() {
    let mut tending = Tending::begin(true, INTERVAL_MS, 0);
    assert_eq!(tending.due(499), None, "a controller that has just become active has its hands full");
    let leaders = tending.due(500).unwrap();
    assert!(leaders.leaders && !leaders.replicas);
    let unfinished = Some(Tended { is_unfinished: true, ..Tended::default() });
    tending.ran(leaders, unfinished, 600);
    assert_eq!(tending.due(600), Some(leaders), "more elections at once");
    tending.ran(leaders, None, 700);
    let replicas = tending.due(700).unwrap();
    assert!(replicas.replicas && !replicas.leaders);
    tending.ran(replicas, unfinished, 800);
    assert_eq!(tending.next_due_ms(), 1_700, "a proposal that failed is made again, not at once");
    tending.ran(tending.due(1_700).unwrap(), Some(Tended::default()), 1_700);
    assert_eq!(tending.due(1_800), Some(replicas), "moves are under way");
    tending.ran(replicas, Some(Tended::default()), 1_800);
    assert_eq!(tending.next_due_ms(), 1_700 + INTERVAL_MS);
}

#[test]
fn leaders_stay_where_they_are_if_nobody_wants_them_back() {
    let mut tending = Tending::begin(false, INTERVAL_MS, 0);
    tending.saw_everything(0);
    let work = tending.due(INTERVAL_MS).unwrap();
    assert!(work.replicas && !work.leaders);
    tending.ran(work, Some(Tended::default()), 500);
    assert_eq!(tending.due(INTERVAL_MS), None);
}
