//! Grants, exhaustively: two operators, of which the second takes over when the first has died, or while it does not know,
//! restart three brokers one by one. The controller is core's [`decide`].
//!
//! An operator takes a broker down only by a grant that is still open by its clock, and only the very process that it saw
//! when it was given the grant (the pod's uid). It gives a grant back only when the brokers are back, and otherwise lets it
//! expire: a successor that gave back a grant unused could not know that its predecessor is not about to use it, which the
//! model shows ([`Flaw::ReturnsUnused`]).

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use stateright::{Model, Property};
use taffrail_core::config::Overrides;
use taffrail_core::control::{
    AlterPartition, BrokerIdentity, CloseGrant, Command, CreateTopics, Inputs, IsrChange, Lags, NewTopic, OpenGrant,
    RegisterBroker, ReplicaAssignment, Reply, SmallPartitions, decide,
};
use taffrail_core::event::{Grant, Listener, SecurityProtocol};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;

use crate::{IS_LONG, breaks, holds};

const BROKERS: usize = 3;
const MIN_IN_SYNC: usize = 2;
const TOPIC: Uuid = Uuid([1; 16]);
/// How long a grant is open, and how far a tick of the clock goes.
const GRANT_MS: i64 = 1_000;

/// A rule that is replaced by a wrong one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// An operator takes down what it was refused.
    IgnoresRefusal,
    /// An operator takes a broker down by a grant that has expired.
    IgnoresExpiry,
    /// An operator takes down whatever process has the broker's number.
    IgnoresProcess,
    /// An operator gives back a grant that was not used.
    ReturnsUnused,
    /// An operator that was replaced speaks with its successor's epoch.
    ClaimsEpoch,
    /// An operator that takes over does not take over the grant that is open.
    NeverAdopts,
}

/// An operator, as far as it knows.
#[derive(Debug, Clone, PartialEq, Hash)]
struct Operator {
    epoch: i64,
    is_dead: bool,
    /// The grant that it holds, with the processes that it was given for.
    holds: Option<(Grant, Vec<BrokerIdentity>)>,
}

#[derive(Debug, Clone, PartialEq)]
struct State {
    image: MetadataImage,
    now_ms: i64,
    operators: Vec<Operator>,
    /// Which brokers' processes run.
    is_up: [bool; BROKERS],
    restarted: [bool; BROKERS],
    ticks: u8,
    broken: Option<&'static str>,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for broker in self.image.brokers().values() {
            (broker.id, broker.epoch, broker.fenced).hash(state);
        }
        self.image.partition((TOPIC, 0)).hash(state);
        (self.image.grant(), self.image.operator_epoch(), self.now_ms).hash(state);
        (&self.operators, self.is_up, self.restarted, self.ticks, self.broken).hash(state);
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Action {
    /// An operator asks for a grant.
    Ask { operator: usize, brokers: Vec<usize> },
    /// An operator takes down what it has a grant for.
    TakeDown { operator: usize },
    /// An operator gives its grant back.
    GiveBack { operator: usize },
    /// Another operator leads: the first one has died, or does not know.
    TakeOver { is_first_dead: bool },
    /// A broker's process starts again.
    Start { broker: usize },
    /// A broker is in sync again.
    CatchUp { broker: usize },
    /// Grants expire.
    Tick,
}

/// The model.
#[derive(Debug, Clone, Copy)]
struct Grants {
    /// How often grants expire.
    ticks: u8,
    flaw: Option<Flaw>,
}

fn id(broker: usize) -> BrokerId {
    BrokerId(broker as i32)
}

fn run(image: &mut MetadataImage, now_ms: i64, command: &Command) -> Option<Reply> {
    let fresh_ids = vec![TOPIC; command.ids_needed()];
    let (config, lags) = (Overrides::new(), Lags::default());
    let inputs = Inputs { fresh_ids: &fresh_ids, live_brokers: &[], static_config: &config, now_ms, lags: &lags };
    let decision = decide(image, command, &inputs).ok()?;
    decision.events.iter().for_each(|event| image.apply(event).unwrap());
    Some(decision.reply)
}

impl State {
    fn new() -> Self {
        let mut state = Self {
            image: MetadataImage::default(),
            now_ms: 0,
            operators: vec![Operator { epoch: 1, is_dead: false, holds: None }],
            is_up: [false; BROKERS],
            restarted: [false; BROKERS],
            ticks: 0,
            broken: None,
        };
        state.command(&Command::CreateCluster { cluster_id: Uuid([9; 16]) });
        (0..BROKERS).for_each(|broker| state.start(broker));
        state.restarted = [false; BROKERS];
        let topic = NewTopic {
            assignments: vec![ReplicaAssignment { partition: 0, replicas: (0..BROKERS).map(id).collect() }],
            configs: vec![("min.insync.replicas".into(), Some(MIN_IN_SYNC.to_string().into()))],
            id: Some(TOPIC),
            ..NewTopic::new("t")
        };
        state.command(&Command::CreateTopics(CreateTopics { topics: vec![topic], validate_only: false }));
        state
    }

    fn command(&mut self, command: &Command) -> Option<Reply> {
        run(&mut self.image, self.now_ms, command)
    }

    fn identity(&self, broker: BrokerId) -> BrokerIdentity {
        BrokerIdentity { id: broker, epoch: self.image.broker(broker).map_or(-1, |it| it.epoch) }
    }

    fn start(&mut self, broker: usize) {
        let lives = self.image.offset() as u8;
        let listener = Listener { name: "A".into(), host: "h".into(), port: 1, security: SecurityProtocol::Plaintext };
        let request = RegisterBroker {
            id: id(broker),
            cluster_id: None,
            incarnation: Uuid([lives; 16]),
            rack: None,
            listeners: vec![listener],
            log_dirs: vec![Uuid([100 + broker as u8; 16])],
            features: Default::default(),
            unclean_shutdown: false,
            min_in_sync: None,
        };
        self.command(&Command::RegisterBroker(request));
        let identity = self.identity(id(broker));
        self.command(&Command::UnfenceBroker(identity));
        (self.is_up[broker], self.restarted[broker]) = (true, true);
    }

    fn catch_up(&mut self, broker: usize) {
        let Some(state) = self.image.partition((TOPIC, 0)).cloned() else { return };
        let members = state.replicas.iter().filter(|it| state.isr.contains(it) || **it == id(broker));
        let isr = members.map(|it| self.identity(*it)).collect();
        let (leader_epoch, partition_epoch) = (state.leader_epoch, state.partition_epoch);
        let change = IsrChange { topic_id: TOPIC, partition: 0, leader_epoch, partition_epoch, isr, recovering: false };
        let broker = self.identity(state.leader);
        self.command(&Command::AlterPartition(AlterPartition { broker, partitions: vec![change] }));
    }

    fn ask(&mut self, operator: usize, brokers: &[usize], flaw: Option<Flaw>) {
        let brokers: BTreeSet<BrokerId> = brokers.iter().copied().map(id).collect();
        let own = self.operators[operator].epoch;
        let is_replaced = self.image.operator_epoch() > own;
        let operator_epoch = if flaw == Some(Flaw::ClaimsEpoch) { own.max(self.image.operator_epoch()) } else { own };
        let policy = SmallPartitions::default();
        let command =
            Command::OpenGrant(OpenGrant { brokers: brokers.clone(), operator_epoch, duration_ms: GRANT_MS, policy });
        let processes = brokers.iter().map(|broker| self.identity(*broker)).collect();
        let grant = match self.command(&command) {
            Some(Reply::GrantOpened(grant)) => grant,
            _ if flaw == Some(Flaw::IgnoresRefusal) => {
                Grant { id: -1, brokers, operator_epoch, expires_ms: self.now_ms + GRANT_MS }
            }
            _ => return,
        };
        if is_replaced {
            self.broken = Some("an operator that was replaced is heard");
        }
        self.operators[operator].holds = Some((grant, processes));
    }

    fn take_down(&mut self, operator: usize) {
        let Some((_, processes)) = self.operators[operator].holds.clone() else { return };
        for process in processes {
            let present = self.identity(process.id);
            self.command(&Command::FenceBroker(present));
            self.is_up[process.id.0 as usize] = false;
        }
        let in_sync = self.image.partition((TOPIC, 0)).map_or(0, |state| state.isr.len());
        if in_sync < MIN_IN_SYNC {
            self.broken = Some("a grant takes a partition below its minimum");
        }
    }

    fn give_back(&mut self, operator: usize) {
        let Some((grant, _)) = self.operators[operator].holds.take() else { return };
        let close = CloseGrant { id: grant.id, operator_epoch: self.operators[operator].epoch };
        self.command(&Command::CloseGrant(close));
    }

    fn is_in_sync(&self, broker: BrokerId) -> bool {
        self.image.partition((TOPIC, 0)).is_some_and(|state| state.isr.contains(&broker))
    }
}

impl Grants {
    /// Whether `operator` would take its brokers down now.
    fn takes_down(&self, state: &State, operator: &Operator) -> bool {
        let Some((grant, processes)) = &operator.holds else { return false };
        let is_open = grant.is_open(state.now_ms) || self.flaw == Some(Flaw::IgnoresExpiry);
        let is_same = |process: &BrokerIdentity| {
            state.identity(process.id) == *process || self.flaw == Some(Flaw::IgnoresProcess)
        };
        is_open && processes.iter().all(|it| is_same(it) && state.is_up[it.id.0 as usize])
    }

    /// Whether `operator` is done with its grant.
    fn gives_back(&self, state: &State, operator: &Operator) -> bool {
        let Some((grant, _)) = &operator.holds else { return false };
        let is_back = |broker: &BrokerId| state.restarted[broker.0 as usize] && state.is_in_sync(*broker);
        grant.brokers.iter().all(is_back) || self.flaw == Some(Flaw::ReturnsUnused) || !grant.is_open(state.now_ms)
    }

    /// What `operator` would ask for: first what is granted already, then what is not restarted yet.
    fn wishes(&self, state: &State) -> Vec<Vec<usize>> {
        let granted = state.image.grant().filter(|grant| grant.is_open(state.now_ms));
        if let Some(grant) = granted.filter(|_| self.flaw != Some(Flaw::NeverAdopts)) {
            return vec![grant.brokers.iter().map(|broker| broker.0 as usize).collect()];
        }
        let waiting: Vec<usize> = (0..BROKERS).filter(|broker| !state.restarted[*broker]).collect();
        let single = waiting.iter().map(|broker| vec![*broker]);
        single.chain((waiting.len() > 1).then(|| waiting[..2].to_vec())).collect()
    }
}

impl Model for Grants {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for (operator, it) in state.operators.iter().enumerate().filter(|(_, it)| !it.is_dead) {
            if it.holds.is_none() {
                actions.extend(self.wishes(state).into_iter().map(|brokers| Action::Ask { operator, brokers }));
            }
            if self.takes_down(state, it) {
                actions.push(Action::TakeDown { operator });
            }
            if self.gives_back(state, it) {
                actions.push(Action::GiveBack { operator });
            }
        }
        if state.operators.len() == 1 {
            actions.extend([true, false].map(|is_first_dead| Action::TakeOver { is_first_dead }));
        }
        for broker in 0..BROKERS {
            if !state.is_up[broker] {
                actions.push(Action::Start { broker });
            } else if !state.is_in_sync(id(broker)) {
                actions.push(Action::CatchUp { broker });
            }
        }
        if state.ticks < self.ticks {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Ask { operator, brokers } => next.ask(operator, &brokers, self.flaw),
            Action::TakeDown { operator } => next.take_down(operator),
            Action::GiveBack { operator } => next.give_back(operator),
            Action::TakeOver { is_first_dead } => {
                next.operators[0].is_dead = is_first_dead;
                next.operators.push(Operator { epoch: 2, is_dead: false, holds: None });
            }
            Action::Start { broker } => next.start(broker),
            Action::CatchUp { broker } => next.catch_up(broker),
            Action::Tick => {
                next.now_ms += GRANT_MS;
                next.ticks += 1;
            }
        }
        // A refusal changes nothing, and is no step.
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no grant takes a partition below its minimum", |_, it: &State| {
                it.broken != Some("a grant takes a partition below its minimum")
            }),
            Property::always("an operator that was replaced is not heard", |_, it: &State| {
                it.broken != Some("an operator that was replaced is heard")
            }),
            Property::eventually("every broker is restarted", |_, it: &State| {
                it.restarted == [true; BROKERS] || it.broken.is_some()
            }),
            Property::sometimes("the successor restarts a broker", |_, it: &State| {
                it.operators.get(1).is_some_and(|it| it.holds.is_some())
            }),
        ]
    }
}

#[test]
fn grants_restart_every_broker_and_never_too_many_at_once() {
    holds("grants", Grants { ticks: if IS_LONG { 3 } else { 1 }, flaw: None });
}

#[test]
fn wrong_rules_of_grants_are_noticed() {
    let minimum = "no grant takes a partition below its minimum";
    let cases = [
        (Flaw::IgnoresRefusal, minimum),
        (Flaw::IgnoresExpiry, minimum),
        (Flaw::IgnoresProcess, minimum),
        (Flaw::ReturnsUnused, minimum),
        (Flaw::ClaimsEpoch, "an operator that was replaced is not heard"),
        (Flaw::NeverAdopts, "every broker is restarted"),
    ];
    for (flaw, promise) in cases {
        println!("{flaw:?}: {:?}", breaks(Grants { ticks: 1, flaw: Some(flaw) }, promise));
    }
}
