//! The operator of one process, against the controllers' own decisions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod memory_controller;
#[allow(dead_code, reason = "tests of groups use more of it")]
mod memory_groups;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taffrail_core::config::Overrides;
use taffrail_core::control::{AlterConfigs, Command, ConfigAlteration, ConfigChanges, DeleteTopics, TopicRef};
use taffrail_core::event::ConfigResource;
use taffrail_core::ids::BrokerId;
use taffrail_operator::local::{LocalGroups, LocalOperator, Pass, load};
use taffrail_operator::platform::Platform;
use taffrail_operator::platform::local::LocalPlatform;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{task, time};

use memory_groups::MemoryGroups;

fn topic(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: taffrail.dev/v1alpha1\nkind: Topic\nmetadata: {{name: {name}}}\nspec: {{clusterRef: {{name: dev}}, {spec}}}\n"
    )
}

fn cluster(config: &str) -> String {
    format!(
        "---\napiVersion: taffrail.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: dev}}\nspec: {{config: {{{config}}}}}\n"
    )
}

/// A topic's name, partitions and settings.
type Told = (String, i32, Vec<(String, String)>);

/// Topics as the metadata have them.
fn topics(platform: &LocalPlatform) -> Vec<Told> {
    let image = platform.metadata();
    let describe = |name: &str| {
        let overrides = image.overrides(&ConfigResource::topic(name));
        overrides.map(|overrides| overrides.iter().map(|(k, v)| (k.clone(), v.clone())).collect()).unwrap_or_default()
    };
    image
        .topics()
        .iter()
        .map(|topic| (topic.name.to_string(), topic.partition_count(), describe(&topic.name)))
        .collect()
}

struct Bench {
    dir: tempfile::TempDir,
    platform: LocalPlatform,
    operator: LocalOperator<LocalPlatform>,
}

impl Bench {
    async fn new(text: &str) -> (Self, Pass) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        std::fs::write(&path, text).unwrap();
        let platform = memory_controller::with_broker(BrokerId(1)).await;
        let files = vec![path];
        let desired = load(&files).unwrap();
        let mut operator = LocalOperator::new(platform.clone(), files, desired);
        let pass = operator.pass().await.unwrap();
        (Self { dir, platform, operator }, pass)
    }

    fn file(&self) -> std::path::PathBuf {
        self.dir.path().join("a.yaml")
    }

    async fn edit(&mut self, text: &str) -> Pass {
        std::fs::write(self.file(), text).unwrap();
        self.operator.want(load(&[self.file()]).unwrap());
        self.operator.pass().await.unwrap()
    }
}

fn run<F: Future<Output = ()>>(test: F) {
    task::block_on_current_thread(test).unwrap();
}

#[test]
fn topics_are_created_grow_and_change_as_their_resources_say() {
    run(async {
        let (mut bench, pass) = Bench::new(&topic("a", "partitions: 3, config: {retention.ms: 5}")).await;
        assert!(pass.topics[0].ready(), "{pass:?}");
        assert_eq!(pass.topics[0].status.partitions, Some(3));
        assert_eq!(topics(&bench.platform), [("a".into(), 3, vec![("retention.ms".into(), "5".into())])]);

        let pass = bench.edit(&topic("a", "partitions: 4, config: {segment.ms: 9}")).await;
        assert!(pass.topics[0].ready());
        assert_eq!(topics(&bench.platform), [("a".into(), 4, vec![("segment.ms".into(), "9".into())])]);

        let offset = bench.platform.metadata().offset();
        let pass = bench.operator.pass().await.unwrap();
        assert!(pass.topics[0].actions.is_empty() && pass.topics[0].ready());
        assert_eq!(bench.platform.metadata().offset(), offset, "a pass over what is right changes nothing");
    });
}

#[test]
fn partitions_are_never_taken_away_and_the_status_says_why() {
    run(async {
        let (mut bench, _) = Bench::new(&topic("a", "partitions: 3")).await;
        let pass = bench.edit(&topic("a", "partitions: 2, config: {retention.ms: 7}")).await;
        let report = &pass.topics[0];
        assert!(!report.ready());
        let stalled = report.status.conditions.iter().find(|found| found.type_ == "Stalled").unwrap();
        assert_eq!((stalled.status.as_str(), stalled.reason.as_str()), ("True", "PartitionsCannotShrink"));
        assert_eq!(topics(&bench.platform), [("a".into(), 3, vec![("retention.ms".into(), "7".into())])]);
    });
}

#[test]
fn a_topic_goes_with_its_resource_only_if_the_resource_said_so() {
    run(async {
        let text =
            topic("gone", "deletionPolicy: Delete") + &topic("kept", "deletionPolicy: Retain") + &topic("stays", "");
        let (mut bench, _) = Bench::new(&text).await;
        let pass = bench.edit(&topic("stays", "")).await;
        assert_eq!(topics(&bench.platform).iter().map(|topic| topic.0.as_str()).collect::<Vec<_>>(), ["kept", "stays"]);
        assert_eq!(pass.orphans, ["kept"]);
        let kept = pass.topics.iter().find(|topic| topic.name == "kept").unwrap();
        assert!(kept.kept() && !kept.wanted);
        let pass = bench.operator.pass().await.unwrap();
        assert_eq!(pass.orphans, ["kept"], "and is reported from then on");
    });
}

#[test]
fn drift_is_set_right_or_reported_as_the_policy_says() {
    run(async {
        let text = topic("right", "driftPolicy: Correct, config: {retention.ms: 5}")
            + &topic("told", "driftPolicy: Report, config: {retention.ms: 5}")
            + &topic("seen", "management: Observe");
        let (mut bench, pass) = Bench::new(&text).await;
        let seen = pass.topics.iter().find(|topic| topic.name == "seen").unwrap();
        assert_eq!(seen.status.conditions[0].reason, "NotFound");
        for name in ["right", "told"] {
            let changes = ConfigChanges::Replace(vec![("retention.ms".into(), Some("99".into()))]);
            let resources = vec![ConfigAlteration { resource: ConfigResource::topic(name), changes }];
            bench
                .platform
                .propose(Command::AlterConfigs(AlterConfigs { resources, validate_only: false }))
                .await
                .unwrap();
        }
        let pass = bench.operator.pass().await.unwrap();
        let value =
            |name: &str| topics(&bench.platform).into_iter().find(|topic| topic.0 == name).unwrap().2[0].1.clone();
        assert_eq!((value("right").as_str(), value("told").as_str()), ("5", "99"));
        let told = pass.topics.iter().find(|topic| topic.name == "told").unwrap();
        assert_eq!(told.status.drift[0].field, "config[retention.ms]");
        assert!(told.status.conditions.iter().any(|found| found.type_ == "Drifted" && found.status == "True"));
    });
}

#[test]
fn settings_of_the_cluster_follow_its_resource_and_others_wait_for_a_restart() {
    run(async {
        let (mut bench, _) =
            Bench::new(&cluster("log.retention.ms: 5, log.retention.hours: 3, log.segment.bytes: 2000000")).await;
        let set = |bench: &Bench| {
            let image = bench.platform.metadata();
            image
                .overrides(&ConfigResource::broker_default())
                .map(|overrides| Overrides::clone(overrides))
                .unwrap_or_default()
        };
        assert_eq!(
            set(&bench).into_iter().collect::<Vec<_>>(),
            [("log.retention.ms".into(), "5".into()), ("log.segment.bytes".into(), "2000000".into())]
        );
        let pass = bench.edit(&cluster("log.retention.ms: 6, log.retention.hours: 4")).await;
        assert_eq!(set(&bench).into_iter().collect::<Vec<_>>(), [("log.retention.ms".into(), "6".into())]);
        assert_eq!(pass.settings_waiting, ["log.retention.hours"]);
        let pass = bench.edit(&cluster("log.retention.ms: 6, log.retention.hours: 3, log.roll.hours: 168")).await;
        assert_eq!(pass.settings_waiting, [] as [&str; 0], "a setting's default needs no restart, given or not");
    });
}

/// What `pass` logs after `before`.
fn logged(pass: &Pass, before: &Pass) -> String {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || pass.log(before));
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn what_is_undone_behind_a_resource_is_said_with_what_changed() {
    run(async {
        let text = topic("a", "config: {retention.ms: 5}") + &topic("b", "deletionPolicy: Delete");
        let (mut bench, first) = Bench::new(&text).await;
        assert!(logged(&first, &Pass::default()).contains("topic created"));
        let changes = ConfigChanges::Replace(vec![("retention.ms".into(), Some("99".into()))]);
        let resources = vec![ConfigAlteration { resource: ConfigResource::topic("a"), changes }];
        bench.platform.propose(Command::AlterConfigs(AlterConfigs { resources, validate_only: false })).await.unwrap();
        let topics = vec![TopicRef::named("b")];
        bench.platform.propose(Command::DeleteTopics(DeleteTopics { topics })).await.unwrap();
        let second = bench.operator.pass().await.unwrap();
        let log = logged(&second, &first);
        for expected in [
            "settings changed back: they were changed behind the topic's resource",
            "retention.ms=5 (was 99)",
            "topic created again: it was deleted behind its resource",
        ] {
            assert!(log.contains(expected), "{expected}: {log}");
        }
        assert!(!log.contains("WARN"), "{log}");
        let third = bench.edit(&topic("a", "config: {retention.ms: 6}")).await;
        let log = logged(&third, &second);
        assert!(log.contains("settings changed topic") && log.contains("retention.ms=6 (was 5)"), "{log}");
        assert!(log.contains("topic deleted, as its resource's deletionPolicy says"), "{log}");
        assert!(!log.contains("WARN"), "{log}");
    });
}

#[test]
fn many_topics_without_a_resource_are_counted_and_not_all_named() {
    let orphans = (0..5_000).map(|index| format!("t{index:04}")).collect();
    let log = logged(&Pass { orphans, ..Pass::default() }, &Pass::default());
    assert!(log.contains("count=5000") && log.contains("t0009, and 4990 more") && !log.contains("t0010"), "{log}");
}

#[test]
fn a_thousand_topics_are_created_in_a_few_commands() {
    run(async {
        let text: String = (0..1000).map(|index| topic(&format!("t{index}"), "partitions: 2")).collect();
        let (bench, pass) = Bench::new(&text).await;
        assert_eq!(topics(&bench.platform).len(), 1000);
        assert!(pass.topics.iter().all(taffrail_operator::local::TopicReport::ready));
    });
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = time::monotonic() + Duration::from_secs(20);
    while !holds() {
        assert!(time::monotonic() < deadline, "not in time: {what}");
        time::sleep(Duration::from_millis(20)).await;
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn editing_the_file_is_applied_while_it_runs_and_a_broken_file_is_not() {
    run(async {
        let (bench, pass) = Bench::new(&topic("a", "partitions: 1, deletionPolicy: Delete")).await;
        let Bench { dir, platform, operator } = bench;
        let path = dir.path().join("a.yaml");
        let stop = Shutdown::new();
        let running = task::spawn_local(operator.run(pass, LocalGroups::new(MemoryGroups::default()), stop.clone()));
        let names = || topics(&platform).into_iter().map(|topic| topic.0).collect::<Vec<_>>();

        // The watch starts with the first tick of the task, so an edit is repeated until it is seen.
        task::yield_now().await;
        write(&path, &(topic("a", "partitions: 1, deletionPolicy: Delete") + &topic("b", "partitions: 2")));
        until("b is created", || names() == ["a", "b"]).await;

        write(&path, "apiVersion: nonsense");
        time::sleep(Duration::from_millis(1600)).await;
        assert_eq!(names(), ["a", "b"], "a broken file deletes nothing");
        write(&path, "");
        time::sleep(Duration::from_millis(1600)).await;
        assert_eq!(names(), ["a", "b"], "nor does an empty one");

        write(&path, &topic("b", "partitions: 2"));
        until("a is deleted", || names() == ["b"]).await;
        stop.trigger();
        running.await.unwrap();
    });
}
