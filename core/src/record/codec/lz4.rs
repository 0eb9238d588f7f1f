//! LZ4 frames.
//!
//! The frame is read here and only its blocks by the library: its own reader takes up to 12 MiB for a frame of a few bytes,
//! and old clients differ from the specification. Read are blocks that depend on each other, content sizes, checksums
//! (block and content sums are skipped: the batch has its CRC), several frames, and the wrong header checksum that Kafka
//! clients before 0.10 and their copies wrote (KAFKA-3160: they summed the magic too). Written is what Java writes:
//! independent blocks of 64 KiB, no content checksum.

use super::{CodecError, Compression, over};
use std::io::Write as _;
use twox_hash::XxHash32;

const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
const MAGIC_BYTES: usize = 4;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const DICTIONARY_ID: u8 = 0x01;
/// Bit of a block's length that says it is stored as it is.
const STORED: u32 = 1 << 31;
/// How far back a block may refer.
const WINDOW_BYTES: usize = 64 << 10;
/// One byte of a sequence's length adds at most 255 bytes of output.
const MAX_RATIO: usize = 255;
/// What a block may make over the ratio, from the short lengths in its tokens.
const RATIO_SLACK_BYTES: usize = 64;

struct Frame {
    linked: bool,
    block_checksum: bool,
    content_checksum: bool,
    max_block_bytes: usize,
}

fn take<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8], CodecError> {
    let (taken, rest) = input.split_at_checked(count).ok_or_else(|| corrupt("the frame is cut"))?;
    *input = rest;
    Ok(taken)
}

fn take_u32(input: &mut &[u8]) -> Result<u32, CodecError> {
    let (taken, rest) = input.split_first_chunk::<4>().ok_or_else(|| corrupt("the frame is cut"))?;
    *input = rest;
    Ok(u32::from_le_bytes(*taken))
}

fn read_frame_header(input: &mut &[u8]) -> Result<Frame, CodecError> {
    let start = *input;
    if take(input, MAGIC_BYTES)? != MAGIC {
        return Err(corrupt("no frame magic"));
    }
    let descriptor = take(input, 2)?;
    let (flags, block) = (descriptor[0], descriptor[1]);
    if flags >> 6 != 1 {
        return Err(corrupt("unknown frame version"));
    }
    if flags & DICTIONARY_ID != 0 {
        return Err(corrupt("a dictionary is needed"));
    }
    if flags & CONTENT_SIZE != 0 {
        take(input, 8)?;
    }
    let descriptor_end = start.len() - input.len();
    let sum = take(input, 1)?[0];
    let sum_of = |bytes: &[u8]| (XxHash32::oneshot(0, bytes) >> 8) as u8;
    if sum != sum_of(&start[MAGIC_BYTES..descriptor_end]) && sum != sum_of(&start[..descriptor_end]) {
        return Err(corrupt("wrong header checksum"));
    }
    let size_code = (block >> 4) & 7;
    if size_code < 4 {
        return Err(corrupt("unknown block size"));
    }
    Ok(Frame {
        linked: flags & 0x20 == 0,
        block_checksum: flags & BLOCK_CHECKSUM != 0,
        content_checksum: flags & CONTENT_CHECKSUM != 0,
        max_block_bytes: 1 << (2 * size_code + 8),
    })
}

pub(super) fn decompress(input: &[u8], limit_bytes: usize, output: &mut Vec<u8>) -> Result<(), CodecError> {
    let mut rest = input;
    loop {
        let frame = read_frame_header(&mut rest)?;
        let frame_start = output.len();
        loop {
            let length = take_u32(&mut rest)?;
            if length == 0 {
                break;
            }
            let data = take(&mut rest, (length & !STORED) as usize)?;
            if frame.block_checksum {
                take(&mut rest, 4)?;
            }
            // A window reaches over earlier blocks of its own frame only.
            let window_start =
                if frame.linked { frame_start.max(output.len().saturating_sub(WINDOW_BYTES)) } else { output.len() };
            let allowed = limit_bytes.saturating_sub(output.len());
            let fits = block(data, length & STORED != 0, window_start, frame.max_block_bytes, allowed, output)?;
            if !fits {
                return Err(over(Compression::Lz4, input, limit_bytes));
            }
        }
        if frame.content_checksum {
            take(&mut rest, 4)?;
        }
        // Like Java's reader, ignore what follows the end mark, unless it is another frame.
        if !rest.starts_with(&MAGIC) {
            return Ok(());
        }
    }
}

/// Decompresses one block onto the end of `output`; false if it makes more than `allowed` bytes.
fn block(
    data: &[u8],
    stored: bool,
    window_start: usize,
    max_block_bytes: usize,
    allowed: usize,
    output: &mut Vec<u8>,
) -> Result<bool, CodecError> {
    let start = output.len();
    if stored {
        if data.len() > max_block_bytes {
            return Err(corrupt("a block is larger than the frame allows"));
        }
        if data.len() <= allowed {
            output.extend_from_slice(data);
        }
        return Ok(data.len() <= allowed);
    }
    let most = max_block_bytes.min(data.len().saturating_mul(MAX_RATIO) + RATIO_SLACK_BYTES);
    let room = most.min(allowed);
    output.resize(start + room, 0);
    let (before, target) = output.split_at_mut(start);
    let window = &before[window_start.min(start)..];
    match lz4_flex::block::decompress_into_with_dict(data, target, window) {
        Ok(written) => {
            output.truncate(start + written);
            Ok(true)
        }
        Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if room < most => Ok(false),
        Err(e) => Err(corrupt(e)),
    }
}

pub(super) fn compress(input: &[u8]) -> Result<Vec<u8>, CodecError> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(input).map_err(|e| CodecError::compress(Compression::Lz4, e))?;
    encoder.finish().map_err(|e| CodecError::compress(Compression::Lz4, e))
}

fn corrupt(reason: impl std::fmt::Display) -> CodecError {
    CodecError::corrupt(Compression::Lz4, reason)
}
