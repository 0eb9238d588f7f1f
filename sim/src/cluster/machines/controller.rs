//! A machine with a controller on it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use taffrail_controller::{Controller, ControllerOptions, Dialer, Folder, MetadataDir};
use taffrail_runtime::disk::fault::{Fault, FaultDisk, Op};
use taffrail_runtime::grpc::Listener;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::simulation::Simulation;

use super::{CLUSTER, Machine, Slot, controller_address, controllers, settings};

/// Silence after which a broker is fenced.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// Where the metadata are.
const DIR: &str = "/metadata";

/// An error number of the operating system: input/output error.
const EIO: i32 = 5;

/// The machine.
pub(in crate::cluster) struct ControllerMachine {
    pub(in crate::cluster) number: u8,
    pub(in crate::cluster) machine: Machine<Rc<Controller>>,
}

impl ControllerMachine {
    pub(in crate::cluster) fn new(number: u8) -> Self {
        Self { number, machine: Machine::new() }
    }

    /// The controller, while it runs.
    pub(in crate::cluster) fn controller(&self) -> Option<Rc<Controller>> {
        self.machine.shown()
    }

    /// Starts the process.
    pub(in crate::cluster) fn start(&mut self, simulation: &Simulation) -> Result<(), String> {
        let number = self.number;
        let address = controller_address(number).ip();
        self.machine.start(simulation, address, |disk, slot| async move { live(number, disk, &slot).await })
    }

    /// Has every sync of the disk fail until the machine is started again.
    pub(in crate::cluster) fn fail_disk(&self) {
        self.machine.disk.inject(Fault {
            op: Op::Sync,
            path_contains: String::new(),
            skip: 0,
            times: u32::MAX,
            errno: EIO,
        });
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
