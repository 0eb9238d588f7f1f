//! A machine with a broker on it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, join, select};
use taffrail_broker::{Broker, BrokerParts, ControllerHandle, Loggers, Registration, follow_metadata, keep_in_sync};
use taffrail_core::control::{LogLevel, LoggerChanges, RegisterBroker};
use taffrail_core::event::{Listener, SecurityProtocol};
use taffrail_core::ids::BrokerId;
use taffrail_runtime::grpc::Target;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shard::Shards;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::simulation::{Death, Simulation};
use taffrail_runtime::{random, task};
use taffrail_storage::disk::fault::FaultDisk;
use taffrail_storage::identity::MetaProperties;
use taffrail_storage::{Maintenance, Storage, StorageOptions};

use super::repeating::Repeating;
use super::{CLUSTER, Machine, Slot, broker_address, controllers, settings};

/// Name of the listener.
pub(super) const LISTENER: &str = "PLAINTEXT";

/// How long leaving in order may take, as of a process by default.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where partitions are.
const DIR: &str = "/data";

/// Time between heartbeats of a broker that cannot attend.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// A broker that runs.
#[derive(Clone)]
pub(in crate::cluster) struct Running {
    pub(in crate::cluster) broker: Arc<Broker>,
    pub(in crate::cluster) storage: Arc<Storage>,
}

/// The machine.
pub(in crate::cluster) struct BrokerMachine {
    pub(in crate::cluster) number: u8,
    pub(in crate::cluster) machine: Machine<Running>,
    /// How many processes there were.
    pub(in crate::cluster) life: u64,
    /// Whether it may lack records that it had, and has not got them back.
    pub(in crate::cluster) has_lost: bool,
    /// Whether the machine has gone down since the controllers were last told of that.
    owed: Rc<Cell<bool>>,
    /// What the last process has opened, whether it runs or not.
    opened: Slot<Arc<Storage>>,
    stop: Shutdown,
    /// Whether what leaders propose comes to the controllers more than once.
    repeats: bool,
}

impl BrokerMachine {
    pub(in crate::cluster) fn new(number: u8, repeats: bool) -> Self {
        Self {
            number,
            repeats,
            machine: Machine::new(),
            life: 0,
            has_lost: false,
            owed: Rc::default(),
            opened: Slot::default(),
            stop: Shutdown::new(),
        }
    }

    pub(in crate::cluster) fn id(&self) -> BrokerId {
        BrokerId(i32::from(self.number))
    }

    /// The broker, from its registration on and while it runs.
    pub(in crate::cluster) fn running(&self) -> Option<Running> {
        self.machine.shown()
    }

    /// Starts the process.
    pub(in crate::cluster) fn start(&mut self, simulation: &Simulation) -> Result<(), String> {
        self.stop = Shutdown::new();
        self.life += 1;
        self.opened = Slot::default();
        let (number, owed, opened) = (self.number, Rc::clone(&self.owed), Rc::clone(&self.opened));
        let (stop, repeats) = (self.stop.clone(), self.repeats);
        self.machine.start(simulation, broker_address(number).ip(), |disk, slot| async move {
            let outcome = Process { number, disk, owed, opened, slot, stop, repeats }.live().await;
            outcome.err().unwrap_or_else(|| "it was told to stop".to_owned())
        })
    }

    /// Why the disk takes no writes of the last process any more, if it does not.
    pub(in crate::cluster) fn disk_failure(&self) -> Option<String> {
        self.opened.borrow().as_ref()?.fenced().map(ToString::to_string)
    }

    /// Whether a partition of the process is offline, which it stays until another one starts.
    pub(in crate::cluster) fn has_offline(&self) -> bool {
        self.running().is_some_and(|running| running.storage.logs().iter().any(|log| log.offline().is_some()))
    }

    /// Tells the process to stop in order.
    pub(in crate::cluster) fn stop(&self) {
        self.stop.trigger();
    }

    /// Ends the process, or the machine with it, until `restart_at_ms`; false = there is none.
    pub(in crate::cluster) fn end(&mut self, death: Death, restart_at_ms: u64) -> bool {
        let is_there = self.machine.end(death, restart_at_ms);
        if is_there && death == Death::Machine {
            self.owed.set(true);
            self.has_lost = true;
        }
        is_there
    }
}

/// A process says nothing of its loggers.
struct NoLoggers;

impl Loggers for NoLoggers {
    fn levels(&self) -> BTreeMap<String, LogLevel> {
        BTreeMap::new()
    }

    fn change(&self, _changes: LoggerChanges) -> Result<(), String> {
        Err("there are none".to_owned())
    }
}

/// What a process is started with.
struct Process {
    number: u8,
    disk: FaultDisk,
    owed: Rc<Cell<bool>>,
    opened: Slot<Arc<Storage>>,
    slot: Slot<Running>,
    stop: Shutdown,
    repeats: bool,
}

/// Turns an error into what the run reports.
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Process {
    /// Joins the cluster and serves until it is told to stop, in the order in which `taffrail broker` does it.
    async fn live(self) -> Result<(), String> {
        let (id, address) = (BrokerId(i32::from(self.number)), broker_address(self.number));
        let socket = TcpListener::bind(address).await.map_err(text)?;
        let storage = self.open().await?;
        *self.opened.borrow_mut() = Some(Arc::clone(&storage));
        let is_new =
            storage.logs().is_empty() && MetaProperties::read(&self.disk, Path::new(DIR)).map_err(text)?.is_none();
        if is_new || storage.was_closed() {
            // Everything was durable; whatever happened since took nothing.
            self.owed.set(false);
        }
        let directory_id = self.claim()?;
        let target = |address: String| (address.clone(), Target::Address(address));
        let handle = ControllerHandle::new(controllers().into_iter().map(target).collect()).map_err(text)?;
        let handle = Arc::new(handle);
        let parts = BrokerParts {
            id,
            static_config: settings(),
            storage: Arc::clone(&storage),
            controller: if self.repeats { Arc::new(Repeating(Arc::clone(&handle))) } else { Arc::clone(&handle) as _ },
            loggers: Arc::new(NoLoggers),
        };
        let broker = Broker::new(parts).map_err(text)?;
        let (host, port) = (address.ip().to_string(), address.port());
        let listener =
            Listener { name: LISTENER.into(), host: host.into(), port, security: SecurityProtocol::Plaintext };
        let request = RegisterBroker {
            id,
            cluster_id: Some(CLUSTER),
            incarnation: random::uuid(),
            rack: None,
            listeners: vec![listener],
            log_dirs: vec![directory_id],
            features: BTreeMap::new(),
            unclean_shutdown: self.owed.get(),
            min_in_sync: None,
        };
        let (keep, member, serving) = (Shutdown::new(), Shutdown::new(), Shutdown::new());
        let registered = Registration::register(Arc::clone(&handle), Arc::clone(&broker), request, &member).await;
        let mut registration = registered.map_err(text)?;
        self.owed.set(false);
        *self.slot.borrow_mut() = Some(Running { broker: Arc::clone(&broker), storage: Arc::clone(&storage) });
        let epoch = registration.epoch();
        let following = {
            let (broker, member) = (Arc::clone(&broker), member.clone());
            task::spawn(async move {
                let following = follow_metadata(&handle, &broker, epoch, &member);
                join(following, keep_in_sync(&broker, &member)).await;
            })
        };
        registration.serve(&member).await.map_err(text)?;
        let maintaining = {
            let (maintenance, member) = (Maintenance::new(Arc::clone(&storage)), member.clone());
            task::spawn(async move { maintenance.run(member).await })
        };
        let shards = Arc::new(Shards::start(1, "shard").map_err(text)?);
        let listening = task::spawn(Arc::clone(&broker).serve(LISTENER.into(), socket, shards, serving.clone()));
        let ended = {
            let keeping = registration.keep(HEARTBEAT, &keep);
            let stopped = async {
                self.stop.triggered().await;
                keep.trigger();
                std::future::pending::<()>().await;
            };
            match select(pin!(keeping), pin!(stopped)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(((), _)) => Ok(()),
            }
        };
        ended.map_err(text)?;
        registration.leave(LEAVE_TIMEOUT).await;
        serving.trigger();
        listening.await.map_err(text)?;
        member.trigger();
        following.await.map_err(text)?;
        maintaining.await.map_err(text)?;
        storage.close().await;
        Ok(())
    }

    async fn open(&self) -> Result<Arc<Storage>, String> {
        let mut options = StorageOptions::new(DIR);
        options.recovery_threads = 1;
        options.flush_threads = 1;
        options.high_watermark_ms = 1_000;
        options.checkpoint_ms = 3_000;
        Storage::open(options, Arc::new(self.disk.clone())).await.map_err(text)
    }

    /// Whose directory it is; a new one is this broker's.
    fn claim(&self) -> Result<taffrail_core::ids::Uuid, String> {
        let dir = Path::new(DIR);
        if let Some(found) = MetaProperties::read(&self.disk, dir).map_err(text)? {
            return Ok(found.directory_id);
        }
        let node_id = i32::from(self.number);
        let own = MetaProperties { cluster_id: CLUSTER.to_string(), node_id, directory_id: random::uuid() };
        own.write(&self.disk, dir).map_err(text)?;
        Ok(own.directory_id)
    }
}
