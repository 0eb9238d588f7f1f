//! What has happened to a group since its coordinator loaded it: numbers for people, which decide nothing.

/// Counts of one group. They begin anew with each coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Generations that began.
    pub rebalances: u64,
    /// Milliseconds that members waited for each other until they did.
    pub rebalancing_ms: u64,
    /// Members that were removed because their session ended.
    pub expired: u64,
    /// Members that were removed because they did not join again in time.
    pub missed_join: u64,
    /// Members that were removed because they did not ask for their assignment in time.
    pub missed_sync: u64,
    /// Members that left by themselves, or were taken out by somebody.
    pub left: u64,
}
