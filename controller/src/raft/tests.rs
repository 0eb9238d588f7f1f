//! Three nodes that speak over sockets: the wire forms, elections and snapshots, without the rest of a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, ServerState, SnapshotPolicy};
use parking_lot::Mutex;
use taffrail_core::event::MetadataEvent;
use taffrail_core::ids::Uuid;
use taffrail_protocol::persisted::metadata::EventBatch;
use taffrail_protocol::rpc::v1::raft_server::RaftServer;
use taffrail_runtime::blocking::Pool;
use taffrail_runtime::grpc::{self, Listener};
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{task, time};
use tonic::service::Routes;

use super::links::Links;
use super::network::Network;
use super::route::Route;
use super::service::RaftService;
use super::{Applied, Events, Member, NodeId, Raft};
use crate::machine::Machine;
use crate::machine::feed::Feed;
use crate::quorum::formation::Seat;
use crate::quorum::liveness::Liveness;
use crate::quorum::members::Members;
use crate::store::MetaStore;
use crate::store::log::RaftLog;
use crate::store::memory::MemoryStore;
use crate::store::snapshots::Snapshots;
use crate::store::tests::Watched;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

struct Node {
    id: NodeId,
    member: Member,
    raft: Raft,
    feed: Arc<Feed>,
    shutdown: Shutdown,
}

impl Node {
    async fn start(number: u64) -> Self {
        Self::start_on(number, Arc::new(MemoryStore::default())).await
    }

    async fn start_on(number: u64, store: Arc<dyn MetaStore>) -> Self {
        let id = NodeId::from(number);
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let member = Member { address: listener.local_addr().unwrap().to_string() };
        let pool = Pool::new("raft-test", 2, 256);
        let feed = Arc::new(Feed::default());
        let log = RaftLog::open(store, pool.clone()).unwrap();
        let snapshots = Arc::new(Snapshots::Memory(Mutex::default()));
        let machine = Machine::open(snapshots, Arc::clone(&feed), pool).unwrap();
        let config = Config {
            heartbeat_interval: 100,
            election_timeout_min: 500,
            election_timeout_max: 1_000,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(20),
            max_in_snapshot_log_to_keep: 0,
            purge_batch_size: 1,
            // Small, so that a snapshot takes several messages.
            snapshot_max_chunk_size: 64,
            ..Config::default()
        };
        let route = Arc::new(Route::new(id, Some(Uuid([1; 16]))));
        let links = Arc::new(Links::default());
        let network = Network { route: Arc::clone(&route), links: Arc::clone(&links) };
        let raft = Raft::new(id, Arc::new(config.validate().unwrap()), network, log, machine).await.unwrap();
        let shutdown = Shutdown::new();
        let liveness = Arc::new(Liveness::new());
        let members = Members::new(raft.clone(), Arc::clone(&route), links, Arc::clone(&liveness));
        let service = RaftService {
            raft: raft.clone(),
            route,
            liveness,
            seat: Arc::new(Seat::new(member.address.clone(), false, Vec::new(), true)),
            members: Arc::new(members),
            shutdown: shutdown.clone(),
        };
        let routes = Routes::new(RaftServer::new(service));
        drop(task::spawn(grpc::serve(Listener::Tcp(listener), routes, shutdown.clone())));
        Self { id, member, raft, feed, shutdown }
    }

    async fn stop(self) {
        self.shutdown.trigger();
        self.raft.shutdown().await.unwrap();
    }

    /// Writes one event at `offset`, which must be the next.
    async fn write(&self, offset: i64) -> Applied {
        let event = match offset {
            0 => MetadataEvent::ClusterCreated { cluster_id: Uuid([1; 16]) },
            _ => MetadataEvent::FeatureLevelChanged { name: format!("f{}", offset % 7).into(), level: 1 },
        };
        let batch = EventBatch { base_offset: offset, events: vec![event] };
        self.raft.client_write(Events(batch.encode())).await.unwrap().data
    }

    async fn reaches(&self, offset: i64) {
        let mut applied = self.feed.subscribe();
        let reached = time::timeout(PATIENCE, applied.wait_for(|applied| *applied >= offset)).await;
        assert!(reached.is_ok(), "node {} is at {} and not at {offset}", self.id, self.feed.image().offset());
    }
}

async fn leader(nodes: &[Node]) -> usize {
    let deadline = time::monotonic() + PATIENCE;
    loop {
        let leads = |node: &Node| node.raft.metrics().borrow().state == ServerState::Leader;
        if let Some(index) = nodes.iter().position(leads)
            && nodes[index].raft.ensure_linearizable().await.is_ok()
        {
            return index;
        }
        assert!(time::monotonic() < deadline, "somebody leads");
        time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_agree_survive_their_leader_and_bring_a_newcomer_up_by_snapshot() {
    let mut nodes = vec![Node::start(1).await, Node::start(2).await, Node::start(3).await];
    let members: BTreeMap<NodeId, Member> = nodes.iter().map(|node| (node.id, node.member.clone())).collect();
    nodes[0].raft.initialize(members).await.unwrap();
    let first = leader(&nodes).await;
    for offset in 0..30 {
        assert_eq!(nodes[first].write(offset).await, Applied::Accepted { offset });
    }
    assert_eq!(nodes[first].write(7).await, Applied::Stale, "decided from another image");
    for node in &nodes {
        node.reaches(29).await;
        assert_eq!(node.feed.image(), nodes[first].feed.image());
    }

    nodes.remove(first).stop().await;
    let second = leader(&nodes).await;
    assert_eq!(nodes[second].write(30).await, Applied::Accepted { offset: 30 });

    // The log's start is gone by now, so a newcomer can only be brought up by a snapshot.
    nodes[second].raft.trigger().snapshot().await.unwrap();
    let purged = nodes[second].raft.wait(Some(PATIENCE)).metrics(|metrics| metrics.purged.is_some(), "purged").await;
    purged.unwrap();
    let newcomer = Node::start(4).await;
    nodes[second].raft.add_learner(newcomer.id, newcomer.member.clone(), true).await.unwrap();
    newcomer.reaches(30).await;
    assert_eq!(newcomer.feed.image(), nodes[second].feed.image());
    let voters: BTreeSet<NodeId> = nodes.iter().map(|node| node.id).chain([newcomer.id]).collect();
    nodes[second].raft.change_membership(voters, false).await.unwrap();
    assert_eq!(nodes[second].write(31).await, Applied::Accepted { offset: 31 });
    newcomer.reaches(31).await;
    newcomer.stop().await;
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_node_whose_disk_fails_answers_nothing_and_says_so() {
    let store = Watched::new(usize::MAX, None);
    let node = Node::start_on(1, Arc::clone(&store) as Arc<dyn MetaStore>).await;
    node.raft.initialize(BTreeMap::from([(node.id, node.member.clone())])).await.unwrap();
    let node = [node];
    leader(&node).await;
    assert_eq!(node[0].write(0).await, Applied::Accepted { offset: 0 });
    store.fail();
    let event = MetadataEvent::FeatureLevelChanged { name: "f".into(), level: 1 };
    let batch = EventBatch { base_offset: 1, events: vec![event] };
    assert!(node[0].raft.client_write(Events(batch.encode())).await.is_err(), "not durable, so not answered");
    let why = time::timeout(PATIENCE, super::failed(&node[0].raft)).await.unwrap();
    assert!(why.to_string().contains("the-disk"), "{why}");
    assert_eq!(node[0].feed.image().offset(), 0);
}
