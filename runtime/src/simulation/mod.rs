//! Simulated machines on one thread: a seed decides everything that happens between them.
//!
//! Each machine is a runtime of its own with a paused clock; the [`Simulation`] lets one after the other work for a
//! millisecond. So the death of a process is the end of its runtime, with every task in it, whoever started it. Machines
//! meet in the simulated network only, and `net`, `time`, `random`, `shard` and `blocking` find themselves in a simulation
//! by the thread that they run on: code above this crate does not know.

mod host;
mod network;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

pub use host::{Death, Host, on_own_thread};
use network::Network;
pub(crate) use network::{Listener, Stream, connect, listen};

use crate::random::Seeded;

/// When a simulation begins, in milliseconds since 1970.
const BEGINNING_MS: i64 = 1_800_000_000_000;

thread_local! {
    static WORLD: RefCell<Option<Arc<World>>> = const { RefCell::new(None) };
}

/// How long things take, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// A piece of data on its way from one machine to another, at least and at most.
    pub network_ms: (u64, u64),
    /// Once in so many pieces, it takes `slow_ms` instead.
    pub slow_one_in: u64,
    /// How long at most then.
    pub slow_ms: u64,
    /// A job for the disk, at least and at most.
    pub disk_ms: (u64, u64),
}

impl Default for Delays {
    fn default() -> Self {
        Self { network_ms: (1, 2), slow_one_in: 200, slow_ms: 30, disk_ms: (0, 2) }
    }
}

/// What all machines share.
#[derive(Debug)]
pub(crate) struct World {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rng: Seeded,
    delays: Delays,
    elapsed_ms: u64,
    /// The machine that works now.
    here: Option<IpAddr>,
    /// How far the clocks of machines are off.
    clocks_off_ms: BTreeMap<IpAddr, i64>,
    network: Network,
}

impl State {
    fn network_delay(&mut self) -> u64 {
        let Delays { network_ms: (low, high), slow_one_in, slow_ms, .. } = self.delays;
        if self.rng.one_in(slow_one_in) {
            self.rng.between(high, slow_ms.max(high))
        } else {
            self.rng.between(low, high)
        }
    }
}

/// A simulation, which owns the thread that it was begun on until it is dropped.
pub struct Simulation {
    world: Arc<World>,
}

impl Simulation {
    /// Begins a simulation on this thread.
    pub fn begin(seed: u64) -> Self {
        let state = State {
            rng: Seeded::new(seed),
            delays: Delays::default(),
            elapsed_ms: 0,
            here: None,
            clocks_off_ms: BTreeMap::new(),
            network: Network::default(),
        };
        let world = Arc::new(World { state: Mutex::new(state) });
        let before = WORLD.replace(Some(Arc::clone(&world)));
        assert!(before.is_none(), "a thread has one simulation at a time");
        Self { world }
    }

    /// Lets a millisecond pass on the network. The machines live through it in [`Host::tick`].
    pub fn advance(&self) {
        let mut state = self.world.state.lock();
        state.elapsed_ms += 1;
        let woken = state.deliver();
        drop(state);
        wake(woken);
    }

    /// Milliseconds since the beginning.
    pub fn elapsed_ms(&self) -> u64 {
        self.world.state.lock().elapsed_ms
    }

    /// The right time, in milliseconds since 1970.
    pub fn unix_ms(&self) -> i64 {
        BEGINNING_MS + i64::try_from(self.elapsed_ms()).unwrap_or(i64::MAX)
    }

    /// How long things take from now on.
    pub fn set_delays(&self, delays: Delays) {
        self.world.state.lock().delays = delays;
    }

    /// Sets the clock of a machine so far off the right time.
    pub fn set_clock_off(&self, address: IpAddr, off_ms: i64) {
        self.world.state.lock().clocks_off_ms.insert(address, off_ms);
    }

    /// Holds back everything from one machine to the other, until [`Self::heal`].
    pub fn cut(&self, from: IpAddr, to: IpAddr) {
        self.world.state.lock().network.cut(from, to);
    }

    /// Ends all cuts; what was held back arrives.
    pub fn heal(&self) {
        self.world.state.lock().network.heal();
    }

    /// Breaks one in `one_in` of the connections that there are.
    pub fn break_connections(&self, one_in: u64) {
        let mut state = self.world.state.lock();
        let state = &mut *state;
        let woken = state.network.break_some(&mut state.rng, one_in);
        wake(woken);
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        WORLD.set(None);
    }
}

/// The world of this thread, if it is simulated.
fn world() -> Option<Arc<World>> {
    // A thread that ends has none any more.
    WORLD.try_with(|world| world.borrow().clone()).ok().flatten()
}

/// The time since the beginning, and the machine that works, if this thread is simulated; for those who print it.
pub fn moment() -> Option<(u64, Option<IpAddr>)> {
    let world = world()?;
    let state = world.state.try_lock()?;
    Some((state.elapsed_ms, state.here))
}

/// Whether this thread is simulated.
pub(crate) fn is_on() -> bool {
    world().is_some()
}

/// Now on the clock of the machine that works, if it is a simulated one.
pub(crate) fn unix_ms() -> Option<i64> {
    let world = world()?;
    let state = world.state.lock();
    let off_ms = state.here.and_then(|here| state.clocks_off_ms.get(&here)).copied().unwrap_or(0);
    Some(BEGINNING_MS + i64::try_from(state.elapsed_ms).unwrap_or(i64::MAX) + off_ms)
}

/// Fills `bytes` from the seed; false = this thread is not simulated.
pub(crate) fn fill(bytes: &mut [u8]) -> bool {
    let Some(world) = world() else { return false };
    let mut state = world.state.lock();
    state.rng.fill(bytes);
    tracing::trace!(here = ?state.here, bytes = bytes.len(), "random bytes");
    true
}

/// How long the next job for the disk takes, if this thread is simulated.
pub(crate) fn disk_delay() -> Option<std::time::Duration> {
    let world = world()?;
    let mut state = world.state.lock();
    let (low, high) = state.delays.disk_ms;
    let delay_ms = state.rng.between(low, high);
    tracing::trace!(here = ?state.here, delay_ms, "a job for the disk");
    Some(std::time::Duration::from_millis(delay_ms))
}

/// Not under the lock of the world: what is woken may be dropped, and be a connection.
fn wake(woken: Vec<Waker>) {
    woken.into_iter().for_each(Waker::wake);
}
