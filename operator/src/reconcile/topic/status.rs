//! What is reported.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{ObservedTopic, TopicPlan, TopicResult};
use crate::crd::TopicStatus;
use crate::crd::parts::{ConditionStatus, condition};
use crate::crd::reasons::Reason;
use crate::crd::topic::Reassignment;

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
    let refused = result.as_ref().err().map(|error| (Reason::Refused, error.to_string()));
    let stall = plan.stall.as_ref().map(|stall| (stall.reason, stall.message.clone()));
    let waiting = observed.is_none().then(|| (Reason::Creating, "the topic is not there yet".to_owned()));
    let leaderless = observed.map_or(0, |topic| topic.leaderless);
    let offline = (leaderless > 0).then(|| (Reason::Leaderless, format!("{leaderless} partitions have no leader")));
    let trouble = refused.or(stall);
    let stalled = trouble.is_some();
    let unready = trouble.or(waiting).or(offline);
    // What was set right by this pass is no drift any more.
    let drift = if plan.actions.is_empty() || result.is_err() { plan.drift.as_slice() } else { &[] };
    let mut conditions = vec![ready(unready.as_ref(), generation, now)];
    let moving = observed.map_or(0, |topic| topic.moving);
    if moving > 0 {
        let message = format!("the replicas of {moving} partitions move");
        let status = ConditionStatus::True;
        conditions.push(condition(condition::RECONCILING, status, Reason::Moving, message, generation, now.clone()));
    }
    if let Some(topic) = observed.filter(|topic| topic.min_isr_margin < 0) {
        let message = format!("a partition lacks {} replicas in sync: acks=all fails", -topic.min_isr_margin);
        let status = ConditionStatus::True;
        conditions.push(condition(
            condition::UNDER_MIN_ISR,
            status,
            Reason::TooFewInSync,
            message,
            generation,
            now.clone(),
        ));
    }
    if let Some((reason, message)) = unready.as_ref().filter(|_| stalled) {
        let status = ConditionStatus::True;
        conditions.push(condition(condition::STALLED, status, *reason, message.clone(), generation, now.clone()));
    }
    if !drift.is_empty() {
        let fields: Vec<&str> = drift.iter().map(|drift| drift.field.as_str()).collect();
        let message = format!("differs in {}", fields.join(", "));
        let status = ConditionStatus::True;
        conditions.push(condition(condition::DRIFTED, status, Reason::Differs, message, generation, now.clone()));
    }
    TopicStatus {
        observed_generation: generation,
        topic_id: observed.map(|topic| topic.id.to_string()),
        partitions: observed.map(|topic| topic.partitions),
        replicas: observed.map(|topic| i32::from(topic.replicas)),
        min_isr_margin: observed.map(|topic| topic.min_isr_margin),
        per_partition: observed.map(|topic| topic.troubled.clone()).unwrap_or_default(),
        reassignment: observed.filter(|topic| topic.moving > 0).map(|topic| Reassignment {
            moved: topic.partitions - topic.moving,
            total: topic.partitions,
            bytes: 0,
        }),
        leaderless: observed.map(|topic| topic.leaderless),
        offline: observed.map(|topic| topic.leaderless),
        drift: drift.iter().take(DRIFT_MAX).cloned().collect(),
        conditions,
    }
}

fn ready(unready: Option<&(Reason, String)>, generation: Option<i64>, now: &Time) -> Condition {
    let (status, reason, message) = match unready {
        Some((reason, message)) => (false, *reason, message.clone()),
        None => (true, Reason::Serving, "the topic is as its resource says".to_owned()),
    };
    condition(condition::READY, status.into(), reason, message, generation, now.clone())
}
