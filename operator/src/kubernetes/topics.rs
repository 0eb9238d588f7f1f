//! The Topics of one cluster: all of them in one pass, as few commands as the controllers' limits allow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::api::{ApiError, Kube};
use super::claims::{Claim, claims};
use super::conditions::{carried_over, now};
use super::wanted::Wanted;
use crate::crd::parts::{ConditionStatus, condition, not_acted_on};
use crate::crd::reasons::Reason;
use crate::crd::{Topic, TopicStatus};
use crate::platform::{Platform, PlatformError};
use crate::reconcile::topic::{self, TopicPlan, ValidTopic};
use crate::yaml::Loaded;

/// Reports that are written at the same time.
const WRITES_AT_ONCE: usize = 8;

/// What a pass found.
#[derive(Debug, Default)]
pub struct TopicsPass {
    /// Topics without a resource.
    pub orphans: Vec<String>,
    /// Resources that are gone, and whose topics could not be dealt with yet.
    pub undone: Vec<Arc<Topic>>,
}

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum TopicsError {
    /// The controllers.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The Kubernetes API.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// A resource that makes sense, or why it does not.
fn valid(topic: &Topic, wanted: &Wanted) -> Result<ValidTopic, String> {
    let mut problems = Vec::new();
    let mut valid = topic::validate(&[Loaded::without_file(topic.clone())], Some(&wanted.for_topics()), &mut problems);
    match valid.pop_first() {
        Some((_, valid)) => {
            // Given by name, because the controllers' own default is that of their last start.
            let default_replicas = i16::try_from(wanted.default_replicas()).ok();
            Ok(ValidTopic { default_replicas, moves_replicas: true, ..valid })
        }
        None => {
            let said = problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message));
            Err(said.collect::<Vec<_>>().join("; "))
        }
    }
}

/// One pass over `topics`, all that name the cluster, and `removed`, those whose resources are gone.
///
/// # Errors
/// When controllers or API cannot be reached; what was done before is done, and seen by the next pass.
pub async fn pass(
    kube: &Kube,
    wanted: &Wanted,
    platform: &impl Platform,
    topics: &[Arc<Topic>],
    removed: Vec<Arc<Topic>>,
) -> Result<TopicsPass, TopicsError> {
    let (allowed, strangers): (Vec<_>, Vec<_>) =
        topics.iter().cloned().partition(|topic| wanted.allows(&topic.namespace().unwrap_or_default()));
    let claims = claims(&allowed);
    let image = platform.metadata();
    let mut plans: BTreeMap<String, TopicPlan> = BTreeMap::new();
    let mut reports: Vec<(Arc<Topic>, TopicStatus)> = Vec::new();
    let now = now();
    for (name, owner) in &claims.owners {
        match valid(owner, wanted) {
            Ok(valid) => {
                let observed = topic::fetch_wanted(&image, &valid);
                plans.insert(name.clone(), topic::build(&valid, observed.as_ref(), now.0.as_millisecond()));
            }
            Err(message) => reports.push((Arc::clone(owner), refused(owner, Reason::InvalidSpec, &message, &now))),
        }
    }
    for gone in &removed {
        let name = gone.claimed();
        if claims.owners.contains_key(&name) {
            continue;
        }
        if let Some(plan) = plan_removed(gone, wanted, topic::fetch(&image, &name).as_ref()) {
            plans.insert(name, plan);
        }
    }
    let results = topic::apply(&plans, platform).await?;
    let image = platform.metadata();
    for (name, owner) in &claims.owners {
        let Some(plan) = plans.get(name) else { continue };
        let result = results.get(name).cloned().unwrap_or(Ok(()));
        let observed = topic::fetch(&image, name);
        reports.push((
            Arc::clone(owner),
            topic::status(observed.as_ref(), plan, &result, owner.metadata.generation, &now),
        ));
    }
    for (other, owner) in &claims.others {
        reports.push((Arc::clone(other), other_status(other, owner.as_deref(), wanted, &image, &now)));
    }
    for stranger in &strangers {
        let message = "the Cluster does not list this namespace in spec.allowedNamespaces";
        reports.push((Arc::clone(stranger), refused(stranger, Reason::NotAllowed, message, &now)));
    }
    report(kube, reports).await?;
    let named: BTreeSet<String> = allowed.iter().map(|topic| topic.claimed()).collect();
    Ok(TopicsPass { orphans: topic::orphans(&image, |name| named.contains(name)), undone: Vec::new() })
}

/// What to do about a topic whose resource is gone: only if it is the topic that the resource was last seen to be about.
fn plan_removed(gone: &Topic, wanted: &Wanted, observed: Option<&topic::ObservedTopic>) -> Option<TopicPlan> {
    let seen = gone.status.as_ref().and_then(|status| status.topic_id.as_ref());
    let observed = observed.filter(|observed| seen.is_some_and(|seen| *seen == observed.id.to_string()))?;
    Some(topic::build_removed(&valid(gone, wanted).ok()?, Some(observed)))
}

/// The report about a resource that cannot be acted on.
fn refused(topic: &Topic, reason: Reason, message: &str, now: &Time) -> TopicStatus {
    let generation = topic.metadata.generation;
    let before = topic.status.clone().unwrap_or_default();
    let conditions = not_acted_on(reason, message, generation, now);
    TopicStatus { observed_generation: generation, conditions, ..before }
}

/// The report about a resource that owns nothing: it watches, or is too late.
fn other_status(
    topic: &Topic,
    owner: Option<&str>,
    wanted: &Wanted,
    image: &taffrail_core::image::MetadataImage,
    now: &Time,
) -> TopicStatus {
    let Some(owner) = owner else {
        return match valid(topic, wanted) {
            Ok(valid) => {
                let observed = topic::fetch_wanted(image, &valid);
                let plan = topic::build(&valid, observed.as_ref(), now.0.as_millisecond());
                topic::status(observed.as_ref(), &plan, &Ok(()), topic.metadata.generation, now)
            }
            Err(message) => refused(topic, Reason::InvalidSpec, &message, now),
        };
    };
    let message = format!("the topic {} belongs to the Topic {owner}, which is older", topic.claimed());
    let mut status = refused(topic, Reason::OwnedByAnother, &message, now);
    let generation = topic.metadata.generation;
    status.conditions.push(condition(
        condition::CONFLICT,
        ConditionStatus::True,
        Reason::OwnedByAnother,
        message,
        generation,
        now.clone(),
    ));
    status
}

/// Writes the reports that have news.
async fn report(kube: &Kube, reports: Vec<(Arc<Topic>, TopicStatus)>) -> Result<(), ApiError> {
    let news = reports.into_iter().filter_map(|(topic, mut status)| {
        let before = topic.status.clone().unwrap_or_default();
        status.conditions = carried_over(&before.conditions, status.conditions);
        (status != before).then_some((topic, status))
    });
    let writes = news.map(|(topic, status)| async move { kube.report(&*topic, &status).await });
    let outcomes: Vec<_> = futures::stream::iter(writes).buffer_unordered(WRITES_AT_ONCE).collect().await;
    outcomes.into_iter().collect()
}
