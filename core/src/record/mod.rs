//! Record batches (magic 2): the unit that producers send, logs keep and consumers fetch.
//!
//! A batch travels opaque. [`BatchHeader`] reads its 61 fixed bytes; [`Batch`] and [`BatchRef`] are views over bytes that
//! stay where they are; only [`BatchRef::records`] looks inside, and decompresses where it must, under byte limits.
//! [`BatchBuilder`] writes batches; [`validate_produced`] is the one gate for what clients send; [`patch_prefix`] gives a
//! batch its place in the log without copying it.
//!
//! Layout and rules follow Kafka's `DefaultRecordBatch`, `DefaultRecord` and `LogValidator`.

mod batch;
mod builder;
mod codec;
mod control;
mod crc;
mod header;
mod iter;
mod produce;
mod restamp;
mod varint;

#[cfg(test)]
mod tests;

pub use batch::{Batch, BatchRef, Batches, patch_prefix, split_batches};
pub use builder::{BatchBuilder, BatchOptions, BuildError, RecordHeader};
pub use codec::{CodecError, Compression, DecompressLimits, Decompressor, compress, compress_at, decompress};
pub use control::{ControlError, ControlKind, EndTransactionMarker};
pub use crc::crc32c;
pub use header::{BATCH_HEADER_BYTES, BatchError, BatchHeader, LOG_OVERHEAD_BYTES, TimestampType, offset_of};
pub use header::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, PREFIX_BYTES};
pub use header::{decrement_sequence, increment_sequence};
pub use iter::{Headers, Record, RecordError, RecordIter};
pub use produce::{MAX_RECORD_FAULTS, ProduceError, ProduceRules, ProducedBatch, RecordFault, validate_produced};
pub use restamp::restamp;
pub use varint::{MAX_VARINT_BYTES, MAX_VARLONG_BYTES, VarintError, read_varint, read_varlong};
pub use varint::{varint_bytes, varlong_bytes, write_varint, write_varlong};
