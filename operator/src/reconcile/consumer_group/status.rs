//! The report on a ConsumerGroup.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use taffrail_client::groups::{GroupsError, TopicPartition};
use taffrail_core::ids::Offset;

use super::apply::Applied;
use super::build::{Blocked, Change, GroupPlan, ResetPlan};
use super::fetch::ObservedGroup;
use super::validate::ValidGroup;
use crate::crd::ConsumerGroupStatus;
use crate::crd::consumer_group::{DeadLetterTopic, LastReset, TopicLag};
use crate::crd::parts::{ConditionStatus, condition};
use crate::crd::reasons::Reason;

/// Topics that a report lists at most, the worst first.
const TOPICS_MAX: usize = 50;

/// Partitions whose offsets a report lists at most.
const OFFSETS_MAX: usize = 500;

/// A reset that was done.
const COMPLETED: &str = "Completed";

/// A reset that was only worked out.
const DRY_RUN: &str = "DryRun";

/// How a group is, and what came of the plan. `before` is the report so far.
pub fn status(
    valid: &ValidGroup,
    observed: &ObservedGroup,
    (plan, applied): (&GroupPlan, &Applied),
    before: &ConsumerGroupStatus,
    generation: Option<i64>,
    now: &Time,
) -> ConsumerGroupStatus {
    let mut status = ConsumerGroupStatus {
        observed_generation: generation,
        last_reset: last_reset(plan, applied, before),
        conditions: conditions(valid, observed, (plan, applied), generation, now),
        ..ConsumerGroupStatus::default()
    };
    let description = &observed.description;
    status.coordinator = Some(description.coordinator);
    status.state = Some(description.state.clone());
    status.dead_letters = dead_letters(valid, observed);
    if !observed.exists() {
        return status;
    }
    status.protocol = Some(description.protocol.clone()).filter(|protocol| !protocol.is_empty());
    status.members = Some(i32::try_from(description.members).unwrap_or(i32::MAX));
    report_lag(valid, observed, &mut status);
    status
}

/// The report about a group of which nothing can be told now: the rest stays as it was seen last.
pub fn unreachable(
    before: &ConsumerGroupStatus,
    error: &GroupsError,
    generation: Option<i64>,
    now: &Time,
) -> ConsumerGroupStatus {
    let mut status = before.clone();
    let (type_, holds) = (condition::READY, ConditionStatus::Unknown);
    let ready = condition(type_, holds, Reason::Unreachable, error.to_string(), generation, now.clone());
    status.conditions.retain(|found| found.type_ != condition::READY);
    status.conditions.insert(0, ready);
    status
}

/// Records behind, of partitions of which something is committed and whose leaders have answered.
fn report_lag(valid: &ValidGroup, observed: &ObservedGroup, status: &mut ConsumerGroupStatus) {
    let mut topics: BTreeMap<&str, i64> = BTreeMap::new();
    let (mut total, mut most, mut oldest_ms) = (0_i64, 0, 0);
    let named = |topic: &String| valid.topics.is_empty() || valid.topics.contains(topic);
    for (partition, committed) in observed.committed.iter().filter(|(key, _)| named(&key.topic)) {
        let Some(ends) = observed.ends.get(partition) else { continue };
        let lag = (ends.end - (*committed).max(ends.start)).max(0);
        *topics.entry(&partition.topic).or_default() += lag;
        total = total.saturating_add(lag);
        most = most.max(lag);
        if lag > 0 {
            oldest_ms = oldest_ms.max(ends.age_ms.unwrap_or(0));
        }
    }
    if topics.is_empty() {
        return;
    }
    let mut worst: Vec<TopicLag> =
        topics.into_iter().map(|(topic, lag)| TopicLag { topic: topic.to_owned(), lag }).collect();
    worst.sort_by_key(|topic| Reverse(topic.lag));
    worst.truncate(TOPICS_MAX);
    (status.total_lag, status.max_lag, status.lag_seconds) = (Some(total), Some(most), Some(oldest_ms / 1000));
    status.topics = worst;
}

/// What lies in the topics that take what the group cannot process.
fn dead_letters(valid: &ValidGroup, observed: &ObservedGroup) -> Vec<DeadLetterTopic> {
    let report = |topic: &String| {
        let mut found = DeadLetterTopic { topic: topic.clone(), ..DeadLetterTopic::default() };
        for (_, ends) in observed.dead_letters.iter().filter(|(key, _)| key.topic == *topic) {
            found.exists = true;
            let Some(ends) = ends else { continue };
            let records = (ends.end - ends.start).max(0);
            found.records = Some(found.records.unwrap_or(0).saturating_add(records));
            let oldest = ends.age_ms.filter(|_| records > 0).map(|ms| ms / 1000);
            found.oldest_seconds = found.oldest_seconds.max(oldest);
        }
        found
    };
    valid.dead_letters.iter().map(report).collect()
}

fn last_reset(plan: &GroupPlan, applied: &Applied, before: &ConsumerGroupStatus) -> Option<LastReset> {
    let offsets = |offsets: &BTreeMap<TopicPartition, Offset>| {
        offsets.iter().take(OFFSETS_MAX).map(|(key, offset)| (key.to_string(), *offset)).collect()
    };
    let told = |change: &Change, state: &str| LastReset {
        request_id: change.id.clone(),
        state: state.to_owned(),
        before: offsets(&change.before),
        after: offsets(&change.after),
    };
    // Its offsets were told to nobody, and may have moved on since.
    let known = |id: &String| LastReset { request_id: id.clone(), state: COMPLETED.to_owned(), ..LastReset::default() };
    let reported = before.last_reset.clone();
    match (applied, &plan.reset) {
        (Applied::Set(change), _) => Some(told(change, COMPLETED)),
        (Applied::Known(id), _) => Some(known(id)),
        (_, ResetPlan::Report(change)) => Some(told(change, DRY_RUN)),
        (_, ResetPlan::Done { id }) => {
            reported.filter(|reported| reported.request_id == *id).or_else(|| Some(known(id)))
        }
        _ => reported,
    }
}

fn conditions(
    valid: &ValidGroup,
    observed: &ObservedGroup,
    (plan, applied): (&GroupPlan, &Applied),
    generation: Option<i64>,
    now: &Time,
) -> Vec<Condition> {
    let state = |type_, holds: bool, reason: Reason, message: &str| {
        condition(type_, ConditionStatus::from(holds), reason, message, generation, now.clone())
    };
    let mut conditions = Vec::new();
    match applied {
        Applied::Blocked(Blocked { reason, message }) => {
            conditions.push(state(condition::READY, false, *reason, message));
            // Members stop and leaders come back; everything else needs somebody.
            let passes = [Reason::GroupActive, Reason::LeadersSilent].contains(reason);
            let type_ = if passes { condition::RECONCILING } else { condition::STALLED };
            conditions.push(state(type_, true, *reason, message));
            conditions.push(state(condition::RESET_BLOCKED, true, *reason, message));
        }
        Applied::NotBegun(Blocked { reason, message }) => {
            conditions.push(state(condition::READY, false, *reason, message));
            conditions.push(state(condition::RECONCILING, true, *reason, message));
        }
        _ if !observed.exists() => {
            let message = format!("there is no group {}: no member has joined, and nothing is committed", valid.id);
            conditions.push(state(condition::READY, false, Reason::NotFound, &message));
        }
        _ => conditions.push(state(condition::READY, true, Reason::Watched, "the group is known to its coordinator")),
    }
    match (applied, &plan.reset) {
        (Applied::Set(_) | Applied::Known(_), _) | (_, ResetPlan::Done { .. }) => {
            let id = valid.reset.as_ref().map(|reset| reset.id.as_str()).unwrap_or_default();
            let message = format!("the reset {id} was done, and is not done again");
            conditions.push(state(condition::RESET_COMPLETE, true, Reason::Done, &message));
        }
        (_, ResetPlan::Report(change)) => {
            let message = format!("the reset {} is only worked out: status.lastReset has its offsets", change.id);
            conditions.push(state(condition::RESET_COMPLETE, true, Reason::Done, &message));
        }
        _ => {}
    }
    conditions
}
