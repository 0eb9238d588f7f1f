//! What a partition knows besides its records: who wrote to it, under which leaders, and how far it is replicated.

pub mod divergence;
pub mod epochs;
mod follower;
pub mod following;
pub mod leadership;
pub mod producers;
pub mod watermark;

#[cfg(test)]
mod leadership_tests;

pub use divergence::{EpochEnd, Truncation, check_leader_epoch, diverging};
pub use epochs::{EpochEntry, EpochHistory};
pub use follower::FollowerFetch;
pub use leadership::{AfterProposal, Leadership};
pub use producers::{
    BATCHES_RETAINED, BatchMetadata, CompletedTransaction, ProducerError, ProducerState, ProducerStates, Verdict,
};
pub use watermark::{follower_high_watermark, high_watermark};
