//! Batches written, read back, cut, damaged and made up.

use super::*;
use crate::record::header::NO_SEQUENCE;
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

/// A record as plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plain {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    // Runs of one byte compress, random bytes do not; both have to survive.
    prop_oneof![vec(any::<u8>(), 0..most), (any::<u8>(), 0..most).prop_map(|(byte, count)| vec![byte; count])]
}

fn plain() -> impl Strategy<Value = Plain> {
    let header = (bytes(8), proptest::option::of(bytes(8)));
    (any::<i64>(), proptest::option::of(bytes(40)), proptest::option::of(bytes(400)), vec(header, 0..3))
        .prop_map(|(timestamp, key, value, headers)| Plain { timestamp: timestamp >> 2, key, value, headers })
}

fn codec() -> impl Strategy<Value = Compression> {
    proptest::sample::select(&Compression::ALL[..])
}

fn build(options: BatchOptions, records: &[Plain]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options);
    for (index, record) in records.iter().enumerate() {
        let headers = record.headers.iter().map(|(name, value)| (&name[..], value.as_deref()));
        let offset = options.base_offset + index as i64;
        builder.append(offset, record.timestamp, record.key.as_deref(), record.value.as_deref(), headers).unwrap();
    }
    builder.build().unwrap()
}

fn read(batch: &[u8]) -> Vec<Plain> {
    let batch = BatchRef::parse(batch).unwrap();
    batch.verify_crc().unwrap();
    let mut decompressor = Decompressor::default();
    let records = batch.records(&mut decompressor).unwrap();
    let to_plain = |record: Record<'_>| Plain {
        timestamp: record.timestamp,
        key: record.key.map(<[u8]>::to_vec),
        value: record.value.map(<[u8]>::to_vec),
        headers: record.headers.map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec))).collect(),
    };
    records.map(|record| to_plain(record.unwrap())).collect()
}

proptest! {
    #[test]
    fn records_come_back_as_they_were_written(records in vec(plain(), 1..20), codec in codec(), base in 0..i64::MAX / 2) {
        let options = BatchOptions { compression: codec, base_offset: base, ..BatchOptions::default() };
        let batch = build(options, &records);
        let header = BatchHeader::parse(&batch).unwrap();
        prop_assert_eq!(header.total_bytes(), batch.len());
        prop_assert_eq!(header.last_offset(), base + records.len() as i64 - 1);
        prop_assert_eq!(header.max_timestamp, records.iter().map(|r| r.timestamp).max().unwrap().max(-1));
        prop_assert_eq!(read(&batch), records);
    }

    #[test]
    fn every_codec_gives_back_what_it_took(input in bytes(200_000), codec in codec()) {
        let compressed = compress(codec, &input).unwrap();
        prop_assert_eq!(&decompress(codec, &compressed, input.len()).unwrap(), &input);
        if !input.is_empty() {
            let refused = decompress(codec, &compressed, input.len() - 1);
            let over = matches!(refused, Err(CodecError::Limit { .. }));
            prop_assert!(over, "{refused:?}");
        }
    }

    #[test]
    fn hostile_bytes_are_refused_without_a_panic(input in vec(any::<u8>(), 0..300), codec in codec()) {
        if let Ok(output) = decompress(codec, &input, 10_000) {
            prop_assert!(output.len() <= 10_000);
        }
        let _ = BatchHeader::parse(&input);
        let _ = BatchRef::parse(&input);
    }

    #[test]
    fn damaged_compressed_data_stays_within_its_limit(
        input in bytes(3_000), codec in codec(), at in any::<proptest::sample::Index>(), bit in 0..8,
    ) {
        let mut compressed = compress(codec, &input).unwrap();
        if !compressed.is_empty() {
            let at = at.index(compressed.len());
            compressed[at] ^= 1_u8 << bit;
        }
        let mut decompressor = Decompressor::new(DecompressLimits::bytes(4_000));
        if let Ok(output) = decompressor.decompress(codec, &compressed) {
            prop_assert!(output.len() <= 4_000 || codec == Compression::None);
        }
    }

    #[test]
    fn made_up_records_end_in_an_error_or_an_end(
        body in vec(any::<u8>(), 0..200), count in any::<i32>(), base in any::<i64>(), timestamp in any::<i64>(),
    ) {
        let mut batch = vec![0; BATCH_HEADER_BYTES];
        batch.extend_from_slice(&body);
        let header = BatchHeader {
            base_offset: base, batch_length: (batch.len() - LOG_OVERHEAD_BYTES) as i32, leader_epoch: 0, crc: 0,
            attributes: 0, last_offset_delta: count, base_timestamp: timestamp, max_timestamp: timestamp,
            producer_id: 1, producer_epoch: 1, base_sequence: count, record_count: count,
        };
        header.write(batch.first_chunk_mut().unwrap());
        let mut decompressor = Decompressor::default();
        let view = BatchRef::parse(&batch).unwrap();
        // A record takes at least seven bytes, so the walk ends long before a hostile count does.
        prop_assert!(view.records(&mut decompressor).unwrap().count() <= body.len() + 1);
    }

    #[test]
    fn any_flipped_bit_after_the_prefix_is_noticed(records in vec(plain(), 1..4), at in 21_usize..80, bit in 0..8) {
        let mut batch = build(BatchOptions::default(), &records);
        let at = at.min(batch.len() - 1);
        batch[at] ^= 1_u8 << bit;
        let noticed = matches!(BatchRef::parse(&batch).unwrap().verify_crc(), Err(BatchError::Crc { .. }));
        prop_assert!(noticed);
    }

    #[test]
    fn batches_are_cut_apart_where_they_were_joined(sizes in vec(1_usize..5, 0..6), cut in 0_usize..61) {
        let batches: Vec<Vec<u8>> = sizes
            .iter()
            .map(|&count| {
                let record = Plain { timestamp: 5, key: None, value: Some(vec![7; count]), headers: vec![] };
                build(BatchOptions::default(), &vec![record; count])
            })
            .collect();
        let mut joined = batches.concat();
        let split: Vec<_> = split_batches(Bytes::from(joined.clone())).map(|b| b.unwrap().bytes().to_vec()).collect();
        prop_assert_eq!(&split, &batches);
        if let Some(last) = batches.last() {
            joined.truncate(joined.len() - 1 - cut.min(last.len() - 2));
            let split: Vec<_> = split_batches(Bytes::from(joined)).collect();
            prop_assert_eq!(split.len(), batches.len());
            prop_assert!(split[..split.len() - 1].iter().all(Result::is_ok));
            let truncated = matches!(split.last(), Some(Err(BatchError::Truncated { .. })));
            prop_assert!(truncated);
        }
    }
}

#[test]
fn the_prefix_is_all_that_an_append_changes() {
    let record = Plain { timestamp: 1, key: None, value: Some(b"v".to_vec()), headers: vec![] };
    let mut batch = build(BatchOptions::default(), std::slice::from_ref(&record));
    let prefix = patch_prefix(1_000_000, 7, &BatchHeader::parse(&batch).unwrap());
    batch[..PREFIX_BYTES].copy_from_slice(&prefix);
    let view = BatchRef::parse(&batch).unwrap();
    view.verify_crc().unwrap();
    assert_eq!((view.header().base_offset, view.header().leader_epoch), (1_000_000, 7));
    assert_eq!(read(&batch), [record]);
}

#[test]
fn log_append_time_is_the_time_of_every_record() {
    let records = [
        Plain { timestamp: 1, key: None, value: None, headers: vec![] },
        Plain { timestamp: 9, key: None, value: None, headers: vec![] },
    ];
    let options = BatchOptions {
        timestamp_type: TimestampType::LogAppendTime,
        log_append_time_ms: 77,
        ..BatchOptions::default()
    };
    let batch = build(options, &records);
    assert!(read(&batch).iter().all(|record| record.timestamp == 77));
}

#[test]
fn an_empty_batch_keeps_offsets_sequences_and_epochs() {
    let options = BatchOptions {
        base_offset: 100,
        last_offset: Some(149),
        producer_id: 5,
        producer_epoch: 2,
        base_sequence: i32::MAX - 9,
        leader_epoch: 3,
        compression: Compression::Zstd,
        ..BatchOptions::default()
    };
    let batch = build(options, &[]);
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!(batch.len(), BATCH_HEADER_BYTES);
    assert_eq!((header.last_offset(), header.record_count, header.last_sequence()), (149, 0, 39));
    assert_eq!(header.compression().unwrap(), Compression::None);
    assert_eq!(read(&batch), []);
}

#[test]
fn a_delete_horizon_stands_in_for_the_base_timestamp() {
    let records = [Plain { timestamp: 500, key: Some(b"k".to_vec()), value: None, headers: vec![] }];
    let options = BatchOptions { delete_horizon_ms: Some(90_000), ..BatchOptions::default() };
    let batch = build(options, &records);
    assert_eq!(BatchHeader::parse(&batch).unwrap().delete_horizon_ms(), Some(90_000));
    assert_eq!(read(&batch), records);
}

#[test]
fn offsets_must_rise_and_fit() {
    let mut builder = BatchBuilder::new(BatchOptions { base_offset: 10, ..BatchOptions::default() });
    let none = || std::iter::empty::<RecordHeader<'_>>();
    for offset in [9, -1, 10 + (1 << 31)] {
        assert!(matches!(builder.append(offset, 0, None, None, none()), Err(BuildError::Offset { .. })), "{offset}");
    }
    builder.append(12, 0, None, None, none()).unwrap();
    assert!(builder.append(12, 0, None, None, none()).is_err());
    assert_eq!(builder.record_count(), 1);
}

#[test]
fn a_count_of_the_largest_integer_takes_no_memory() {
    let mut batch = build(BatchOptions::default(), &[]);
    batch[offset_of::RECORD_COUNT..BATCH_HEADER_BYTES].copy_from_slice(&i32::MAX.to_be_bytes());
    let view = BatchRef::parse(&batch).unwrap();
    let mut decompressor = Decompressor::default();
    let records: Vec<_> = view.records(&mut decompressor).unwrap().collect();
    assert_eq!(records, [Err(BatchError::Record { index: 0, source: RecordError::Varint(VarintError::Truncated) })]);
}

#[test]
fn bytes_after_the_last_record_are_an_error() {
    let mut batch = build(BatchOptions::default(), &[Plain { timestamp: 0, key: None, value: None, headers: vec![] }]);
    batch.push(0);
    let length = (batch.len() - LOG_OVERHEAD_BYTES) as i32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let mut decompressor = Decompressor::default();
    let last = BatchRef::parse(&batch).unwrap().records(&mut decompressor).unwrap().last();
    assert_eq!(last, Some(Err(BatchError::Record { index: 1, source: RecordError::AfterLast(1) })));
}

#[test]
fn higher_levels_compress_better_and_every_level_is_read() {
    let input: Vec<u8> = (0..60_000_u32).flat_map(|n| (n * n % 1_009).to_string().into_bytes()).collect();
    for (codec, levels) in [(Compression::Gzip, [1, 6, 9]), (Compression::Zstd, [-7, 3, 19])] {
        let sizes = levels.map(|level| {
            let compressed = compress_at(codec, Some(level), &input).unwrap();
            assert!(decompress(codec, &compressed, input.len()).unwrap() == input, "{codec:?} {level}");
            compressed.len()
        });
        assert!(sizes[0] > sizes[2], "{codec:?} {sizes:?}");
        assert_eq!(compress(codec, &input).unwrap().len(), sizes[1], "{codec:?}: the default");
        for level in [i32::MIN, i32::MAX] {
            compress_at(codec, Some(level), b"any level will do").unwrap();
        }
    }
}

#[test]
fn bombs_stop_at_the_ratio() {
    let zeros = vec![0; 64 << 20];
    for codec in [Compression::Gzip, Compression::Zstd] {
        let bomb = compress(codec, &zeros).unwrap();
        let refused = Decompressor::default().decompress(codec, &bomb).err();
        if bomb.len() < (64 << 10) {
            assert!(matches!(refused, Some(CodecError::Limit { .. })), "{codec:?} {} {refused:?}", bomb.len());
        }
    }
}

#[test]
fn a_snappy_block_cannot_claim_more_than_it_can_hold() {
    // A raw block that claims 4 GiB - 1 and ends.
    let refused = decompress(Compression::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f], usize::MAX);
    assert!(matches!(refused, Err(CodecError::Corrupt { .. })), "{refused:?}");
}

#[test]
fn control_records_are_read_back() {
    let marker = EndTransactionMarker { kind: ControlKind::Commit, coordinator_epoch: 12 };
    let options = BatchOptions { control: true, transactional: true, producer_id: 9, ..BatchOptions::default() };
    let mut builder = BatchBuilder::new(options);
    builder.push(4, Some(&marker.key()), Some(&marker.value())).unwrap();
    let batch = builder.build().unwrap();
    let view = BatchRef::parse(&batch).unwrap();
    assert!(view.header().is_control() && view.header().is_transactional());
    let mut decompressor = Decompressor::default();
    let record = view.records(&mut decompressor).unwrap().next().unwrap().unwrap();
    assert_eq!(EndTransactionMarker::read(&record), Ok(marker));
    assert_eq!(record.sequence, NO_SEQUENCE);
}

#[test]
fn segments_of_kafka_itself_are_read() {
    let segments: [(&str, &[u8]); 5] = [
        ("none", include_bytes!("../../testdata/kafka-4.4/none.log")),
        ("gzip", include_bytes!("../../testdata/kafka-4.4/gzip.log")),
        ("snappy", include_bytes!("../../testdata/kafka-4.4/snappy.log")),
        ("lz4", include_bytes!("../../testdata/kafka-4.4/lz4.log")),
        ("zstd", include_bytes!("../../testdata/kafka-4.4/zstd.log")),
    ];
    for (codec, segment) in segments {
        let mut next_offset = 0;
        for batch in split_batches(Bytes::from_static(segment)) {
            let batch = batch.unwrap();
            batch.verify_crc().unwrap();
            assert_eq!(batch.header().compression().unwrap().name(), codec);
            assert_eq!(batch.header().base_offset, next_offset);
            next_offset = batch.header().last_offset() + 1;
            for (number, record) in (batch.header().base_offset + 1..).zip(read(batch.bytes())) {
                let text = |bytes: &Option<Vec<u8>>| String::from_utf8(bytes.clone().unwrap()).unwrap();
                assert_eq!(text(&record.key), format!("k{number}"), "{codec}");
                let words = "the same words, the same words, the same words";
                assert_eq!(text(&record.value), format!("value {number} of the {codec} batch, {words}"));
                let headers = [(b"h1".to_vec(), Some(b"a".to_vec())), (b"h2".to_vec(), Some(Vec::new()))];
                assert_eq!(record.headers, headers, "{codec}");
            }
        }
        assert_eq!(next_offset, 3, "{codec}");
    }
}

#[test]
fn a_batch_rebuilt_without_a_codec_is_what_kafka_wrote() {
    let written: &[u8] = include_bytes!("../../testdata/kafka-4.4/none.log");
    let batch = BatchRef::parse(written).unwrap();
    let mut builder = BatchBuilder::new(BatchOptions::of(batch.header(), Compression::None));
    let mut decompressor = Decompressor::default();
    for record in batch.records(&mut decompressor).unwrap() {
        let record = record.unwrap();
        builder.append(record.offset, record.timestamp, record.key, record.value, record.headers).unwrap();
    }
    assert_eq!(builder.build().unwrap(), batch.bytes());
}

#[test]
fn both_forms_of_snappy_are_read() {
    let input: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_be_bytes()).collect();
    let raw = snap::raw::Encoder::new().compress_vec(&input).unwrap();
    assert_eq!(decompress(Compression::Snappy, &raw, input.len()).unwrap(), input);
    // Two framed streams, one behind the other.
    let framed = compress(Compression::Snappy, &input).unwrap();
    let joined = [&framed[..], &framed[..]].concat();
    let output = decompress(Compression::Snappy, &joined, input.len() * 2).unwrap();
    assert!(output[..input.len()] == input[..] && output[input.len()..] == input[..]);
}

#[test]
fn frames_of_other_lz4_writers_are_read() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write as _;
    let input: Vec<u8> = (0..100_000_u32).flat_map(|n| (n % 977).to_le_bytes()).collect();
    for mode in [BlockMode::Independent, BlockMode::Linked] {
        for size in [BlockSize::Max64KB, BlockSize::Max4MB] {
            for sums in [false, true] {
                let info = FrameInfo::new().block_mode(mode).block_size(size).block_checksums(sums);
                let info = info.content_checksum(sums).content_size(sums.then_some(input.len() as u64));
                let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
                encoder.write_all(&input).unwrap();
                let frame = encoder.finish().unwrap();
                assert!(
                    decompress(Compression::Lz4, &frame, input.len()).unwrap() == input,
                    "{mode:?} {size:?} {sums}"
                );
                let cut = decompress(Compression::Lz4, &frame[..frame.len() - 9], input.len());
                assert!(matches!(cut, Err(CodecError::Corrupt { .. })), "{mode:?} {size:?} {sums}");
            }
        }
    }
}

#[test]
fn the_wrong_lz4_header_checksum_of_old_clients_is_let_pass() {
    let mut frame = compress(Compression::Lz4, b"hello hello hello hello").unwrap();
    // Kafka clients before 0.10 summed the magic too.
    frame[6] = (twox_hash::XxHash32::oneshot(0, &frame[..6]) >> 8) as u8;
    assert_eq!(decompress(Compression::Lz4, &frame, 100).unwrap(), b"hello hello hello hello");
    frame[6] ^= 0x55;
    assert!(decompress(Compression::Lz4, &frame, 100).is_err());
}
