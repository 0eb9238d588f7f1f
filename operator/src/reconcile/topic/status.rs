//! What is reported.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{ObservedTopic, TopicPlan, TopicResult};
use crate::crd::TopicStatus;
use crate::crd::parts::{ConditionStatus, condition, reason};

/// Differences that a status lists at most.
const DRIFT_MAX: usize = 50;

/// The report about a topic after a pass: `observed` is what is there now, `plan` what was found, `result` what became of
/// it.
pub fn status(
    observed: Option<&ObservedTopic>,
    plan: &TopicPlan,
    result: &TopicResult,
    generation: Option<i64>,
    now: &Time,
) -> TopicStatus {
    let refused = result.as_ref().err().map(|error| (error.code.name(), error.to_string()));
    let stall = plan.stall.as_ref().map(|stall| (stall.reason, stall.message.clone()));
    let waiting = observed.is_none().then(|| (reason::CREATING, "the topic is not there yet".to_owned()));
    let leaderless = observed.map_or(0, |topic| topic.leaderless);
    let offline = (leaderless > 0).then(|| ("Leaderless", format!("{leaderless} partitions have no leader")));
    let trouble = refused.or(stall);
    let stalled = trouble.is_some();
    let unready = trouble.or(waiting).or(offline);
    // What was set right by this pass is no drift any more.
    let drift = if plan.actions.is_empty() || result.is_err() { plan.drift.as_slice() } else { &[] };
    let mut conditions = vec![ready(unready.as_ref(), generation, now)];
    if let Some((reason, message)) = unready.as_ref().filter(|_| stalled) {
        let status = ConditionStatus::True;
        conditions.push(condition(condition::STALLED, status, reason, message.clone(), generation, now.clone()));
    }
    if !drift.is_empty() {
        let fields: Vec<&str> = drift.iter().map(|drift| drift.field.as_str()).collect();
        let message = format!("differs in {}", fields.join(", "));
        let status = ConditionStatus::True;
        conditions.push(condition(condition::DRIFTED, status, "Differs", message, generation, now.clone()));
    }
    TopicStatus {
        observed_generation: generation,
        topic_id: observed.map(|topic| topic.id.to_string()),
        partitions: observed.map(|topic| topic.partitions),
        replicas: observed.map(|topic| i32::from(topic.replicas)),
        leaderless: observed.map(|topic| topic.leaderless),
        offline: observed.map(|topic| topic.leaderless),
        drift: drift.iter().take(DRIFT_MAX).cloned().collect(),
        conditions,
        ..TopicStatus::default()
    }
}

fn ready(unready: Option<&(&'static str, String)>, generation: Option<i64>, now: &Time) -> Condition {
    let (status, reason, message) = match unready {
        Some((reason, message)) => (false, *reason, message.clone()),
        None => (true, "Serving", "the topic is as its resource says".to_owned()),
    };
    condition(condition::READY, status.into(), reason, message, generation, now.clone())
}
