//! Raft's state as the parts around it need it.

use std::collections::BTreeSet;

use openraft::metrics::RaftServerMetrics;
use openraft::{RaftMetrics, ServerState};
use tokio::sync::watch;

use crate::raft::{Member, NodeId};

/// A leader that has heard of no majority for so long may have been replaced: it decides nothing until it has.
const MAJORITY_SILENCE_MAX_MS: u64 = 1_500;

/// Whether this node is the active controller, as far as it can know: Raft calls one a leader that was one when it was
/// stopped, until it hears otherwise.
pub(crate) fn leads(metrics: &RaftMetrics<NodeId, Member>) -> bool {
    metrics.state == ServerState::Leader
        && match metrics.millis_since_quorum_ack {
            Some(silence) => silence < MAJORITY_SILENCE_MAX_MS,
            None => metrics.membership_config.membership().voter_ids().eq([metrics.id]),
        }
}

/// The active controller, if it is known.
pub(crate) fn active(metrics: &RaftMetrics<NodeId, Member>) -> Option<(NodeId, Member)> {
    let leader = metrics.current_leader?;
    if leader == metrics.id && !leads(metrics) {
        return None;
    }
    let member = metrics.membership_config.membership().get_node(&leader)?;
    Some((leader, member.clone()))
}

/// Waits until this node does not lead in `term` any more.
pub(crate) async fn until_replaced(mut metrics: watch::Receiver<RaftMetrics<NodeId, Member>>, term: u64) {
    let has_stopped = metrics.wait_for(|metrics| metrics.current_term != term || !leads(metrics)).await.is_err();
    if has_stopped {
        // Raft has stopped, which others notice.
        std::future::pending::<()>().await;
    }
}

/// What an election is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// Whether this node has a vote and does not lead.
    pub(crate) may_stand: bool,
    /// Another node that leads.
    pub(crate) leader: Option<NodeId>,
    /// Raft's term.
    pub(crate) term: u64,
    /// The sets of voters; each must agree by a majority.
    pub(crate) configs: Vec<BTreeSet<NodeId>>,
    /// The voters and where they are.
    pub(crate) voters: Vec<(NodeId, Member)>,
}

impl View {
    /// What `metrics` say, which change when something of this does, while Raft's other metrics change with every tick.
    pub(crate) fn of(metrics: &RaftServerMetrics<NodeId, Member>) -> Self {
        let membership = metrics.membership_config.membership();
        let voters = membership.voter_ids().filter_map(|id| Some((id, membership.get_node(&id)?.clone())));
        let voters: Vec<_> = voters.collect();
        let is_voter = voters.iter().any(|(id, _)| *id == metrics.id);
        Self {
            may_stand: is_voter && metrics.state != ServerState::Leader,
            leader: metrics.current_leader.filter(|leader| *leader != metrics.id),
            term: metrics.vote.leader_id().term,
            configs: membership.get_joint_config().clone(),
            voters,
        }
    }

    /// Whether `granted` is a majority of every set of voters.
    pub(crate) fn is_quorum(&self, granted: &BTreeSet<NodeId>) -> bool {
        self.configs.iter().all(|config| 2 * config.intersection(granted).count() > config.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_a_majority_of_every_set_of_voters() {
        let nodes = |numbers: &[u64]| numbers.iter().map(|number| NodeId::from(*number)).collect::<BTreeSet<_>>();
        let view = |configs: &[&[u64]]| View {
            may_stand: true,
            leader: None,
            term: 1,
            configs: configs.iter().map(|config| nodes(config)).collect(),
            voters: Vec::new(),
        };
        let check = |configs: &[&[u64]], granted: &[u64], expected: bool| {
            assert_eq!(view(configs).is_quorum(&nodes(granted)), expected, "{granted:?} of {configs:?}");
        };
        check(&[&[1]], &[1], true);
        check(&[&[1, 2]], &[1], false);
        check(&[&[1, 2, 3]], &[1, 3], true);
        check(&[&[1, 2, 3]], &[1, 4, 5], false);
        check(&[&[1, 2, 3], &[1, 2, 4]], &[1, 2], true);
        check(&[&[1, 2, 3], &[3, 4, 5]], &[1, 2, 3], false);
        check(&[&[1, 2, 3], &[3, 4, 5]], &[1, 3, 4], true);
    }
}
