//! Snappy, raw and in the framing of snappy-java.
//!
//! Java clients (and those that copy them) write a 16-byte header and then blocks, each with its length; librdkafka, Go and
//! Python clients write either form. Both are read, told apart by the header's first eight bytes. What we write has the
//! framing, since every client reads it.

use super::{CodecError, Compression, over};

/// First bytes of the framing of snappy-java.
const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// Version and lowest compatible version, both 1.
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
const HEADER_BYTES: usize = 16;
/// Uncompressed bytes of a block, as snappy-java cuts them.
const BLOCK_BYTES: usize = 32 << 10;
/// No snappy element makes more of its bytes than a copy of 64 from 3, so a larger claim is a lie, refused before memory
/// is taken for it.
const MAX_RATIO: usize = 22;
/// What a tiny block may claim over the ratio: rounding of the first literal.
const RATIO_SLACK_BYTES: usize = 64;

pub(super) fn decompress(input: &[u8], limit_bytes: usize, output: &mut Vec<u8>) -> Result<(), CodecError> {
    let Some(mut rest) = input.strip_prefix(&MAGIC).and_then(|rest| rest.get(VERSIONS.len()..)) else {
        return block(input, input, limit_bytes, output);
    };
    while !rest.is_empty() {
        // Streams that were joined carry a header at each joint.
        if rest.starts_with(&MAGIC) {
            rest = rest.get(HEADER_BYTES..).ok_or_else(|| corrupt("cut header"))?;
            continue;
        }
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(|| corrupt("cut block length"))?;
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| corrupt("negative block length"))?;
        let (data, after) = after.split_at_checked(length).ok_or_else(|| corrupt("block longer than the input"))?;
        block(data, input, limit_bytes, output)?;
        rest = after;
    }
    Ok(())
}

/// Decompresses one raw block onto the end of `output`.
fn block(data: &[u8], input: &[u8], limit_bytes: usize, output: &mut Vec<u8>) -> Result<(), CodecError> {
    let claimed = snap::raw::decompress_len(data).map_err(corrupt)?;
    let start = output.len();
    if claimed > limit_bytes.saturating_sub(start) {
        return Err(over(Compression::Snappy, input, limit_bytes));
    }
    if claimed > data.len().saturating_mul(MAX_RATIO) + RATIO_SLACK_BYTES {
        return Err(corrupt("a block claims more than its bytes can hold"));
    }
    output.resize(start + claimed, 0);
    let written = snap::raw::Decoder::new().decompress(data, &mut output[start..]).map_err(corrupt)?;
    output.truncate(start + written);
    Ok(())
}

pub(super) fn compress(input: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut output = Vec::with_capacity(HEADER_BYTES + input.len() / 2);
    output.extend_from_slice(&MAGIC);
    output.extend_from_slice(&VERSIONS);
    let mut encoder = snap::raw::Encoder::new();
    for block in input.chunks(BLOCK_BYTES) {
        let data = encoder.compress_vec(block).map_err(|e| CodecError::compress(Compression::Snappy, e))?;
        output.extend_from_slice(&(data.len() as u32).to_be_bytes());
        output.extend_from_slice(&data);
    }
    Ok(output)
}

fn corrupt(reason: impl std::fmt::Display) -> CodecError {
    CodecError::corrupt(Compression::Snappy, reason)
}
