//! `taffrail up` as a person runs it: a real process, its words, its ports, its signals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod common;

use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use common::{Up, command, get};
use rustix::process::{Pid, Signal, kill_process};
use taffrail_runtime::{net, task, time};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lines that `up` may print.
const SUMMARY_LINES_MAX: usize = 11;

impl Up {
    /// Sends a signal and waits for the end; gives the log.
    fn stop(mut self, signal: Signal) -> (ExitStatus, String) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut said).unwrap();
        }
        (self.child.wait().unwrap(), said)
    }

    /// Asks the metrics address.
    fn get(&self, path: &str) -> String {
        let address = self.told("metrics").trim_start_matches("http://").trim_end_matches("/metrics").to_owned();
        get(&address, path).unwrap()
    }

    /// Partitions that the broker keeps.
    fn partitions(&self) -> Option<i64> {
        let metrics = self.get("/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix("kafka_server_replicamanager_partitioncount "))?;
        line.trim().parse().ok()
    }

    /// Waits until one of several brokers leads so many partitions.
    fn wait_for_leaders(&self, broker: i32, count: &str) {
        let name = format!("kafka_server_replicamanager_leadercount{{broker=\"{broker}\"}} ");
        let deadline = time::monotonic() + PATIENCE;
        loop {
            let metrics = self.get("/metrics");
            let found = metrics.lines().find_map(|line| line.strip_prefix(&name));
            if found == Some(count) {
                return;
            }
            assert!(time::monotonic() < deadline, "broker {broker} leads {found:?} partitions, not {count}");
            task::block_on_current_thread(time::sleep(Duration::from_millis(50))).unwrap();
        }
    }

    /// How many partitions one of several brokers leads.
    fn leaders(&self, broker: i32) -> i64 {
        let name = format!("kafka_server_replicamanager_leadercount{{broker=\"{broker}\"}} ");
        let metrics = self.get("/metrics");
        let found = metrics.lines().find_map(|line| line.strip_prefix(&name));
        found.map_or(0, |count| count.trim().parse().unwrap())
    }

    fn wait_for_partitions(&self, count: i64) {
        let deadline = time::monotonic() + PATIENCE;
        while self.partitions() != Some(count) {
            assert!(time::monotonic() < deadline, "{count} partitions are expected, not {:?}", self.partitions());
            task::block_on_current_thread(time::sleep(Duration::from_millis(50))).unwrap();
        }
    }
}

fn topic(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: taffrail.dev/v1alpha1\nkind: Topic\nmetadata: {{name: {name}}}\nspec: {{clusterRef: {{name: dev}}, {spec}}}\n"
    )
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn it_says_what_it_serves_and_serves_it() {
    let up = Up::start(&["--ephemeral"]);
    assert!(up.summary.len() <= SUMMARY_LINES_MAX, "{:#?}", up.summary);
    assert!(up.summary[0].contains("is up"), "{:?}", up.summary);
    assert!(up.told("topics").starts_with("none yet"));
    let clients = up.told("clients").split_whitespace().next().unwrap().to_owned();
    task::block_on_current_thread(async { net::connect(&clients).await.unwrap() }).unwrap();
    assert!(up.get("/healthz").ends_with("ok\n"));
    assert!(up.get("/readyz").starts_with("HTTP/1.1 200"));
    let losses = up.get("/losses");
    assert!(losses.starts_with("HTTP/1.1 200") && losses.ends_with("[]"), "{losses}");
    assert!(up.get("/metrics").contains("# TYPE kafka_server_replicamanager_partitioncount gauge"));
    assert!(up.get("/nothing").starts_with("HTTP/1.1 404"));
    let data = up.told("data").split_whitespace().next().unwrap().to_owned();
    assert!(Path::new(&data).exists());
    let (status, log) = up.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("\"signal\":\"SIGTERM\"") && log.contains("stopped"), "JSON off a terminal: {log}");
    assert!(!Path::new(&data).exists(), "an ephemeral directory goes with its process");
}

#[test]
fn the_next_start_finds_everything_and_a_second_process_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("a.yaml"));
    std::fs::write(&file, topic("orders", "partitions: 3")).unwrap();
    let args = ["--data-dir", text(&data), "-f", text(&file)];
    let first = Up::start(&args);
    assert!(first.told("data").contains("(new)"), "{:?}", first.summary);
    assert_eq!(first.told("topics"), "orders (3 partitions)");
    let cluster = first.told("data").rsplit_once("cluster ").unwrap().1.to_owned();

    let second = command(&args).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains(&format!("is in use by process {}", first.child.id())), "{said}");

    let (status, log) = first.stop(Signal::INT);
    assert_eq!(status.code(), Some(0), "{log}");
    let again = Up::start(&["--data-dir", text(&data)]);
    assert!(again.told("data").contains("(found again)"), "{:?}", again.summary);
    assert!(again.told("data").ends_with(&cluster), "the same cluster: {:?}", again.summary);
    assert_eq!(again.told("topics"), "orders (3 partitions)");

    // A kill leaves no time for anything, and the next start finds everything all the same.
    drop(again);
    let after_kill = Up::start(&["--data-dir", text(&data)]);
    assert_eq!(after_kill.told("topics"), "orders (3 partitions)");
    assert!(after_kill.told("data").ends_with(&cluster));
    let mut folders: Vec<String> = std::fs::read_dir(data.join("logs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("orders"))
        .collect();
    folders.sort();
    assert_eq!(folders, ["orders-0", "orders-1", "orders-2"], "none was set aside and made anew");
}

#[test]
fn a_stop_that_could_not_write_everything_does_not_pass_for_a_clean_one() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("orders.yaml"));
    std::fs::write(&file, topic("orders", "partitions: 3")).unwrap();
    let up = Up::start(&["--data-dir", text(&data), "-f", text(&file)]);
    up.wait_for_partitions(3);
    std::fs::remove_dir_all(data.join("logs")).unwrap();
    let (status, log) = up.stop(Signal::TERM);
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("could not be closed") && !log.contains("everything is on disk"), "{log}");
}

#[test]
fn partitions_that_are_gone_as_a_whole_are_not_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("orders.yaml"));
    std::fs::write(&file, topic("orders", "partitions: 3")).unwrap();
    let args = ["--data-dir", text(&data), "-f", text(&file)];
    Up::start(&args).stop(Signal::TERM);
    std::fs::rename(data.join("logs"), dir.path().join("away")).unwrap();
    for _ in 0..2 {
        let refused = command(&args).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("is empty, where the metadata know of 3 partitions"), "{said}");
    }
    std::fs::remove_dir_all(data.join("logs")).unwrap();
    std::fs::rename(dir.path().join("away"), data.join("logs")).unwrap();
    assert_eq!(Up::start(&args).told("topics"), "orders (3 partitions)");
}

#[test]
fn editing_the_file_is_applied_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    std::fs::write(&file, topic("a", "partitions: 2, deletionPolicy: Delete")).unwrap();
    let up = Up::start(&["--ephemeral", "-f", text(&file)]);
    up.wait_for_partitions(2);
    std::fs::write(&file, topic("a", "partitions: 3, deletionPolicy: Delete") + &topic("b", "partitions: 4")).unwrap();
    up.wait_for_partitions(7);
    std::fs::write(&file, topic("b", "partitions: 4")).unwrap();
    up.wait_for_partitions(4);
    let (status, log) = up.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0));
    assert!(log.contains("topic deleted"), "{log}");
}

#[test]
fn partitions_of_another_directory_are_adopted_once() {
    let dir = tempfile::tempdir().unwrap();
    let (theirs, ours, file) = (dir.path().join("theirs"), dir.path().join("ours"), dir.path().join("a.yaml"));
    std::fs::write(&file, topic("moved", "partitions: 3")).unwrap();
    let first = Up::start(&["--data-dir", text(&theirs), "-f", text(&file)]);
    assert_eq!(first.stop(Signal::TERM).0.code(), Some(0));
    let id = std::fs::read_to_string(theirs.join("logs/moved-0/partition.metadata")).unwrap();

    let import = |source: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
        let args = ["log", "import", text(source), "--data-dir", text(&ours), "-o", "json"];
        command.env_clear().args(args).output().unwrap()
    };
    let output = import(&theirs.join("logs"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told[0]["topic"], &told[0]["partitions"]), (&"moved".into(), &3.into()));

    let up = Up::start(&["--data-dir", text(&ours)]);
    assert_eq!(up.told("topics"), "moved (3 partitions)");
    up.wait_for_partitions(3);
    assert_eq!(std::fs::read_to_string(ours.join("logs/moved-0/partition.metadata")).unwrap(), id);
    let busy = import(&theirs.join("logs"));
    assert!(String::from_utf8_lossy(&busy.stderr).contains("is in use by process"), "{busy:?}");
    assert_eq!(up.stop(Signal::TERM).0.code(), Some(0));

    let again = import(&theirs.join("logs"));
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("there is a topic moved here already"), "{again:?}");
    let nothing = import(dir.path());
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("is neither a partition's folder"), "{nothing:?}");
}

#[test]
fn what_is_wrong_is_told_before_anything_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("a.yaml"));
    std::fs::write(&file, topic("a", "partitons: 2")).unwrap();
    let output = command(&["--data-dir", text(&data), "-f", text(&file)]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("a.yaml:5:33: spec.partitons: unknown field (did you mean partitions?)"), "{said}");
    assert!(!data.exists());

    let taken = Up::start(&["--ephemeral"]);
    let clients = taken.told("clients").split_whitespace().next().unwrap().to_owned();
    let output = Command::new(env!("CARGO_BIN_EXE_taffrail"))
        .env_clear()
        .args(["up", "--ephemeral", "--metrics", "off", "--listen", &clients])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("{clients} is taken by another process")), "{said}");
}

#[test]
fn the_quickstart_runs_as_the_readme_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/quickstart.yaml");
    let up = Up::start(&["--ephemeral", "-f", text(&file)]);
    assert_eq!(up.told("topics"), "customers (3 partitions), orders (6 partitions)");
    up.wait_for_partitions(9);
}

#[test]
fn three_controllers_in_one_process_agree_and_one_that_was_alone_gets_company() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let file = dir.path().join("topics.yaml");
    std::fs::write(&file, topic("kept", "partitions: 2")).unwrap();
    let first = Up::start(&["--data-dir", text(&data)]);
    let (status, log) = first.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");
    // Once there are three, they stay three.
    for controllers in ["3", "1"] {
        let up = Up::start(&["--data-dir", text(&data), "--controllers", controllers, "-f", text(&file)]);
        assert!(up.told("topics").contains("kept (2 partitions)"), "{:?}", up.summary);
        let (status, log) = up.stop(Signal::TERM);
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(data.join("metadata-3/raft").exists());
    }
    let fresh = Up::start(&["--ephemeral", "--controllers", "3", "-f", text(&file)]);
    assert!(fresh.told("topics").contains("kept (2 partitions)"));
    let (status, log) = fresh.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn three_brokers_and_three_controllers_in_one_process_are_one_cluster_and_stay_one() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/three-brokers.yaml");
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let first = Up::start(&["--data-dir", text(&data), "-f", text(&file)]);
    let cluster = first.told("data").rsplit_once("cluster ").unwrap().1.to_owned();
    for (broker, folder) in [(1, "logs"), (2, "broker-2"), (3, "broker-3")] {
        first.wait_for_leaders(broker, "2");
        let folders = std::fs::read_dir(data.join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        let kept = folders.filter(|name| name.to_string_lossy().starts_with("orders-")).count();
        assert_eq!(kept, 6, "every broker keeps every partition");
    }
    let (status, log) = first.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");
    // Without a word about them, as many run again as there were.
    let up = Up::start(&["--data-dir", text(&data)]);
    assert!(up.summary.len() <= SUMMARY_LINES_MAX, "{:#?}", up.summary);
    assert!(up.told("data").ends_with(&cluster), "{:?}", up.summary);
    let (brokers, controllers) = up.told("nodes").split_once("; ").unwrap();
    assert_eq!(controllers, "3 controllers");
    let addresses: Vec<&str> = brokers.strip_prefix("3 brokers at ").unwrap().split(", ").collect();
    assert_eq!(addresses.len(), 3);
    for address in addresses {
        task::block_on_current_thread(async { net::connect(address).await.unwrap() }).unwrap();
    }
    assert!(up.get("/readyz").starts_with("HTTP/1.1 200"));
    let (status, log) = up.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");
}

/// A Cluster of so many brokers.
fn cluster(brokers: i32) -> String {
    format!(
        "apiVersion: taffrail.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: dev}}\nspec: {{brokers: {{replicas: {brokers}}}, config: \
         {{default.replication.factor: 1}}}}\n"
    )
}

/// Waits until `is_so`.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = time::monotonic() + PATIENCE;
    while !is_so() {
        assert!(time::monotonic() < deadline, "{what}");
        task::block_on_current_thread(time::sleep(Duration::from_millis(50))).unwrap();
    }
}

#[test]
fn brokers_come_and_go_as_the_file_says_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("a.yaml"), dir.path().join("data"));
    let a = topic("a", "partitions: 4, replicas: 2");
    let both = a.clone() + &topic("b", "partitions: 6, replicas: 2");
    std::fs::write(&file, cluster(2) + &a).unwrap();
    let log = dir.path().join("log");
    let up = Up::start_with_log(&log, &["--data-dir", text(&data), "-f", text(&file)]);
    let said = || std::fs::read_to_string(&log).unwrap();
    up.wait_for_leaders(2, "2");
    std::fs::write(&file, cluster(3) + &a).unwrap();
    up.wait_for_leaders(3, "0");
    std::fs::write(&file, cluster(3) + &both).unwrap();
    until("broker 3 leads nothing of a new topic", || up.leaders(3) > 0);
    // What it has goes to the others, then it goes, and its folder with it.
    std::fs::write(&file, cluster(2) + &both).unwrap();
    until("the folder of broker 3 stays", || !data.join("broker-3").exists());
    until("partitions are not led", || up.leaders(1) + up.leaders(2) == 10);
    assert!(!up.get("/metrics").contains("broker=\"3\""), "metrics tell of who is gone");
    assert!(up.get("/readyz").starts_with("HTTP/1.1 200"));
    // Two replicas need two brokers, whoever has made the topics: without their resources they stay.
    std::fs::write(&file, cluster(1)).unwrap();
    until("no word of a broker that cannot go", || said().contains("broker 2 stays"));
    let (status, _) = up.stop(Signal::TERM);
    let said = said();
    assert_eq!(status.code(), Some(0), "{said}");
    for expected in ["one more broker comes", "there would be 1 brokers, and a has 2 replicas", "back to 2"] {
        assert!(said.contains(expected), "{expected} is missing: {said}");
    }
    assert!(!said.contains("spec.brokers.replicas wait"), "{said}");
}
