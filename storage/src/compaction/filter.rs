//! What stays of one batch.

use taffrail_core::ids::Offset;
use taffrail_core::record::{
    BATCH_HEADER_BYTES, BatchBuilder, BatchHeader, BatchOptions, BatchRef, DecompressLimits, Decompressor,
    LOG_OVERHEAD_BYTES, crc32c, offset_of,
};

use super::map::KeyMap;

/// The bits of a batch's attributes that name its codec. An empty batch has nothing to decompress.
const COMPRESSION_BITS: i16 = 0x07;

/// What is to be written in the place of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The batch as it is.
    Whole,
    /// A batch with some of the records, or with none where the batch itself must stay.
    Rebuilt(Vec<u8>),
    /// Nothing.
    Nothing,
}

/// Rules of one pass.
pub(super) struct Filter<'a> {
    pub(super) map: &'a KeyMap,
    pub(super) now_ms: i64,
    pub(super) delete_retention_ms: i64,
}

/// Limits of the memory for one batch's records.
pub(super) fn decompressor() -> Decompressor {
    Decompressor::new(DecompressLimits::default())
}

impl Filter<'_> {
    /// Decides about a batch. `must_stay` says that readers or producers need its last offset or sequence, so that an empty
    /// batch is left where no record stays.
    ///
    /// Batches of transactions stay as they are: whether they count depends on markers, which are not looked at here.
    pub(super) fn apply(
        &self,
        batch: BatchRef<'_>,
        decompressor: &mut Decompressor,
        must_stay: bool,
    ) -> Result<Kept, String> {
        let header = batch.header();
        if header.is_control() || header.is_transactional() {
            return Ok(Kept::Whole);
        }
        if header.record_count == 0 {
            return Ok(if must_stay { Kept::Whole } else { Kept::Nothing });
        }
        let horizon_ms = header.delete_horizon_ms();
        let tombstones_go = horizon_ms.is_some_and(|horizon_ms| horizon_ms <= self.now_ms);
        let stays = |key: Option<&[u8]>, offset: Offset, is_tombstone: bool| {
            key.is_some_and(|key| self.map.is_newest(key, offset)) && !(is_tombstone && tombstones_go)
        };
        let (mut kept, mut tombstones) = (0, 0);
        for record in batch.records(decompressor).map_err(|error| error.to_string())? {
            let record = record.map_err(|error| error.to_string())?;
            if stays(record.key, record.offset, record.value.is_none()) {
                kept += 1;
                tombstones += usize::from(record.value.is_none());
            }
        }
        // The first pass that meets a tombstone as the newest of its key sets when it may go (KAFKA-8522).
        let sets_horizon = tombstones > 0 && horizon_ms.is_none();
        if kept == header.record_count && !sets_horizon {
            return Ok(Kept::Whole);
        }
        if kept == 0 && !must_stay {
            return Ok(Kept::Nothing);
        }
        if kept == 0 {
            return Ok(Kept::Rebuilt(emptied(header)));
        }
        let compression = header.compression().map_err(|error| error.to_string())?;
        let mut options = BatchOptions::of(header, compression);
        if sets_horizon {
            options.delete_horizon_ms = Some(self.now_ms.saturating_add(self.delete_retention_ms));
        }
        let mut builder = BatchBuilder::with_capacity(options, batch.bytes().len());
        for record in batch.records(decompressor).map_err(|error| error.to_string())? {
            let record = record.map_err(|error| error.to_string())?;
            if stays(record.key, record.offset, record.value.is_none()) {
                builder
                    .append(record.offset, record.timestamp, record.key, record.value, record.headers)
                    .map_err(|error| error.to_string())?;
            }
        }
        builder.build().map(Kept::Rebuilt).map_err(|error| error.to_string())
    }
}

/// A batch without records that says the same of its producer, its offsets and its time.
fn emptied(header: &BatchHeader) -> Vec<u8> {
    let mut bytes = [0; BATCH_HEADER_BYTES];
    let mut empty = *header;
    empty.batch_length = (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES) as i32;
    empty.record_count = 0;
    empty.attributes &= !COMPRESSION_BITS;
    empty.write(&mut bytes);
    empty.crc = crc32c(&bytes[offset_of::ATTRIBUTES..]);
    empty.write(&mut bytes);
    bytes.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Field = Option<&'static str>;

    fn batch(base_offset: Offset, records: &[(Field, Field)]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchOptions { base_offset, ..BatchOptions::default() });
        for (key, value) in records {
            builder.push(100, key.map(str::as_bytes), value.map(str::as_bytes)).unwrap();
        }
        builder.build().unwrap()
    }

    fn filter(map: &KeyMap, now_ms: i64, bytes: &[u8], must_stay: bool) -> Kept {
        let filter = Filter { map, now_ms, delete_retention_ms: 1000 };
        filter.apply(BatchRef::parse(bytes).unwrap(), &mut decompressor(), must_stay).unwrap()
    }

    fn records(bytes: &[u8]) -> Vec<(Offset, String, bool)> {
        let batch = BatchRef::parse(bytes).unwrap();
        batch.verify_crc().unwrap();
        let text = |key: Option<&[u8]>| String::from_utf8(key.unwrap().to_vec()).unwrap();
        batch
            .records(&mut decompressor())
            .unwrap()
            .map(|record| record.unwrap())
            .map(|record| (record.offset, text(record.key), record.value.is_some()))
            .collect()
    }

    #[test]
    fn only_the_newest_record_of_a_key_stays_at_its_offset() {
        let bytes =
            batch(10, &[(Some("a"), Some("1")), (Some("b"), Some("2")), (None, Some("3")), (Some("a"), Some("4"))]);
        let mut map = KeyMap::new(1 << 20);
        for (key, offset) in [("a", 10), ("b", 11), ("a", 13)] {
            map.put(key.as_bytes(), offset);
        }
        let Kept::Rebuilt(kept) = filter(&map, 0, &bytes, false) else { panic!("some records go") };
        assert_eq!(records(&kept), [(11, "b".to_owned(), true), (13, "a".to_owned(), true)]);
        let (before, after) = (BatchRef::parse(&bytes).unwrap(), BatchRef::parse(&kept).unwrap());
        assert_eq!(after.header().last_offset(), before.header().last_offset());
        assert_eq!(after.header().base_offset, 10);
    }

    #[test]
    fn batches_of_which_everything_stays_are_not_touched() {
        let bytes = batch(0, &[(Some("a"), Some("1")), (Some("b"), Some("2"))]);
        assert_eq!(filter(&KeyMap::new(1 << 20), 0, &bytes, false), Kept::Whole);
    }

    #[test]
    fn a_batch_without_records_stays_only_where_it_is_needed() {
        let bytes = batch(0, &[(Some("a"), Some("1"))]);
        let mut map = KeyMap::new(1 << 20);
        map.put(b"a", 5);
        assert_eq!(filter(&map, 0, &bytes, false), Kept::Nothing);
        let Kept::Rebuilt(empty) = filter(&map, 0, &bytes, true) else { panic!("an empty batch stays") };
        let header = *BatchRef::parse(&empty).unwrap().header();
        BatchRef::parse(&empty).unwrap().verify_crc().unwrap();
        assert_eq!((header.record_count, header.base_offset, header.last_offset()), (0, 0, 0));
        assert_eq!(header.max_timestamp, 100, "or the producer would be forgotten too early");
        assert_eq!(filter(&map, 0, &empty, true), Kept::Whole);
        assert_eq!(filter(&map, 0, &empty, false), Kept::Nothing);
    }

    #[test]
    fn a_tombstone_goes_some_time_after_the_pass_that_met_it_first() {
        let bytes = batch(0, &[(Some("a"), None), (Some("b"), Some("2"))]);
        let map = KeyMap::new(1 << 20);
        let Kept::Rebuilt(marked) = filter(&map, 5000, &bytes, false) else { panic!("the horizon is set") };
        assert_eq!(BatchRef::parse(&marked).unwrap().header().delete_horizon_ms(), Some(6000));
        assert_eq!(records(&marked).len(), 2);
        assert_eq!(filter(&map, 5999, &marked, false), Kept::Whole);
        let Kept::Rebuilt(rest) = filter(&map, 6000, &marked, false) else { panic!("the tombstone goes") };
        assert_eq!(records(&rest), [(1, "b".to_owned(), true)]);
    }
}
