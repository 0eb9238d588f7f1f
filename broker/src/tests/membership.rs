//! Following and registering, against a scripted controller behind real gRPC.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use taffrail_core::config::Overrides;
use taffrail_core::control::{BrokerIdentity, Command, ControlError, RegisterBroker};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::MetadataEvent;
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_protocol::persisted::metadata::{EventBatch, snapshot_messages};
use taffrail_protocol::rpc::v1::controller_server::{Controller as ControllerRpc, ControllerServer};
use taffrail_protocol::rpc::{RPC_VERSION, command_from_message, refusal_to_message, v1};
use taffrail_runtime::grpc::{self, Target};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{task, time};
use taffrail_storage::disk::real::RealDisk;
use taffrail_storage::{Storage, StorageOptions};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use super::cluster::{FixedLoggers, SOON};
use crate::{Broker, BrokerParts, Controller, ControllerHandle, Registration, RegistrationError, follow_metadata};

type Update = Result<v1::MetadataUpdate, Status>;
type Reply = Result<v1::Reply, ControlError>;

/// What the controller answers, in order, and what it was asked.
#[derive(Default)]
struct Script {
    /// One list of updates for each stream that is asked for; the stream ends after them, the last one stays open.
    streams: Mutex<VecDeque<Vec<v1::metadata_update::Update>>>,
    replies: Mutex<VecDeque<Reply>>,
    heartbeats: Mutex<VecDeque<Result<(bool, i64), ControlError>>>,
    attendances: AtomicUsize,
    followed_from: Mutex<Vec<i64>>,
    proposed: Mutex<Vec<Command>>,
}

impl Script {
    fn answer(&self, request: &v1::HeartbeatRequest) -> v1::HeartbeatReply {
        let mut reply = v1::HeartbeatReply { format_version: RPC_VERSION, ..v1::HeartbeatReply::default() };
        reply.may_go = request.leaving_since.is_some_and(|_| self.heartbeats.lock().is_empty());
        match self.heartbeats.lock().pop_front().unwrap_or(Ok((false, 0))) {
            Ok((fenced, metadata_offset)) => v1::HeartbeatReply { fenced, metadata_offset, caught_up: true, ..reply },
            Err(error) => v1::HeartbeatReply { refusal: Some(refusal_to_message(&error)), ..reply },
        }
    }
}

#[derive(Clone)]
struct Scripted(Arc<Script>);

#[tonic::async_trait]
impl ControllerRpc for Scripted {
    type FollowStream = ReceiverStream<Update>;
    type AttendStream = ReceiverStream<Result<v1::HeartbeatReply, Status>>;

    async fn propose(&self, request: Request<v1::ProposeRequest>) -> Result<Response<v1::ProposeReply>, Status> {
        use v1::propose_reply::Outcome;
        let command = command_from_message(request.into_inner().command.unwrap()).unwrap();
        self.0.proposed.lock().push(command);
        let outcome = match self.0.replies.lock().pop_front().unwrap() {
            Ok(reply) => Outcome::Reply(reply),
            Err(error) => Outcome::Refusal(refusal_to_message(&error)),
        };
        let outcome = Some(outcome);
        Ok(Response::new(v1::ProposeReply { format_version: RPC_VERSION, outcome, ..v1::ProposeReply::default() }))
    }

    async fn follow(&self, request: Request<v1::FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
        self.0.followed_from.lock().push(request.into_inner().from_offset);
        let (updates, is_last) = {
            let mut streams = self.0.streams.lock();
            let updates = streams.pop_front().ok_or_else(|| Status::unavailable("not now"))?;
            (updates, streams.is_empty())
        };
        let (sender, receiver) = mpsc::channel(1);
        drop(task::spawn(async move {
            for update in updates {
                let update = v1::MetadataUpdate { format_version: RPC_VERSION, update: Some(update) };
                if sender.send(Ok(update)).await.is_err() {
                    return;
                }
            }
            if is_last {
                sender.closed().await;
            }
        }));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn heartbeat(&self, request: Request<v1::HeartbeatRequest>) -> Result<Response<v1::HeartbeatReply>, Status> {
        Ok(Response::new(self.0.answer(&request.into_inner())))
    }

    async fn attend(
        &self,
        request: Request<Streaming<v1::HeartbeatRequest>>,
    ) -> Result<Response<Self::AttendStream>, Status> {
        self.0.attendances.fetch_add(1, Ordering::Relaxed);
        let (script, mut heartbeats) = (Arc::clone(&self.0), request.into_inner());
        let (sender, receiver) = mpsc::channel(1);
        drop(task::spawn(async move {
            while let Ok(Some(heartbeat)) = heartbeats.message().await {
                let answer = script.answer(&heartbeat);
                let is_last = answer.refusal.is_some();
                if sender.send(Ok(answer)).await.is_err() || is_last {
                    return;
                }
            }
        }));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusReply>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn describe_quorum(
        &self,
        _: Request<v1::DescribeQuorumRequest>,
    ) -> Result<Response<v1::DescribeQuorumReply>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn change_voters(
        &self,
        _: Request<v1::ChangeVotersRequest>,
    ) -> Result<Response<v1::ChangeVotersReply>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}

/// A broker and its way to the scripted controller.
struct Stage {
    script: Arc<Script>,
    controllers: Arc<ControllerHandle>,
    broker: Arc<Broker>,
    shutdown: Shutdown,
    _dir: tempfile::TempDir,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

async fn stage(script: Script) -> Stage {
    let script = Arc::new(script);
    let (listener, connector) = grpc::memory();
    let shutdown = Shutdown::new();
    let routes = Routes::new(ControllerServer::new(Scripted(Arc::clone(&script))));
    drop(task::spawn(grpc::serve(grpc::Listener::Memory(listener), routes, shutdown.clone())));
    let members = vec![("memory".to_owned(), Target::Memory(connector))];
    let controllers = Arc::new(ControllerHandle::new(members).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let storage = Storage::open(StorageOptions::new(dir.path()), Arc::new(RealDisk::new())).await.unwrap();
    let parts = BrokerParts {
        id: BrokerId(1),
        static_config: Overrides::new(),
        storage,
        controller: Arc::clone(&controllers) as Arc<dyn Controller>,
        loggers: Arc::new(FixedLoggers),
    };
    let broker = Broker::new(parts).unwrap();
    Stage { script, controllers, broker, shutdown, _dir: dir }
}

impl Stage {
    fn follow(&self) {
        let (controllers, broker) = (Arc::clone(&self.controllers), Arc::clone(&self.broker));
        let shutdown = self.shutdown.clone();
        drop(task::spawn(async move { follow_metadata(&controllers, &broker, 0, &shutdown).await }));
    }

    async fn register(&self) -> Result<Registration, RegistrationError> {
        let (controllers, broker) = (Arc::clone(&self.controllers), Arc::clone(&self.broker));
        Registration::register(controllers, broker, request(), &self.shutdown).await
    }

    async fn reaches(&self, offset: i64) {
        assert!(self.broker.metadata.wait_for(offset, time::monotonic() + SOON).await, "the broker reaches {offset}");
    }
}

fn events(base_offset: i64, count: i64) -> v1::metadata_update::Update {
    let event = |offset| match offset {
        0 => MetadataEvent::ClusterCreated { cluster_id: Uuid([9; 16]) },
        _ => MetadataEvent::FeatureLevelChanged { name: format!("f{offset}").into(), level: 1 },
    };
    let events = (base_offset..base_offset + count).map(event).collect();
    v1::metadata_update::Update::Events(EventBatch { base_offset, events }.to_message())
}

/// An image as the first `count` events make it.
fn image(count: i64) -> MetadataImage {
    let v1::metadata_update::Update::Events(batch) = events(0, count) else { unreachable!() };
    let mut image = MetadataImage::default();
    EventBatch::from_message(batch).unwrap().events.iter().for_each(|event| image.apply(event).unwrap());
    image
}

fn snapshot(count: i64) -> Vec<v1::metadata_update::Update> {
    use v1::metadata_update::Update as Part;
    let image = image(count);
    let (header, chunks) = snapshot_messages(&image);
    std::iter::once(Part::Snapshot(header)).chain(chunks.map(Part::SnapshotChunk)).collect()
}

#[tokio::test]
async fn a_follower_goes_on_where_it_was_and_starts_anew_where_something_is_missing() {
    let mut first = snapshot(3);
    first.push(events(3, 2));
    let script = Script {
        streams: Mutex::new(VecDeque::from([
            first,
            // Goes on, then leaves something out.
            vec![events(5, 1), events(8, 1)],
            // An event that does not fit: the cluster cannot be created twice.
            vec![events(0, 2), events(2, 1), {
                let created = MetadataEvent::ClusterCreated { cluster_id: Uuid([9; 16]) };
                v1::metadata_update::Update::Events(EventBatch { base_offset: 3, events: vec![created] }.to_message())
            }],
            snapshot(12),
        ])),
        ..Script::default()
    };
    let stage = stage(script).await;
    stage.follow();
    stage.reaches(11).await;
    assert_eq!(*stage.broker.metadata.image(), image(12));
    assert_eq!(*stage.script.followed_from.lock(), [0, 5, 0, 0]);
}

fn request() -> RegisterBroker {
    RegisterBroker {
        id: BrokerId(1),
        cluster_id: None,
        incarnation: Uuid([3; 16]),
        rack: None,
        listeners: Vec::new(),
        log_dirs: Vec::new(),
        features: Default::default(),
        unclean_shutdown: false,
        min_in_sync: None,
    }
}

fn registered(epoch: i64) -> Reply {
    let kind = v1::reply::Kind::BrokerRegistered(v1::BrokerRegistered { epoch });
    Ok(v1::Reply { kind: Some(kind) })
}

fn refused(code: ErrorCode) -> ControlError {
    ControlError::plain(code)
}

#[tokio::test]
async fn a_broker_registers_when_the_id_is_free_and_serves_when_it_has_caught_up() {
    let script = Script {
        streams: Mutex::new(VecDeque::from([snapshot(7)])),
        replies: Mutex::new(VecDeque::from([
            Err(refused(ErrorCode::NotController)),
            Err(refused(ErrorCode::DuplicateBrokerRegistration)),
            registered(4),
        ])),
        heartbeats: Mutex::new(VecDeque::from([Ok((true, 0)), Ok((true, 0)), Ok((false, 6))])),
        ..Script::default()
    };
    let stage = stage(script).await;
    let mut registration = stage.register().await.unwrap();
    assert_eq!(registration.epoch(), 4);
    assert_eq!(*stage.script.proposed.lock(), std::array::from_fn::<_, 3, _>(|_| Command::RegisterBroker(request())));
    let serving = registration.serve(&stage.shutdown);
    let mut serving = std::pin::pin!(serving);
    let early = time::timeout(std::time::Duration::from_millis(50), serving.as_mut()).await;
    assert!(early.is_err(), "not before the metadata are here");
    stage.follow();
    time::timeout(SOON, serving).await.unwrap().unwrap();
    assert_eq!(stage.broker.metadata.image().offset(), 6);
    assert!(stage.script.heartbeats.lock().is_empty());
}

#[tokio::test]
async fn a_lost_registration_is_made_anew_and_a_foreign_cluster_is_final() {
    let script = Script {
        replies: Mutex::new(VecDeque::from([
            registered(4),
            registered(9),
            Err(refused(ErrorCode::InconsistentClusterId)),
        ])),
        heartbeats: Mutex::new(VecDeque::from([
            Ok((false, 0)),
            Err(refused(ErrorCode::BrokerIdNotRegistered)),
            Ok((false, 0)),
            Err(refused(ErrorCode::StaleBrokerEpoch)),
        ])),
        ..Script::default()
    };
    let stage = stage(script).await;
    let mut registration = stage.register().await.unwrap();
    let interval = std::time::Duration::from_millis(1);
    let keeping = registration.keep(interval, &stage.shutdown);
    let ended = time::timeout(SOON, keeping).await.unwrap().unwrap_err();
    assert!(
        matches!(&ended, RegistrationError::Refused { error, .. } if error.code == ErrorCode::InconsistentClusterId),
        "{ended}"
    );
    assert_eq!(registration.epoch(), 9);
}

#[tokio::test]
async fn a_stop_ends_every_wait() {
    let stage = stage(Script { replies: Mutex::new(VecDeque::from([registered(4)])), ..Script::default() }).await;
    let mut registration = stage.register().await.unwrap();
    stage.shutdown.trigger();
    let serving = registration.serve(&stage.shutdown);
    assert!(matches!(time::timeout(SOON, serving).await.unwrap(), Err(RegistrationError::Stopping)));
    let interval = std::time::Duration::from_secs(3_600);
    let keeping = registration.keep(interval, &stage.shutdown);
    assert!(time::timeout(SOON, keeping).await.unwrap().is_ok());
    time::timeout(SOON, follow_metadata(&stage.controllers, &stage.broker, 0, &stage.shutdown)).await.unwrap();
}

#[tokio::test]
async fn a_broker_attends_at_its_controller_and_hands_over_before_it_leaves() {
    let done = || Ok(v1::Reply { kind: Some(v1::reply::Kind::Done(v1::Done {})) });
    let script = Script { replies: Mutex::new(VecDeque::from([registered(4), done(), done()])), ..Script::default() };
    let stage = stage(script).await;
    let mut registration = stage.register().await.unwrap();
    assert_eq!(stage.broker.identity(), BrokerIdentity { id: BrokerId(1), epoch: 4 });
    let interval = std::time::Duration::from_millis(4);
    let leaving = Shutdown::new();
    // Pulses go on over the one connection until there is no answer to be had.
    stage.script.heartbeats.lock().extend(vec![Ok((false, 0)); 20]);
    let pulses = async {
        let deadline = time::monotonic() + SOON;
        while !stage.script.heartbeats.lock().is_empty() {
            assert!(time::monotonic() < deadline, "heartbeats go on");
            time::sleep(interval).await;
        }
        leaving.trigger();
    };
    let (kept, ()) = tokio::join!(registration.keep(interval, &leaving), pulses);
    assert!(kept.is_ok());
    assert_eq!(stage.script.attendances.load(Ordering::Relaxed), 1);
    // Not before the controller lets it go.
    stage.script.heartbeats.lock().extend(vec![Ok((false, 0)); 3]);
    time::timeout(SOON, registration.leave(SOON)).await.unwrap();
    assert!(stage.script.heartbeats.lock().is_empty());
    let identity = BrokerIdentity { id: BrokerId(1), epoch: 4 };
    let proposed = stage.script.proposed.lock();
    assert_eq!(proposed[1..], [Command::BeginShutdown(identity), Command::FenceBroker(identity)]);
}
