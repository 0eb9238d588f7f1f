//! The seam to the disk, which is `runtime`'s (see its module for the contract), and what only reading partitions needs of it.

mod cached;

pub(crate) use cached::Access;
pub use taffrail_runtime::disk::*;
