//! How the cluster is: the report of `taffrail cluster health`, what is wrong and why, and which brokers may be taken down.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::{Value, json};
use taffrail_core::control::SmallPartitions;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::{Quorum, QuorumMember};
use taffrail_runtime::time;

use super::Console;
use super::troubles::{self, Trouble};
use crate::cli::{Report, verdict_data};

/// How long the controllers may take for an answer.
const CONTROLLERS_TIMEOUT: Duration = Duration::from_secs(2);

/// Brokers of which it is said whether they may be taken down.
const JUDGED_MAX: usize = 64;

/// The answer, not older than a moment.
pub(super) async fn read(console: &Console) -> Value {
    Value::clone(&*console.health.get(look(console)).await)
}

async fn look(console: &Console) -> Value {
    let image = console.image();
    let none = BTreeSet::new();
    let controllers = &console.controllers;
    let (quorum, below) = join(
        controllers.describe_quorum(CONTROLLERS_TIMEOUT),
        controllers.judge_restart(none, SmallPartitions::Block, CONTROLLERS_TIMEOUT),
    )
    .await;
    let below = below.unwrap_or_default();
    let unreachable = quorum.as_ref().err().map(ToString::to_string);
    let quorum = quorum.unwrap_or_else(|_| nobody());
    let now_ms = time::unix_ms();
    let report = Report::of(&image, &quorum, now_ms, below.blocking_count);
    let troubles = troubles::of(&image, &report, &below, unreachable.as_deref(), now_ms);
    let restarts = if unreachable.is_none() { restarts(console, &image).await } else { Vec::new() };
    let mut answer = report.data();
    answer["atMs"] = json!(now_ms);
    answer["version"] = json!(env!("CARGO_PKG_VERSION"));
    answer["clusterId"] = json!(image.cluster_id().map(|id| id.to_string()));
    answer["servedBy"] = json!(console.broker.id.0);
    answer["topics"] = json!(image.topics().len());
    answer["troubles"] = troubles.iter().map(Trouble::data).collect();
    answer["restarts"] = json!(restarts);
    answer["quorum"] = quorum_data(&quorum, now_ms);
    answer
}

/// What is known of controllers that do not answer.
fn nobody() -> Quorum {
    Quorum { active: None, term: 0, committed_log_end: 0, voters: Vec::new(), observers: Vec::new() }
}

/// Of each broker, whether it may be taken down.
async fn restarts(console: &Console, image: &MetadataImage) -> Vec<Value> {
    let judging = image.brokers().keys().take(JUDGED_MAX).map(|id: &BrokerId| async move {
        let brokers = BTreeSet::from([*id]);
        let asked = console.controllers.judge_restart(brokers.clone(), SmallPartitions::Warn, CONTROLLERS_TIMEOUT);
        // One that was not judged in time is left out: nothing is made up for it.
        asked.await.ok().map(|verdict| verdict_data(&brokers, &verdict))
    });
    join_all(judging).await.into_iter().flatten().collect()
}

fn quorum_data(quorum: &Quorum, now_ms: i64) -> Value {
    let active = quorum.active.as_ref().map(|active| active.id);
    let member = |member: &QuorumMember, votes: bool| {
        json!({
            "id": member.voter.id,
            "address": member.address,
            "votes": votes,
            "active": Some(member.voter.id) == active,
            "entriesBehind": member.log_end.map(|end| quorum.committed_log_end.saturating_sub(end)),
            "heardMsAgo": member.last_heard_ms.map(|at| now_ms.saturating_sub(at).max(0)),
        })
    };
    let voters = quorum.voters.iter().map(|it| member(it, true));
    let members: Vec<Value> = voters.chain(quorum.observers.iter().map(|it| member(it, false))).collect();
    json!({ "term": quorum.term, "members": members })
}
