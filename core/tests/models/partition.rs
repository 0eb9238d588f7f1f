//! One partition, exhaustively: elections and the ISR, truncation by epoch, reassignment. The three models are the same
//! cluster (see [`cluster`](crate::cluster)) with other things that may go wrong, each as often as its bounds say.

use std::hash::Hash;

use stateright::{Model, Property};

use crate::cluster::{Cluster, Death, Flaw, Promise, Setup, Step};
use crate::{IS_LONG, breaks, holds};

/// How often something may still happen. What is not named here (fetching, learning, deciding, starting, coming back) may
/// happen at any time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Left {
    appends: u8,
    /// Brokers that are fenced though they live.
    fences: u8,
    /// Brokers whose process dies, or whose machine or disk does (see [`Partition::death`]).
    deaths: u8,
    /// Times that a follower out of step is proposed to leave.
    expiries: u8,
    /// Proposals that are lost, and decisions of which the leader never hears.
    unanswered: u8,
    moves: u8,
    cancels: u8,
}

#[derive(Debug, Clone, PartialEq, Hash)]
struct State {
    cluster: Cluster,
    left: Left,
}

/// The model of one partition.
#[derive(Debug, Clone)]
struct Partition {
    setup: Setup,
    left: Left,
    death: Death,
    /// Where a move takes the partition.
    target: Vec<usize>,
    /// Whether every state is tried for coming to rest, which costs as much as some fifty steps.
    must_recover: bool,
}

impl Partition {
    /// Steps that need no luck.
    fn ordinary(&self) -> impl Iterator<Item = Step> {
        let each = |broker| {
            let fetch = Step::Fetch { broker, records: usize::MAX };
            [fetch, Step::Learn { broker }, Step::Start { broker }, Step::Unfence { broker }]
        };
        (0..self.setup.brokers).flat_map(each).chain([Step::Decide { is_answered: true }])
    }
}

/// Takes one of what is left.
fn one_less(mut left: Left, count: impl Fn(&mut Left) -> &mut u8) -> Option<Left> {
    let count = count(&mut left);
    *count = count.checked_sub(1)?;
    Some(left)
}

impl Model for Partition {
    type State = State;
    /// A step, and what is left after it.
    type Action = (Step, Left);

    fn init_states(&self) -> Vec<State> {
        vec![State { cluster: Cluster::new(self.setup), left: self.left }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Self::Action>) {
        if state.cluster.broken.is_some() {
            return;
        }
        let left = state.left;
        let mut add = |step: Step, left: Option<Left>| {
            if let Some(left) = left.filter(|_| state.cluster.allows(&step)) {
                actions.push((step, left));
            }
        };
        self.ordinary().for_each(|step| add(step, Some(left)));
        add(Step::Append { records: 1 }, one_less(left, |left| &mut left.appends));
        add(Step::Expire, one_less(left, |left| &mut left.expiries));
        add(Step::Decide { is_answered: false }, one_less(left, |left| &mut left.unanswered));
        add(Step::Lose, one_less(left, |left| &mut left.unanswered));
        for broker in 0..self.setup.brokers {
            add(Step::Die { broker, death: self.death }, one_less(left, |left| &mut left.deaths));
            add(Step::Fence { broker }, one_less(left, |left| &mut left.fences));
        }
        add(Step::Reassign { replicas: self.target.clone() }, one_less(left, |left| &mut left.moves));
        add(Step::CancelReassignment, one_less(left, |left| &mut left.cancels));
    }

    fn next_state(&self, state: &State, (step, left): Self::Action) -> Option<State> {
        let mut cluster = state.cluster.clone();
        cluster.take(step);
        Some(State { cluster, left })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the leader has every committed record", |_, it: &State| it.keeps(Promise::LeaderHasAll)),
            Property::always("whoever is trusted has every committed record", |_, it: &State| {
                it.keeps(Promise::TrustedHaveAll)
            }),
            Property::always("one record is committed at an offset", |_, it: &State| {
                it.keeps(Promise::OneRecordAnOffset)
            }),
            Property::always("logs are the same below the high watermarks", |_, it: &State| {
                it.keeps(Promise::SameBelowWatermarks)
            }),
            Property::always("offset and epoch name a record", |_, it: &State| it.keeps(Promise::SameEpochSameRecord)),
            Property::always("high watermarks rise", |_, it: &State| it.keeps(Promise::WatermarkRises)),
            Property::always("the metadata are in order", |_, it: &State| it.keeps(Promise::MetadataInOrder)),
            Property::always("it comes to rest", |model: &Self, it: &State| {
                !model.must_recover || it.cluster.recovers()
            }),
            Property::sometimes("everything is committed", |model: &Self, it: &State| {
                it.cluster.committed() == usize::from(model.left.appends)
            }),
            Property::sometimes("another broker leads", |model: &Self, it: &State| {
                let is_calm = model.left.deaths + model.left.fences + model.left.moves == 0;
                is_calm || it.cluster.leader().is_some_and(|leader| leader != 0)
            }),
        ]
    }
}

impl State {
    fn keeps(&self, promise: Promise) -> bool {
        self.cluster.broken.as_ref().is_none_or(|(broken, _)| *broken != promise)
    }
}

/// Three replicas of which two must be in sync; a process dies, a follower falls behind.
fn election() -> Partition {
    Partition {
        setup: Setup { brokers: 3, replicas: 3, min_in_sync: 2, step_ms: 0, flaw: None },
        left: Left { appends: 1, deaths: 1, expiries: 1, unanswered: u8::from(IS_LONG), ..Left::default() },
        death: Death::Process,
        target: Vec::new(),
        must_recover: false,
    }
}

/// Two replicas of which one is enough, so that each may lead without the other; leaders write without knowing that they
/// were replaced.
fn truncation() -> Partition {
    let appends = if IS_LONG { 3 } else { 2 };
    Partition {
        setup: Setup { brokers: 2, replicas: 2, min_in_sync: 1, step_ms: 0, flaw: None },
        left: Left { appends, fences: 2, deaths: u8::from(IS_LONG), ..Left::default() },
        must_recover: true,
        ..election()
    }
}

/// A partition on brokers 0 and 1 moves to 2 and 1, and may be called back; a broker is fenced meanwhile.
fn reassignment() -> Partition {
    Partition {
        setup: Setup { brokers: 3, replicas: 2, min_in_sync: 1, step_ms: 0, flaw: None },
        left: Left { appends: 1, fences: 1, moves: 1, cancels: 1, expiries: u8::from(IS_LONG), ..Left::default() },
        target: vec![2, 1],
        ..election()
    }
}

#[test]
fn an_election_takes_only_who_has_every_committed_record() {
    holds("election", election());
}

#[test]
fn an_election_comes_to_rest() {
    let left = Left { expiries: u8::from(IS_LONG), unanswered: 0, ..election().left };
    holds("election in peace", Partition { left, must_recover: true, ..election() });
}

#[test]
fn what_a_machine_loses_is_made_up_for() {
    let left = Left { expiries: u8::from(IS_LONG), unanswered: 0, ..election().left };
    holds("machine", Partition { left, death: Death::Machine, must_recover: true, ..election() });
}

#[test]
fn an_isr_changes_though_answers_get_lost() {
    holds("unanswered", unanswered());
}

#[test]
fn logs_that_part_are_cut_where_they_part() {
    holds("truncation", truncation());
}

#[test]
fn a_move_loses_nothing() {
    holds("reassignment", reassignment());
}

#[test]
fn a_move_ends_or_is_taken_back() {
    let left = Left { fences: u8::from(IS_LONG), expiries: 0, ..reassignment().left };
    holds("reassignment in peace", Partition { left, must_recover: true, ..reassignment() });
}

/// Answers that get lost, in a partition that must come to rest all the same.
fn unanswered() -> Partition {
    let left = Left { appends: 1, expiries: 1, unanswered: 1, ..Left::default() };
    Partition { left, must_recover: true, ..election() }
}

fn flawed(model: Partition, flaw: Flaw) -> Partition {
    Partition { setup: Setup { flaw: Some(flaw), ..model.setup }, ..model }
}

#[test]
fn wrong_rules_of_partitions_are_noticed() {
    let trusted = "whoever is trusted has every committed record";
    let death = Left { appends: 1, deaths: 1, ..Left::default() };
    let lag = Left { appends: 1, expiries: 1, ..Left::default() };
    let cases = [
        (Partition { left: death, ..election() }, Flaw::JoinsWithoutRecords, trusted),
        (election(), Flaw::CutsAtWatermark, trusted),
        (Partition { death: Death::Disk, ..election() }, Flaw::HidesLoss, trusted),
        (Partition { left: lag, ..election() }, Flaw::ShrinksBeforeAnswer, trusted),
        (truncation(), Flaw::NeverCuts, "logs are the same below the high watermarks"),
        (reassignment(), Flaw::DropsBeforeAdded, trusted),
        (unanswered(), Flaw::NeverRepeats, "it comes to rest"),
    ];
    for (model, flaw, promise) in cases {
        let steps = breaks(flawed(model, flaw), promise);
        println!("{flaw:?}: {:?}", steps.into_iter().map(|(step, _)| step).collect::<Vec<_>>());
    }
}
