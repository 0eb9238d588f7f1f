//! What is reported of a Cluster, written when there is news.

use std::sync::Arc;

use super::super::conditions::{carried_over, now};
use super::super::listeners;
use super::super::names::Role;
use super::super::rollout::Step;
use super::super::scale::Move;
use super::super::status::{Facts, status};
use super::{Keeper, KeeperError, Outcome, Scene, waits_for};
use crate::crd::cluster_status::ListenerStatus;
use crate::crd::parts::{condition, not_acted_on};
use crate::crd::reasons::{EventReason, Reason};
use crate::crd::{Cluster, ClusterStatus};

impl Keeper {
    /// Reports that a spec cannot be acted on.
    pub(super) async fn report_refused(
        &self,
        resource: &Arc<Cluster>,
        reason: Reason,
        message: &str,
    ) -> Result<(), KeeperError> {
        let generation = resource.metadata.generation;
        let before = resource.status.clone().unwrap_or_default();
        let conditions = not_acted_on(reason, message, generation, &now());
        let after = ClusterStatus { observed_generation: generation, conditions, ..before.clone() };
        self.write_status(resource, &before, after).await
    }

    /// Reports what came of a pass.
    pub(super) async fn report(&mut self, scene: &Scene, outcome: &Outcome) -> Result<(), KeeperError> {
        let now = now();
        let blocks: Vec<String> = waits_for(&outcome.step).iter().map(ToString::to_string).collect();
        self.since.retain(|block, _| blocks.contains(block));
        for block in &blocks {
            self.since.entry(block.clone()).or_insert_with(|| now.clone());
        }
        let before = scene.resource.status.clone().unwrap_or_default();
        let refused = outcome.settings_refused.as_ref().map(ToString::to_string);
        let facts = Facts {
            wanted: &scene.wanted,
            identity: &scene.identity,
            image_name: &scene.image_name,
            observed: &scene.observed,
            view: &scene.view,
            step: &outcome.step,
            moving: outcome.moving.as_ref(),
            settings_refused: refused.as_deref(),
            orphans: &outcome.topics.orphans,
            listeners: &self.listeners(scene),
            since: &self.since,
            now: &now,
        };
        let mut after = status(&facts);
        // Only what is done counts as observed.
        let is_done = outcome.step == Step::Done && outcome.moving.is_none() && refused.is_none();
        let is_seen = is_done && self.is_current(scene);
        after.observed_generation = if is_seen { scene.wanted.generation } else { before.observed_generation };
        let blocked = waits_for(&outcome.step).iter().find(|block| block.rule.is_news() && facts.is_rolling());
        if let Some(block) = blocked.filter(|_| !has_any(&before, condition::ROLLOUT_BLOCKED)) {
            self.events.tell(&*scene.resource, EventReason::RolloutBlocked, block.to_string()).await;
        }
        if let Some(refused) = refused.filter(|refused| !has_told(&before, condition::STALLED, refused)) {
            self.events.tell(&*scene.resource, EventReason::SettingsRefused, refused).await;
        }
        if let Some(Move::Refused(_, text)) =
            outcome.moving.as_ref().filter(|_| !has_any(&before, condition::SCALE_DOWN_BLOCKED))
        {
            self.events.tell(&*scene.resource, EventReason::ScaleDownBlocked, text.clone()).await;
        }
        self.write_status(&scene.resource, &before, after).await
    }

    /// Where clients of the further listeners begin.
    fn listeners(&self, scene: &Scene) -> Vec<ListenerStatus> {
        let pods = scene.observed.pods.iter().filter(|(node, _)| node.role == Role::Broker);
        let pods = pods.map(|(node, pod)| (node.id, &**pod));
        let services = |name: &str| self.caches.services.get(&scene.wanted.names.namespace, name);
        listeners::report(&scene.wanted, pods, services)
    }

    async fn write_status(
        &self,
        resource: &Arc<Cluster>,
        before: &ClusterStatus,
        mut after: ClusterStatus,
    ) -> Result<(), KeeperError> {
        after.conditions = carried_over(&before.conditions, after.conditions);
        if after != *before {
            self.kube.report(&**resource, &after).await?;
        }
        Ok(())
    }
}

fn has_any(status: &ClusterStatus, type_: &str) -> bool {
    status.conditions.iter().any(|found| found.type_ == type_ && found.status == "True")
}

fn has_told(status: &ClusterStatus, type_: &str, message: &str) -> bool {
    status.conditions.iter().any(|found| found.type_ == type_ && found.message == message)
}
