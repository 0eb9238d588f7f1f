//! The operator of one process: keeps a cluster as its files say, also while they are edited.

mod files;
mod groups;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;
use tokio::sync::watch;

use files::FileWatch;
use groups::GroupInbox;
pub use groups::{Groups, LocalGroups};
pub use report::{Pass, TopicReport};

use crate::platform::groups::GroupAdmin;
use crate::platform::{Platform, PlatformError};
use crate::reconcile::cluster::ValidCluster;
use crate::reconcile::topic::{TopicPlan, ValidTopic};
use crate::reconcile::{self, Desired, cluster, topic};
use crate::yaml::{Problem, Problems, load_files};

/// Time between two looks at the files.
const POLL: Duration = Duration::from_millis(500);

/// Looks between two passes over unchanged files, if the metadata changed meanwhile: drift is found within 5 s.
const POLLS_PER_DRIFT_CHECK: u32 = 10;

/// Keeps a cluster as its files say.
pub struct LocalOperator<P> {
    platform: P,
    files: Vec<PathBuf>,
    /// The Cluster that brokers and controllers were started with; some changes to it wait for a restart.
    started: ValidCluster,
    desired: Desired,
    /// Topics whose resources went while the controllers could not be reached; they are still to be dealt with.
    removed: BTreeMap<String, ValidTopic>,
    /// A pass was made over `desired`.
    passed: bool,
    groups: Arc<GroupInbox>,
    /// Is told how many brokers the Cluster wants, where they come and go without a restart.
    brokers: Option<watch::Sender<Option<i32>>>,
}

/// Reads and validates files, for a start or a check.
///
/// # Errors
/// Everything that is wrong with them.
pub fn load(files: &[PathBuf]) -> Result<Desired, Problems> {
    let resources = load_files(files)?;
    if !files.is_empty() && resources.clusters.is_empty() && resources.topics.is_empty() && resources.groups.is_empty()
    {
        let file = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        let message = "no resource in it: is it the right file, or half written?".to_owned();
        return Err(Problems(vec![Problem { file, place: Default::default(), field: String::new(), message }]));
    }
    reconcile::validate(&resources)
}

impl<P: Platform> LocalOperator<P> {
    /// An operator for a cluster that was started as `desired` says, from `files`.
    pub fn new(platform: P, files: Vec<PathBuf>, desired: Desired) -> Self {
        let started = desired.cluster.clone().unwrap_or_default();
        let groups = Arc::new(GroupInbox::default());
        groups.want(desired.groups.clone());
        Self { platform, files, started, desired, removed: BTreeMap::new(), passed: false, groups, brokers: None }
    }

    /// Has `brokers` told how many brokers the Cluster wants, with each pass: they come and go without a restart.
    pub fn telling_brokers(self, brokers: watch::Sender<Option<i32>>) -> Self {
        Self { brokers: Some(brokers), ..self }
    }

    /// Takes over what is wanted from now on. Topics that are not in it any more are dealt with by the next pass.
    pub fn want(&mut self, desired: Desired) {
        self.passed = false;
        self.groups.want(desired.groups.clone());
        let before = std::mem::replace(&mut self.desired, desired);
        let gone = before.topics.into_iter().filter(|(name, _)| !self.desired.topics.contains_key(name));
        self.removed.extend(gone);
        self.removed.retain(|name, _| !self.desired.topics.contains_key(name));
    }

    /// One pass: makes the cluster as it is wanted, as far as possible, and reports.
    ///
    /// # Errors
    /// When the controllers cannot be reached; the pass is to be tried again.
    pub async fn pass(&mut self) -> Result<Pass, PlatformError> {
        let image = self.platform.metadata();
        let mut pass = Pass { files_unchanged: self.passed, ..Pass::default() };
        if let Some(wanted) = &self.desired.cluster {
            if let Some(brokers) = &self.brokers {
                self.started.brokers = wanted.brokers;
                brokers.send_if_modified(|told| std::mem::replace(told, wanted.brokers) != wanted.brokers);
            }
            let plan = cluster::build(wanted, &cluster::fetch(&image), &self.started);
            match cluster::apply(&plan, &self.platform).await {
                Err(PlatformError::Refused(error)) => pass.cluster_refused = Some(error.to_string()),
                other => other?,
            }
            pass.settings_changed = plan.changes;
            pass.settings_waiting = plan.waiting;
        }
        let mut plans: BTreeMap<String, TopicPlan> = BTreeMap::new();
        for (name, wanted) in &self.desired.topics {
            plans.insert(name.clone(), topic::build(wanted, topic::fetch(&image, name).as_ref(), time::unix_ms()));
        }
        for (name, removed) in &self.removed {
            plans.insert(name.clone(), topic::build_removed(removed, topic::fetch(&image, name).as_ref()));
        }
        let results = topic::apply(&plans, &self.platform).await?;
        let image = self.platform.metadata();
        let now = now();
        for (name, plan) in plans {
            let result = results.get(&name).cloned().unwrap_or(Ok(()));
            let wanted = self.desired.topics.contains_key(&name);
            let status = topic::status(topic::fetch(&image, &name).as_ref(), &plan, &result, None, &now);
            pass.topics.push(TopicReport { name, wanted, actions: plan.actions, status, error: result.err() });
        }
        pass.orphans = topic::orphans(&image, |name| self.desired.topics.contains_key(name));
        pass.orphans.retain(|name| pass.topics.iter().all(|topic| topic.wanted || topic.name != *name || topic.kept()));
        self.removed.clear();
        self.passed = true;
        Ok(pass)
    }

    /// Takes over what the files say if it is not what is wanted; whether it was.
    fn read_again(&mut self) -> bool {
        let newer = load(&self.files).ok().filter(|desired| *desired != self.desired);
        newer.map(|desired| self.want(desired)).is_some()
    }

    /// Watches the files, the metadata and the consumer groups until the word to stop comes. `first` is the report of the
    /// pass that the caller has made.
    pub async fn run<A: GroupAdmin>(self, first: Pass, groups: LocalGroups<A>, stop: Shutdown) {
        let inbox = Arc::clone(&self.groups);
        join(self.follow(first, &stop), groups.run(&inbox, &stop)).await;
    }

    async fn follow(mut self, first: Pass, stop: &Shutdown) {
        let mut watch = FileWatch::new(&self.files);
        let mut ticks = time::interval(POLL);
        let mut last = first;
        let mut seen_offset = self.platform.metadata().offset();
        // What was written after the files were read, and before they were watched, is not missed.
        let mut due = self.read_again();
        let mut polls = 0;
        while !stop.is_triggered() {
            tick_or_stop(&mut ticks, stop).await;
            if stop.is_triggered() {
                return;
            }
            if watch.settled_on_a_change() {
                match load(&self.files) {
                    Ok(desired) => {
                        let (topics, groups) = (desired.topics.len(), desired.groups.len());
                        tracing::info!(files = self.files.len(), topics, groups, "the files changed");
                        self.want(desired);
                        due = true;
                    }
                    Err(problems) => {
                        tracing::error!("the files changed, and are not taken until this is put right:\n{problems}");
                    }
                }
            }
            polls += 1;
            let offset = self.platform.metadata().offset();
            if polls >= POLLS_PER_DRIFT_CHECK {
                polls = 0;
                due |= offset != seen_offset;
            }
            if due {
                match self.pass().await {
                    Ok(pass) => {
                        pass.log(&last);
                        last = pass;
                        seen_offset = self.platform.metadata().offset();
                        due = false;
                    }
                    Err(error) => tracing::warn!(%error, "the files are not applied yet; trying again"),
                }
            }
        }
    }
}

/// Waits for the next tick or the word to stop.
async fn tick_or_stop(ticks: &mut time::Interval, stop: &Shutdown) {
    futures::future::select(std::pin::pin!(ticks.tick()), std::pin::pin!(stop.triggered())).await;
}

fn now() -> Time {
    Time(Timestamp::from_millisecond(time::unix_ms()).unwrap_or_default())
}
