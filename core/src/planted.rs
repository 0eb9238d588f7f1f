//! Faults on purpose: the simulator plants one in the code that is shipped, and has to find it.
//!
//! A place that can be made wrong asks [`is_planted`]. That is `false` at compile time, and nothing is left of the question,
//! unless the feature `planted` is on. Only `sim` turns it on, and nothing that is shipped is built together with `sim`.

macro_rules! bugs {
    ($($(#[doc = $text:literal])* $name:ident,)*) => {
        /// A fault that can be planted. Its name is that of the variant.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum PlantedBug {
            $($(#[doc = $text])* $name,)*
        }

        impl PlantedBug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

bugs! {
    /// A flush tells that a log is on the disk without having asked the disk for it.
    SkippedSync,
    /// The recovery point that is written down is the end of the log, whether that is durable or not.
    CheckpointBeyondDurable,
    /// The mark of a clean stop is still there after the next start, and after a crash.
    CleanMarkKept,
    /// A follower's cut is in the page cache only when it goes on.
    CutNotDurable,
    /// DeleteRecords is answered before the new beginning is written down.
    FloorNotDurable,
    /// Recovery takes the end of a log for sound without comparing checksums.
    TornTailTrusted,
    /// A failed sync is passed over.
    FailedSyncIgnored,
    /// DeleteRecords takes records that are not committed.
    DeletedPastHighWatermark,
    /// A start after a crash does not learn of producers from the batches.
    ProducersLostOnRecovery,
    /// A batch that is repeated is appended once more.
    DuplicateAccepted,
    /// The high watermark is one record further than all in sync are.
    HighWatermarkOffByOne,
    /// acks=all is answered when the leader has the records.
    AcknowledgedEarly,
    /// Consumers read to the end of the log.
    ReadAboveHighWatermark,
    /// A leader does without a follower as soon as it proposes that it leaves the ISR.
    IsrShrinksBeforeCommit,
    /// A leader does not wait for a follower that may be in the ISR already.
    JoiningNotWaitedFor,
    /// A follower joins the ISR wherever its log ends.
    JoinsWithoutRecords,
    /// Leaders commit with fewer in sync than `min.insync.replicas`.
    MinInSyncIgnored,
    /// Controllers elect whoever can lead.
    LeaderOutsideIsr,
    /// A follower of a new leader cuts its log to what it knows to be committed (before KIP-101).
    TruncatedToHighWatermark,
    /// A leader does not tell a follower that their logs part.
    DivergenceNotTold,
    /// A new leader knows nothing of the producers before it.
    ProducersLostOnFailover,
    /// Controllers take a broker whose machine went down for one that has everything.
    MachineLossHidden,
    /// A change of the ISR is made that was proposed from an older state.
    StalePartitionEpochAccepted,
    /// What an earlier process of a follower has fetched counts for the one that runs.
    StaleBrokerEpochAccepted,
    /// A broker that is fenced goes on leading.
    FencedKeepsLeading,
    /// A controller's vote is in memory only.
    VoteNotKept,
    /// A controller's log is not synced before it is acknowledged.
    MetadataNotSynced,
    /// Snapshots of the metadata leave the settings out.
    SnapshotMissesSettings,
    /// A broker's replicas do not hear of changes of their partitions, its clients do.
    ReplicasNotTold,
    /// A follower appends what it gets without comparing checksums.
    ChecksumNotCompared,
    /// A commit of offsets is answered before it is replicated.
    OffsetsAnsweredEarly,
    /// A new coordinator answers from an empty state.
    GroupsNotLoaded,
    /// A reassignment ends before the replicas that come are in sync.
    ReassignmentEndsEarly,
    /// Brokers may go whatever depends on them.
    GrantNotJudged,
    /// A grant is given while another one is open.
    GrantsOverlap,
}

/// Whether `bug` is planted: never, in what is shipped.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is_planted(_bug: PlantedBug) -> bool {
    false
}

#[cfg(feature = "planted")]
pub use switch::{is_planted, plant};

#[cfg(feature = "planted")]
mod switch {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::PlantedBug;

    /// What stands for no bug at all.
    const NONE: usize = usize::MAX;

    /// The bug that this process has.
    static PLANTED: AtomicUsize = AtomicUsize::new(NONE);

    /// Has this process behave as with `bug` from now on.
    pub fn plant(bug: PlantedBug) {
        PLANTED.store(bug as usize, Ordering::Relaxed);
    }

    /// Whether `bug` is planted in this process.
    #[inline]
    pub fn is_planted(bug: PlantedBug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as usize
    }
}
