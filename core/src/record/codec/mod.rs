//! The codecs of record batches, bounded.
//!
//! Decompression never trusts a size that the input states: output grows as real bytes come out, and stops at the limits.
//! Each codec reads what Kafka clients have written over the years and writes what they all read.

mod gzip;
mod lz4;
mod snappy;
mod zstandard;

use super::header::BatchError;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy; raw blocks, or in the framing of snappy-java ("xerial").
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

/// Bits of the attributes that hold the codec.
const CODEC_MASK: i16 = 0x07;

impl Compression {
    /// All codecs, in the order of their ids.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Id on the wire.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Name in Kafka's configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec of Kafka's name for it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// The codec that a batch's attributes name.
    pub fn from_attributes(attributes: i16) -> Result<Self, BatchError> {
        let id = (attributes & CODEC_MASK) as u8;
        Self::ALL.get(usize::from(id)).copied().ok_or(BatchError::UnknownCompression(id))
    }
}

impl Compression {
    /// Whether `data` begin with the codec's signature. A look at a few bytes, by which garbage under a codec's name is told
    /// where nobody unpacks it. Raw snappy has no signature.
    pub(crate) fn begins(self, data: &[u8]) -> bool {
        let signature: &[u8] = match self {
            Self::None | Self::Snappy => &[],
            Self::Gzip => &[0x1f, 0x8b],
            Self::Lz4 => &[0x04, 0x22, 0x4d, 0x18],
            Self::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
        };
        data.starts_with(signature)
    }
}

/// Why bytes do not decompress, or do not compress.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// More would come out than the limits allow.
    #[error("{codec} data of {input_bytes} bytes expands to more than {limit_bytes} bytes")]
    Limit {
        /// Name of the codec.
        codec: &'static str,
        /// Compressed size.
        input_bytes: usize,
        /// Bytes that were allowed.
        limit_bytes: usize,
    },
    /// The input is not what the codec writes.
    #[error("bad {codec} data: {reason}")]
    Corrupt {
        /// Name of the codec.
        codec: &'static str,
        /// What the decoder said.
        reason: String,
    },
    /// The encoder failed.
    #[error("{codec} compression failed: {reason}")]
    Compress {
        /// Name of the codec.
        codec: &'static str,
        /// What the encoder said.
        reason: String,
    },
}

impl CodecError {
    fn corrupt(codec: Compression, reason: impl std::fmt::Display) -> Self {
        Self::Corrupt { codec: codec.name(), reason: reason.to_string() }
    }

    fn compress(codec: Compression, reason: impl std::fmt::Display) -> Self {
        Self::Compress { codec: codec.name(), reason: reason.to_string() }
    }
}

/// How much may come out of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecompressLimits {
    /// Never more than this, whatever goes in.
    pub max_bytes: usize,
    /// Never more than this many bytes for each byte that goes in ...
    pub max_ratio: usize,
    /// ... except up to this size, which is always allowed: small batches of zeros compress very well.
    pub ratio_free_bytes: usize,
}

impl Default for DecompressLimits {
    fn default() -> Self {
        Self { max_bytes: 256 << 20, max_ratio: 1024, ratio_free_bytes: 16 << 20 }
    }
}

impl DecompressLimits {
    /// A limit in bytes alone.
    pub fn bytes(max_bytes: usize) -> Self {
        Self { max_bytes, max_ratio: usize::MAX, ratio_free_bytes: max_bytes }
    }

    /// What may come out of this many bytes.
    pub fn for_input(&self, input_bytes: usize) -> usize {
        input_bytes.saturating_mul(self.max_ratio).max(self.ratio_free_bytes).min(self.max_bytes)
    }
}

/// A buffer for decompressed records that is used again, and the limits of what it takes.
#[derive(Clone, Debug, Default)]
pub struct Decompressor {
    limits: DecompressLimits,
    buffer: Vec<u8>,
}

/// A larger buffer than this is given back after the next use, so that one huge batch does not pin its memory.
const KEEP_BUFFER_BYTES: usize = 4 << 20;

impl Decompressor {
    /// With these limits.
    pub fn new(limits: DecompressLimits) -> Self {
        Self { limits, buffer: Vec::new() }
    }

    /// The decompressed bytes; without a codec, the input itself.
    pub fn decompress<'b>(&'b mut self, codec: Compression, input: &'b [u8]) -> Result<&'b [u8], CodecError> {
        if codec == Compression::None {
            return Ok(input);
        }
        if self.buffer.capacity() > KEEP_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        decompress_into(codec, input, self.limits.for_input(input.len()), &mut self.buffer)?;
        Ok(&self.buffer)
    }
}

/// Decompresses at most `limit_bytes`; more is an error.
pub fn decompress(codec: Compression, input: &[u8], limit_bytes: usize) -> Result<Vec<u8>, CodecError> {
    let mut output = Vec::new();
    decompress_into(codec, input, limit_bytes, &mut output)?;
    Ok(output)
}

fn decompress_into(
    codec: Compression,
    input: &[u8],
    limit_bytes: usize,
    output: &mut Vec<u8>,
) -> Result<(), CodecError> {
    match codec {
        Compression::None if input.len() > limit_bytes => Err(over(codec, input, limit_bytes)),
        Compression::None => {
            output.extend_from_slice(input);
            Ok(())
        }
        Compression::Gzip => gzip::decompress(input, limit_bytes, output),
        Compression::Snappy => snappy::decompress(input, limit_bytes, output),
        Compression::Lz4 => lz4::decompress(input, limit_bytes, output),
        Compression::Zstd => zstandard::decompress(input, limit_bytes, output),
    }
}

/// Compresses with the codec's default level, in the form that Kafka's Java client writes.
pub fn compress(codec: Compression, input: &[u8]) -> Result<Vec<u8>, CodecError> {
    compress_at(codec, None, input)
}

/// Compresses at a level: gzip 1 to 9, zstd as zstd counts; `None` is the default. Snappy has no levels, and our LZ4 one.
pub fn compress_at(codec: Compression, level: Option<i32>, input: &[u8]) -> Result<Vec<u8>, CodecError> {
    match codec {
        Compression::None => Ok(input.to_vec()),
        Compression::Gzip => gzip::compress(level, input),
        Compression::Snappy => snappy::compress(input),
        Compression::Lz4 => lz4::compress(input),
        Compression::Zstd => zstandard::compress(level, input),
    }
}

fn over(codec: Compression, input: &[u8], limit_bytes: usize) -> CodecError {
    CodecError::Limit { codec: codec.name(), input_bytes: input.len(), limit_bytes }
}

/// Reads a decoder to its end. The buffer grows with what really comes out, never by what the input claims.
fn read_bounded(
    codec: Compression,
    reader: impl std::io::Read,
    input: &[u8],
    limit_bytes: usize,
    output: &mut Vec<u8>,
) -> Result<(), CodecError> {
    use std::io::Read as _;
    // One byte more than allowed tells "exactly the limit" from "more".
    let read = reader.take(limit_bytes as u64 + 1).read_to_end(output).map_err(|e| CodecError::corrupt(codec, e))?;
    if read > limit_bytes { Err(over(codec, input, limit_bytes)) } else { Ok(()) }
}
