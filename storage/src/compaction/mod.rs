//! Compaction by key: of each key, only the newest record stays.

mod swap;

pub(crate) use swap::finish_swaps;
