//! A small cluster of nothing but core's rules: brokers that die, lose what they had not forced to disk or all of it, and
//! see the metadata late; a controller; messages that get lost. Whatever happens, as long as nobody asks for an unclean
//! election no leader lacks a record that was committed, and the metadata keep their own promises.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use taffrail_core::config::Overrides;
use taffrail_core::control::{
    AlterConfigs, AlterPartition, BrokerIdentity, Command, ConfigAlteration, ConfigChanges, ConfigOp, ConfigOperation,
    ControlError, CreateTopics, ElectLeaders, ElectionKind, Inputs, IsrChange, Lags, NewTopic, ReassignPartitions,
    Reassignment, RegisterBroker, ReplicaAssignment, Reply, decide,
};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{ConfigResource, Listener, PartitionState, SecurityProtocol};
use taffrail_core::ids::{BrokerId, LeaderEpoch, Offset, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_core::partition::divergence::{diverging, truncation};
use taffrail_core::partition::{EpochHistory, FollowerFetch, Leadership, check_leader_epoch, follower_high_watermark};

const BROKERS: usize = 4;
const TOPIC: Uuid = Uuid([1; 16]);
const MIN_IN_SYNC: &str = "min.insync.replicas";
const LAG_MAX_MS: i64 = 100;
const STEP_MS: i64 = 10;

/// How a broker goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    /// Its process dies: everything written is still in the page cache.
    Process,
    /// Its machine dies: what was not forced to disk is gone.
    Machine,
    /// Its disk is replaced.
    Disk,
}

#[derive(Debug, Clone)]
enum Step {
    Append {
        records: usize,
    },
    Fetch {
        broker: usize,
        records: usize,
    },
    Expire,
    /// The controller gets the oldest proposal; its answer arrives, or does not.
    Decide {
        is_answered: bool,
    },
    /// A proposal is lost; its leader tries again.
    Lose,
    /// A broker sees the metadata as they are now.
    Learn {
        broker: usize,
    },
    Force {
        broker: usize,
    },
    Die {
        broker: usize,
        death: Death,
    },
    Start {
        broker: usize,
    },
    Fence {
        broker: usize,
    },
    Unfence {
        broker: usize,
    },
    BeginShutdown {
        broker: usize,
    },
    Prefer,
    Reassign {
        replicas: Vec<usize>,
    },
    CancelReassignment,
    SetMinimum {
        min_in_sync: usize,
    },
}

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

/// A record: the epoch that it was written under, and a number that no other record has.
type Record = (LeaderEpoch, u64);

#[derive(Debug, Default)]
struct Broker {
    is_alive: bool,
    /// Epoch of its registration.
    epoch: i64,
    disk: Uuid,
    /// What it may not have any more, until its next registration says so.
    loss: Option<Death>,
    log: Vec<Record>,
    /// How much of the log is on the disk for good.
    forced: usize,
    high_watermark: Offset,
    image: MetadataImage,
    leadership: Option<Leadership>,
}

impl Broker {
    fn end(&self) -> Offset {
        self.log.len() as Offset
    }

    fn history(&self) -> EpochHistory {
        let mut history = EpochHistory::default();
        for (offset, (epoch, _)) in (0..).zip(&self.log) {
            history.assign(*epoch, offset);
        }
        // A leader's own epoch begins where it took over, before anything is written under it.
        if let Some(leadership) = &self.leadership {
            history.assign(leadership.leader_epoch(), self.end());
        }
        history
    }

    fn min_in_sync(&self) -> usize {
        let set = self.image.overrides(&ConfigResource::topic("t"));
        set.and_then(|set| set.get(MIN_IN_SYNC)?.parse().ok()).unwrap_or(1)
    }

    fn truncate(&mut self, offset: Offset) {
        self.log.truncate(offset as usize);
        self.forced = self.forced.min(self.log.len());
        self.high_watermark = self.high_watermark.min(self.end());
    }
}

struct Cluster {
    image: MetadataImage,
    brokers: Vec<Broker>,
    /// Proposals on their way to the controller, with the brokers that made them.
    proposals: Vec<(usize, IsrChange)>,
    /// Everything that was ever below a high watermark.
    committed: Vec<Record>,
    records: u64,
    ids: u8,
    now_ms: i64,
    /// Whether brokers tell what their disks have lost. They must; without it the model must find a loss.
    is_honest: bool,
}

fn ids(numbers: impl IntoIterator<Item = usize>) -> Vec<BrokerId> {
    numbers.into_iter().map(|number| BrokerId(number as i32)).collect()
}

impl Cluster {
    /// Brokers 0 to 3 serve, and a topic of one partition lies on the first three.
    fn new(min_in_sync: usize, is_honest: bool) -> Self {
        let mut cluster = Self {
            image: MetadataImage::default(),
            brokers: (0..BROKERS).map(|_| Broker::default()).collect(),
            proposals: Vec::new(),
            committed: Vec::new(),
            records: 0,
            ids: 100,
            now_ms: 0,
            is_honest,
        };
        cluster.propose(&Command::CreateCluster { cluster_id: Uuid([9; 16]) }).unwrap();
        for broker in 0..BROKERS {
            cluster.start(broker);
            cluster.learn(broker);
            cluster.unfence(broker);
        }
        let topic = NewTopic {
            assignments: vec![ReplicaAssignment { partition: 0, replicas: ids(0..3) }],
            configs: vec![(MIN_IN_SYNC.into(), Some(min_in_sync.to_string().into()))],
            id: Some(TOPIC),
            ..NewTopic::new("t")
        };
        let create = CreateTopics { topics: vec![topic], validate_only: false };
        cluster.propose(&Command::CreateTopics(create)).unwrap();
        (0..BROKERS).for_each(|broker| cluster.learn(broker));
        cluster
    }

    fn fresh_id(&mut self) -> Uuid {
        self.ids = self.ids.wrapping_add(1);
        Uuid([self.ids, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, self.ids])
    }

    fn propose(&mut self, command: &Command) -> Result<Reply, ControlError> {
        let fresh_ids = [self.fresh_id()];
        let lags = Lags::default();
        let inputs = Inputs {
            fresh_ids: &fresh_ids,
            live_brokers: &[],
            static_config: &Overrides::new(),
            now_ms: self.now_ms,
            lags: &lags,
        };
        let before = self.partition();
        let decision = decide(&self.image, command, &inputs)?;
        for event in &decision.events {
            self.image.apply(event).unwrap();
        }
        if let (Some(before), Some(after)) = (before, self.partition()) {
            check_progress(&before, &after);
        }
        Ok(decision.reply)
    }

    fn partition(&self) -> Option<Arc<PartitionState>> {
        self.image.partition((TOPIC, 0)).cloned()
    }

    fn identity(&self, broker: usize) -> BrokerIdentity {
        BrokerIdentity { id: BrokerId(broker as i32), epoch: self.brokers[broker].epoch }
    }

    /// The broker that leads as far as it knows itself; there may be several, of which the newest is meant.
    fn leader(&self) -> Option<usize> {
        let epoch = |broker: &Broker| broker.leadership.as_ref().map(Leadership::leader_epoch);
        (0..BROKERS).filter(|id| epoch(&self.brokers[*id]).is_some()).max_by_key(|id| epoch(&self.brokers[*id]))
    }

    fn take(&mut self, step: Step) {
        self.now_ms += STEP_MS;
        match step {
            Step::Append { records } => self.append(records),
            Step::Fetch { broker, records } => self.fetch(broker, records),
            Step::Expire => self.expire(),
            Step::Decide { is_answered } => self.decide(is_answered),
            Step::Lose => self.lose(),
            Step::Learn { broker } => self.learn(broker),
            Step::Force { broker } => self.brokers[broker].forced = self.brokers[broker].log.len(),
            Step::Die { broker, death } => self.die(broker, death),
            Step::Start { broker } => self.start(broker),
            Step::Fence { broker } => self.tell_controller(broker, Command::FenceBroker),
            Step::Unfence { broker } => self.unfence(broker),
            Step::BeginShutdown { broker } => self.tell_controller(broker, Command::BeginShutdown),
            Step::Prefer => {
                let elect = ElectLeaders { kind: ElectionKind::Preferred, partitions: None };
                self.propose(&Command::ElectLeaders(elect)).unwrap();
            }
            Step::Reassign { replicas } => self.reassign(Some(ids(replicas))),
            Step::CancelReassignment => self.reassign(None),
            Step::SetMinimum { min_in_sync } => self.set_minimum(min_in_sync),
        }
        self.commit();
        self.check();
    }

    /// Every leader appends: also one that does not know yet that another one leads.
    fn append(&mut self, records: usize) {
        for broker in &mut self.brokers {
            let min_in_sync = broker.min_in_sync();
            let Some(leadership) = &broker.leadership else { continue };
            if leadership.check_append(min_in_sync).is_err() {
                continue;
            }
            for _ in 0..records {
                self.records += 1;
                broker.log.push((leadership.leader_epoch(), self.records));
            }
        }
    }

    /// A follower fetches from the leader that it knows of.
    fn fetch(&mut self, id: usize, records: usize) {
        let follower = &self.brokers[id];
        let Some(state) = follower.image.partition((TOPIC, 0)).filter(|_| follower.is_alive).cloned() else { return };
        let leader = state.leader.0 as usize;
        let is_follower = state.has_leader() && leader != id && state.replicas.contains(&BrokerId(id as i32));
        if !is_follower || !self.brokers[leader].is_alive {
            return;
        }
        let Some(epoch) = self.brokers[leader].leadership.as_ref().map(Leadership::leader_epoch) else { return };
        if check_leader_epoch(epoch, state.leader_epoch).is_err() {
            return;
        }
        let last_epoch = follower.log.last().map_or(-1, |(epoch, _)| *epoch);
        let (offset, own_history) = (follower.end(), follower.history());
        let (leader_end, leaders_history) = (self.brokers[leader].end(), self.brokers[leader].history());
        match diverging(|epoch| leaders_history.end_offset_for(epoch, leader_end), offset, last_epoch) {
            Err(_) => return,
            Ok(Some(end)) => {
                let cut = truncation(&own_history, offset, end);
                self.brokers[id].truncate(cut.offset);
                return;
            }
            Ok(None) if offset > leader_end => return self.brokers[id].truncate(leader_end),
            Ok(None) => {}
        }
        let broker = BrokerId(id as i32);
        let fetch = FollowerFetch { broker, broker_epoch: self.brokers[id].epoch, log_start: 0, offset };
        let leading = &mut self.brokers[leader];
        let registered = leading.image.broker(broker).map(|it| it.epoch);
        let (high_watermark, image, now_ms) = (leading.high_watermark, leading.image.clone(), self.now_ms);
        let Some(leadership) = &mut leading.leadership else { return };
        if leadership.fetched(fetch, registered, leader_end, now_ms).is_err() {
            return;
        }
        if let Some(change) = leadership.propose_join(broker, high_watermark, &image) {
            self.proposals.push((leader, change));
        }
        let from = offset as usize;
        let copied: Vec<Record> = leading.log[from..].iter().take(records).copied().collect();
        let follower = &mut self.brokers[id];
        follower.log.extend(copied);
        follower.high_watermark = follower_high_watermark(follower.high_watermark, high_watermark, follower.end());
    }

    fn expire(&mut self) {
        for (id, broker) in self.brokers.iter_mut().enumerate() {
            let end = broker.end();
            let Some(leadership) = &mut broker.leadership else { continue };
            let change = leadership.propose_leave(end, LAG_MAX_MS, self.now_ms);
            self.proposals.extend(change.map(|change| (id, change)));
        }
    }

    fn decide(&mut self, is_answered: bool) {
        if self.proposals.is_empty() {
            return;
        }
        let (id, change) = self.proposals.remove(0);
        let request = AlterPartition { broker: self.identity(id), partitions: vec![change.clone()] };
        let outcome = match self.propose(&Command::AlterPartition(request)) {
            Ok(Reply::PartitionsAltered(mut partitions)) => partitions.remove(0).outcome.map_err(|error| error.code),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.code),
        };
        if is_answered {
            // An answer is heard only by who has applied the metadata that it was decided from.
            self.learn(id);
            self.hear(id, &change, outcome);
        } else {
            self.hear(id, &change, Err(ErrorCode::RequestTimedOut));
        }
    }

    fn lose(&mut self) {
        if !self.proposals.is_empty() {
            let (id, change) = self.proposals.remove(0);
            self.hear(id, &change, Err(ErrorCode::NotController));
        }
    }

    fn hear(&mut self, id: usize, change: &IsrChange, outcome: Result<Arc<PartitionState>, ErrorCode>) {
        use taffrail_core::partition::AfterProposal;
        let Some(leadership) = &mut self.brokers[id].leadership else { return };
        let after = leadership.answered(change, outcome.as_ref().map_err(|code| *code));
        if after == AfterProposal::Retry {
            self.proposals.push((id, change.clone()));
        }
    }

    fn learn(&mut self, id: usize) {
        if !self.brokers[id].is_alive {
            return;
        }
        let (image, now_ms, own) = (self.image.clone(), self.now_ms, self.identity(id));
        let broker = &mut self.brokers[id];
        broker.image = image;
        let Some(state) = broker.image.partition((TOPIC, 0)).cloned() else { return };
        let end = broker.end();
        // A process leads only what was given to it, not to an earlier one.
        let is_own = broker.image.broker(own.id).is_some_and(|it| it.epoch == own.epoch && !it.fenced);
        if state.leader != own.id || !is_own {
            broker.leadership = None;
        } else if let Some(leadership) = &mut broker.leadership {
            leadership.follow(&state, end, now_ms);
        } else {
            broker.leadership = Some(Leadership::begin((TOPIC, 0), own, state, end, now_ms));
        }
    }

    fn die(&mut self, id: usize, death: Death) {
        let broker = &mut self.brokers[id];
        if !broker.is_alive {
            return;
        }
        broker.is_alive = false;
        broker.leadership = None;
        broker.image = MetadataImage::default();
        self.proposals.retain(|(proposer, _)| *proposer != id);
        match death {
            Death::Process => {}
            Death::Machine => {
                broker.truncate(broker.forced as Offset);
                broker.loss = broker.loss.or(Some(death));
            }
            Death::Disk => {
                broker.truncate(0);
                broker.loss = Some(death);
            }
        }
    }

    fn start(&mut self, id: usize) {
        if self.brokers[id].is_alive {
            return;
        }
        let incarnation = self.fresh_id();
        let loss = self.brokers[id].loss.take().filter(|_| self.is_honest);
        if loss == Some(Death::Disk) || self.brokers[id].disk.is_zero() {
            self.brokers[id].disk = self.fresh_id();
        }
        let request = RegisterBroker {
            id: BrokerId(id as i32),
            cluster_id: None,
            incarnation,
            rack: None,
            listeners: vec![Listener {
                name: "A".into(),
                host: "h".into(),
                port: 1,
                security: SecurityProtocol::Plaintext,
            }],
            log_dirs: vec![self.brokers[id].disk],
            features: BTreeMap::new(),
            unclean_shutdown: loss == Some(Death::Machine),
        };
        let reply = self.propose(&Command::RegisterBroker(request)).unwrap();
        let Reply::BrokerRegistered { epoch } = reply else { panic!("{reply:?}") };
        self.brokers[id].epoch = epoch;
        self.brokers[id].is_alive = true;
    }

    /// A broker is unfenced when it has seen its own registration.
    fn unfence(&mut self, id: usize) {
        let broker = &self.brokers[id];
        if broker.is_alive && broker.image.offset() >= broker.epoch {
            self.tell_controller(id, Command::UnfenceBroker);
        }
    }

    fn tell_controller(&mut self, id: usize, command: impl Fn(BrokerIdentity) -> Command) {
        let command = command(self.identity(id));
        // Refused to who is registered anew meanwhile.
        let _ = self.propose(&command);
    }

    fn reassign(&mut self, replicas: Option<Vec<BrokerId>>) {
        let moved = Reassignment { topic: "t".into(), partition: 0, replicas };
        let request = ReassignPartitions { partitions: vec![moved], allow_replication_factor_change: true };
        self.propose(&Command::ReassignPartitions(request)).unwrap();
    }

    fn set_minimum(&mut self, min_in_sync: usize) {
        let value = Some(min_in_sync.to_string().into());
        let operation = ConfigOperation { name: MIN_IN_SYNC.into(), op: ConfigOp::Set, value };
        let changes = ConfigChanges::Incremental(vec![operation]);
        let resources = vec![ConfigAlteration { resource: ConfigResource::topic("t"), changes }];
        self.propose(&Command::AlterConfigs(AlterConfigs { resources, validate_only: false })).unwrap();
    }

    /// Every leader works out its high watermark; what is below it is committed.
    fn commit(&mut self) {
        for broker in &mut self.brokers {
            let (end, min_in_sync) = (broker.end(), broker.min_in_sync());
            let Some(leadership) = &broker.leadership else { continue };
            let (before, image) = (broker.high_watermark, &broker.image);
            let after = leadership.high_watermark(before, end, min_in_sync, LAG_MAX_MS, image, self.now_ms);
            assert!((before..=end).contains(&after), "the high watermark neither falls nor passes the end");
            broker.high_watermark = after;
            let below = &broker.log[..after as usize];
            let known = below.len().min(self.committed.len());
            assert_eq!(below[..known], self.committed[..known], "two records were committed at one offset");
            self.committed.extend(&below[known..]);
        }
    }

    fn check(&self) {
        let Some(state) = self.partition() else { return };
        let trusted = state.isr.iter().chain(&state.eligible);
        for id in trusted {
            let broker = &self.brokers[id.0 as usize];
            // What a disk has lost is known when its broker is back.
            let is_known = broker.loss.is_none();
            assert!(!is_known || broker.log.starts_with(&self.committed), "{id} lacks committed records: {state:?}");
        }
        if let Some(leader) = self.leader() {
            let broker = &self.brokers[leader];
            let is_current = broker.leadership.as_ref().is_some_and(|it| it.leader_epoch() == state.leader_epoch);
            assert!(!is_current || broker.log.starts_with(&self.committed), "the leader lacks committed records");
        }
    }
}

/// What must be true of a partition after each decision.
fn check_progress(before: &PartitionState, after: &PartitionState) {
    let is_subset = |list: &[BrokerId]| list.iter().all(|id| after.replicas.contains(id));
    assert!(!after.replicas.is_empty());
    assert!(is_subset(&after.isr) && is_subset(&after.eligible) && is_subset(&after.last_known), "{after:?}");
    assert!(after.adding.iter().chain(&after.removing).all(|id| after.replicas.contains(id)), "{after:?}");
    assert!(!after.has_leader() || after.isr.contains(&after.leader), "who leads is in sync: {after:?}");
    assert!(!after.isr.iter().any(|id| after.eligible.contains(id)), "either in sync or eligible: {after:?}");
    assert!(!after.recovering, "nobody asked for an unclean election");
    assert!(after.leader_epoch >= before.leader_epoch);
    if before == after {
        return;
    }
    assert!(after.partition_epoch > before.partition_epoch, "every change has an epoch of its own");
    let has_new_leader = after.leader != before.leader;
    assert!(!has_new_leader || after.leader_epoch > before.leader_epoch, "{before:?} {after:?}");
}

fn run(min_in_sync: usize, steps: Vec<Step>, is_honest: bool) {
    let mut cluster = Cluster::new(min_in_sync, is_honest);
    for step in steps {
        cluster.take(step);
    }
}

proptest! {
    #[test]
    fn no_leader_lacks_what_was_committed(
        min_in_sync in 1..4_usize,
        steps in proptest::collection::vec(steps(), 0..250),
    ) {
        run(min_in_sync, steps, true);
    }
}

#[test]
fn the_model_notices_when_a_broker_hides_that_its_disk_is_empty() {
    let steps = vec![
        Step::Append { records: 2 },
        Step::Fetch { broker: 1, records: 2 },
        Step::Fetch { broker: 2, records: 2 },
        Step::Fetch { broker: 1, records: 0 },
        Step::Fetch { broker: 2, records: 0 },
        Step::Die { broker: 1, death: Death::Disk },
        Step::Start { broker: 1 },
        Step::Learn { broker: 1 },
    ];
    run(3, steps.clone(), true);
    let mut cluster = Cluster::new(3, false);
    let (before, after) = steps.split_at(6);
    before.iter().cloned().for_each(|step| cluster.take(step));
    assert_eq!(cluster.committed.len(), 2);
    let lied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        after.iter().cloned().for_each(|step| cluster.take(step));
    }));
    assert!(lied.is_err(), "it counts as eligible, and has nothing");
}
