//! Gzip, with several members one after the other, as Java's `GZIPInputStream` reads.

use super::{CodecError, Compression, read_bounded};
use std::io::Write as _;

pub(super) fn decompress(input: &[u8], limit_bytes: usize, output: &mut Vec<u8>) -> Result<(), CodecError> {
    read_bounded(Compression::Gzip, flate2::bufread::MultiGzDecoder::new(input), input, limit_bytes, output)
}

pub(super) fn compress(level: Option<i32>, input: &[u8]) -> Result<Vec<u8>, CodecError> {
    let failed = |e| CodecError::compress(Compression::Gzip, e);
    // 0 would store without compressing, which Kafka does not allow.
    let level = level.map(|level| flate2::Compression::new(level.clamp(1, 9).unsigned_abs())).unwrap_or_default();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(input).map_err(failed)?;
    encoder.finish().map_err(failed)
}
