//! A machine with a controller on it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use taffrail_controller::{Controller, ControllerOptions, Dialer, Folder, MetadataDir};
use taffrail_runtime::disk::fault::{Fault, FaultDisk, Op};
use taffrail_runtime::grpc::Listener;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::random;
use taffrail_runtime::simulation::{Death, Host, Simulation};

use super::{CLUSTER, Slot, controller_address, controllers, settings};

/// Silence after which a broker is fenced.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// Where the metadata are.
const DIR: &str = "/metadata";

/// An error number of the operating system: input/output error.
const EIO: i32 = 5;

/// The machine.
pub(in crate::cluster) struct ControllerMachine {
    pub(in crate::cluster) number: u8,
    pub(in crate::cluster) disk: FaultDisk,
    pub(in crate::cluster) host: Option<Host>,
    /// When a process is started again on it.
    pub(in crate::cluster) restart_at_ms: Option<u64>,
    slot: Slot<Rc<Controller>>,
    /// Why the process has ended by itself.
    ended: Slot<String>,
}

impl ControllerMachine {
    pub(in crate::cluster) fn new(number: u8) -> Self {
        let disk = FaultDisk::new(random::u64());
        Self { number, disk, host: None, restart_at_ms: None, slot: Slot::default(), ended: Slot::default() }
    }

    /// The controller, while it runs.
    pub(in crate::cluster) fn controller(&self) -> Option<Rc<Controller>> {
        self.slot.borrow().clone()
    }

    /// Why the process has ended by itself, if it has.
    pub(in crate::cluster) fn ended(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// Starts the process.
    pub(in crate::cluster) fn start(&mut self, simulation: &Simulation) -> Result<(), String> {
        (self.slot, self.ended) = (Slot::default(), Slot::default());
        self.restart_at_ms = None;
        let (number, disk) = (self.number, self.disk.clone());
        let (slot, ended) = (Rc::clone(&self.slot), Rc::clone(&self.ended));
        let main = async move {
            let reason = live(number, disk, &slot).await;
            slot.borrow_mut().take();
            *ended.borrow_mut() = Some(reason);
        };
        let host = Host::start(simulation, controller_address(self.number).ip(), main);
        self.host = Some(host.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Has every sync of the disk fail until the machine is started again.
    pub(in crate::cluster) fn fail_disk(&self) {
        self.disk.inject(Fault { op: Op::Sync, path_contains: String::new(), skip: 0, times: u32::MAX, errno: EIO });
    }

    /// Ends the process, or the machine with it.
    pub(in crate::cluster) fn die(&mut self, death: Death) {
        let Some(host) = self.host.take() else { return };
        self.slot.borrow_mut().take();
        // What the process does while it is taken apart never happened.
        self.disk.lose_power_at(0);
        host.end(death);
        match death {
            Death::Process => self.disk.kill(),
            Death::Machine => {
                self.disk.crash();
                self.disk.heal();
            }
        }
    }
}

/// The life of a process; gives why it ended.
async fn live(number: u8, disk: FaultDisk, slot: &Slot<Rc<Controller>>) -> String {
    let address = controller_address(number);
    let socket = match TcpListener::bind(address).await {
        Ok(socket) => socket,
        Err(error) => return error.to_string(),
    };
    let started = Controller::start(ControllerOptions {
        id: i32::from(number),
        metadata_dir: MetadataDir::Disk(Folder::on(Arc::new(disk), DIR)),
        bootstrap: Some(CLUSTER),
        cluster: Some(CLUSTER),
        servers: controllers(),
        dialer: Dialer::default(),
        listener: Listener::Tcp(socket),
        advertised: address.to_string(),
        static_config: settings(),
        session_timeout: SESSION_TIMEOUT,
    });
    let controller = match started.await {
        Ok(controller) => Rc::new(controller),
        Err(error) => return error.to_string(),
    };
    *slot.borrow_mut() = Some(Rc::clone(&controller));
    controller.failed().await.to_string()
}
