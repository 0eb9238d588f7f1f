//! What all machines have in common: a disk, and a process on it that comes and goes.

use std::net::IpAddr;
use std::rc::Rc;

use taffrail_runtime::disk::fault::FaultDisk;
use taffrail_runtime::random;
use taffrail_runtime::simulation::{Death, Host, Simulation};

use super::Slot;

/// A machine whose process shows `P` to the run.
pub(in crate::cluster) struct Machine<P> {
    pub(in crate::cluster) disk: FaultDisk,
    pub(in crate::cluster) host: Option<Host>,
    /// When a process is started again on it.
    pub(in crate::cluster) restart_at_ms: Option<u64>,
    slot: Slot<P>,
    /// Why the process has ended by itself.
    ended: Slot<String>,
}

impl<P: Clone + 'static> Machine<P> {
    pub(super) fn new() -> Self {
        let disk = FaultDisk::new(random::u64());
        Self { disk, host: None, restart_at_ms: None, slot: Slot::default(), ended: Slot::default() }
    }

    /// What the process shows, while it runs.
    pub(super) fn shown(&self) -> Option<P> {
        self.slot.borrow().clone()
    }

    /// Why the process has ended by itself, if it has.
    pub(in crate::cluster) fn ended(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// Starts a process, which lives as `life` has it, and gives why it ended.
    pub(super) fn start<L>(
        &mut self,
        simulation: &Simulation,
        address: IpAddr,
        life: impl FnOnce(FaultDisk, Slot<P>) -> L,
    ) -> Result<(), String>
    where
        L: Future<Output = String> + 'static,
    {
        (self.slot, self.ended) = (Slot::default(), Slot::default());
        self.restart_at_ms = None;
        let life = life(self.disk.clone(), Rc::clone(&self.slot));
        let (slot, ended) = (Rc::clone(&self.slot), Rc::clone(&self.ended));
        let main = async move {
            let reason = life.await;
            slot.borrow_mut().take();
            *ended.borrow_mut() = Some(reason);
        };
        self.host = Some(Host::start(simulation, address, main).map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Ends the process, or the machine with it, until `restart_at_ms`; false = there is none.
    pub(in crate::cluster) fn end(&mut self, death: Death, restart_at_ms: u64) -> bool {
        let Some(host) = self.host.take() else { return false };
        self.slot.borrow_mut().take();
        // What the process does while it is taken apart never happened.
        self.disk.lose_power_at(0);
        host.end(death);
        match death {
            Death::Process => self.disk.kill(),
            Death::Machine => {
                self.disk.crash();
                // A new disk, or at least no orders to fail any more.
                self.disk.heal();
            }
        }
        self.restart_at_ms = Some(restart_at_ms);
        true
    }
}
