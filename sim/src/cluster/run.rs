//! One run: the cluster comes up, faults strike, everything heals, and it is whole again.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use taffrail_core::image::MetadataImage;
use taffrail_runtime::random::Seeded;
use taffrail_runtime::simulation::{Death, Host, Simulation, on_own_thread};

use super::clients::{self, MIN_IN_SYNC, PARTITIONS, Surroundings};
use super::faults::{self, Faults, unnoticed_ms};
use super::invariants::{self, Invariant, LiveBroker, View};
use super::ledger::{Ledger, Orders};
use super::machines::{BROKERS_MAX, BrokerMachine, ControllerMachine, MACHINES, client_address};
use super::trace::{Trace, print_logs};
use super::{Failure, beyond, panics};

/// How long the cluster may take to come up.
const BOOT_MAX_MS: u64 = 60_000;

/// How long it may take to be whole again when nothing goes wrong any more.
pub(super) const HEALING_MAX_MS: u64 = 90_000;

/// How often invariants are looked at.
const LOOK_EVERY_MS: u64 = 5;

/// Machines of clients: two produce, two consume, one commits offsets.
const PRODUCERS: [u8; 2] = [1, 2];
const CONSUMERS: [u8; 2] = [3, 4];
const COMMITTER: u8 = 5;

/// Machines of those who operate the cluster: two delete records and move replicas, two restart brokers.
const DELETER: u8 = 7;
const MOVER: u8 = 8;
const RESTARTERS: [u8; 2] = [9, 10];

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Decides everything.
    pub seed: u64,
    /// How long faults strike.
    pub fault_ms: u64,
    /// Whether all brokers lose power at once in the end ([`super::beyond`]).
    pub goes_beyond: bool,
    /// Whether somebody deletes records, moves replicas and restarts brokers meanwhile, of which there is one more.
    pub is_operated: bool,
    /// What of it is printed.
    pub told: Told,
}

/// How much of a run is printed while it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    Nothing,
    /// What clients do and see, faults, and what processes log.
    Events,
    /// Also each piece of data that is sent and each job for a disk: to see where two runs part that should be the same.
    Everything,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, fault_ms: 8_000, goes_beyond: false, is_operated: false, told: Told::Nothing }
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that were acknowledged.
    pub acknowledged: u64,
    /// Records that clients knew of and that are lost, in a run that goes beyond what the cluster protects from.
    pub lost: u64,
    /// Faults that struck.
    pub faults: u64,
    /// What those who operate the cluster had done.
    pub orders: Orders,
    /// Milliseconds that it lasted, on the simulated clock.
    pub lasted_ms: u64,
    /// Events in the trace.
    pub events: u64,
    /// The trace as one number: equal for equal seeds.
    pub trace: u64,
}

/// Makes a run to its end.
///
/// # Errors
/// [`Failure`] when the cluster breaks a promise.
pub fn run(settings: Settings) -> Result<Report, Failure> {
    let failure = move |at_ms, what| Failure { seed: settings.seed, at_ms, what };
    panics::watch();
    match settings.told {
        Told::Nothing => {}
        Told::Events => print_logs(tracing::Level::INFO),
        Told::Everything => print_logs(tracing::Level::TRACE),
    }
    let ran = on_own_thread("simulation", move || {
        crate::entropy::seed(settings.seed);
        panics::forget();
        panics::caught(move || {
            let mut run = Run::begin(settings).map_err(|what| failure(0, what))?;
            run.make().map_err(|what| failure(run.trace.now_ms.get(), what))
        })
        .unwrap_or_else(|panic| Err(failure(0, panic)))
    });
    match ran {
        Ok(Some(outcome)) => outcome,
        Ok(None) => Err(failure(0, "the thread of the simulation panicked".to_owned())),
        Err(error) => Err(failure(0, format!("no thread for the simulation: {error}"))),
    }
}

/// The cluster with its surroundings.
pub(super) struct Run {
    pub(super) settings: Settings,
    pub(super) simulation: Simulation,
    pub(super) controllers: Vec<ControllerMachine>,
    pub(super) brokers: Vec<BrokerMachine>,
    pub(super) clients: Vec<Host>,
    pub(super) surroundings: Surroundings,
    pub(super) trace: Rc<Trace>,
    pub(super) invariants: Vec<Box<dyn Invariant>>,
    /// What brokers tell to be lost.
    pub(super) losses: beyond::KnownLosses,
    /// The newest metadata that anybody ever had.
    pub(super) newest: Arc<MetadataImage>,
    pub(super) rng: Seeded,
}

impl Run {
    fn begin(settings: Settings) -> Result<Self, String> {
        let simulation = Simulation::begin(settings.seed);
        let trace = Rc::new(Trace::new(settings.told != Told::Nothing));
        let surroundings = Surroundings {
            ledger: Ledger::default(),
            trace: Rc::clone(&trace),
            producing: Rc::new(Cell::new(true)),
            progress: Rc::default(),
            is_operated: settings.is_operated,
            operating: Rc::new(Cell::new(settings.is_operated)),
            to_restart: Rc::default(),
        };
        let brokers = if settings.is_operated { BROKERS_MAX } else { MACHINES };
        let mut run = Self {
            settings,
            simulation,
            controllers: (1..=MACHINES).map(ControllerMachine::new).collect(),
            brokers: (1..=brokers).map(|number| BrokerMachine::new(number, settings.is_operated)).collect(),
            clients: Vec::new(),
            surroundings,
            trace,
            invariants: invariants::all(),
            losses: beyond::KnownLosses::default(),
            newest: Arc::default(),
            rng: Seeded::new(!settings.seed),
        };
        for controller in &mut run.controllers {
            controller.start(&run.simulation)?;
        }
        for broker in &mut run.brokers {
            broker.start(&run.simulation)?;
        }
        Ok(run)
    }

    fn make(&mut self) -> Result<Report, String> {
        self.boot()?;
        let mut faults = Faults::new(&mut self.rng, self.settings.is_operated);
        let end_ms = self.simulation.elapsed_ms() + self.settings.fault_ms;
        while self.simulation.elapsed_ms() < end_ms {
            faults.strike(self);
            self.tick()?;
        }
        faults.end(self);
        self.surroundings.operating.set(false);
        self.become_whole()?;
        let lost = if self.settings.goes_beyond { self.go_beyond()? } else { self.come_to_rest().map(|()| 0)? };
        Ok(Report {
            acknowledged: self.surroundings.ledger.acknowledgements(),
            lost,
            faults: faults.count(),
            orders: self.surroundings.ledger.orders(),
            lasted_ms: self.simulation.elapsed_ms(),
            events: self.trace.events(),
            trace: self.trace.digest(),
        })
    }

    /// Brings the cluster up, creates the topic, and sets the clients to work.
    fn boot(&mut self) -> Result<(), String> {
        let is_created = Rc::new(Cell::new(false));
        let creating = {
            let (surroundings, is_created) = (self.surroundings.clone(), Rc::clone(&is_created));
            async move {
                clients::create_topic(surroundings).await;
                is_created.set(true);
            }
        };
        self.add_client(0, creating)?;
        self.until("boot", BOOT_MAX_MS, |_| is_created.get())?;
        for client in PRODUCERS {
            let surroundings = self.surroundings.clone();
            self.add_client(client, async move {
                let producing =
                    (0..PARTITIONS).map(|partition| clients::produce(client, partition, surroundings.clone()));
                futures::future::join_all(producing).await;
            })?;
        }
        for client in CONSUMERS {
            let surroundings = self.surroundings.clone();
            self.add_client(client, async move {
                let consuming =
                    (0..PARTITIONS).map(|partition| clients::consume(client, partition, surroundings.clone()));
                futures::future::join_all(consuming).await;
            })?;
        }
        self.add_client(COMMITTER, clients::commit_offsets(COMMITTER, self.surroundings.clone()))?;
        if self.settings.is_operated {
            self.add_operators()?;
        }
        self.until("boot", BOOT_MAX_MS, Self::everybody_goes_on)
    }

    fn add_operators(&mut self) -> Result<(), String> {
        let surroundings = self.surroundings.clone();
        self.add_client(DELETER, async move {
            let deleting =
                (0..PARTITIONS).map(|partition| clients::delete_records(DELETER, partition, surroundings.clone()));
            futures::future::join_all(deleting).await;
        })?;
        self.add_client(MOVER, clients::move_replicas(MOVER, self.surroundings.clone()))?;
        for (epoch, client) in (0..).zip(RESTARTERS) {
            self.add_client(client, clients::restart(epoch, self.surroundings.clone()))?;
        }
        Ok(())
    }

    fn add_client(&mut self, number: u8, work: impl Future<Output = ()> + 'static) -> Result<(), String> {
        let host = Host::start(&self.simulation, client_address(number), work);
        self.clients.push(host.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Whether every producer had a batch acknowledged since the last look, and an offset was committed.
    fn everybody_goes_on(&self) -> bool {
        let progress = self.surroundings.progress.borrow();
        progress.len() == PRODUCERS.len() * PARTITIONS as usize + 1
    }

    /// Liveness: whatever happened before, a cluster that is left alone is whole after a while.
    fn become_whole(&mut self) -> Result<(), String> {
        self.until("liveness: all replicas are in sync again", HEALING_MAX_MS, Self::is_whole)?;
        self.surroundings.progress.borrow_mut().clear();
        self.until("liveness: every producer goes on, and the group", HEALING_MAX_MS, Self::everybody_goes_on)
    }

    /// Goes on until `is_reached`.
    pub(super) fn until(&mut self, what: &str, max_ms: u64, is_reached: impl Fn(&Self) -> bool) -> Result<(), String> {
        let end_ms = self.simulation.elapsed_ms() + max_ms;
        while !is_reached(self) {
            if self.simulation.elapsed_ms() >= end_ms {
                return Err(format!("{what}: not within {max_ms} ms; {}", self.situation()));
            }
            self.tick()?;
        }
        Ok(())
    }

    /// How things stand, for people.
    fn situation(&self) -> String {
        let partitions = invariants::partitions(&self.newest);
        let states: Vec<String> = partitions
            .iter()
            .map(|((_, index), state)| {
                format!("{index}: leader {} epoch {} isr {:?}", state.leader, state.leader_epoch, state.isr)
            })
            .collect();
        let ended = |(name, ended): (String, Option<String>)| ended.map(|reason| format!("{name} ended: {reason}"));
        let controllers = self.controllers.iter().map(|it| (format!("controller {}", it.number), it.machine.ended()));
        let brokers = self.brokers.iter().map(|it| (format!("broker {}", it.number), it.machine.ended()));
        let ends: Vec<String> = controllers.chain(brokers).filter_map(ended).collect();
        format!("partitions {states:?}, {ends:?}")
    }

    /// Lets a millisecond pass everywhere.
    pub(super) fn tick(&mut self) -> Result<(), String> {
        self.simulation.advance();
        let (now_ms, unix_ms) = (self.simulation.elapsed_ms(), self.simulation.unix_ms());
        self.trace.now_ms.set(now_ms);
        self.notice_failures(now_ms);
        self.restart_in_order();
        self.restart_the_dead(now_ms)?;
        for controller in &mut self.controllers {
            controller.machine.disk.set_now_ms(unix_ms);
            controller.machine.host.iter_mut().for_each(Host::tick);
        }
        for broker in &mut self.brokers {
            broker.machine.disk.set_now_ms(unix_ms);
            broker.machine.host.iter_mut().for_each(Host::tick);
        }
        self.clients.iter_mut().for_each(Host::tick);
        self.note_newest();
        if let Some(panic) = panics::seen() {
            return Err(format!("panic: {panic}"));
        }
        if let Some(broken) = self.surroundings.ledger.broken() {
            return Err(broken);
        }
        if now_ms.is_multiple_of(LOOK_EVERY_MS) { self.look() } else { Ok(()) }
    }

    /// Has a broker stop of which somebody has the permission to stop it.
    fn restart_in_order(&self) {
        let granted = self.surroundings.to_restart.take();
        if let Some(broker) = self.brokers.iter().find(|broker| granted == Some(broker.number)) {
            self.trace.note(format_args!("broker {}", broker.number), "is told to stop by who may");
            broker.stop();
        }
    }

    /// Takes note of processes that have failed, as whoever supervises them does.
    fn notice_failures(&mut self, now_ms: u64) {
        for index in 0..self.controllers.len() {
            let Some(reason) =
                self.controllers[index].machine.ended().filter(|_| self.controllers[index].machine.host.is_some())
            else {
                continue;
            };
            self.trace.note(format_args!("controller {}", index + 1), format_args!("has ended: {reason}"));
            let restart_at_ms = now_ms + unnoticed_ms(&mut self.rng);
            // Its disk is replaced, or repaired, if that was the cause.
            self.controllers[index].machine.end(Death::Machine, restart_at_ms);
        }
        for index in 0..self.brokers.len() {
            let broker = &self.brokers[index];
            let ended = broker.machine.ended().filter(|_| broker.machine.host.is_some());
            let failed = broker.disk_failure().filter(|_| broker.running().is_some() || ended.is_some());
            let (reason, death) = match (failed, ended) {
                // What a failed sync has not written is in the page cache still, and counts as written: only another start of
                // the machine shows what is there.
                (Some(reason), _) => (reason, Death::Machine),
                (None, Some(reason)) => (reason, Death::Process),
                (None, None) => continue,
            };
            self.trace.note(format_args!("broker {}", index + 1), format_args!("has ended: {reason}"));
            let restart_at_ms = now_ms + unnoticed_ms(&mut self.rng);
            self.brokers[index].end(death, restart_at_ms);
        }
        let recovered = faults::recovered(self);
        for broker in self.brokers.iter_mut().filter(|broker| recovered.contains(&broker.id())) {
            broker.has_lost = false;
        }
    }

    /// Starts processes again whose time has come.
    fn restart_the_dead(&mut self, now_ms: u64) -> Result<(), String> {
        let is_due = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        for controller in &mut self.controllers {
            if is_due(controller.machine.restart_at_ms) {
                self.trace.note(format_args!("controller {}", controller.number), "starts");
                controller.start(&self.simulation)?;
            }
        }
        for broker in &mut self.brokers {
            if is_due(broker.machine.restart_at_ms) {
                self.trace.note(format_args!("broker {}", broker.number), "starts");
                broker.start(&self.simulation)?;
            }
        }
        Ok(())
    }

    /// Remembers the newest metadata: whoever has them may be gone in a moment.
    fn note_newest(&mut self) {
        let images = self.view_images();
        if let Some((name, newest)) = images.into_iter().max_by_key(|(_, image)| image.offset())
            && newest.offset() > self.newest.offset()
        {
            self.trace.note(name, format_args!("has metadata up to {}", newest.offset()));
            self.newest = newest;
        }
    }

    fn view_images(&self) -> Vec<(String, Arc<MetadataImage>)> {
        let controllers = self.controllers.iter().filter_map(|it| {
            let controller = it.controller()?;
            Some((format!("controller {}", it.number), controller.image()))
        });
        let brokers = self.brokers.iter().filter_map(|it| {
            let running = it.running()?;
            Some((format!("broker {}", it.number), running.broker.metadata.image()))
        });
        controllers.chain(brokers).collect()
    }

    pub(super) fn view(&self) -> View {
        let brokers = self.brokers.iter().filter_map(|it| {
            let running = it.running()?;
            Some(LiveBroker { number: it.number, life: it.life, running })
        });
        View {
            images: self.view_images(),
            brokers: brokers.collect(),
            newest: Arc::clone(&self.newest),
            ledger: self.surroundings.ledger.clone(),
        }
    }

    pub(super) fn look(&mut self) -> Result<(), String> {
        let view = self.view();
        self.losses.look(&view);
        for invariant in &mut self.invariants {
            invariant.look(&view).map_err(|what| format!("{}: {what}", invariant.name()))?;
        }
        Ok(())
    }
}

const _: () = assert!(MIN_IN_SYNC < MACHINES as usize, "one machine may fail");
