//! What only shows from inside: disks that stop, and a node that stands without asking.

use std::collections::BTreeMap;
use std::sync::Arc;

use taffrail_core::config::Overrides;
use taffrail_core::control::{AlterConfigs, ConfigAlteration, ConfigChanges};
use taffrail_core::event::ConfigResource;
use taffrail_runtime::grpc::{Listener, Target, memory};

use super::*;
use crate::options::MetadataDir;
use crate::raft::links::Dialer;
use crate::store::MetaStore;
use crate::store::tests::Watched;

const CLUSTER: Uuid = Uuid([1; 16]);

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Three controllers in memory, on disks that can be stopped.
struct Three {
    controllers: Vec<Controller>,
    disks: Vec<Arc<Watched>>,
}

impl Three {
    async fn start() -> Self {
        let pipes: Vec<_> = (1..=3).map(|id| (id, format!("controller-{id}:9093"), memory())).collect();
        let targets = pipes.iter().map(|(_, address, (_, pipe))| (address.clone(), Target::Memory(pipe.clone())));
        let dialer = Dialer::with_in_memory(targets.collect::<BTreeMap<_, _>>());
        let servers: Vec<String> = pipes.iter().map(|(_, address, _)| address.clone()).collect();
        let mut three = Self { controllers: Vec::new(), disks: Vec::new() };
        for (id, address, (listener, _)) in pipes {
            let disk = Watched::new(usize::MAX, None);
            let options = ControllerOptions {
                id,
                metadata_dir: MetadataDir::Memory,
                bootstrap: Some(CLUSTER),
                cluster: None,
                servers: servers.clone(),
                dialer: dialer.clone(),
                listener: Listener::Memory(listener),
                advertised: address,
                static_config: Overrides::new(),
                session_timeout: Duration::from_secs(9),
            };
            let store = Arc::clone(&disk) as Arc<dyn MetaStore>;
            let opened = Controller::start_with(options, move |request| opening::open_store(request, store)).await;
            three.controllers.push(opened.unwrap());
            three.disks.push(disk);
        }
        for controller in &three.controllers {
            assert_eq!(time::timeout(PATIENCE, controller.founded()).await.ok(), Some(CLUSTER));
        }
        three
    }

    async fn active(&self) -> usize {
        let deadline = time::monotonic() + PATIENCE;
        loop {
            if let Some(index) = self.controllers.iter().position(Controller::is_active) {
                return index;
            }
            assert!(time::monotonic() < deadline, "somebody is active");
            time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn term(&self) -> u64 {
        self.controllers.iter().map(|it| it.parts.raft.metrics().borrow().current_term).max().unwrap()
    }

    /// Changes something, wherever the active controller is.
    async fn change(&self, number: u64) {
        let deadline = time::monotonic() + PATIENCE;
        loop {
            let active = &self.controllers[self.active().await];
            if active.parts.proposer.propose(command(number)).await.is_ok() {
                return;
            }
            assert!(time::monotonic() < deadline, "a change succeeds");
            time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn stop(self) {
        for controller in self.controllers {
            controller.stop().await.unwrap();
        }
    }
}

fn command(number: u64) -> Command {
    let value = Some((100_000 + number).to_string().into());
    let changes = ConfigChanges::Replace(vec![("log.retention.ms".into(), value)]);
    let resources = vec![ConfigAlteration { resource: ConfigResource::broker_default(), changes }];
    Command::AlterConfigs(AlterConfigs { resources, validate_only: false })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_stops_for_a_second_causes_no_election() {
    let three = Three::start().await;
    three.change(0).await;
    let (active, term) = (three.active().await, three.term());
    for stopped in [active, (active + 1) % 3] {
        let go_on = three.disks[stopped].stop();
        let change = three.change(1 + stopped as u64);
        let release = async {
            time::sleep(Duration::from_secs(1)).await;
            drop(go_on);
        };
        futures::future::join(change, release).await;
        assert_eq!((three.active().await, three.term()), (active, term), "with the disk of {stopped} stopped");
    }
    three.stop().await;
}

/// With pre-votes nobody gets ahead of the others' term, but for a vote that was cut off half way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_higher_term_unseats_a_healthy_leader_for_a_moment_only() {
    const ROUNDS: u64 = 5;
    let three = Three::start().await;
    let mut gaps = Vec::new();
    for round in 0..ROUNDS {
        three.change(round).await;
        let (active, term) = (three.active().await, three.term());
        let rogue = &three.controllers[(active + 1) % 3];
        rogue.parts.raft.trigger().elect().await.unwrap();
        let mut metrics = rogue.parts.raft.metrics();
        let raised = time::timeout(PATIENCE, metrics.wait_for(|metrics| metrics.current_term > term)).await;
        assert!(raised.is_ok_and(|raised| raised.is_ok()));
        // Until the leader has heard of the higher term it goes on as before; so one change is not enough.
        let unseated = time::monotonic();
        let mut longest = Duration::ZERO;
        for number in 0..20 {
            let started = time::monotonic();
            three.change(100 * (round + 1) + number).await;
            longest = longest.max(started.elapsed());
            time::sleep(Duration::from_millis(25)).await;
        }
        assert!(unseated.elapsed() < PATIENCE);
        let settled = three.term();
        assert!(settled <= term + 6, "elections come to an end: term {term} became {settled}");
        gaps.push(longest);
    }
    println!("longest change after a higher term: {gaps:?}");
    three.stop().await;
}
