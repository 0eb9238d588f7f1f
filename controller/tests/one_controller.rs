//! A controller that is alone, through its gRPC service, as brokers and the operator use it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::Duration;

use common::{heartbeat, register, register_as, registration};
use taffrail_controller::{
    Cause, Changes, Controller, ControllerError, ControllerOptions, Dialer, DirectoryError, MetadataDir,
};
use taffrail_core::config::Overrides;
use taffrail_core::control::{Command, CreateTopics, DeleteTopics, NewTopic, ProducerIdBlock, Reply, TopicRef};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::v1::controller_client::ControllerClient;
use taffrail_protocol::rpc::{
    CallError, ControllerCalls, HeartbeatAnswer, MESSAGE_BYTES_MAX, RPC_VERSION, Update, command_to_message, v1,
};
use taffrail_runtime::grpc::{self, Target};
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::time;
use tonic::transport::Channel;

const CLUSTER: Uuid = Uuid([1; 16]);
const SESSION_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

type Calls = ControllerCalls<Channel>;

fn options(metadata_dir: MetadataDir, listener: grpc::Listener, bootstrap: Option<Uuid>) -> ControllerOptions {
    ControllerOptions {
        id: 100,
        metadata_dir,
        bootstrap,
        cluster: None,
        servers: Vec::new(),
        dialer: Dialer::default(),
        listener,
        advertised: "localhost:9093".to_owned(),
        static_config: Overrides::new(),
        session_timeout: SESSION_TIMEOUT,
    }
}

async fn start(metadata_dir: MetadataDir) -> (Controller, Calls, Channel) {
    let (listener, connector) = grpc::memory();
    let options = options(metadata_dir, grpc::Listener::Memory(listener), Some(CLUSTER));
    let controller = Controller::start(options).await.unwrap();
    let channel = grpc::connect(Target::Memory(connector)).unwrap();
    (controller, ControllerCalls::new(channel.clone()), channel)
}

fn create(name: &str) -> Command {
    Command::CreateTopics(CreateTopics { topics: vec![NewTopic::sized(name, 3, 1)], validate_only: false })
}

async fn created(calls: &Calls, name: &str) -> Result<i64, ErrorCode> {
    let committed = calls.propose(&create(name)).await.unwrap();
    match committed.reply {
        Reply::TopicsCreated(mut topics) => topics.remove(0).1.map(|_| committed.offset).map_err(|error| error.code),
        other => panic!("{other:?}"),
    }
}

/// Follows from `image` until it has reached `offset`.
async fn follow(calls: &Calls, image: &mut MetadataImage, offset: i64) {
    let mut stream = calls.follow(image.offset() + 1, image.cluster_id()).await.unwrap();
    while image.offset() < offset {
        match time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap() {
            Update::Snapshot(snapshot) => *image = snapshot,
            Update::Events(batch) => {
                assert_eq!(batch.base_offset, image.offset() + 1);
                batch.events.iter().for_each(|event| image.apply(event).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn what_is_proposed_reaches_followers_as_the_controller_applied_it() {
    let (controller, calls, _) = start(MetadataDir::Memory).await;
    let mut image = MetadataImage::default();
    follow(&calls, &mut image, 0).await;
    assert_eq!(image.cluster_id(), Some(CLUSTER));
    register(&calls, 1).await;
    let offset = created(&calls, "a").await.unwrap();
    follow(&calls, &mut image, offset).await;
    assert_eq!(image, *controller.image());
    assert_eq!(created(&calls, "a").await, Err(ErrorCode::TopicAlreadyExists));
    let deleted = calls.propose(&Command::DeleteTopics(DeleteTopics { topics: vec![TopicRef::named("a")] })).await;
    let offset = deleted.unwrap().offset;
    let mut late = MetadataImage::default();
    follow(&calls, &mut late, offset).await;
    follow(&calls, &mut image, offset).await;
    assert_eq!(image, late, "early and late followers see the same");
    let status = calls.status().await.unwrap();
    assert_eq!((status.cluster_id, status.controller_id), (Some(CLUSTER), 100));
    assert_eq!(status.metadata_offset, offset);
    assert_eq!(status.active, Some(status.voters[0].clone()));
    controller.stop().await.unwrap();
}

#[tokio::test]
async fn elections_and_changes_of_isrs_are_counted_by_their_cause() {
    let (controller, calls, _) = start(MetadataDir::Memory).await;
    let broker = register(&calls, 1).await;
    created(&calls, "a").await.unwrap();
    let view = controller.view(1);
    let made = |count: fn(&Changes) -> u64| -> Vec<(Cause, u64)> {
        view.changes().map(|(cause, changes)| (cause, count(&changes))).filter(|(_, count)| *count > 0).collect()
    };
    calls.propose(&Command::FenceBroker(broker)).await.unwrap();
    assert_eq!(made(|it| it.elections), [], "there is nobody to elect, and a first leader is not elected");
    assert_eq!(made(|it| it.isr_shrinks), [], "the last one stays in the ISR");
    calls.propose(&Command::UnfenceBroker(broker)).await.unwrap();
    assert_eq!(made(|it| it.elections), [(Cause::BrokerReturned, 3)], "each partition has a leader again");
    let other = register_as(&calls, BrokerId(1), 2).await;
    let replicated = NewTopic { partitions: 4, replication_factor: 2, ..NewTopic::new("b") };
    let create = CreateTopics { topics: vec![replicated], validate_only: false };
    calls.propose(&Command::CreateTopics(create)).await.unwrap();
    calls.propose(&Command::FenceBroker(other)).await.unwrap();
    assert_eq!(made(|it| it.isr_shrinks), [(Cause::BrokerFenced, 4)], "it leaves the ISR of each partition");
    assert_eq!(made(|it| it.isr_expands), []);
    controller.stop().await.unwrap();
}

#[tokio::test]
async fn many_commands_at_once_are_all_answered_and_none_is_done_twice() {
    let (controller, calls, _) = start(MetadataDir::Memory).await;
    let broker = register(&calls, 1).await;
    let asking = (0..200).map(|_| {
        let calls = calls.clone();
        taffrail_runtime::task::spawn(async move { calls.propose(&Command::AllocateProducerIds(broker)).await })
    });
    let mut firsts = Vec::new();
    for asked in asking.collect::<Vec<_>>() {
        match asked.await.unwrap().unwrap().reply {
            Reply::ProducerIdsAllocated(ProducerIdBlock { first, .. }) => firsts.push(first),
            other => panic!("{other:?}"),
        }
    }
    firsts.sort_unstable();
    assert_eq!(firsts, (0..200).map(|block| block * 1_000).collect::<Vec<_>>());
    controller.stop().await.unwrap();
}

#[tokio::test]
async fn a_restart_finds_everything() {
    let folder = tempfile::tempdir().unwrap();
    let dir = || MetadataDir::Folder(folder.path().join("controller"));
    let (controller, calls, _) = start(dir()).await;
    register(&calls, 1).await;
    for topic in ["a", "b", "c"] {
        created(&calls, topic).await.unwrap();
    }
    let before = MetadataImage::clone(&controller.image());
    drop(calls);
    controller.stop().await.unwrap();

    let (controller, calls, _) = start(dir()).await;
    assert_eq!(*controller.image(), before);
    assert_eq!(created(&calls, "a").await, Err(ErrorCode::TopicAlreadyExists));
    let broker = register(&calls, 2).await;
    assert!(broker.epoch > before.offset(), "a new life has a new epoch");
    let state = &controller.image().topic("a").unwrap().partitions[0].clone();
    assert_eq!((state.leader, state.leader_epoch), (BrokerId(0), 2), "led again, under a new epoch");
    controller.stop().await.unwrap();
}

#[tokio::test]
async fn a_folder_in_use_an_empty_one_without_a_grant_and_a_wiped_one_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller");
    let try_start = async |bootstrap| {
        let (listener, _connector) = grpc::memory();
        let dir = MetadataDir::Folder(path.clone());
        Controller::start(options(dir, grpc::Listener::Memory(listener), bootstrap)).await.map(drop).unwrap_err()
    };
    let refused = try_start(None).await;
    assert!(matches!(refused, ControllerError::Directory(DirectoryError::NotGranted { .. })), "{refused}");
    let (controller, calls, _) = start(MetadataDir::Folder(path.clone())).await;
    let refused = try_start(Some(CLUSTER)).await;
    assert!(matches!(refused, ControllerError::Directory(DirectoryError::InUse { .. })), "{refused}");
    drop(calls);
    controller.stop().await.unwrap();
    let refused = try_start(Some(Uuid([2; 16]))).await;
    assert!(matches!(refused, ControllerError::Directory(DirectoryError::Foreign { .. })), "{refused}");
    std::fs::remove_dir_all(path.join("raft")).unwrap();
    let refused = try_start(Some(CLUSTER)).await;
    assert!(matches!(refused, ControllerError::Directory(DirectoryError::Wiped { .. })), "{refused}");
}

/// What was cut off is the end of the database, as a disk loses it; the shortest rests lack even the first entries.
#[tokio::test]
async fn a_controller_with_a_cut_database_is_refused_or_decides_but_never_waits_for_a_leader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller");
    let (controller, calls, _) = start(MetadataDir::Folder(path.clone())).await;
    register(&calls, 1).await;
    drop(calls);
    controller.stop().await.unwrap();
    let database = path.join("raft/db");
    let whole = std::fs::read(&database).unwrap();
    let config = std::fs::read(path.join("raft/conf")).unwrap();
    let mut refused = 0;
    for len in (0..whole.len()).step_by(whole.len() / 10) {
        std::fs::remove_dir_all(path.join("raft")).unwrap();
        std::fs::create_dir(path.join("raft")).unwrap();
        std::fs::write(path.join("raft/conf"), &config).unwrap();
        std::fs::write(&database, &whole[..len]).unwrap();
        let (listener, connector) = grpc::memory();
        let options = options(MetadataDir::Folder(path.clone()), grpc::Listener::Memory(listener), Some(CLUSTER));
        match time::timeout(PATIENCE, Controller::start(options)).await.unwrap() {
            Err(_) => refused += 1,
            Ok(controller) => {
                let calls = ControllerCalls::new(grpc::connect(Target::Memory(connector)).unwrap());
                let answer = time::timeout(PATIENCE, calls.propose(&registration(2))).await.unwrap();
                assert!(answer.is_ok(), "cut to {len} of {}: {answer:?}", whole.len());
                drop(calls);
                controller.stop().await.unwrap();
            }
        }
    }
    assert!(refused > 0, "the shortest cannot be used");
}

#[tokio::test]
async fn silent_brokers_are_fenced_and_come_back_with_their_next_heartbeat() {
    let (controller, calls, _) = start(MetadataDir::Memory).await;
    let broker = register(&calls, 1).await;
    created(&calls, "a").await.unwrap();
    let leader = || controller.image().topic("a").unwrap().partitions[0].leader;
    assert_eq!(leader(), BrokerId(0));
    let deadline = time::monotonic() + PATIENCE;
    while controller.image().is_active(BrokerId(0)) {
        assert!(time::monotonic() < deadline, "a silent broker is fenced");
        time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(leader(), BrokerId::NONE);
    let stale = calls.heartbeat(&heartbeat(broker.epoch - 1, 0)).await.unwrap_err();
    assert_eq!(stale.into_refusal().code, ErrorCode::StaleBrokerEpoch);
    let behind = calls.heartbeat(&heartbeat(broker.epoch, broker.epoch - 1)).await.unwrap();
    assert_eq!((behind.fenced, behind.caught_up), (true, false), "not before it has caught up");
    let HeartbeatAnswer { fenced, metadata_offset, .. } = calls.heartbeat(&heartbeat(broker.epoch, 99)).await.unwrap();
    assert!(!fenced);
    assert_eq!(metadata_offset, controller.image().offset());
    assert_eq!(leader(), BrokerId(0));
    controller.stop().await.unwrap();
}

#[tokio::test]
async fn absurd_and_foreign_requests_are_refused_and_disturb_nobody() {
    let (controller, calls, channel) = start(MetadataDir::Memory).await;
    register(&calls, 1).await;
    let mut raw = ControllerClient::new(channel).max_encoding_message_size(usize::MAX);
    let propose = |version, command| v1::ProposeRequest { format_version: version, command, forwarded: false };
    let newer = raw.propose(propose(RPC_VERSION + 1, Some(command_to_message(&create("x"))))).await.unwrap_err();
    assert_eq!(newer.code(), tonic::Code::FailedPrecondition);
    assert!(newer.message().contains("format version 2"), "{newer}");
    let nothing = raw.propose(propose(RPC_VERSION, None)).await.unwrap_err();
    assert_eq!(nothing.code(), tonic::Code::InvalidArgument);
    let huge = command_to_message(&create(&"x".repeat(MESSAGE_BYTES_MAX)));
    let huge = raw.propose(propose(RPC_VERSION, Some(huge))).await.unwrap_err();
    assert_eq!(huge.code(), tonic::Code::OutOfRange, "{huge}");
    let founding = Command::CreateCluster { cluster_id: Uuid([3; 16]) };
    let founding = calls.propose(&founding).await.unwrap_err();
    assert_eq!(founding.into_refusal().code, ErrorCode::InvalidRequest);
    let stranger = calls.follow(0, Some(Uuid([3; 16]))).await.unwrap_err();
    assert!(matches!(stranger, CallError::Protocol(_)), "{stranger}");
    assert!(created(&calls, "fine").await.is_ok());
    controller.stop().await.unwrap();
}

/// Names the folder to the child process of the next test.
const CHILD_FOLDER: &str = "TAFFRAIL_TEST_CONTROLLER_FOLDER";

/// Not a test of its own: the process that the next test kills. Without its variable it does nothing.
#[test]
fn child_process() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    taffrail_runtime::task::block_on(2, async move {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        println!("listening {}", listener.local_addr().unwrap());
        let dir = MetadataDir::Folder(PathBuf::from(folder));
        let running = Controller::start(options(dir, grpc::Listener::Tcp(listener), Some(CLUSTER))).await.unwrap();
        time::sleep(Duration::from_secs(60)).await;
        drop(running);
    })
    .unwrap();
}

fn spawn_child(folder: &Path) -> (Child, Calls) {
    let mut child = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process", "--nocapture"])
        .env(CHILD_FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.map_while(Result::ok).find_map(|line| Some(line.split_once("listening ")?.1.to_owned()));
    let channel = grpc::connect(Target::Address(address.unwrap())).unwrap();
    (child, ControllerCalls::new(channel))
}

#[tokio::test]
async fn whatever_was_answered_survives_a_kill() {
    const KILLS: u8 = 5;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller");
    let mut acknowledged = Vec::new();
    for life in 0..KILLS {
        let (mut child, calls) = spawn_child(&path);
        let calls = &calls;
        let deadline = time::monotonic() + PATIENCE;
        while calls.status().await.ok().and_then(|status| status.active.and(status.cluster_id)).is_none() {
            assert!(time::monotonic() < deadline, "a restarted controller leads");
            time::sleep(Duration::from_millis(5)).await;
        }
        register(calls, life + 1).await;
        let work = async {
            for number in 0.. {
                let name = format!("t-{life}-{number}");
                let Ok(committed) = calls.propose(&create(&name)).await else { return };
                if let Reply::TopicsCreated(topics) = committed.reply {
                    acknowledged.push((name, topics[0].1.as_ref().unwrap().id));
                }
            }
        };
        let _ = time::timeout(Duration::from_millis(150 + 40 * u64::from(life)), work).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(acknowledged.len() > usize::from(KILLS), "{} topics", acknowledged.len());
    let (controller, calls, _) = start(MetadataDir::Folder(path)).await;
    let image = controller.image();
    for (name, id) in acknowledged {
        assert_eq!(image.topic(&name).map(|topic| (topic.id, topic.partition_count())), Some((id, 3)), "{name}");
    }
    drop(calls);
    controller.stop().await.unwrap();
}
