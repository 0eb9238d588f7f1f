//! What goes wrong, and when.
//!
//! Acknowledged records are in the page cache of `min.insync.replicas` machines at least, so one machine at a time may lose
//! what was not durable: the next one only when the first has caught up. Anything else may strike at any time.

use std::collections::BTreeSet;
use std::net::IpAddr;

use taffrail_core::ids::BrokerId;
use taffrail_core::record::{BATCH_HEADER_BYTES, BatchHeader};
use taffrail_runtime::random::Seeded;
use taffrail_runtime::simulation::{Death, Delays};
use taffrail_storage::disk::fault::{Fault, Op};

use super::lurking::{Lurking, Moment};
use super::machines::{MACHINES, broker_address, client_address, controller_address};
use super::run::Run;

/// Shortest and longest pause between two strikes.
const PAUSE_MS: (u64, u64) = (50, 900);

/// How long something lasts, at least and at most.
const LASTS_MS: (u64, u64) = (50, 4_000);

/// How long a machine is down, at least and at most.
const DOWN_MS: (u64, u64) = (20, 3_000);

/// How long at most a broker lives that is cut off from the others: less than they may lag and be in sync.
const ISOLATED_MAX_MS: u64 = 1_000;

/// How long nobody notices that a process has failed.
const UNNOTICED_MS: (u64, u64) = (50, 1_000);

/// How far a clock jumps, at most.
const CLOCK_OFF_MAX_MS: u64 = 3_600_000;

/// What is in the paths of the files whose records may be read wrong: those that clients read.
const READ_AT: &str = "/simulated-";

/// An error number of the operating system: input/output error.
const EIO: i32 = 5;

/// Ends something that lasts.
#[derive(Clone, Copy, Debug)]
enum End {
    Cuts,
    Delays,
    FullDisk(usize),
    /// A broker is killed.
    Life(usize),
}

/// Strikes from time to time.
pub(super) struct Faults {
    rng: Seeded,
    next_ms: u64,
    /// What ends when.
    lasting: Vec<(u64, End)>,
    /// Brokers of which reads gave wrong bits.
    misread: BTreeSet<usize>,
    /// A fault that waits for its moment, where somebody operates the cluster.
    lurking: Option<Lurking>,
    count: u64,
}

impl Faults {
    pub(super) fn new(rng: &mut Seeded, is_operated: bool) -> Self {
        Self {
            rng: Seeded::new(rng.next_u64()),
            next_ms: 0,
            lasting: Vec::new(),
            misread: BTreeSet::new(),
            lurking: is_operated.then(|| Lurking::new(rng)),
            count: 0,
        }
    }

    /// Faults that struck.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Strikes, if it is time; ends what has lasted long enough.
    pub(super) fn strike(&mut self, run: &mut Run) {
        let now_ms = run.simulation.elapsed_ms();
        let (due, rest) = self.lasting.iter().partition(|(at_ms, _)| *at_ms <= now_ms);
        self.lasting = rest;
        Vec::into_iter(due).for_each(|(_, end)| self.put_right(end, run));
        if self.is_quiet_after_a_moment(run, now_ms) {
            return;
        }
        if now_ms < self.next_ms {
            return;
        }
        self.next_ms = now_ms + self.rng.between(PAUSE_MS.0, PAUSE_MS.1);
        if let Some(what) = self.choose(run) {
            self.count += 1;
            run.trace.note("fault", what);
        }
    }

    /// Cuts the way to a follower that is about to join, if one is; whether nothing else is to happen now.
    fn is_quiet_after_a_moment(&mut self, run: &Run, now_ms: u64) -> bool {
        let Some(lurking) = &mut self.lurking else { return false };
        if let Some(Moment { leader, follower, until_ms }) = lurking.look(run, now_ms) {
            if lurking.is_quiet(now_ms) {
                run.simulation.heal();
                self.lasting.retain(|(_, end)| !matches!(end, End::Cuts | End::Life(_)));
            }
            run.simulation.cut(broker_address(leader).ip(), broker_address(follower).ip());
            self.lasting.push((until_ms, End::Cuts));
            self.count += 1;
            let lasts_ms = until_ms - now_ms;
            let what =
                format_args!("broker {follower} is about to join, and is cut off from {leader} for {lasts_ms} ms");
            run.trace.note("fault", what);
        }
        let is_quiet = lurking.is_quiet(now_ms);
        run.surroundings.operating.set(!is_quiet);
        is_quiet
    }

    /// Puts everything right again; machines that are down start by themselves.
    pub(super) fn end(&mut self, run: &mut Run) {
        run.trace.note("fault", "no more");
        run.simulation.heal();
        run.simulation.set_delays(Delays::default());
        for broker in &run.brokers {
            broker.machine.disk.set_capacity(None);
            broker.machine.disk.heal();
        }
        for address in machines(run) {
            run.simulation.set_clock_off(address, 0);
        }
        // A partition that was read wrong while its log was opened or cut is offline until somebody starts the broker again.
        let soon_ms = run.simulation.elapsed_ms() + UNNOTICED_MS.1;
        for index in std::mem::take(&mut self.misread) {
            if run.brokers[index].has_offline() {
                run.brokers[index].end(Death::Process, soon_ms);
            }
        }
    }

    fn lasts(&mut self, run: &Run, end: End) {
        self.lasting.push((run.simulation.elapsed_ms() + self.rng.between(LASTS_MS.0, LASTS_MS.1), end));
    }

    fn put_right(&mut self, end: End, run: &mut Run) {
        match end {
            End::Cuts => run.simulation.heal(),
            End::Delays => run.simulation.set_delays(Delays::default()),
            End::FullDisk(index) => run.brokers[index].machine.disk.set_capacity(None),
            End::Life(index) => {
                let restart_ms = run.simulation.elapsed_ms() + self.rng.between(DOWN_MS.0, DOWN_MS.1);
                if run.brokers[index].end(Death::Process, restart_ms) {
                    run.trace.note("fault", format_args!("broker {} is killed", index + 1));
                }
            }
        }
    }

    /// Does something; `None` = it cannot be done now.
    fn choose(&mut self, run: &mut Run) -> Option<String> {
        let any = self.rng.below(run.brokers.len() as u64) as usize;
        let number = any + 1;
        let (controller, controller_number) = (any % run.controllers.len(), any % run.controllers.len() + 1);
        let restart_ms = run.simulation.elapsed_ms() + self.rng.between(DOWN_MS.0, DOWN_MS.1);
        match self.rng.below(18) {
            0 | 1 => run.brokers[any].end(Death::Process, restart_ms).then(|| format!("broker {number} is killed")),
            2 | 3 => (may_lose_data(run, any) && run.brokers[any].end(Death::Machine, restart_ms))
                .then(|| format!("broker {number} loses power")),
            4 => run.brokers[any].running().map(|_| {
                run.brokers[any].stop();
                format!("broker {number} is told to stop")
            }),
            5 => end_controller(run, controller, Death::Process, restart_ms)
                .then(|| format!("controller {controller_number} is killed")),
            6 => end_controller(run, controller, Death::Machine, restart_ms)
                .then(|| format!("controller {controller_number} loses power")),
            7 | 8 => Some(self.cut(run)),
            9 => {
                let one_in = self.rng.between(1, 4);
                run.simulation.break_connections(one_in);
                Some(format!("one in {one_in} connections breaks"))
            }
            10 => Some(self.slow_down(run)),
            11 => Some(self.set_clock(run)),
            12 => {
                let disk = &run.brokers[any].machine.disk;
                disk.set_capacity(Some(disk.used() + self.rng.below(2_000)));
                self.lasts(run, End::FullDisk(any));
                Some(format!("the disk of broker {number} is full"))
            }
            13 => self.fail_disk(run, any),
            14 => run.brokers[any].running().map(|_| self.isolate(run, any)),
            15 => self.end_all_controllers(run),
            16 => run.brokers[any].running().map(|_| self.garble(run, any)),
            _ => {
                let may = all_controllers_run(run);
                may.then(|| {
                    run.controllers[controller].fail_disk();
                    format!("the disk of controller {controller_number} fails")
                })
            }
        }
    }

    /// Cuts one machine off from another or from all, in one direction or both.
    fn cut(&mut self, run: &Run) -> String {
        let all = machines(run);
        let one = all[self.rng.below(all.len() as u64) as usize];
        let other = all[self.rng.below(all.len() as u64) as usize];
        let from_all = self.rng.one_in(3);
        let (there, back) = [(true, true), (true, false), (false, true)][self.rng.below(3) as usize];
        for peer in all.into_iter().filter(|peer| *peer != one && (from_all || *peer == other)) {
            if there {
                run.simulation.cut(one, peer);
            }
            if back {
                run.simulation.cut(peer, one);
            }
        }
        self.lasts(run, End::Cuts);
        let whom = if from_all { "all".to_owned() } else { other.to_string() };
        format!("{one} is cut off from {whom}: there {there}, back {back}")
    }

    /// All controllers lose power at once: what they have committed is on their disks.
    fn end_all_controllers(&mut self, run: &mut Run) -> Option<String> {
        if !all_controllers_run(run) {
            return None;
        }
        let now_ms = run.simulation.elapsed_ms();
        for controller in &mut run.controllers {
            controller.machine.end(Death::Machine, now_ms + self.rng.between(DOWN_MS.0, DOWN_MS.1));
        }
        Some("all controllers lose power".to_owned())
    }

    /// Cuts a broker off from the others, not from its clients, and kills it: it has taken records that they have not.
    fn isolate(&mut self, run: &Run, index: usize) -> String {
        let own = broker_address(index as u8 + 1).ip();
        let all = run.brokers.iter().map(|broker| broker_address(broker.number).ip());
        for other in all.filter(|other| *other != own) {
            run.simulation.cut(own, other);
            run.simulation.cut(other, own);
        }
        let now_ms = run.simulation.elapsed_ms();
        self.lasting.push((now_ms + self.rng.between(LASTS_MS.0, ISOLATED_MAX_MS), End::Life(index)));
        self.lasts(run, End::Cuts);
        format!("broker {} is cut off from the other brokers, and will be killed", index + 1)
    }

    fn slow_down(&mut self, run: &Run) -> String {
        let delays = match self.rng.below(3) {
            0 => Delays { network_ms: (1, 80), ..Delays::default() },
            1 => Delays { disk_ms: (5, 300), ..Delays::default() },
            _ => Delays { slow_one_in: 5, slow_ms: 1_000, ..Delays::default() },
        };
        run.simulation.set_delays(delays);
        self.lasts(run, End::Delays);
        format!("{delays:?}")
    }

    fn set_clock(&mut self, run: &Run) -> String {
        let all = machines(run);
        let one = all[self.rng.below(all.len() as u64) as usize];
        let off_ms = self.rng.below(2 * CLOCK_OFF_MAX_MS) as i64 - CLOCK_OFF_MAX_MS as i64;
        run.simulation.set_clock_off(one, off_ms);
        format!("the clock of {one} is {off_ms} ms off")
    }

    /// Some reads of records give wrong bits.
    fn garble(&mut self, run: &Run, index: usize) -> String {
        let times = self.rng.between(1, 6) as u32;
        run.brokers[index].machine.disk.garble_reads(READ_AT, times, flip_a_bit);
        self.misread.insert(index);
        format!("{times} reads of broker {} give wrong bits", index + 1)
    }

    /// A write or a sync fails once: what was not durable then may be gone.
    fn fail_disk(&mut self, run: &Run, index: usize) -> Option<String> {
        if !may_lose_data(run, index) {
            return None;
        }
        let op = if self.rng.one_in(2) { Op::Sync } else { Op::Write };
        let skip = self.rng.below(4) as u32;
        run.brokers[index].machine.disk.inject(Fault {
            op,
            path_contains: ".log".to_owned(),
            skip,
            times: 1,
            errno: EIO,
        });
        Some(format!("a {op:?} of broker {} fails", index + 1))
    }
}

/// Flips a bit in the records of a batch that was read, if a batch was: the checksum tells. That the bytes before them are
/// wrong no checksum would tell, as little as in Kafka.
fn flip_a_bit(read: &mut [u8], rng: &mut Seeded) -> bool {
    let batch = BatchHeader::parse(read).ok().filter(|header| header.total_bytes() <= read.len());
    let Some(records) = batch.and_then(|header| read.get_mut(BATCH_HEADER_BYTES..header.total_bytes())) else {
        return false;
    };
    let at = rng.below(records.len() as u64) as usize;
    records.get_mut(at).is_some_and(|byte| {
        *byte ^= 1 << rng.below(8);
        true
    })
}

/// Addresses of all machines.
fn machines(run: &Run) -> Vec<IpAddr> {
    let controllers = (1..=MACHINES).map(|number| controller_address(number).ip());
    let brokers = run.brokers.iter().map(|broker| broker_address(broker.number).ip());
    controllers.chain(brokers).chain((1..=5).map(client_address)).collect()
}

/// Ends a controller; a minority of them may be down.
fn end_controller(run: &mut Run, index: usize, death: Death, restart_ms: u64) -> bool {
    all_controllers_run(run) && run.controllers[index].machine.end(death, restart_ms)
}

fn all_controllers_run(run: &Run) -> bool {
    run.controllers.iter().all(|controller| controller.controller().is_some())
}

/// Whether broker `index` may lose what is not durable: no other one may have lost something that it has not got back, or be
/// about to by a fault of its disk that has yet to come.
fn may_lose_data(run: &Run, index: usize) -> bool {
    let mut others = run.brokers.iter().enumerate().filter(|(other, _)| *other != index);
    others.all(|(_, other)| !other.has_lost && !other.machine.disk.is_to_fail())
}

/// Brokers that have everything again since they last lost something.
pub(super) fn recovered(run: &Run) -> BTreeSet<BrokerId> {
    let in_all = |id: BrokerId| {
        let mut partitions = run.newest.topics().iter().flat_map(|topic| &topic.partitions);
        partitions.all(|state| state.isr.contains(&id) || !state.replicas.contains(&id))
    };
    let is_back = |broker: &&super::machines::BrokerMachine| {
        let registered = run.newest.broker(broker.id()).map(|registered| registered.epoch);
        let own = broker.running().map(|running| running.broker.identity().epoch);
        own.is_some() && own == registered && in_all(broker.id())
    };
    run.brokers.iter().filter(is_back).map(super::machines::BrokerMachine::id).collect()
}

/// How long it takes until somebody starts what has failed again.
pub(super) fn unnoticed_ms(rng: &mut Seeded) -> u64 {
    rng.between(UNNOTICED_MS.0, UNNOTICED_MS.1)
}
