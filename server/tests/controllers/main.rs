//! `taffrail controller` as processes: they found a cluster, and one that is killed is replaced.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod grants;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use taffrail_client::controller::ControllerClient;
use taffrail_core::control::{
    AlterConfigs, BrokerIdentity, Command as Change, ConfigAlteration, ConfigChanges, CreateTopics, NewTopic,
    RegisterBroker, Reply,
};
use taffrail_core::event::{ConfigResource, Listener, SecurityProtocol};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::Update;
use taffrail_runtime::grpc::Target;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::{task, time};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

const CLUSTER: &str = "AQEBAQEBAQEBAQEBAQEBAQ";

fn binary() -> String {
    std::env::var("TAFFRAIL_TEST_BIN").unwrap_or(env!("CARGO_BIN_EXE_taffrail").to_owned())
}

/// Controllers as processes.
struct Processes {
    addresses: Vec<String>,
    children: Vec<Option<Child>>,
    folder: tempfile::TempDir,
}

impl Processes {
    async fn start(count: usize) -> Self {
        let mut listeners = Vec::new();
        for _ in 0..count {
            listeners.push(TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap());
        }
        let addresses: Vec<String> = listeners.iter().map(|it| it.local_addr().unwrap().to_string()).collect();
        drop(listeners);
        let folder = tempfile::tempdir().unwrap();
        let mut processes = Self { addresses, children: Vec::new(), folder };
        for index in 0..count {
            let child = processes.spawn(index, true);
            processes.children.push(Some(child));
        }
        processes
    }

    fn spawn(&self, index: usize, bootstrap: bool) -> Child {
        let mut command = Command::new(binary());
        command.env_clear().args(["controller", "--metrics", "off", "--cluster-id", CLUSTER]);
        command.args(["--node-id", &(index + 1).to_string(), "--listen", &self.addresses[index]]);
        command.args(["--controllers", &self.addresses.join(",")]);
        // The brokers of these tests say nothing.
        command.args(["--set", "broker.session.timeout.ms=600000"]);
        command.arg("--data-dir").arg(self.folder.path().join(index.to_string()));
        if bootstrap {
            command.arg("--bootstrap");
        }
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn kill(&mut self, index: usize) {
        let mut child = self.children[index].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn client(&self) -> ControllerClient {
        let member = |address: &String| (address.clone(), Target::Address(address.clone()));
        ControllerClient::new(self.addresses.iter().map(member).collect()).unwrap()
    }

    /// Index of the active controller, as they agree on it.
    async fn active(&self, client: &ControllerClient) -> usize {
        let deadline = time::monotonic() + PATIENCE;
        loop {
            let quorum = client.describe_quorum(PATIENCE).await;
            if let Some(active) = quorum.ok().and_then(|quorum| quorum.active) {
                return self.addresses.iter().position(|address| *address == active.address).unwrap();
            }
            assert!(time::monotonic() < deadline, "somebody is active");
            time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A change that needs no broker.
fn change(number: usize) -> Change {
    let alteration = ConfigAlteration {
        resource: ConfigResource::broker_default(),
        changes: ConfigChanges::Replace(vec![("log.retention.ms".into(), Some((100_000 + number).to_string().into()))]),
    };
    Change::AlterConfigs(AlterConfigs { resources: vec![alteration], validate_only: false })
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Brokers that are there by name only.
async fn register_brokers(client: &ControllerClient, count: i32) -> Vec<BrokerIdentity> {
    let mut brokers = Vec::new();
    for id in (1..=count).map(BrokerId) {
        let register = RegisterBroker {
            id,
            cluster_id: None,
            incarnation: Uuid([u8::try_from(id.0).unwrap(); 16]),
            rack: None,
            listeners: vec![Listener {
                name: "PLAINTEXT".into(),
                host: "localhost".into(),
                port: 9092,
                security: SecurityProtocol::Plaintext,
            }],
            log_dirs: vec![Uuid([100 + u8::try_from(id.0).unwrap(); 16])],
            unclean_shutdown: false,
            features: std::collections::BTreeMap::new(),
            min_in_sync: None,
        };
        let registered = client.propose(&Change::RegisterBroker(register), PATIENCE).await.unwrap();
        let Reply::BrokerRegistered { epoch } = registered.reply else { panic!("{registered:?}") };
        let identity = BrokerIdentity { id, epoch };
        client.propose(&Change::UnfenceBroker(identity), PATIENCE).await.unwrap();
        brokers.push(identity);
    }
    brokers
}

/// Resident memory of a process in MB.
fn resident_mb(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}

/// `TAFFRAIL_TEST_PARTITIONS=100000` shows what that many take.
#[test]
fn many_partitions_are_made_known_and_found_again_after_a_restart() {
    const TOPICS_AT_ONCE: usize = 10;
    const PARTITIONS: usize = 100;
    let count = setting("TAFFRAIL_TEST_PARTITIONS", 3_000);
    task::block_on(2, async {
        let mut processes = Processes::start(3).await;
        let client = processes.client();
        register_brokers(&client, 3).await;
        let started = time::monotonic();
        let mut offset = 0;
        for batch in 0..count / PARTITIONS / TOPICS_AT_ONCE {
            let names = (0..TOPICS_AT_ONCE).map(|number| format!("topic-{batch}-{number}"));
            let topics =
                names.map(|name| NewTopic::sized(name.as_str(), i32::try_from(PARTITIONS).unwrap(), 3)).collect();
            let create = Change::CreateTopics(CreateTopics { topics, validate_only: false });
            offset = client.propose(&create, PATIENCE).await.unwrap().offset;
        }
        println!("{count} partitions made in {:?}", started.elapsed());
        let memory = |processes: &Processes| processes.children.iter().flatten().map(resident_mb).collect::<Vec<_>>();
        println!("resident MB: {:?}", memory(&processes));
        let started = time::monotonic();
        for number in 0..100 {
            offset = client.propose(&change(number), PATIENCE).await.unwrap().offset.max(offset);
        }
        println!("one change: {:?}", started.elapsed() / 100);
        for index in 0..3 {
            processes.kill(index);
        }
        let started = time::monotonic();
        for index in 0..3 {
            processes.children[index] = Some(processes.spawn(index, false));
        }
        let mut stream = client.follow(0, None, PATIENCE).await.unwrap();
        let mut image = MetadataImage::default();
        while image.offset() < offset {
            match time::timeout(PATIENCE, stream.next()).await.unwrap() {
                Ok(Some(Update::Snapshot(snapshot))) => image = snapshot,
                Ok(Some(Update::Events(batch))) => batch.events.iter().for_each(|event| image.apply(event).unwrap()),
                // The one that was asked knew of no leader yet.
                Ok(None) | Err(_) => stream = client.follow(image.offset() + 1, None, PATIENCE).await.unwrap(),
            }
        }
        println!(
            "known again to a follower {:?} after a restart; resident MB: {:?}",
            started.elapsed(),
            memory(&processes)
        );
        assert_eq!(image.topics().partition_count(), count / PARTITIONS / TOPICS_AT_ONCE * PARTITIONS * TOPICS_AT_ONCE);
    })
    .unwrap();
}

#[test]
fn the_next_change_succeeds_when_the_active_controller_was_killed() {
    let kills = setting("TAFFRAIL_TEST_KILLS", 3);
    task::block_on(2, async {
        let mut processes = Processes::start(3).await;
        let client = processes.client();
        let founded = time::monotonic();
        client.propose(&change(0), PATIENCE).await.unwrap();
        println!("first change after {:?}", founded.elapsed());
        let mut gaps = Vec::new();
        for number in 1..=kills {
            let active = processes.active(&client).await;
            let killed = time::monotonic();
            processes.kill(active);
            client.propose(&change(number), PATIENCE).await.unwrap();
            gaps.push(killed.elapsed());
            processes.children[active] = Some(processes.spawn(active, false));
            // The next one is killed when all three are there again.
            let deadline = time::monotonic() + PATIENCE;
            loop {
                let quorum = client.describe_quorum(PATIENCE).await.unwrap();
                if quorum.voters.len() == 3 && quorum.voters.iter().all(|voter| voter.last_caught_up_ms.is_some()) {
                    break;
                }
                assert!(time::monotonic() < deadline, "a killed controller comes back");
                time::sleep(Duration::from_millis(20)).await;
            }
        }
        gaps.sort();
        println!("kill to the next change: {gaps:?}");
        assert_eq!(gaps.len(), kills);
    })
    .unwrap();
}
