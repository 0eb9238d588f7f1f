//! The permission to disrupt.

use std::collections::BTreeSet;

use crate::ids::BrokerId;

/// The operator may take these brokers down until the grant expires. It stands in the metadata log, so that neither an
/// operator that starts again nor two operators at the same time take down more than one set of brokers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Its number: the metadata offset of the event that opened it first.
    pub id: i64,
    /// The brokers that may go.
    pub brokers: BTreeSet<BrokerId>,
    /// Epoch of the operator that holds it: older operators can neither use nor return it.
    pub operator_epoch: i64,
    /// Unix time in milliseconds from which on it permits nothing.
    pub expires_ms: i64,
}

impl Grant {
    /// Whether it still permits something at `now_ms` (Unix time).
    pub fn is_open(&self, now_ms: i64) -> bool {
        now_ms < self.expires_ms
    }
}
