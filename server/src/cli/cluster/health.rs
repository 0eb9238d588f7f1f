//! `taffrail cluster health`: how controllers, brokers and partitions are, as the controllers have it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use taffrail_core::control::SmallPartitions;
use taffrail_core::event::BrokerDuty;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::Quorum;
use taffrail_runtime::time;

use super::ids;
use crate::cli::asked::{AskArgs, Asked};
use crate::cli::{print, table};
use crate::exit::Exit;

/// A controller that has not answered the active one for so long counts as missing.
const CONTROLLER_SILENCE_MAX_MS: i64 = 5_000;

pub(super) async fn run(args: &AskArgs) -> anyhow::Result<Exit> {
    let asked = Asked::of(args)?;
    let quorum = asked.client.describe_quorum(asked.timeout).await?;
    let image = asked.image().await?;
    let below = asked.judge(BTreeSet::new(), SmallPartitions::Block).await?;
    let report = Report::of(&image, &quorum, time::unix_ms(), below.blocking_count);
    print(asked.output, &report.data(), || report.text())?;
    Ok(if report.is_well() { Exit::Done } else { Exit::Unhealthy })
}

/// How a cluster is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// The active controller.
    pub(crate) active: Option<i32>,
    /// Controllers with a vote.
    pub(crate) voters: usize,
    /// Those of them that do not answer.
    pub(crate) missing_voters: Vec<i32>,
    brokers: usize,
    fenced: Vec<BrokerId>,
    /// Brokers that are to lose their replicas.
    pub(crate) draining: Vec<BrokerId>,
    partitions: usize,
    /// Partitions that nobody leads.
    pub(crate) leaderless: usize,
    /// Partitions with replicas out of sync, those without a leader among them.
    pub(crate) under_replicated: usize,
    below_minimum: usize,
    /// Partitions whose replicas are being changed.
    pub(crate) moving: usize,
    /// Replicas that are still on brokers that are to be drained.
    pub(crate) to_drain: usize,
}

impl Report {
    /// What metadata and controllers say at `now_ms`; so many partitions are below their minimum.
    pub(crate) fn of(image: &MetadataImage, quorum: &Quorum, now_ms: i64, below_minimum: usize) -> Self {
        let active = quorum.active.as_ref().map(|active| active.id);
        let is_missing = |heard_ms: Option<i64>| heard_ms.is_none_or(|at| now_ms - at > CONTROLLER_SILENCE_MAX_MS);
        let missing = quorum.voters.iter().filter(|it| Some(it.voter.id) != active && is_missing(it.last_heard_ms));
        let states = || image.topics().iter().flat_map(|topic| topic.numbered().map(|(_, state)| state));
        let draining = image.duties().iter().filter(|(_, duty)| **duty == BrokerDuty::Draining);
        Self {
            active,
            voters: quorum.voters.len(),
            missing_voters: missing.map(|it| it.voter.id).collect(),
            brokers: image.brokers().len(),
            fenced: image.brokers().values().filter(|broker| broker.fenced).map(|broker| broker.id).collect(),
            draining: draining.clone().map(|(id, _)| *id).collect(),
            partitions: states().count(),
            leaderless: image.replica_index().leaderless_count(),
            under_replicated: states().filter(|state| state.is_under_replicated()).count(),
            below_minimum,
            moving: image.replica_index().reassigning_count(),
            to_drain: draining.map(|(id, _)| image.replica_index().load(*id).replicas).sum(),
        }
    }

    fn is_well(&self) -> bool {
        self.active.is_some()
            && self.missing_voters.is_empty()
            && self.fenced.is_empty()
            && self.leaderless + self.under_replicated + self.below_minimum == 0
    }

    /// The report for programs.
    pub(crate) fn data(&self) -> Value {
        let numbers = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        json!({
            "healthy": self.is_well(),
            "controllers": { "active": self.active, "voters": self.voters, "missing": self.missing_voters },
            "brokers": {
                "registered": self.brokers,
                "fenced": numbers(&self.fenced),
                "draining": numbers(&self.draining),
            },
            "partitions": {
                "count": self.partitions,
                "leaderless": self.leaderless,
                "underReplicated": self.under_replicated,
                "belowMinimum": self.below_minimum,
                "moving": self.moving,
                "toDrain": self.to_drain,
            },
        })
    }

    fn text(&self) -> String {
        let missing = self.missing_voters.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let active = self.active.map(|id| id.to_string()).unwrap_or_default();
        let rows = [
            ("controllers voting", self.voters.to_string()),
            ("controller active", active),
            ("controllers missing", missing),
            ("brokers", self.brokers.to_string()),
            ("brokers fenced", ids(self.fenced.iter().copied())),
            ("brokers draining", ids(self.draining.iter().copied())),
            ("partitions", self.partitions.to_string()),
            ("partitions without a leader", self.leaderless.to_string()),
            ("partitions under-replicated", self.under_replicated.to_string()),
            ("partitions below their minimum", self.below_minimum.to_string()),
            ("partitions moving", self.moving.to_string()),
            ("replicas to drain", self.to_drain.to_string()),
            ("healthy", if self.is_well() { "yes" } else { "no" }.to_owned()),
        ];
        let rows: Vec<Vec<String>> = rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect();
        table(&["WHAT", "VALUE"], &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_well_when_everybody_is_there_and_everything_is_in_sync() {
        let quorum = |heard_ms| Quorum {
            active: Some(taffrail_protocol::rpc::ControllerAddress { id: 1, address: "a:1".to_owned() }),
            term: 1,
            committed_log_end: 1,
            voters: [1, 2]
                .map(|id| taffrail_protocol::rpc::QuorumMember {
                    voter: taffrail_protocol::rpc::VoterId { id, directory_id: taffrail_core::ids::Uuid([1; 16]) },
                    address: "a:1".to_owned(),
                    log_end: Some(1),
                    last_heard_ms: heard_ms,
                    last_caught_up_ms: None,
                })
                .into(),
            observers: Vec::new(),
        };
        let report = |heard_ms, below| Report::of(&MetadataImage::default(), &quorum(heard_ms), 100_000, below);
        assert!(report(Some(99_000), 0).is_well());
        assert!(!report(Some(99_000), 1).is_well());
        for silent in [None, Some(90_000)] {
            assert_eq!(report(silent, 0).missing_voters, [2]);
            assert!(!report(silent, 0).is_well());
        }
        assert!(report(None, 0).text().ends_with("healthy                         no\n"), "{}", report(None, 0).text());
    }
}
