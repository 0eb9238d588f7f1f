//! The ConsumerGroups of one cluster: looked at beside the keeper's passes, over Kafka's protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use parking_lot::Mutex;
use taffrail_client::groups::{GroupClient, GroupsError};
use taffrail_runtime::time;
use tokio::sync::Notify;

use super::api::{ApiError, Kube};
use super::cache::Key;
use super::caches::{Caches, cluster_key};
use super::claims::{Claim, claims};
use super::conditions::{carried_over, now};
use super::events::Events;
use super::keeper::Inbox;
use super::metrics::{Metrics, Outcome, PassOf};
use super::names::{KAFKA_PORT, MANAGER, Names, Role};
use super::observed::place;
use super::parking::Parking;
use super::wanted::{Wanted, validate};
use crate::crd::parts::{ConditionStatus, condition, not_acted_on};
use crate::crd::reasons::{EventReason, Reason};
use crate::crd::{ConsumerGroup, ConsumerGroupStatus};
use crate::platform::groups::GroupAdmin;
use crate::reconcile::consumer_group::{
    self, ANSWER_TIMEOUT, Applied, Blocked, Flaw, LOOK_EVERY, LOOK_EVERY_BUSY, Look, Lookout, Removal, ValidGroup,
};

/// How often a report is written of which only numbers have changed: what moves fast belongs in metrics.
const NUMBERS_EVERY: Duration = Duration::from_secs(15);

/// Pause after something happened, so that what happens together is dealt with together.
const GATHER: Duration = Duration::from_millis(50);

/// Hands over what there is to do about groups.
#[derive(Default)]
pub struct GroupInbox {
    /// Something changed.
    pub news: Notify,
    /// ConsumerGroups whose resources were deleted.
    pub removed: Mutex<Vec<Arc<ConsumerGroup>>>,
}

/// Looks after the ConsumerGroups of one Cluster.
pub struct GroupKeeper {
    key: Key,
    caches: Arc<Caches>,
    inbox: Arc<Inbox>,
    client: GroupClient,
    reports: Reports,
    metrics: Metrics,
}

impl GroupKeeper {
    /// One for the Cluster of this key.
    pub fn new(key: Key, caches: Arc<Caches>, inbox: Arc<Inbox>, reports: Reports, metrics: Metrics) -> Self {
        let client = GroupClient::new(MANAGER, ANSWER_TIMEOUT);
        Self { key, caches, inbox, client, reports, metrics }
    }

    /// Brings back what was parked for a Cluster that is gone: nobody looks at it any more.
    pub async fn let_go(&self) {
        let names = Names::new(self.key.namespace.clone(), self.key.name.clone());
        if let Err(error) = self.reports.parking.bring_back_orphans(&names, |_| false).await {
            tracing::warn!(%error, "a workload that was parked for a reset is not scaled back");
        }
    }

    /// Works without end.
    pub async fn run(&mut self) {
        loop {
            let again = self.look().await;
            select(pin!(self.inbox.groups.news.notified()), pin!(time::sleep(again))).await;
            time::sleep(GATHER).await;
        }
    }

    /// One pass; gives how long nothing has to be done.
    async fn look(&mut self) -> Duration {
        let cluster = self.caches.clusters.get(&self.key.namespace, &self.key.name);
        let Some(wanted) = cluster.and_then(|cluster| validate(&cluster).ok()) else { return LOOK_EVERY };
        let is_own = |it: &ConsumerGroup| cluster_key(&it.spec.cluster_ref, it.namespace()) == self.key;
        let groups = self.caches.groups.select(is_own);
        let removed = std::mem::take(&mut *self.inbox.groups.removed.lock());
        if groups.is_empty() && removed.is_empty() && !self.reports.parking.has_any(&wanted.names) {
            return LOOK_EVERY;
        }
        let pods = self.caches.pods_of(&wanted.names);
        let brokers = pods.iter().filter(|(node, _)| node.role == Role::Broker);
        self.client.set_places(brokers.filter_map(|(node, pod)| Some((node.id, place(pod, KAFKA_PORT)?))).collect());
        let began = time::monotonic();
        let outcome = pass(&mut self.reports, &wanted, &mut self.client, &groups, &removed).await;
        let ended = if outcome.is_waiting { Outcome::Waiting } else { Outcome::Done };
        self.metrics.note(PassOf::ConsumerGroups, ended, began.elapsed());
        self.inbox.groups.removed.lock().extend(outcome.undone);
        if outcome.is_waiting { LOOK_EVERY_BUSY } else { LOOK_EVERY }
    }
}

/// What came of a pass.
#[derive(Debug, Default)]
pub struct GroupsPass {
    /// Whether something waits, or could not be done.
    pub is_waiting: bool,
    /// Resources that are gone, and whose groups could not be dealt with yet.
    pub undone: Vec<Arc<ConsumerGroup>>,
}

/// One pass over `groups`, all that name the cluster, and `removed`, those whose resources are gone.
pub async fn pass(
    reports: &mut Reports,
    wanted: &Wanted,
    admin: &mut impl GroupAdmin,
    groups: &[Arc<ConsumerGroup>],
    removed: &[Arc<ConsumerGroup>],
) -> GroupsPass {
    let mut outcome = GroupsPass::default();
    if wanted.paused {
        // Hands off, and so off what belongs to others, too: the next pass after the pause parks it again.
        let brought = reports.parking.bring_back_orphans(&wanted.names, |_| false).await;
        return GroupsPass { is_waiting: brought.is_err(), undone: removed.to_vec() };
    }
    let now = now();
    let allows = |group: &&Arc<ConsumerGroup>| wanted.allows(&group.namespace().unwrap_or_default());
    let (allowed, strangers): (Vec<_>, Vec<_>) = groups.iter().partition(allows);
    let claims = claims(&allowed.into_iter().cloned().collect::<Vec<_>>());
    let (mut looks, mut refusals) = (claims.owners.values().cloned().collect::<Vec<_>>(), Vec::new());
    for (other, owner) in &claims.others {
        match owner {
            None => looks.push(Arc::clone(other)),
            Some(owner) => refusals.push((Arc::clone(other), conflict(other, owner, &now))),
        }
    }
    for stranger in strangers {
        let message = "the Cluster does not list this namespace in spec.allowedNamespaces";
        refusals.push((Arc::clone(stranger), refused(stranger, Reason::NotAllowed, message, &now)));
    }
    let mut looked_at = BTreeSet::new();
    for group in looks {
        match consumer_group::validate(&group) {
            Ok(valid) => {
                looked_at.insert(key_of(&group));
                outcome.is_waiting |= reports.look_at((&group, &valid, &wanted.names), admin, &now).await;
            }
            Err(flaws) => {
                let report = refused(&group, Reason::InvalidSpec, &listed(&flaws), &now);
                refusals.push((group, report));
            }
        }
    }
    if let Err(error) = reports.parking.bring_back_orphans(&wanted.names, |key| looked_at.contains(key)).await {
        tracing::warn!(%error, "a workload that was parked for a reset is not scaled back yet");
        outcome.is_waiting = true;
    }
    for (group, status) in refusals {
        outcome.is_waiting |= reports.write(&group, status).await.is_err();
    }
    for gone in removed.iter().filter(|gone| !claims.owners.contains_key(&gone.claimed())) {
        if let Err(error) = reports.delete(gone, admin).await {
            tracing::info!(group = gone.claimed(), %error, "the group is not deleted yet");
            outcome.undone.push(Arc::clone(gone));
            outcome.is_waiting = true;
        }
    }
    reports.forget_all_but(groups);
    outcome
}

/// Reports and events about groups.
pub struct Reports {
    kube: Kube,
    events: Events,
    /// When each report was written last.
    written: BTreeMap<Key, time::Instant>,
    lookout: Lookout<Key>,
    parking: Parking,
}

impl Reports {
    /// Written through `kube`, and told through `events`; `caches` has what is parked.
    pub fn new(kube: Kube, events: Events, caches: Arc<Caches>) -> Self {
        let parking = Parking::new(kube.clone(), events.clone(), caches);
        Self { kube, events, written: BTreeMap::new(), lookout: Lookout::default(), parking }
    }

    /// Looks at one group, does what its resource asks for, and reports. Whether it waits for something.
    async fn look_at(
        &mut self,
        (group, valid, names): (&ConsumerGroup, &ValidGroup, &Names),
        admin: &mut impl GroupAdmin,
        now: &Time,
    ) -> bool {
        match self.reconcile((group, valid, names), admin, now).await {
            Ok(is_waiting) => is_waiting,
            Err(error) => {
                let before = group.status.clone().unwrap_or_default();
                let report = consumer_group::unreachable(&before, &error, group.metadata.generation, now);
                let _ = self.write(group, report).await;
                true
            }
        }
    }

    async fn reconcile(
        &mut self,
        (group, valid, names): (&ConsumerGroup, &ValidGroup, &Names),
        admin: &mut impl GroupAdmin,
        now: &Time,
    ) -> Result<bool, GroupsError> {
        let before = group.status.clone().unwrap_or_default();
        let about = (&key_of(group), valid, group.metadata.generation);
        let Look { applied, mut status } = self.lookout.look(about, &before, admin, now).await?;
        let parked = self.parking.pass((group, valid, names), &applied, now).await;
        let waits = parked.unwrap_or_else(|error| Some(Blocked::new(Reason::NotParked, error.to_string())));
        if let Some(waits) = &waits {
            status.conditions = waiting(status.conditions, waits, group.metadata.generation, now);
        }
        match &applied {
            Applied::Set(change) => {
                let note = format!("the reset {} set the offsets of {} partitions", change.id, change.after.len());
                self.events.tell(group, EventReason::GroupReset, note).await;
            }
            Applied::Begun(change) => {
                let note = format!("the group begins at set offsets in {} partitions", change.after.len());
                self.events.tell(group, EventReason::InitialOffsetsSet, note).await;
            }
            Applied::Blocked(blocked) => {
                let blocked = waits.as_ref().unwrap_or(blocked);
                if blocked.reason != Reason::Parking && !has_told(&before, blocked.reason) {
                    self.events.tell(group, EventReason::ResetBlocked, blocked.message.clone()).await;
                }
            }
            _ => {}
        }
        let is_written = self.write(group, status).await.is_ok();
        Ok(!is_written || applied.is_waiting() || waits.is_some())
    }

    /// Writes a report that has news. One whose numbers alone have changed waits for its time.
    async fn write(&mut self, group: &ConsumerGroup, mut after: ConsumerGroupStatus) -> Result<(), ApiError> {
        let before = group.status.clone().unwrap_or_default();
        after.conditions = carried_over(&before.conditions, after.conditions);
        if after == before {
            return Ok(());
        }
        let key = key_of(group);
        let now = time::monotonic();
        let is_early = self.written.get(&key).is_some_and(|at| now.duration_since(*at) < NUMBERS_EVERY);
        if is_early && without_numbers(&before) == without_numbers(&after) {
            return Ok(());
        }
        self.kube
            .report(group, &after)
            .await
            .inspect_err(|error| tracing::info!(%error, "a report was not written"))?;
        self.written.insert(key, now);
        Ok(())
    }

    /// Deletes the group of a resource that is gone, if that said so, and nobody uses the group.
    async fn delete(&self, gone: &ConsumerGroup, admin: &mut impl GroupAdmin) -> Result<(), GroupsError> {
        let id = gone.claimed();
        match consumer_group::remove(&id, gone.spec.management, gone.spec.deletion_policy, admin).await? {
            Removal::Kept | Removal::Absent => {}
            Removal::Deleted => {
                let note = format!("the group {id} was deleted, as its resource's deletionPolicy says");
                self.events.tell(gone, EventReason::GroupDeleted, note).await;
            }
            Removal::HasMembers => {
                let note = format!("the group {id} has members and stays, although its resource is gone");
                self.events.tell(gone, EventReason::GroupKept, note).await;
            }
        }
        Ok(())
    }

    fn forget_all_but(&mut self, groups: &[Arc<ConsumerGroup>]) {
        let there: BTreeSet<Key> = groups.iter().map(|group| key_of(group)).collect();
        self.written.retain(|key, _| there.contains(key));
        self.lookout.retain(|key| there.contains(key));
    }
}

fn key_of(group: &ConsumerGroup) -> Key {
    Key::new(group.namespace().unwrap_or_default(), group.name_any())
}

/// A report without what may change at any moment.
fn without_numbers(status: &ConsumerGroupStatus) -> ConsumerGroupStatus {
    let mut status =
        ConsumerGroupStatus { total_lag: None, max_lag: None, lag_seconds: None, topics: Vec::new(), ..status.clone() };
    for found in &mut status.dead_letters {
        (found.records, found.oldest_seconds) = (None, None);
    }
    status.conditions.iter_mut().for_each(|found| found.message.clear());
    status
}

fn has_told(status: &ConsumerGroupStatus, reason: Reason) -> bool {
    status.conditions.iter().any(|found| found.type_ == condition::RESET_BLOCKED && found.reason == reason.name())
}

/// The conditions of a reset that waits for the workload that it names.
fn waiting(before: Vec<Condition>, waits: &Blocked, generation: Option<i64>, now: &Time) -> Vec<Condition> {
    let Blocked { reason, message } = waits;
    let state = |type_, status| condition(type_, status, *reason, message, generation, now.clone());
    let is_blocked = before.iter().any(|found| found.type_ == condition::RESET_BLOCKED);
    let replaced = [condition::READY, condition::RECONCILING, condition::STALLED, condition::RESET_BLOCKED];
    let mut after =
        vec![state(condition::READY, ConditionStatus::False), state(condition::RECONCILING, ConditionStatus::True)];
    after.extend(is_blocked.then(|| state(condition::RESET_BLOCKED, ConditionStatus::True)));
    after.extend(before.into_iter().filter(|found| !replaced.contains(&found.type_.as_str())));
    after
}

fn listed(flaws: &[Flaw]) -> String {
    flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The report about a resource that cannot be acted on.
fn refused(group: &ConsumerGroup, reason: Reason, message: &str, now: &Time) -> ConsumerGroupStatus {
    let generation = group.metadata.generation;
    let (before, conditions) =
        (group.status.clone().unwrap_or_default(), not_acted_on(reason, message, generation, now));
    ConsumerGroupStatus { observed_generation: generation, conditions, ..before }
}

/// The report about a resource that is too late.
fn conflict(group: &ConsumerGroup, owner: &str, now: &Time) -> ConsumerGroupStatus {
    let message = format!("the group {} belongs to the ConsumerGroup {owner}, which is older", group.claimed());
    let mut status = refused(group, Reason::OwnedByAnother, &message, now);
    let generation = group.metadata.generation;
    let (type_, holds) = (condition::CONFLICT, ConditionStatus::True);
    status.conditions.push(condition(type_, holds, Reason::OwnedByAnother, message, generation, now.clone()));
    status
}
