//! Zstandard, one or more frames.

use super::{CodecError, Compression, read_bounded};

/// Largest window that a frame may ask for, as a power of two: 128 MiB, what zstd's own command line and Kafka's Java
/// client accept. The decoder's window is touched only as far as data comes out, so the output limit bounds it too.
const MAX_WINDOW_LOG: u32 = 27;

/// zstd's and Kafka's default.
const DEFAULT_LEVEL: i32 = 3;

pub(super) fn decompress(input: &[u8], limit_bytes: usize, output: &mut Vec<u8>) -> Result<(), CodecError> {
    let failed = |e| CodecError::corrupt(Compression::Zstd, e);
    let mut decoder = zstd::stream::read::Decoder::with_buffer(input).map_err(failed)?;
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed)?;
    read_bounded(Compression::Zstd, decoder, input, limit_bytes, output)
}

pub(super) fn compress(level: Option<i32>, input: &[u8]) -> Result<Vec<u8>, CodecError> {
    let levels = zstd::compression_level_range();
    let level = level.unwrap_or(DEFAULT_LEVEL).clamp(*levels.start(), *levels.end());
    zstd::bulk::compress(input, level).map_err(|e| CodecError::compress(Compression::Zstd, e))
}
