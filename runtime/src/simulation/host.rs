//! A machine with one process.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::{Simulation, World};

/// Stack of a thread that simulates: everything runs on it, and futures of unoptimized builds are large.
const STACK_BYTES: usize = 64 << 20;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process alone: the system closes its connections.
    Process,
    /// The machine: nobody is told, and what is sent there is lost.
    Machine,
}

/// A process on a machine of its own, which works when it is told to.
pub struct Host {
    address: IpAddr,
    world: Arc<World>,
    runtime: Runtime,
    local: LocalSet,
    begun: Instant,
    ticks: u64,
}

impl Host {
    /// Starts a process on the machine at `address`, which runs `main`; what `main` starts runs on after its end.
    ///
    /// # Errors
    /// When the operating system refuses a runtime.
    pub fn start<F>(simulation: &Simulation, address: IpAddr, main: F) -> std::io::Result<Self>
    where
        F: Future<Output = ()> + 'static,
    {
        let world = Arc::clone(&simulation.world);
        world.state.lock().network.machine_is_up(address);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let local = LocalSet::new();
        local.spawn_local(main);
        let begun = runtime.block_on(async { Instant::now() });
        Ok(Self { address, world, runtime, local, begun, ticks: 0 })
    }

    /// Lets the process work for a millisecond.
    pub fn tick(&mut self) {
        self.ticks += 1;
        let until = self.begun + Duration::from_millis(self.ticks);
        self.at_work(|host| {
            host.runtime.block_on(host.local.run_until(async { tokio::time::sleep_until(until).await }));
        });
    }

    /// Ends the process.
    pub fn end(self, death: Death) {
        {
            let mut state = self.world.state.lock();
            let due_ms = state.elapsed_ms + state.network_delay();
            state.network.host_dies(self.address, death, due_ms);
        }
        let Self { address, world, runtime, local, .. } = self;
        let before = world.state.lock().here.replace(address);
        drop(local);
        drop(runtime);
        world.state.lock().here = before;
    }

    fn at_work(&mut self, work: impl FnOnce(&mut Self)) {
        let before = self.world.state.lock().here.replace(self.address);
        work(self);
        self.world.state.lock().here = before;
    }
}

/// Does `work` on a thread that has done nothing before, with room for deep calls, and waits for it; `None` = it panicked.
///
/// # Errors
/// When the operating system refuses a thread.
pub fn on_own_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Option<T>> {
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(work)?;
    Ok(thread.join().ok())
}
