//! What clients may produce, and what becomes of it.

use super::*;
use crate::record::{RecordError, compress};
use proptest::prelude::*;

const NOW_MS: i64 = 1_700_000_000_000;

fn rules() -> ProduceRules {
    ProduceRules { now_ms: NOW_MS, ..ProduceRules::default() }
}

/// A batch with a record for each timestamp; keys are "k".
fn batch(options: BatchOptions, timestamps: &[i64]) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for &timestamp in timestamps {
        builder.push(timestamp, Some(b"k"), Some(b"value value value value")).unwrap();
    }
    Bytes::from(builder.build().unwrap())
}

fn plain() -> Bytes {
    batch(BatchOptions::default(), &[NOW_MS, NOW_MS + 5, NOW_MS - 5])
}

/// The batch with these header fields changed, and a right CRC.
fn forged(bytes: &Bytes, change: impl FnOnce(&mut BatchHeader)) -> Bytes {
    let mut header = BatchHeader::parse(bytes).unwrap();
    change(&mut header);
    Bytes::from(crate::record::builder::seal(header, bytes.to_vec()))
}

fn timestamps(produced: &ProducedBatch) -> Vec<i64> {
    let mut decompressor = Decompressor::default();
    let view = BatchRef::parse(&produced.bytes).unwrap();
    view.verify_crc().unwrap();
    view.records(&mut decompressor).unwrap().map(|record| record.unwrap().timestamp).collect()
}

#[test]
fn a_sound_batch_passes_with_the_clients_own_bytes() {
    for compression in Compression::ALL {
        let sent = batch(BatchOptions { compression, ..BatchOptions::default() }, &[NOW_MS, NOW_MS + 5]);
        for strict in [false, true] {
            let produced = validate_produced(&sent, &ProduceRules { strict, ..rules() }).unwrap();
            assert_eq!(produced.bytes.as_ptr(), sent.as_ptr(), "{compression:?}: not copied");
            assert_eq!(produced.header, BatchHeader::parse(&sent).unwrap());
        }
    }
}

#[test]
fn bad_batches_get_kafkas_errors() {
    let good = plain();
    let mut flipped = good.to_vec();
    flipped[70] ^= 1;
    let mut old = good.to_vec();
    old[offset_of::MAGIC] = 1;
    let mut unknown = good.to_vec();
    unknown[offset_of::MAGIC] = 3;
    let mut short = good.to_vec();
    short[offset_of::LENGTH..offset_of::LEADER_EPOCH].copy_from_slice(&13_i32.to_be_bytes());
    let zstd = batch(BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() }, &[NOW_MS]);
    let no_zstd = ProduceRules { zstd_allowed: false, ..rules() };
    let small = ProduceRules { max_message_bytes: good.len() - 1, ..rules() };
    let segment = ProduceRules { max_segment_bytes: good.len() - 1, ..rules() };
    let producer = |header: &mut BatchHeader| (header.producer_id, header.base_sequence) = (5, -1);
    let cases: Vec<(&str, Bytes, ProduceRules, ErrorCode)> = vec![
        ("nothing", Bytes::new(), rules(), ErrorCode::InvalidRecord),
        ("half a batch", good.slice(..good.len() - 1), rules(), ErrorCode::InvalidRecord),
        ("two batches", Bytes::from([&good[..], &good[..]].concat()), rules(), ErrorCode::InvalidRecord),
        ("flipped bit", Bytes::from(flipped), rules(), ErrorCode::CorruptMessage),
        ("magic 1", Bytes::from(old), rules(), ErrorCode::InvalidRecord),
        ("magic 3", Bytes::from(unknown), rules(), ErrorCode::CorruptMessage),
        ("tiny length", Bytes::from(short), rules(), ErrorCode::CorruptMessage),
        ("zstd in an old request", zstd, no_zstd, ErrorCode::UnsupportedCompressionType),
        ("unknown codec", forged(&good, |h| h.attributes = 5), rules(), ErrorCode::UnsupportedCompressionType),
        ("base offset", forged(&good, |h| h.base_offset = 1), rules(), ErrorCode::InvalidRecord),
        ("too large", good.clone(), small, ErrorCode::MessageTooLarge),
        ("larger than a segment", good.clone(), segment, ErrorCode::RecordListTooLarge),
        ("count too small", forged(&good, |h| h.record_count = 2), rules(), ErrorCode::InvalidRecord),
        (
            "count 0",
            forged(&good, |h| (h.record_count, h.last_offset_delta) = (0, -1)),
            rules(),
            ErrorCode::InvalidRecord,
        ),
        (
            "largest count",
            forged(&good, |h| (h.record_count, h.last_offset_delta) = (i32::MAX, i32::MAX - 1)),
            rules(),
            ErrorCode::InvalidRecord,
        ),
        (
            "more records than counted",
            forged(&good, |h| (h.record_count, h.last_offset_delta) = (2, 1)),
            rules(),
            ErrorCode::InvalidRecord,
        ),
        ("control", forged(&good, |h| h.attributes = 0x20), rules(), ErrorCode::InvalidRecord),
        ("producer without sequence", forged(&good, producer), rules(), ErrorCode::InvalidRecord),
        (
            "garbage in place of gzip",
            forged(&good, |h| h.attributes = 1),
            ProduceRules { strict: true, ..rules() },
            ErrorCode::InvalidRecord,
        ),
    ];
    for (name, sent, rules, code) in cases {
        let refused = validate_produced(&sent, &rules).map(|_| ()).unwrap_err();
        assert_eq!(refused.code(), code, "{name}: {refused}");
        assert!(refused.faults().is_empty(), "{name}");
    }
}

#[test]
fn a_cut_piece_after_the_batch_is_dropped() {
    let good = plain();
    for extra in [1, 11, 20, good.len() - 1] {
        let sent = Bytes::from([&good[..], &good[..extra]].concat());
        assert_eq!(validate_produced(&sent, &rules()).unwrap().bytes, good, "{extra}");
    }
}

#[test]
fn records_outside_the_timestamp_window_are_named() {
    let hour = 3_600_000;
    let window = ProduceRules { timestamp_before_max_ms: 1_000, ..rules() };
    let cases: [(&[i64], ProduceRules, &[i32]); 6] = [
        (&[NOW_MS, NOW_MS + hour, 0], rules(), &[]),
        (&[NOW_MS, NOW_MS + hour + 1, 0, i64::MAX], rules(), &[1, 3]),
        (&[NOW_MS - 1_000, -1], window, &[]),
        (&[NOW_MS - 1_001, NOW_MS, NOW_MS - 5_000], window, &[0, 2]),
        (&[i64::MIN], window, &[0]),
        (&[i64::MIN, i64::MAX - 1], ProduceRules { timestamp_type: TimestampType::LogAppendTime, ..window }, &[]),
    ];
    for (timestamps, rules, bad) in cases {
        for compression in [Compression::None, Compression::Lz4] {
            let sent = batch(BatchOptions { compression, ..BatchOptions::default() }, timestamps);
            match validate_produced(&sent, &rules) {
                Ok(_) => assert!(bad.is_empty(), "{timestamps:?}"),
                Err(refused) => {
                    assert_eq!(refused.code(), ErrorCode::InvalidTimestamp, "{timestamps:?} {refused}");
                    assert_eq!(refused.faults().iter().map(|f| f.index).collect::<Vec<_>>(), bad);
                }
            }
        }
    }
}

#[test]
fn records_without_a_key_are_refused_on_compacted_topics() {
    let compacted = ProduceRules { compacted: true, ..rules() };
    for compression in Compression::ALL {
        let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
        for key in [Some(&b"k"[..]), None, Some(b"")] {
            builder.push(NOW_MS, key, None).unwrap();
        }
        let sent = Bytes::from(builder.build().unwrap());
        let refused = validate_produced(&sent, &compacted).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidRecord);
        assert_eq!(refused.faults().iter().map(|f| f.index).collect::<Vec<_>>(), [1]);
        validate_produced(&sent, &rules()).unwrap();
    }
}

#[test]
fn log_append_time_stamps_the_batch() {
    let stamped = ProduceRules { timestamp_type: TimestampType::LogAppendTime, ..rules() };
    for compression in Compression::ALL {
        let sent = batch(BatchOptions { compression, ..BatchOptions::default() }, &[2, 7]);
        let produced = validate_produced(&sent, &stamped).unwrap();
        assert_eq!(timestamps(&produced), [NOW_MS, NOW_MS]);
        assert_eq!(produced.header.timestamp_type(), TimestampType::LogAppendTime);
        assert_eq!((produced.header.base_timestamp, produced.header.max_timestamp), (2, NOW_MS));
        // The producer must not claim it.
        let refused = validate_produced(&produced.bytes, &stamped).unwrap_err();
        assert_eq!((refused.code(), refused.faults()[0].index), (ErrorCode::InvalidTimestamp, 0));
    }
}

#[test]
fn a_wrong_max_timestamp_is_set_right() {
    for compression in [Compression::None, Compression::Gzip] {
        let sent = batch(BatchOptions { compression, ..BatchOptions::default() }, &[500, 900, 700]);
        let wrong = forged(&sent, |header| header.max_timestamp = -1);
        assert_eq!(validate_produced(&wrong, &rules()).unwrap().bytes, sent, "{compression:?}");
    }
}

#[test]
fn every_codec_is_turned_into_every_other() {
    for from in Compression::ALL {
        for to in Compression::ALL {
            let options = BatchOptions {
                compression: from,
                producer_id: 7,
                producer_epoch: 3,
                base_sequence: 11,
                ..BatchOptions::default()
            };
            let sent = batch(options, &[10, 30, 20]);
            let target = ProduceRules { compression: Some(to), ..rules() };
            let produced = validate_produced(&sent, &target).unwrap();
            assert_eq!(produced.header.compression().unwrap(), to);
            assert_eq!(timestamps(&produced), [10, 30, 20]);
            let header = produced.header;
            assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (7, 3, 11));
            assert_eq!((header.max_timestamp, header.last_offset_delta, header.record_count), (30, 2, 3));
            assert_eq!(from == to, produced.bytes.as_ptr() == sent.as_ptr());
        }
    }
}

#[test]
fn the_size_counts_after_recompression_too() {
    let options = BatchOptions { compression: Compression::Gzip, ..BatchOptions::default() };
    let sent = batch(options, &[NOW_MS; 100]);
    let rules = ProduceRules { compression: Some(Compression::None), max_message_bytes: sent.len() + 10, ..rules() };
    assert_eq!(validate_produced(&sent, &rules).unwrap_err().code(), ErrorCode::MessageTooLarge);
}

#[test]
fn inner_offsets_that_do_not_count_up_are_set_right() {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for offset in [0, 4] {
        builder.append(offset, NOW_MS, None, Some(b"v"), std::iter::empty()).unwrap();
    }
    let sent = forged(&Bytes::from(builder.build().unwrap()), |header| header.last_offset_delta = 1);
    let produced = validate_produced(&sent, &rules()).unwrap();
    let mut decompressor = Decompressor::default();
    let offsets: Vec<_> = BatchRef::parse(&produced.bytes)
        .unwrap()
        .records(&mut decompressor)
        .unwrap()
        .map(|r| r.unwrap().offset)
        .collect();
    assert_eq!(offsets, [0, 1]);
}

#[test]
fn a_bomb_is_refused_and_listed_faults_are_bounded() {
    let zeros = vec![0_u8; 1 << 20];
    let head = batch(BatchOptions::default(), &[NOW_MS]);
    let mut bomb = head[..BATCH_HEADER_BYTES].to_vec();
    bomb.extend_from_slice(&compress(Compression::Zstd, &zeros).unwrap());
    let length = (bomb.len() - LOG_OVERHEAD_BYTES) as i32;
    let bomb = forged(&Bytes::from(bomb), |h| (h.attributes, h.batch_length) = (4, length));
    let limits = DecompressLimits { max_bytes: 1 << 19, ..DecompressLimits::default() };
    let refused = validate_produced(&bomb, &ProduceRules { strict: true, limits, ..rules() }).unwrap_err();
    assert!(matches!(refused, ProduceError::Records(BatchError::Codec(_))), "{refused}");

    let late = batch(BatchOptions::default(), &vec![i64::MAX; MAX_RECORD_FAULTS * 3]);
    assert_eq!(validate_produced(&late, &rules()).unwrap_err().faults().len(), MAX_RECORD_FAULTS);
}

#[test]
fn a_broken_record_is_named() {
    let good = plain();
    let mut broken = good.to_vec();
    broken[BATCH_HEADER_BYTES] = 0x7f;
    let refused = validate_produced(&forged(&Bytes::from(broken), |_| ()), &rules()).unwrap_err();
    let named = matches!(
        refused,
        ProduceError::Records(BatchError::Record { index: 0, source: RecordError::Length { length: -64, .. } })
    );
    assert!(named, "{refused}");
}

proptest! {
    #[test]
    fn damage_under_a_right_sum_never_panics(
        at in 21_usize..200, value in any::<u8>(), strict in any::<bool>(), compacted in any::<bool>(),
        codec in proptest::sample::select(&Compression::ALL[..]),
    ) {
        let sent = batch(BatchOptions { compression: codec, ..BatchOptions::default() }, &[1, 2, 3]);
        let mut damaged = sent.to_vec();
        let at = at % damaged.len();
        damaged[at] = value;
        if let Ok(header) = BatchHeader::parse(&damaged) {
            let damaged = Bytes::from(crate::record::builder::seal(header, damaged));
            let rules = ProduceRules { strict, compacted, compression: Some(Compression::Lz4), ..rules() };
            if let Ok(produced) = validate_produced(&damaged, &rules) {
                prop_assert!(BatchRef::parse(&produced.bytes).unwrap().verify_crc().is_ok());
            }
        }
    }
}

#[test]
fn compressed_batches_that_nobody_unpacks_must_still_be_plausible() {
    for compression in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let good = batch(BatchOptions { compression, ..BatchOptions::default() }, &[NOW_MS]);
        let many = forged(&good, |h| (h.record_count, h.last_offset_delta) = (i32::MAX, i32::MAX - 1));
        let refused = validate_produced(&many, &rules()).map(|_| ()).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidRecord, "{compression:?}: {refused}");
    }
    for compression in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        let mut garbage = batch(BatchOptions { compression, ..BatchOptions::default() }, &[NOW_MS]).to_vec();
        garbage[BATCH_HEADER_BYTES] ^= 0xff;
        let garbage = forged(&Bytes::from(garbage), |_| ());
        let refused = validate_produced(&garbage, &rules()).map(|_| ()).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidRecord, "{compression:?}: {refused}");
    }
}
