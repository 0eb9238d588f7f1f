//! Record batches, the gate for what producers send, and the codecs.

use bytes::Bytes;
use taffrail_core::record::{
    BATCH_HEADER_BYTES, BatchBuilder, BatchOptions, BatchRef, Compression, DecompressLimits, Decompressor,
    ProduceRules, compress, crc32c, decompress, offset_of, split_batches, validate_produced,
};

use super::coin;
use crate::memory::bounded;
use crate::random::Random;

/// Most bytes that may come out of a codec here.
const LIMIT_BYTES: usize = 256 * 1024;

/// What a codec allocates besides its output: windows, tables, and the buffer that grows by doubling.
const CODEC_BYTES: usize = 4 * LIMIT_BYTES + 2 * 1024 * 1024;

/// Looks at everything in a batch that storage, cleaner and consumer look at.
pub(super) fn batch(input: &[u8]) {
    bounded(input, 8, CODEC_BYTES, || {
        for batch in split_batches(Bytes::copy_from_slice(input)) {
            let Ok(batch) = batch else { break };
            let view = batch.as_ref();
            assert_eq!(view.bytes().len(), view.header().total_bytes());
            let mut decompressor = Decompressor::new(DecompressLimits::bytes(LIMIT_BYTES));
            let _ = view.verify_crc();
            read_records(view, &mut decompressor);
        }
    });
}

fn read_records(batch: BatchRef<'_>, decompressor: &mut Decompressor) {
    let Ok(records) = batch.records(decompressor) else { return };
    let count = batch.header().record_count;
    let mut read = 0;
    for record in records {
        let Ok(record) = record else { return };
        read += 1;
        let _ = record.headers.count();
    }
    assert_eq!(read, count.max(0), "as many records as the header counts, or an error");
}

/// What a producer sends, at topics of every kind. What passes is a sound batch.
pub(super) fn produced(input: &[u8]) {
    let records = Bytes::copy_from_slice(input);
    for compression in [None, Some(Compression::None), Some(Compression::Lz4)] {
        for (compacted, strict) in [(false, false), (true, false), (false, true)] {
            let rules = ProduceRules {
                compacted,
                strict,
                compression,
                now_ms: 1_700_000_000_000,
                limits: DecompressLimits::bytes(LIMIT_BYTES),
                ..ProduceRules::default()
            };
            let judged = bounded(input, 16, 2 * CODEC_BYTES, || validate_produced(&records, &rules));
            let Ok(batch) = judged else { continue };
            let Ok(view) = BatchRef::parse(&batch.bytes) else { panic!("what passed is no batch") };
            assert_eq!(view.verify_crc(), Ok(()));
            assert_eq!(*view.header(), batch.header);
        }
    }
}

fn codec(codec: Compression, input: &[u8]) {
    let Ok(plain) = bounded(input, 8, CODEC_BYTES, || decompress(codec, input, LIMIT_BYTES)) else { return };
    assert!(plain.len() <= LIMIT_BYTES);
    let Ok(again) = compress(codec, &plain) else { panic!("{} bytes do not compress", plain.len()) };
    assert_eq!(decompress(codec, &again, LIMIT_BYTES).as_ref(), Ok(&plain));
}

pub(super) fn gzip(input: &[u8]) {
    codec(Compression::Gzip, input);
}

pub(super) fn snappy(input: &[u8]) {
    codec(Compression::Snappy, input);
}

pub(super) fn lz4(input: &[u8]) {
    codec(Compression::Lz4, input);
}

pub(super) fn zstd(input: &[u8]) {
    codec(Compression::Zstd, input);
}

fn sound_codec(codec: Compression, random: &mut Random) -> Vec<u8> {
    let length = random.below(600);
    compress(codec, &random.bytes(length)).unwrap_or_default()
}

pub(super) fn sound_gzip(random: &mut Random) -> Vec<u8> {
    sound_codec(Compression::Gzip, random)
}

pub(super) fn sound_snappy(random: &mut Random) -> Vec<u8> {
    sound_codec(Compression::Snappy, random)
}

pub(super) fn sound_lz4(random: &mut Random) -> Vec<u8> {
    sound_codec(Compression::Lz4, random)
}

pub(super) fn sound_zstd(random: &mut Random) -> Vec<u8> {
    sound_codec(Compression::Zstd, random)
}

/// A batch of a few records with any codec.
pub(super) fn sound_batch(random: &mut Random) -> Vec<u8> {
    let mut options = BatchOptions { compression: *random.one_of(&Compression::ALL), ..BatchOptions::default() };
    if coin(random) {
        options.producer_id = 1000;
        options.producer_epoch = 2;
        options.base_sequence = *random.one_of(&[0, 17, i32::MAX]);
    }
    let mut builder = BatchBuilder::new(options);
    for _ in 0..=random.below(5) {
        let (key_bytes, value_bytes) = (random.below(12), random.below(100));
        let key = coin(random).then(|| random.bytes(key_bytes));
        let value = coin(random).then(|| random.bytes(value_bytes));
        if builder.push(1_700_000_000_000, key.as_deref(), value.as_deref()).is_err() {
            break;
        }
    }
    builder.build().unwrap_or_default()
}

/// Makes length and checksum of the first batch right again.
pub(super) fn mend_crc(input: &mut [u8]) {
    if input.len() < BATCH_HEADER_BYTES {
        return;
    }
    let length = (input.len() - offset_of::LEADER_EPOCH) as u32;
    input[offset_of::LENGTH..offset_of::LEADER_EPOCH].copy_from_slice(&length.to_be_bytes());
    input[offset_of::MAGIC] = 2;
    let crc = crc32c(&input[offset_of::ATTRIBUTES..]);
    input[offset_of::CRC..offset_of::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
}
