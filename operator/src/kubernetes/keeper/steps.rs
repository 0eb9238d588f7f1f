//! Carrying out what the rollout planner says.

use std::collections::BTreeSet;

use kube::ResourceExt;
use taffrail_core::control::{
    AffectedPartition, CloseGrant, Command, OpenGrant, Reply, RestartVerdict, SmallPartitions,
};
use taffrail_core::ids::BrokerId;

use super::super::build;
use super::super::names::Node;
use super::super::revision::Cause;
use super::super::rollout::{Block, Lagging, Rule, Step};
use super::super::wanted::Wanted;
use super::{Keeper, KeeperError, Scene};
use crate::crd::cluster::SmallRfPolicy;
use crate::crd::reasons::EventReason;
use crate::platform::PlatformError;

/// How long a grant is taken for; it is prolonged while it is needed.
const GRANT_MS: i64 = 300_000;

impl Keeper {
    /// Does what the planner says; gives the step as it came out.
    pub(super) async fn carry_out(&mut self, scene: &Scene, step: Step) -> Result<Step, KeeperError> {
        match &step {
            Step::Done => {}
            Step::Create(nodes) => self.create_pods(scene, nodes).await?,
            Step::Delete(node, causes) => self.replace_pod(scene, *node, causes).await?,
            Step::AskGrant(id) => {
                let blocks = self.ask_grant(&scene.wanted, &[*id]).await?;
                if !blocks.is_empty() {
                    return Ok(Step::Wait(blocks));
                }
                self.inbox.news.notify_one();
            }
            Step::AskBatch(ids) => {
                let mut blocks = self.ask_grant(&scene.wanted, ids).await?;
                if !blocks.is_empty() {
                    // Not all at once; so one by one.
                    blocks = self.ask_grant(&scene.wanted, ids.get(..1).unwrap_or_default()).await?;
                }
                if !blocks.is_empty() {
                    return Ok(Step::Wait(blocks));
                }
                self.inbox.news.notify_one();
            }
            Step::ReturnGrant(id) => {
                let request = CloseGrant { id: *id, operator_epoch: self.defaults.epoch };
                self.propose(Command::CloseGrant(request)).await?;
                self.inbox.news.notify_one();
            }
            Step::Wait(_) => self.prolong_grant(scene).await?,
        }
        Ok(step)
    }

    async fn create_pods(&self, scene: &Scene, nodes: &[Node]) -> Result<(), KeeperError> {
        let names = &scene.wanted.names;
        for node in nodes {
            let claim = self.caches.claims.get(&names.namespace, &names.claim(*node));
            if claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()) {
                // The disk before is still going; the pod comes with the next one.
                continue;
            }
            let told = self.told(&scene.wanted, *node);
            let pod = build::pod(&scene.wanted, &scene.identity, *node, (&scene.image_name, &told.flags));
            if let Some(created) = self.kube.create(&pod).await? {
                tracing::info!(cluster = names.cluster, pod = created.name_any(), "pod created");
                self.caches.pods.put(created);
            }
        }
        Ok(())
    }

    async fn replace_pod(&self, scene: &Scene, node: Node, causes: &[Cause]) -> Result<(), KeeperError> {
        let Some(pod) = scene.observed.pods.get(&node) else { return Ok(()) };
        let names = &scene.wanted.names;
        let told: Vec<&str> = causes.iter().map(|cause| cause.name()).collect();
        let told = if told.is_empty() { "it has ended".to_owned() } else { told.join(", ") };
        if causes.contains(&Cause::Storage)
            && let Some(claim) = self.caches.claims.get(&names.namespace, &names.claim(node))
        {
            // It goes when its pod does.
            self.kube.delete(&*claim).await?;
        }
        self.kube.delete(&**pod).await?;
        tracing::info!(cluster = names.cluster, pod = pod.name_any(), causes = told, "pod deleted");
        self.events.tell(&*scene.resource, EventReason::PodReplaced, format!("{node} is replaced: {told}")).await;
        Ok(())
    }

    /// Asks whether brokers may go together; gives what stands in the way.
    async fn ask_grant(&self, wanted: &Wanted, ids: &[i32]) -> Result<Vec<Block>, KeeperError> {
        let id = ids.first().copied().unwrap_or_default();
        let brokers = ids.iter().map(|id| BrokerId(*id)).collect();
        match self.propose(Command::OpenGrant(self.grant(wanted, brokers))).await {
            Ok(Reply::GrantOpened(_)) => Ok(Vec::new()),
            Ok(Reply::RestartJudged(verdict)) => Ok(blocks(id, &verdict)),
            Ok(_) => Err(PlatformError::UnexpectedReply("OpenGrant").into()),
            Err(PlatformError::Refused(error)) => {
                Ok(vec![Block::node(Rule::GrantRefused, Node::broker(id), error.to_string())])
            }
            Err(error) => Err(error.into()),
        }
    }

    fn grant(&self, wanted: &Wanted, brokers: BTreeSet<BrokerId>) -> OpenGrant {
        let policy = match wanted.rollout.small_rf_policy {
            SmallRfPolicy::Refuse => SmallPartitions::Block,
            SmallRfPolicy::Allow | SmallRfPolicy::Warn => SmallPartitions::Warn,
        };
        OpenGrant { brokers, operator_epoch: self.defaults.epoch, duration_ms: GRANT_MS, policy }
    }

    /// A grant must not end while the broker that it is for is away.
    async fn prolong_grant(&self, scene: &Scene) -> Result<(), KeeperError> {
        let (image, now_ms) = (&scene.observed.image, scene.observed.now_ms);
        let Some(grant) = image.grant().filter(|grant| grant.is_open(now_ms)) else { return Ok(()) };
        if grant.expires_ms - now_ms < GRANT_MS / 2 {
            self.propose(Command::OpenGrant(self.grant(&scene.wanted, grant.brokers.clone()))).await?;
        }
        Ok(())
    }
}

/// What stands in the way of taking broker `id` down, in the cluster's own words.
fn blocks(id: i32, verdict: &RestartVerdict) -> Vec<Block> {
    let partition = |partition: &AffectedPartition| {
        let behind = partition.behind.first().map(|behind| behind.broker.0);
        let lagging = Lagging {
            topic: partition.topic.to_string(),
            partition: partition.partition,
            isr: partition.isr.iter().map(|id| id.0).collect(),
            minimum: i32::try_from(partition.min_in_sync).ok(),
            broker: behind.or(Some(id)),
        };
        Block::partition(Rule::UnderMinIsr, lagging)
    };
    let mut blocks: Vec<Block> = verdict.blocking.iter().map(partition).collect();
    if let Some(grant) = &verdict.grant {
        let brokers: Vec<String> = grant.brokers.iter().map(ToString::to_string).collect();
        let detail = format!("grant {} is open for broker {}", grant.id, brokers.join(", "));
        blocks.push(Block::node(Rule::GrantHeld, Node::broker(id), detail));
    }
    if blocks.is_empty() {
        blocks.push(Block::node(Rule::GrantRefused, Node::broker(id), "the broker is not known"));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use taffrail_core::control::Behind;
    use taffrail_core::event::Grant;

    use super::*;

    #[test]
    fn a_refusal_names_topic_partition_isr_minimum_and_who_is_behind() {
        let behind = Behind { broker: BrokerId(2), is_away: true, records: Some(7) };
        let verdict = RestartVerdict {
            blocking_count: 1,
            blocking: vec![AffectedPartition {
                topic: "orders".into(),
                partition: 3,
                leader: BrokerId(0),
                isr: vec![BrokerId(0), BrokerId(1)],
                min_in_sync: 2,
                behind: vec![behind],
            }],
            ..RestartVerdict::default()
        };
        let told: Vec<String> = blocks(1, &verdict).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["UnderMinIsr: orders-3 has in sync [0, 1] of at least 2, broker 2"]);
    }

    #[test]
    fn a_grant_of_somebody_else_is_named_and_no_refusal_is_without_a_reason() {
        let grant = Grant { id: 9, brokers: [BrokerId(2)].into(), operator_epoch: 1, expires_ms: 5 };
        let held = RestartVerdict { grant: Some(Arc::new(grant)), ..RestartVerdict::default() };
        assert_eq!(blocks(1, &held)[0].to_string(), "GrantHeld, broker 1: grant 9 is open for broker 2");
        assert_eq!(blocks(1, &RestartVerdict::default())[0].rule, Rule::GrantRefused);
    }
}
