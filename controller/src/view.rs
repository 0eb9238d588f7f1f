//! A look at a controller from outside, at any time: whether it is active, what it has applied, how its log stands.

use std::sync::Arc;

use openraft::RaftMetrics;
use taffrail_core::image::MetadataImage;
use tokio::sync::watch;

use crate::changes::{Cause, Changes, ChangesMade};
use crate::machine::feed::Feed;
use crate::quorum::view::leads;
use crate::raft::{Member, NodeId};

/// What there is to see. It keeps nothing of the controller open, so it may outlive it.
#[derive(Clone)]
pub struct ControllerView {
    pub(crate) id: i32,
    pub(crate) metrics: watch::Receiver<RaftMetrics<NodeId, Member>>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) changes: Arc<ChangesMade>,
}

/// How a controller stands in its quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuorumStanding {
    /// The term that it knows.
    pub term: i64,
    /// Offset behind the last event that it has applied.
    pub applied_end: i64,
    /// Where its log ends.
    pub log_end: i64,
}

impl ControllerView {
    /// Number of the controller.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Whether it is the active one.
    pub fn is_active(&self) -> bool {
        leads(&self.metrics.borrow())
    }

    /// The metadata as it has applied them.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.feed.image()
    }

    /// How it has changed partitions since it started, by what made it do so.
    pub fn changes(&self) -> impl Iterator<Item = (Cause, Changes)> {
        self.changes.by_cause()
    }

    /// How it stands in its quorum.
    pub fn quorum(&self) -> QuorumStanding {
        let metrics = self.metrics.borrow();
        let end = |last: Option<u64>| last.map_or(0, |last| i64::try_from(last).unwrap_or(i64::MAX).saturating_add(1));
        QuorumStanding {
            term: i64::try_from(metrics.current_term).unwrap_or(i64::MAX),
            applied_end: end(metrics.last_applied.map(|last| last.index)),
            log_end: end(metrics.last_log_index),
        }
    }
}
