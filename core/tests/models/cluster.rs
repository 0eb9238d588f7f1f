//! A small cluster of nothing but core's rules: brokers that die, lose what they had not forced to disk or all of it, and
//! see the metadata late; a controller; messages that get lost. It keeps account of what was committed, and notes the first
//! promise that is broken. One rule can be replaced by a wrong one, to show that this is noticed.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use taffrail_core::config::Overrides;
use taffrail_core::control::{
    AlterConfigs, AlterPartition, BrokerIdentity, Command, ConfigAlteration, ConfigChanges, ConfigOp, ConfigOperation,
    ControlError, CreateTopics, ElectLeaders, ElectionKind, Inputs, IsrChange, Lags, NewTopic, ReassignPartitions,
    Reassignment, RegisterBroker, ReplicaAssignment, Reply, decide,
};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{ConfigResource, Listener, MetadataEvent, PartitionState, SecurityProtocol};
use taffrail_core::ids::{BrokerId, LeaderEpoch, Offset, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_core::partition::divergence::{diverging, truncation};
use taffrail_core::partition::{
    AfterProposal, EpochHistory, FollowerFetch, Leadership, check_leader_epoch, follower_high_watermark,
};

const TOPIC: Uuid = Uuid([1; 16]);
const MIN_IN_SYNC: &str = "min.insync.replicas";
const LAG_MAX_MS: i64 = 100;

/// Rounds of a cluster that is left in peace; more than it ever needs.
const PEACE_ROUNDS: usize = 12;

/// How a broker goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Death {
    /// Its process dies: everything written is still in the page cache.
    Process,
    /// Its machine dies: what was not forced to disk is gone.
    Machine,
    /// Its disk is replaced.
    Disk,
}

/// What happens next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
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

/// A promise that the first wrong step breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    /// The newest leader has every committed record.
    LeaderHasAll,
    /// Whoever the metadata trust (in the ISR, or eligible) has every committed record.
    TrustedHaveAll,
    /// No two records are committed at one offset.
    OneRecordAnOffset,
    /// Below the high watermarks of two replicas their logs are the same.
    SameBelowWatermarks,
    /// A record of one offset and epoch is one record, with the same records before it.
    SameEpochSameRecord,
    /// A high watermark neither falls while its log stays, nor passes the log's end.
    WatermarkRises,
    /// Every change of the metadata has epochs of its own, and names replicas only.
    MetadataInOrder,
}

/// A rule that is replaced by a wrong one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// Brokers keep to themselves what their disks have lost.
    HidesLoss,
    /// A follower of a new leader cuts its log at its high watermark, not where the epochs part (before KIP-101).
    CutsAtWatermark,
    /// A follower that has nothing joins the ISR.
    JoinsWithoutRecords,
    /// A follower never compares epochs: it takes what comes after its own end.
    NeverCuts,
    /// A leader counts its ISR as it was proposed when it shrinks, not the larger one of both.
    ShrinksBeforeAnswer,
    /// A leader never repeats a proposal that was not answered.
    NeverRepeats,
    /// A move takes the old replicas away before the new ones have anything.
    DropsBeforeAdded,
}

/// A record: the epoch that it was written under, and a number that no other record has.
type Record = (LeaderEpoch, u64);

#[derive(Debug, Default, Clone, PartialEq)]
struct Broker {
    is_alive: bool,
    /// Epoch of its registration.
    epoch: i64,
    /// Processes that it has had.
    lives: u8,
    /// Disks that it has had.
    disks: u8,
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

/// What a cluster is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Setup {
    /// Brokers 0 to this one, excluded, serve.
    pub(crate) brokers: usize,
    /// The topic's one partition lies on the first of them.
    pub(crate) replicas: usize,
    /// The topic's `min.insync.replicas`.
    pub(crate) min_in_sync: usize,
    /// How long a step takes; 0 = time passes only where it has to.
    pub(crate) step_ms: i64,
    /// What is wrong.
    pub(crate) flaw: Option<Flaw>,
}

/// The cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cluster {
    setup: Setup,
    image: MetadataImage,
    brokers: Vec<Broker>,
    /// Proposals on their way to the controller, with the brokers that made them.
    proposals: Vec<(usize, IsrChange)>,
    /// Everything that was ever below a high watermark.
    committed: Vec<Record>,
    records: u64,
    now_ms: i64,
    /// The first promise that was broken, and how.
    pub(crate) broken: Option<(Promise, String)>,
}

fn ids(numbers: impl IntoIterator<Item = usize>) -> Vec<BrokerId> {
    numbers.into_iter().map(|number| BrokerId(number as i32)).collect()
}

impl Cluster {
    pub(crate) fn new(setup: Setup) -> Self {
        let mut cluster = Self {
            setup,
            image: MetadataImage::default(),
            brokers: vec![Broker::default(); setup.brokers],
            proposals: Vec::new(),
            committed: Vec::new(),
            records: 0,
            now_ms: 0,
            broken: None,
        };
        cluster.propose(&Command::CreateCluster { cluster_id: Uuid([9; 16]) }).unwrap();
        for broker in 0..setup.brokers {
            cluster.start(broker);
            cluster.learn(broker);
            cluster.unfence(broker);
        }
        let topic = NewTopic {
            assignments: vec![ReplicaAssignment { partition: 0, replicas: ids(0..setup.replicas) }],
            configs: vec![(MIN_IN_SYNC.into(), Some(setup.min_in_sync.to_string().into()))],
            id: Some(TOPIC),
            ..NewTopic::new("t")
        };
        let create = CreateTopics { topics: vec![topic], validate_only: false };
        cluster.propose(&Command::CreateTopics(create)).unwrap();
        (0..setup.brokers).for_each(|broker| cluster.learn(broker));
        cluster
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.setup.flaw == Some(flaw)
    }

    /// Notes a broken promise, unless one is noted already.
    fn promise(&mut self, promise: Promise, is_kept: bool, what: impl FnOnce(&Self) -> String) {
        if !is_kept && self.broken.is_none() {
            self.broken = Some((promise, what(self)));
        }
    }

    fn propose(&mut self, command: &Command) -> Result<Reply, ControlError> {
        let fresh_ids = vec![TOPIC; command.ids_needed()];
        let lags = Lags::default();
        let inputs = Inputs {
            fresh_ids: &fresh_ids,
            live_brokers: &[],
            static_config: &Overrides::new(),
            now_ms: self.now_ms,
            lags: &lags,
        };
        let decision = decide(&self.image, command, &inputs)?;
        self.commit_events(&decision.events);
        Ok(decision.reply)
    }

    fn commit_events(&mut self, events: &[MetadataEvent]) {
        let before = self.partition();
        for event in events {
            self.image.apply(event).unwrap();
        }
        if let (Some(before), Some(after)) = (before, self.partition()) {
            let complaint = misstep(&before, &after);
            self.promise(Promise::MetadataInOrder, complaint.is_none(), |_| {
                format!("{complaint:?}: {before:?} {after:?}")
            });
        }
    }

    /// The partition's state as the controllers have it.
    pub(crate) fn partition(&self) -> Option<Arc<PartitionState>> {
        self.image.partition((TOPIC, 0)).cloned()
    }

    fn identity(&self, broker: usize) -> BrokerIdentity {
        BrokerIdentity { id: BrokerId(broker as i32), epoch: self.brokers[broker].epoch }
    }

    /// The broker that leads as far as it knows itself; there may be several, of which the newest is meant.
    pub(crate) fn leader(&self) -> Option<usize> {
        let epoch = |broker: &Broker| broker.leadership.as_ref().map(Leadership::leader_epoch);
        (0..self.brokers.len())
            .filter(|id| epoch(&self.brokers[*id]).is_some())
            .max_by_key(|id| epoch(&self.brokers[*id]))
    }

    /// Takes a step, works out what is committed by it, and looks at the promises.
    pub(crate) fn take(&mut self, step: Step) {
        self.now_ms += self.setup.step_ms;
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
            Step::Unfence { broker } => {
                self.unfence(broker);
            }
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
            Ok(Some(end)) if !self.has(Flaw::NeverCuts) => {
                let cut = truncation(&own_history, offset, end);
                self.brokers[id].truncate(cut.offset);
                return;
            }
            _ if offset > leader_end => return self.brokers[id].truncate(leader_end),
            _ => {}
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
        let joined = leadership.propose_join(broker, high_watermark, &image);
        self.proposals.extend(joined.map(|change| (leader, change)));
        if self.has(Flaw::JoinsWithoutRecords) {
            self.join_anyway(leader, id);
        }
        let leading = &self.brokers[leader];
        let from = offset as usize;
        let copied: Vec<Record> = leading.log[from..].iter().take(records).copied().collect();
        let follower = &mut self.brokers[id];
        follower.log.extend(copied);
        follower.high_watermark = follower_high_watermark(follower.high_watermark, high_watermark, follower.end());
    }

    fn join_anyway(&mut self, leader: usize, follower: usize) {
        let Some(state) = self.brokers[leader].leadership.as_ref().map(|it| Arc::clone(it.state())) else { return };
        let members = state.isr.iter().map(|id| id.0 as usize).chain([follower]);
        let isr: Vec<BrokerIdentity> = members.map(|id| self.identity(id)).collect();
        let (leader_epoch, partition_epoch) = (state.leader_epoch, state.partition_epoch);
        if !state.isr.contains(&BrokerId(follower as i32)) && self.proposals.is_empty() {
            let change =
                IsrChange { topic_id: TOPIC, partition: 0, leader_epoch, partition_epoch, isr, recovering: false };
            self.proposals.push((leader, change));
        }
    }

    /// Whoever has not kept up for the lag time is proposed to leave; where no step takes time, that time passes now.
    fn expire(&mut self) {
        if self.setup.step_ms == 0 {
            self.now_ms += LAG_MAX_MS + 1;
        }
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
        let repeats = !self.has(Flaw::NeverRepeats);
        let Some(leadership) = &mut self.brokers[id].leadership else { return };
        let after = leadership.answered(change, outcome.as_ref().map_err(|code| *code));
        if after == AfterProposal::Retry && repeats {
            self.proposals.push((id, change.clone()));
        }
    }

    fn learn(&mut self, id: usize) {
        if !self.brokers[id].is_alive {
            return;
        }
        let (image, now_ms, own) = (self.image.clone(), self.now_ms, self.identity(id));
        let cuts_at_watermark = self.has(Flaw::CutsAtWatermark);
        let broker = &mut self.brokers[id];
        let known = std::mem::replace(&mut broker.image, image).partition((TOPIC, 0)).map(|state| state.leader_epoch);
        let Some(state) = broker.image.partition((TOPIC, 0)).cloned() else { return };
        if cuts_at_watermark && known != Some(state.leader_epoch) && state.leader != own.id {
            broker.truncate(broker.high_watermark);
        }
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
        let is_honest = !self.has(Flaw::HidesLoss);
        let broker = &mut self.brokers[id];
        broker.lives += 1;
        let loss = broker.loss.take().filter(|_| is_honest);
        if loss == Some(Death::Disk) || broker.disks == 0 {
            broker.disks += 1;
        }
        let unique = |kind: u8, number: u8| Uuid([kind, id as u8, number, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let request = RegisterBroker {
            id: BrokerId(id as i32),
            cluster_id: None,
            incarnation: unique(1, broker.lives),
            rack: None,
            listeners: vec![Listener {
                name: "A".into(),
                host: "h".into(),
                port: 1,
                security: SecurityProtocol::Plaintext,
            }],
            log_dirs: vec![unique(2, broker.disks)],
            features: BTreeMap::new(),
            unclean_shutdown: loss == Some(Death::Machine),
            min_in_sync: None,
        };
        let reply = self.propose(&Command::RegisterBroker(request)).unwrap();
        let Reply::BrokerRegistered { epoch } = reply else { panic!("{reply:?}") };
        self.brokers[id].epoch = epoch;
        self.brokers[id].is_alive = true;
    }

    /// A broker is unfenced when it has seen its own registration.
    fn unfence(&mut self, id: usize) {
        if self.may_unfence(id) {
            self.tell_controller(id, Command::UnfenceBroker);
        }
    }

    fn may_unfence(&self, id: usize) -> bool {
        let broker = &self.brokers[id];
        broker.is_alive && broker.image.offset() >= broker.epoch
    }

    fn tell_controller(&mut self, id: usize, command: impl Fn(BrokerIdentity) -> Command) {
        let command = command(self.identity(id));
        // Refused to who is registered anew meanwhile.
        let _ = self.propose(&command);
    }

    fn reassign(&mut self, replicas: Option<Vec<BrokerId>>) {
        if let (Some(replicas), true, Some(state)) = (&replicas, self.has(Flaw::DropsBeforeAdded), self.partition()) {
            let (leader_epoch, partition_epoch) = (state.leader_epoch + 1, state.partition_epoch + 1);
            let next = PartitionState::new(replicas.clone(), replicas.clone());
            let state = Arc::new(PartitionState { leader_epoch, partition_epoch, ..next });
            return self.commit_events(&[MetadataEvent::PartitionChanged { topic_id: TOPIC, partition: 0, state }]);
        }
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
        for id in 0..self.brokers.len() {
            let broker = &self.brokers[id];
            let (end, min_in_sync) = (broker.end(), broker.min_in_sync());
            let Some(leadership) = &broker.leadership else { continue };
            let (before, image) = (broker.high_watermark, &broker.image);
            let mut after = leadership.high_watermark(before, end, min_in_sync, LAG_MAX_MS, image, self.now_ms);
            if let (true, Some((_, change))) =
                (self.has(Flaw::ShrinksBeforeAnswer), self.proposals.iter().find(|(proposer, _)| *proposer == id))
            {
                let ends = change.isr.iter().map(|member| self.brokers[member.id.0 as usize].end());
                after = ends.min().unwrap_or(after).clamp(before, end);
            }
            let rises = (before..=end).contains(&after);
            self.promise(Promise::WatermarkRises, rises, |_| format!("{before} became {after} of {end} on {id}"));
            let after = after.clamp(0, end);
            let broker = &mut self.brokers[id];
            broker.high_watermark = after;
            let below = broker.log[..after as usize].to_vec();
            let known = below.len().min(self.committed.len());
            let is_same = below[..known] == self.committed[..known];
            self.promise(Promise::OneRecordAnOffset, is_same, |it| format!("{below:?} on {id}, {:?}", it.committed));
            self.committed.extend(&below[known..]);
        }
    }

    fn check(&mut self) {
        let Some(state) = self.partition() else { return };
        let has_all = |it: &Self, id: usize| it.brokers[id].log.starts_with(&it.committed);
        for id in state.isr.iter().chain(&state.eligible).map(|id| id.0 as usize) {
            // What a disk has lost is known when its broker is back.
            let is_known = self.brokers[id].loss.is_none();
            self.promise(Promise::TrustedHaveAll, !is_known || has_all(self, id), |it| {
                format!("{id} has {:?} of {:?}: {state:?}", it.brokers[id].log, it.committed)
            });
        }
        if let Some(leader) = self.leader() {
            let leadership = self.brokers[leader].leadership.as_ref();
            let is_current = leadership.is_some_and(|it| it.leader_epoch() == state.leader_epoch);
            self.promise(Promise::LeaderHasAll, !is_current || has_all(self, leader), |it| {
                format!("{leader} has {:?} of {:?}: {state:?}", it.brokers[leader].log, it.committed)
            });
        }
        for one in 0..self.brokers.len() {
            for other in 0..one {
                self.compare(one, other);
            }
        }
    }

    fn compare(&mut self, one: usize, other: usize) {
        let (a, b) = (&self.brokers[one], &self.brokers[other]);
        let below = a.high_watermark.min(b.high_watermark) as usize;
        let is_same_below = a.log[..below] == b.log[..below];
        let same_epoch = a.log.iter().zip(&b.log).rposition(|((a, _), (b, _))| a == b);
        let is_same_epoch = same_epoch.is_none_or(|last| a.log[..=last] == b.log[..=last]);
        let logs = |it: &Self| format!("{:?} on {one}, {:?} on {other}", it.brokers[one].log, it.brokers[other].log);
        self.promise(Promise::SameBelowWatermarks, is_same_below, logs);
        self.promise(Promise::SameEpochSameRecord, is_same_epoch, logs);
    }

    /// Whether the cluster comes to rest when nothing goes wrong any more: all brokers serve, all replicas are in sync, what
    /// was to move has moved, and everything that is in the leader's log is committed.
    pub(crate) fn recovers(&self) -> bool {
        let mut cluster = self.clone();
        for _ in 0..PEACE_ROUNDS {
            cluster.peace();
            if cluster.is_at_rest() {
                return true;
            }
        }
        false
    }

    /// A round of peace: everyone is up, is heard, and hears.
    fn peace(&mut self) {
        let all = 0..self.brokers.len();
        all.clone().for_each(|broker| self.take(Step::Start { broker }));
        for _ in 0..2 {
            all.clone().for_each(|broker| self.take(Step::Learn { broker }));
            all.clone().for_each(|broker| self.take(Step::Unfence { broker }));
        }
        all.clone().for_each(|broker| self.take(Step::Learn { broker }));
        for _ in 0..3 {
            all.clone().for_each(|broker| self.take(Step::Fetch { broker, records: usize::MAX }));
        }
        while !self.proposals.is_empty() {
            self.take(Step::Decide { is_answered: true });
        }
    }

    fn is_at_rest(&self) -> bool {
        let Some(state) = self.partition().filter(|state| state.has_leader() && !state.is_reassigning()) else {
            return false;
        };
        let leader = &self.brokers[state.leader.0 as usize];
        let is_level = |id: &BrokerId| self.brokers[id.0 as usize].log == leader.log;
        state.isr.len() == state.replicas.len()
            && state.replicas.iter().all(is_level)
            && leader.high_watermark == leader.end()
            && self.committed == leader.log
    }

    /// Records that are committed.
    pub(crate) fn committed(&self) -> usize {
        self.committed.len()
    }

    /// Whether a step could change anything.
    pub(crate) fn allows(&self, step: &Step) -> bool {
        let broker = |id: &usize| &self.brokers[*id];
        match step {
            Step::Append { .. } | Step::Expire => self.brokers.iter().any(|broker| broker.leadership.is_some()),
            Step::Decide { .. } | Step::Lose => !self.proposals.is_empty(),
            Step::Learn { broker: id } => broker(id).is_alive && broker(id).image.offset() < self.image.offset(),
            Step::Fetch { broker: id, .. } => broker(id).is_alive && broker(id).leadership.is_none(),
            Step::Force { broker: id } => broker(id).forced < broker(id).log.len(),
            Step::Die { broker: id, .. } => broker(id).is_alive,
            Step::Start { broker: id } => !broker(id).is_alive,
            Step::Unfence { broker: id } => !self.image.is_active(BrokerId(*id as i32)) && self.may_unfence(*id),
            Step::Fence { broker: id } => self.image.is_active(BrokerId(*id as i32)),
            Step::BeginShutdown { broker: id } => broker(id).is_alive && self.image.may_lead(BrokerId(*id as i32)),
            Step::CancelReassignment => self.partition().is_some_and(|state| state.is_reassigning()),
            Step::Prefer | Step::Reassign { .. } | Step::SetMinimum { .. } => true,
        }
    }
}

/// Two clusters are the same when nothing that can still happen tells them apart. How many events led to an image does not
/// matter, but for whether a broker has seen its own registration.
impl Hash for Cluster {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_image(&self.image, state);
        for broker in &self.brokers {
            (broker.is_alive, broker.epoch, broker.loss, broker.forced, broker.high_watermark).hash(state);
            broker.log.hash(state);
            broker.leadership.hash(state);
            (broker.image.offset() >= broker.epoch, broker.image.offset() < self.image.offset()).hash(state);
            hash_image(&broker.image, state);
        }
        self.proposals.hash(state);
        (&self.committed, self.records, self.now_ms).hash(state);
        self.broken.as_ref().map(|(promise, _)| promise).hash(state);
    }
}

fn hash_image<H: Hasher>(image: &MetadataImage, state: &mut H) {
    for broker in image.brokers().values() {
        (broker.id, broker.epoch, broker.fenced, broker.shutting_down).hash(state);
    }
    image.partition((TOPIC, 0)).hash(state);
    image.overrides(&ConfigResource::topic("t")).hash(state);
}

/// What is wrong with a partition's state after a decision, if anything is.
fn misstep(before: &PartitionState, after: &PartitionState) -> Option<&'static str> {
    let is_subset = |list: &[BrokerId]| list.iter().all(|id| after.replicas.contains(id));
    let is_new = after != before;
    let has_new_leader = after.leader != before.leader;
    let rules = [
        (!after.replicas.is_empty(), "there are replicas"),
        (
            is_subset(&after.isr) && is_subset(&after.eligible) && is_subset(&after.last_known),
            "only replicas are in sync",
        ),
        (is_subset(&after.adding) && is_subset(&after.removing), "who comes and who goes is a replica"),
        (!after.has_leader() || after.isr.contains(&after.leader), "who leads is in sync"),
        (!after.isr.iter().any(|id| after.eligible.contains(id)), "either in sync or eligible"),
        (!after.recovering, "nobody asked for an unclean election"),
        (after.leader_epoch >= before.leader_epoch, "the leader epoch does not fall"),
        (!is_new || after.partition_epoch > before.partition_epoch, "every change has an epoch of its own"),
        (!has_new_leader || after.leader_epoch > before.leader_epoch, "every leader has an epoch of its own"),
    ];
    rules.into_iter().find(|(is_kept, _)| !is_kept).map(|(_, rule)| rule)
}
