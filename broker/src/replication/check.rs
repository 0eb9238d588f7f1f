//! The gate for what a leader sends: nothing goes into the log that is damaged or out of place.

use bytes::Bytes;
use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_core::record::{Batch, BatchError, BatchHeader, split_batches};

use super::plan::Place;

/// What is wrong with a batch of a leader, and with which.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    /// It breaks the format, or its checksum does not match.
    #[error("after offset {after}: {error}")]
    Batch {
        /// The batch follows this offset.
        after: Offset,
        /// What is wrong.
        error: BatchError,
    },
    /// It is not where it belongs.
    #[error("a batch of offsets {first} to {last} where {expected} or more was due")]
    Place {
        /// Its first offset.
        first: Offset,
        /// Its last.
        last: Offset,
        /// The end of the log before it.
        expected: Offset,
    },
    /// No leader of its epoch can have written it after what is before it.
    #[error("a batch at offset {offset} of epoch {epoch}, after epoch {before}, from a leader of epoch {leader_epoch}")]
    Epoch {
        /// Its first offset.
        offset: Offset,
        /// Its epoch.
        epoch: LeaderEpoch,
        /// Epoch of the record before it.
        before: LeaderEpoch,
        /// Epoch of the leader that sent it.
        leader_epoch: LeaderEpoch,
    },
}

/// Records of a leader, as far as they are sound.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// To be appended.
    pub(super) batches: Vec<Batch>,
    /// What is wrong with the batch behind them, if there is one.
    pub(super) damage: Option<Damage>,
}

/// Checks records that the leader of `leader_epoch` sent to a follower whose log is at `place`. They may end within a batch.
pub(super) fn check(records: Bytes, place: Place, leader_epoch: LeaderEpoch) -> Checked {
    let mut checked = Checked::default();
    let (mut end, mut last_epoch) = (place.end, place.last_epoch);
    // A log that is empty may begin within a batch, where the leader's does since somebody had records deleted.
    let mut may_begin_before = place.end == place.log_start;
    for batch in split_batches(records) {
        let verify = |batch: Batch| match batch.verify_crc() {
            Err(error) if !is_planted(PlantedBug::ChecksumNotCompared) => Err(error),
            _ => Ok(batch),
        };
        let batch = match batch.and_then(verify) {
            Ok(batch) => batch,
            Err(BatchError::Truncated { .. }) if !checked.batches.is_empty() => break,
            Err(error) => {
                checked.damage = Some(Damage::Batch { after: end - 1, error });
                break;
            }
        };
        let header = batch.header();
        if let Err(damage) = check_header(header, end, may_begin_before, last_epoch, leader_epoch) {
            checked.damage = Some(damage);
            break;
        }
        (end, last_epoch) = (header.last_offset() + 1, header.leader_epoch);
        may_begin_before = false;
        checked.batches.push(batch);
    }
    checked
}

fn check_header(
    header: &BatchHeader,
    end: Offset,
    may_begin_before: bool,
    last_epoch: LeaderEpoch,
    leader_epoch: LeaderEpoch,
) -> Result<(), Damage> {
    let (first, last) = (header.base_offset, header.last_offset());
    let is_after = first >= end || (may_begin_before && first >= 0 && last >= end);
    if !is_after || last < first || last == Offset::MAX {
        return Err(Damage::Place { first, last, expected: end });
    }
    let epoch = header.leader_epoch;
    if epoch < last_epoch.max(0) || epoch > leader_epoch {
        return Err(Damage::Epoch { offset: first, epoch, before: last_epoch, leader_epoch });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use taffrail_core::record::{BatchBuilder, BatchOptions, patch_prefix};

    use super::*;

    const LEADER_EPOCH: LeaderEpoch = 5;

    /// A batch of so many records as it lies in the leader's log.
    fn batch(base_offset: Offset, leader_epoch: LeaderEpoch, records: i32) -> Vec<u8> {
        let mut builder = BatchBuilder::with_capacity(BatchOptions::default(), 0);
        for delta in 0..i64::from(records) {
            builder.append(delta, 1000, Some(b"key"), Some(b"value"), std::iter::empty()).unwrap();
        }
        let mut bytes = builder.build().unwrap();
        let header = BatchHeader::parse(&bytes).unwrap();
        bytes[..16].copy_from_slice(&patch_prefix(base_offset, leader_epoch, &header));
        bytes
    }

    fn at(end: Offset, last_epoch: LeaderEpoch) -> Place {
        Place { end, last_epoch, log_start: 0 }
    }

    fn checked(batches: &[Vec<u8>], place: Place) -> (Vec<Offset>, Option<Damage>) {
        let checked = check(Bytes::from(batches.concat()), place, LEADER_EPOCH);
        (checked.batches.iter().map(|batch| batch.header().base_offset).collect(), checked.damage)
    }

    #[test]
    fn batches_that_follow_are_taken_gaps_of_compaction_too() {
        let batches = [batch(10, 3, 2), batch(12, 3, 1), batch(20, 5, 4)];
        assert_eq!(checked(&batches, at(10, 3)), (vec![10, 12, 20], None));
        assert_eq!(checked(&batches, at(8, 2)), (vec![10, 12, 20], None));
        assert_eq!(checked(&[], at(8, 2)), (vec![], None));
    }

    #[test]
    fn a_batch_that_is_cut_ends_an_answer_and_is_damage_where_it_is_all_there_is() {
        let mut batches = [batch(10, 3, 2), batch(12, 3, 1)];
        batches[1].truncate(30);
        assert_eq!(checked(&batches, at(10, 3)), (vec![10], None));
        let (taken, damage) = checked(&batches[1..], at(12, 3));
        assert!(taken.is_empty() && matches!(damage, Some(Damage::Batch { after: 11, .. })), "{damage:?}");
    }

    #[test]
    fn what_is_sound_before_the_damage_is_taken_and_nothing_behind_it() {
        let mut batches = [batch(10, 3, 2), batch(12, 3, 1), batch(13, 3, 1)];
        batches[1][40] ^= 1;
        let (taken, damage) = checked(&batches, at(10, 3));
        assert_eq!(taken, [10]);
        assert!(matches!(damage, Some(Damage::Batch { after: 11, error: BatchError::Crc { .. } })), "{damage:?}");
    }

    #[test]
    fn offsets_and_epochs_never_go_back_nor_ahead_of_the_leader() {
        let place = |first, last, expected| Some(Damage::Place { first, last, expected });
        let epoch = |offset, epoch, before| Some(Damage::Epoch { offset, epoch, before, leader_epoch: LEADER_EPOCH });
        let cases = [
            (batch(9, 3, 1), place(9, 9, 10)),
            (batch(9, 3, 2), place(9, 10, 10)),
            (batch(-1, 3, 20), place(-1, 18, 10)),
            (batch(Offset::MAX, 3, 1), place(Offset::MAX, Offset::MAX, 10)),
            (batch(Offset::MAX - 1, 3, 9), place(Offset::MAX - 1, Offset::MAX, 10)),
            (batch(10, 2, 1), epoch(10, 2, 3)),
            (batch(10, 6, 1), epoch(10, 6, 3)),
            (batch(10, -1, 1), epoch(10, -1, 3)),
        ];
        for (batch, expected) in cases {
            assert_eq!(checked(&[batch], at(10, 3)), (vec![], expected));
        }
        assert_eq!(checked(&[batch(0, -1, 1)], at(0, -1)).1, epoch(0, -1, -1), "an epoch that is not known");
    }

    #[test]
    fn an_empty_log_may_begin_within_a_batch() {
        let empty = Place { end: 10, last_epoch: -1, log_start: 10 };
        assert_eq!(checked(&[batch(8, 3, 5), batch(13, 3, 1)], empty), (vec![8, 13], None));
        let before = Some(Damage::Place { first: 8, last: 9, expected: 10 });
        assert_eq!(checked(&[batch(8, 3, 2)], empty), (vec![], before));
    }

    proptest! {
        #[test]
        fn nothing_of_flipped_bytes_is_taken(position in 0..400_usize, bit in 0..8_u8) {
            let mut bytes = [batch(10, 3, 2), batch(12, 3, 3), batch(15, 4, 1)].concat();
            let position = position % bytes.len();
            bytes[position] ^= 1 << bit;
            let taken = check(Bytes::from(bytes), at(10, 3), LEADER_EPOCH);
            for batch in &taken.batches {
                // The checksum covers all but offset and epoch, and those stay within what the leader may say.
                let header = batch.header();
                prop_assert!(header.base_offset >= 10 && (3..=LEADER_EPOCH).contains(&header.leader_epoch));
            }
        }

        #[test]
        fn any_bytes_are_refused_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let taken = check(Bytes::from(bytes), at(10, 3), LEADER_EPOCH);
            prop_assert!(taken.batches.is_empty());
        }
    }
}
