//! Random walks through the cluster, far longer than what can be looked at exhaustively: whatever happens, as long as nobody
//! asks for an unclean election no promise is broken.

use proptest::prelude::*;

use crate::cluster::{Cluster, Death, Flaw, Setup, Step};

const BROKERS: usize = 4;

fn steps() -> impl Strategy<Value = Step> {
    let broker = 0..BROKERS;
    let death = prop_oneof![Just(Death::Process), Just(Death::Machine), Just(Death::Disk)];
    let replicas = Just((0..BROKERS).collect::<Vec<_>>()).prop_shuffle();
    prop_oneof![
        6 => (1..4_usize).prop_map(|records| Step::Append { records }),
        16 => (broker.clone(), 0..5_usize).prop_map(|(broker, records)| Step::Fetch { broker, records }),
        2 => Just(Step::Expire),
        5 => any::<bool>().prop_map(|is_answered| Step::Decide { is_answered }),
        1 => Just(Step::Lose),
        12 => broker.clone().prop_map(|broker| Step::Learn { broker }),
        2 => broker.clone().prop_map(|broker| Step::Force { broker }),
        2 => (broker.clone(), death).prop_map(|(broker, death)| Step::Die { broker, death }),
        5 => broker.clone().prop_map(|broker| Step::Start { broker }),
        2 => broker.clone().prop_map(|broker| Step::Fence { broker }),
        6 => broker.clone().prop_map(|broker| Step::Unfence { broker }),
        1 => broker.prop_map(|broker| Step::BeginShutdown { broker }),
        1 => Just(Step::Prefer),
        1 => (replicas, 2..4_usize).prop_map(|(replicas, count)| Step::Reassign { replicas: replicas[..count].to_vec() }),
        1 => Just(Step::CancelReassignment),
        1 => (1..4_usize).prop_map(|min_in_sync| Step::SetMinimum { min_in_sync }),
    ]
}

fn setup(min_in_sync: usize, flaw: Option<Flaw>) -> Setup {
    Setup { brokers: BROKERS, replicas: 3, min_in_sync, step_ms: 10, flaw }
}

fn run(setup: Setup, steps: &[Step]) -> Cluster {
    let mut cluster = Cluster::new(setup);
    steps.iter().cloned().for_each(|step| cluster.take(step));
    cluster
}

proptest! {
    #[test]
    fn no_leader_lacks_what_was_committed(
        min_in_sync in 1..4_usize,
        steps in proptest::collection::vec(steps(), 0..250),
    ) {
        prop_assert_eq!(run(setup(min_in_sync, None), &steps).broken, None);
    }
}

#[test]
fn the_model_notices_when_a_broker_hides_that_its_disk_is_empty() {
    let steps = [
        Step::Append { records: 2 },
        Step::Fetch { broker: 1, records: 2 },
        Step::Fetch { broker: 2, records: 2 },
        Step::Fetch { broker: 1, records: 0 },
        Step::Fetch { broker: 2, records: 0 },
        Step::Die { broker: 1, death: Death::Disk },
        Step::Start { broker: 1 },
        Step::Learn { broker: 1 },
    ];
    assert_eq!(run(setup(3, None), &steps).broken, None);
    assert_eq!(run(setup(3, None), &steps[..6]).committed(), 2);
    assert!(run(setup(3, Some(Flaw::HidesLoss)), &steps).broken.is_some(), "it counts as eligible, and has nothing");
}
