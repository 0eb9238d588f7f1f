//! Several controllers in one process, over loopback.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "not every test needs all of it")]

pub(crate) mod brokers;
pub(crate) mod proxy;

use std::path::{Path, PathBuf};
use std::time::Duration;

use taffrail_controller::{Controller, ControllerError, ControllerOptions, Dialer, MetadataDir};
use taffrail_core::config::Overrides;
use taffrail_core::control::{BrokerIdentity, Command, CreateTopics, NewTopic, RegisterBroker, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{Listener, SecurityProtocol};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_protocol::rpc::{CallError, ControllerCalls, Heartbeat};
use taffrail_runtime::grpc::{self, Target};
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::time;
use tonic::transport::Channel;

pub(crate) const CLUSTER: Uuid = Uuid([1; 16]);
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(9);

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) type Calls = ControllerCalls<Channel>;

/// One controller of a group: its place outlives it.
pub(crate) struct Place {
    pub(crate) id: i32,
    pub(crate) address: String,
    pub(crate) dir: PathBuf,
    /// Bound but not yet served.
    listener: Option<TcpListener>,
    pub(crate) running: Option<Controller>,
}

/// Controllers that know of each other.
pub(crate) struct Group {
    pub(crate) places: Vec<Place>,
    pub(crate) servers: Vec<String>,
    folder: tempfile::TempDir,
}

impl Group {
    /// Places for `count` controllers; none runs.
    pub(crate) async fn new(count: i32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut group = Self { places: Vec::new(), servers: Vec::new(), folder };
        for id in 1..=count {
            group.add_place(id).await;
        }
        group.servers = group.places.iter().map(|place| place.address.clone()).collect();
        group
    }

    /// One more place, which the others were not told of.
    pub(crate) async fn add_place(&mut self, id: i32) -> usize {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let dir = self.folder.path().join(format!("controller-{id}-{}", self.places.len()));
        self.places.push(Place { id, address, dir, listener: Some(listener), running: None });
        self.places.len() - 1
    }

    /// All of them, founded and with a leader.
    pub(crate) async fn founded(count: i32) -> Self {
        let mut group = Self::new(count).await;
        for index in 0..group.places.len() {
            group.start(index, Some(CLUSTER)).await.unwrap();
        }
        group.all_founded().await;
        group
    }

    pub(crate) async fn start(&mut self, index: usize, bootstrap: Option<Uuid>) -> Result<(), ControllerError> {
        let servers = self.servers.clone();
        self.start_with(index, bootstrap, servers).await
    }

    pub(crate) async fn start_with(
        &mut self,
        index: usize,
        bootstrap: Option<Uuid>,
        servers: Vec<String>,
    ) -> Result<(), ControllerError> {
        let place = &mut self.places[index];
        let listener = match place.listener.take() {
            Some(listener) => listener,
            None => TcpListener::bind(place.address.parse().unwrap()).await.unwrap(),
        };
        let started = Controller::start(ControllerOptions {
            id: place.id,
            metadata_dir: MetadataDir::Folder(place.dir.clone()),
            bootstrap,
            cluster: None,
            servers,
            dialer: Dialer::default(),
            listener: grpc::Listener::Tcp(listener),
            advertised: place.address.clone(),
            static_config: Overrides::new(),
            session_timeout: SESSION_TIMEOUT,
        });
        place.running = Some(started.await?);
        Ok(())
    }

    pub(crate) async fn stop(&mut self, index: usize) {
        self.places[index].running.take().unwrap().stop().await.unwrap();
    }

    pub(crate) fn running(&self, index: usize) -> &Controller {
        self.places[index].running.as_ref().unwrap()
    }

    pub(crate) fn calls(&self, index: usize) -> Calls {
        Calls::new(grpc::connect(Target::Address(self.places[index].address.clone())).unwrap())
    }

    /// Waits until all that run know of the founding.
    pub(crate) async fn all_founded(&self) {
        for place in &self.places {
            if let Some(controller) = &place.running {
                let founded = time::timeout(PATIENCE, controller.founded()).await;
                assert_eq!(founded.ok(), Some(CLUSTER), "controller {}", place.id);
            }
        }
    }

    /// The active controller, once there is one.
    pub(crate) async fn active(&self) -> usize {
        let deadline = time::monotonic() + PATIENCE;
        loop {
            let active = |place: &Place| place.running.as_ref().is_some_and(Controller::is_active);
            if let Some(index) = self.places.iter().position(active)
                && self.calls(index).describe_quorum().await.is_ok()
            {
                return index;
            }
            assert!(time::monotonic() < deadline, "somebody is active");
            time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until `holds` does.
    pub(crate) async fn until(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        let deadline = time::monotonic() + PATIENCE;
        while !holds(self).await {
            assert!(time::monotonic() < deadline, "{what}");
            time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Numbers of those who vote, as the active controller sees them.
    pub(crate) async fn voters(&self) -> Vec<i32> {
        let quorum = self.calls(self.active().await).describe_quorum().await.unwrap();
        quorum.voters.iter().map(|voter| voter.voter.id).collect()
    }

    /// Creates a topic, at whichever controller `index` is; tries again while nobody is active.
    pub(crate) async fn create(&self, index: usize, name: &str) -> i64 {
        let calls = self.calls(index);
        let deadline = time::monotonic() + PATIENCE;
        loop {
            match calls.propose(&create(name)).await {
                Ok(committed) => return committed.offset,
                Err(error) => {
                    assert!(error.is_retriable() && time::monotonic() < deadline, "{error}");
                    time::sleep(Duration::from_millis(2)).await;
                }
            }
        }
    }
}

pub(crate) fn create(name: &str) -> Command {
    Command::CreateTopics(CreateTopics { topics: vec![NewTopic::sized(name, 1, 1)], validate_only: false })
}

/// The registration of broker 0 by a process of its.
pub(crate) fn registration(incarnation: u8) -> Command {
    registration_of(BrokerId(0), incarnation)
}

fn registration_of(id: BrokerId, incarnation: u8) -> Command {
    Command::RegisterBroker(RegisterBroker {
        id,
        cluster_id: None,
        incarnation: Uuid([incarnation; 16]),
        rack: None,
        listeners: vec![Listener {
            name: "PLAINTEXT".into(),
            host: "localhost".into(),
            port: 9092,
            security: SecurityProtocol::Plaintext,
        }],
        log_dirs: vec![Uuid([7 + id.0 as u8; 16])],
        unclean_shutdown: false,
        features: Default::default(),
        min_in_sync: None,
    })
}

/// Registers broker 0, and makes it serve.
pub(crate) async fn register(calls: &Calls, incarnation: u8) -> BrokerIdentity {
    register_as(calls, BrokerId(0), incarnation).await
}

/// Registers a broker, and makes it serve.
pub(crate) async fn register_as(calls: &Calls, id: BrokerId, incarnation: u8) -> BrokerIdentity {
    let Reply::BrokerRegistered { epoch } = calls.propose(&registration_of(id, incarnation)).await.unwrap().reply
    else {
        panic!("no registration")
    };
    assert!(!calls.heartbeat(&Heartbeat { broker: id, ..heartbeat(epoch, epoch) }).await.unwrap().fenced);
    BrokerIdentity { id, epoch }
}

pub(crate) fn heartbeat(epoch: i64, metadata_offset: i64) -> Heartbeat {
    Heartbeat {
        broker: BrokerId(0),
        epoch,
        metadata_offset,
        ready: true,
        lags: Vec::new(),
        leaving_since: None,
        unanswered: false,
    }
}

pub(crate) fn refusal(outcome: Result<(), CallError>) -> ErrorCode {
    match outcome {
        Err(CallError::Refused { error, .. }) => error.code,
        other => panic!("{other:?} instead of a refusal"),
    }
}

/// Removes everything from a folder, as a new disk would be.
pub(crate) fn wipe(dir: &Path) {
    std::fs::remove_dir_all(dir).unwrap();
}
