//! What the active controller makes of brokers: who is gone, who may go, what it does by itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::brokers::{Fake, beat, calls, create_on, partition, propose};
use common::proxy::Proxy;
use common::{CLUSTER, Calls, Group, PATIENCE};
use taffrail_controller::{Controller, ControllerOptions, Dialer, MetadataDir};
use taffrail_core::config::Overrides;
use taffrail_core::control::{Command, FollowerLag, JudgeRestart, Reply};
use taffrail_core::event::BrokerDuty;
use taffrail_core::ids::BrokerId;
use taffrail_runtime::grpc::{self, Target};
use taffrail_runtime::{task, time};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Silence of a broker that attends is missed after a sixth of it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// A controller that is alone, and brokers.
struct Stage {
    controller: Controller,
    target: Target,
    calls: Calls,
    brokers: Vec<Fake>,
}

impl Stage {
    async fn start(brokers: i32) -> Self {
        let (listener, connector) = grpc::memory();
        let started = Controller::start(ControllerOptions {
            id: 100,
            metadata_dir: MetadataDir::Memory,
            bootstrap: Some(CLUSTER),
            cluster: None,
            servers: Vec::new(),
            dialer: Dialer::default(),
            listener: grpc::Listener::Memory(listener),
            advertised: "localhost:9093".to_owned(),
            static_config: Overrides::new(),
            session_timeout: SESSION_TIMEOUT,
        });
        let target = Target::Memory(connector);
        let calls = calls(target.clone());
        let mut stage = Self { controller: started.await.unwrap(), target, calls, brokers: Vec::new() };
        for id in 0..brokers {
            stage.brokers.push(Fake::start(id, std::slice::from_ref(&stage.target)).await);
        }
        stage.until("all serve", |stage| (0..brokers).all(|id| stage.serves(id))).await;
        stage
    }

    fn serves(&self, id: i32) -> bool {
        self.controller.image().is_active(BrokerId(id))
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = time::monotonic() + PATIENCE;
        while !holds(self) {
            assert!(time::monotonic() < deadline, "{what}");
            time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_whose_process_dies_is_fenced_at_once_and_others_lead() {
    let mut stage = Stage::start(3).await;
    let topic = create_on(&stage.calls, "t", &[0, 1, 2]).await;
    let started = time::monotonic();
    stage.brokers.remove(0).die();
    stage.until("it is fenced", |stage| !stage.serves(0)).await;
    println!("fenced after {:?}", started.elapsed());
    assert!(started.elapsed() < SESSION_TIMEOUT, "long before its session ends");
    let state = partition(&stage.controller.image(), topic);
    assert_eq!((state.leader, &*state.isr), (BrokerId(1), &[BrokerId(1), BrokerId(2)][..]));
    assert!(stage.serves(1) && stage.serves(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_dies_while_another_is_away_is_fenced_when_that_one_is_back() {
    let mut stage = Stage::start(3).await;
    stage.brokers.remove(0).die();
    stage.until("the first is fenced", |stage| !stage.serves(0)).await;
    let died = time::monotonic();
    stage.brokers.remove(0).die();
    time::sleep(SESSION_TIMEOUT / 10).await;
    assert!(stage.serves(1), "one at a time: it may be the controller that is cut off");
    stage.brokers.push(Fake::start_again(0, 1, std::slice::from_ref(&stage.target)).await);
    stage.until("the second is fenced", |stage| !stage.serves(1)).await;
    assert!(died.elapsed() < SESSION_TIMEOUT, "long before its session ends");
    assert!(stage.serves(0) && stage.serves(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_stops_is_missed_before_its_session_ends() {
    let stage = Stage::start(2).await;
    let [first, second] = [0, 1].map(|id| stage.brokers[id].identity);
    for broker in &stage.brokers {
        broker.living.abort();
    }
    // They attend, over connections that stay open, and say nothing more.
    let mut silent = Vec::new();
    for identity in [first, second] {
        let (sender, receiver) = mpsc::channel(1);
        let mut answers = stage.calls.attend(ReceiverStream::new(receiver)).await.unwrap();
        let heartbeat = beat(identity, i64::MAX, Vec::new(), None);
        sender.send(taffrail_protocol::rpc::heartbeat_to_message(&heartbeat)).await.unwrap();
        assert!(!answers.next().await.unwrap().fenced);
        silent.push((sender, answers));
    }
    let started = time::monotonic();
    stage.until("one is fenced", |stage| !stage.serves(0) || !stage.serves(1)).await;
    assert!(started.elapsed() < SESSION_TIMEOUT / 2);
    assert!(stage.serves(0) || stage.serves(1), "one at a time: it may be the controller that is cut off");
    stage.until("the other one too", |stage| !stage.serves(0) && !stage.serves(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_goes_back_when_the_preferred_leader_is_in_sync_again() {
    let mut stage = Stage::start(2).await;
    let topic = create_on(&stage.calls, "t", &[0, 1]).await;
    let leader = |stage: &Stage| partition(&stage.controller.image(), topic).leader;
    let address = stage.brokers[0].identity;
    assert_eq!(leader(&stage), BrokerId(0));
    propose(&stage.calls, &Command::FenceBroker(address)).await;
    assert_eq!(leader(&stage), BrokerId(1));
    stage.until("its next heartbeat brings it back", |stage| stage.serves(0)).await;
    assert_eq!(leader(&stage), BrokerId(1), "it is not in sync");
    let state = partition(&stage.controller.image(), topic);
    let change = stage.brokers[1].set_isr(topic, &state, &[0, 1]);
    assert!(matches!(propose(&stage.calls, &change).await, Reply::PartitionsAltered(done) if done[0].outcome.is_ok()));
    stage.until("it leads again", |stage| leader(stage) == BrokerId(0)).await;
    stage.brokers.clear();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_broker_keeps_nothing_in_the_end() {
    let stage = Stage::start(3).await;
    let topic = create_on(&stage.calls, "t", &[0, 1]).await;
    let drain = Command::SetBrokerDuty { broker: BrokerId(0), duty: BrokerDuty::Draining };
    propose(&stage.calls, &drain).await;
    let state = |stage: &Stage| partition(&stage.controller.image(), topic);
    stage.until("its heir is being added", |stage| state(stage).adding == [BrokerId(2)]).await;
    let moving = state(&stage);
    let change = stage.brokers[usize::try_from(moving.leader.0).unwrap()].set_isr(topic, &moving, &[0, 1, 2]);
    propose(&stage.calls, &change).await;
    let done = state(&stage);
    assert_eq!((done.replicas.contains(&BrokerId(0)), done.is_reassigning()), (false, false), "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_may_go_when_the_others_know_that_it_leads_nothing() {
    let stage = Stage::start(3).await;
    create_on(&stage.calls, "t", &[0, 1, 2]).await;
    let leaving = stage.brokers[0].identity;
    stage.brokers[0].living.abort();
    let handed_over = stage.calls.propose(&Command::BeginShutdown(leaving)).await.unwrap().offset;
    let heartbeat = beat(leaving, handed_over, Vec::new(), Some(handed_over));
    let may_go = async || stage.calls.heartbeat(&heartbeat).await.unwrap().may_go;
    assert!(!may_go().await, "nobody has said that it knows");
    stage.brokers[1].applied.store(handed_over, Ordering::Relaxed);
    time::sleep(Duration::from_millis(150)).await;
    assert!(!may_go().await, "one of two");
    stage.brokers[2].applied.store(handed_over, Ordering::Relaxed);
    let deadline = time::monotonic() + PATIENCE;
    while !may_go().await {
        assert!(time::monotonic() < deadline, "all know");
        time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_names_who_is_behind_as_the_leader_has_reported() {
    let stage = Stage::start(2).await;
    let topic = create_on(&stage.calls, "t", &[0, 1]).await;
    let state = partition(&stage.controller.image(), topic);
    propose(&stage.calls, &stage.brokers[0].set_isr(topic, &state, &[0])).await;
    let report = |records| vec![(topic, 0, vec![FollowerLag { broker: BrokerId(1), records }])];
    let [leader, follower] = [0, 1].map(|id| stage.brokers[id].identity);
    stage.calls.heartbeat(&beat(leader, 0, report(17), None)).await.unwrap();
    stage.calls.heartbeat(&beat(follower, 0, report(99), None)).await.unwrap();
    let judge = Command::JudgeRestart(JudgeRestart { brokers: [BrokerId(0)].into(), ..JudgeRestart::default() });
    let Reply::RestartJudged(verdict) = propose(&stage.calls, &judge).await else { panic!("no verdict") };
    assert_eq!(verdict.blocking[0].behind[0].records, Some(17), "who does not lead is not listened to");
    let many = vec![(topic, 0, Vec::new()); taffrail_core::control::REPORTED_PARTITIONS_MAX + 1];
    let mut message = taffrail_protocol::rpc::heartbeat_to_message(&beat(leader, 0, many, None));
    assert_eq!(message.lags.len(), taffrail_core::control::REPORTED_PARTITIONS_MAX, "more have their turn later");
    message.lags.push(message.lags[0].clone());
    let mut raw = taffrail_protocol::rpc::v1::controller_client::ControllerClient::new(
        grpc::connect(stage.target.clone()).unwrap(),
    );
    assert_eq!(raw.heartbeat(message).await.unwrap_err().code(), tonic::Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_all_cut_for_a_moment_fence_nobody() {
    let group = Group::founded(3).await;
    let mut proxies = Vec::new();
    for server in &group.servers {
        proxies.push(Proxy::to(server.clone()).await);
    }
    let targets: Vec<Target> = proxies.iter().map(|proxy| Target::Address(proxy.address.clone())).collect();
    let mut brokers = Vec::new();
    for id in 0..3 {
        brokers.push(Fake::start(id, &targets).await);
    }
    let active = group.active().await;
    let serve = |group: &Group| (0..3).all(|id| group.running(active).image().is_active(BrokerId(id)));
    group.until("all serve", async |group| serve(group)).await;
    let topic = create_on(&group.calls(active), "t", &[0, 1, 2]).await;
    let before = partition(&group.running(active).image(), topic);
    let term = group.calls(active).status().await.unwrap().term;
    for _ in 0..3 {
        proxies.iter().for_each(Proxy::cut);
        time::sleep(Duration::from_millis(200)).await;
        assert!(serve(&group));
        proxies.iter().for_each(Proxy::mend);
        // Longer than somebody who attends may be silent.
        let deadline = time::monotonic() + common::SESSION_TIMEOUT / 4;
        while time::monotonic() < deadline {
            assert!(serve(&group), "a broker that lives was fenced");
            time::sleep(Duration::from_millis(20)).await;
        }
    }
    let status = group.calls(active).status().await.unwrap();
    assert_eq!((status.term, group.active().await), (term, active), "no controller was elected");
    assert_eq!(partition(&group.running(active).image(), topic), before, "nor a leader");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_active_controller_fences_nobody() {
    let mut group = Group::founded(3).await;
    let targets: Vec<Target> = group.servers.iter().cloned().map(Target::Address).collect();
    let mut brokers = Vec::new();
    for id in 0..2 {
        brokers.push(Fake::start(id, &targets).await);
    }
    let first = group.active().await;
    let serve = |group: &Group, index: usize| (0..2).all(|id| group.running(index).image().is_active(BrokerId(id)));
    group.until("all serve", async |group| serve(group, first)).await;
    group.stop(first).await;
    let second = group.active().await;
    let watch = task::spawn(async { time::sleep(common::SESSION_TIMEOUT / 4).await });
    while !watch.is_finished() {
        assert!(serve(&group, second));
        time::sleep(Duration::from_millis(20)).await;
    }
    // It has heard of both: whoever dies now is missed as ever.
    drop(brokers.remove(0));
    group.until("it is fenced", async |group| !serve(group, second)).await;
    assert!(group.running(second).image().is_active(BrokerId(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_died_before_a_new_controller_heard_of_it_is_fenced_before_its_session_ends() {
    let mut group = Group::founded(3).await;
    let targets: Vec<Target> = group.servers.iter().cloned().map(Target::Address).collect();
    let first = group.active().await;
    let living = Fake::start(0, &targets).await;
    let dying = Fake::start(1, &targets[first..=first]).await;
    let serve = |group: &Group, index: usize| (0..2).all(|id| group.running(index).image().is_active(BrokerId(id)));
    group.until("all serve", async |group| serve(group, first)).await;
    group.stop(first).await;
    dying.die();
    let second = group.active().await;
    assert!(serve(&group, second), "the one before did not see it die");
    let active_since = time::monotonic();
    group.until("it is fenced", async |group| !group.running(second).image().is_active(BrokerId(1))).await;
    assert!(active_since.elapsed() < common::SESSION_TIMEOUT, "long before its session ends");
    assert!(group.running(second).image().is_active(living.identity.id));
}
