//! What a partition knows besides its records: who wrote to it, under which leaders, and how far it is replicated.

pub mod epochs;
pub mod producers;
pub mod watermark;

pub use epochs::{EpochEntry, EpochHistory};
pub use producers::{BatchMetadata, CompletedTransaction, ProducerError, ProducerState, ProducerStates, Verdict};
pub use watermark::high_watermark;
