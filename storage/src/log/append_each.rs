//! Appending batches of separate requests that arrived together: each is judged and answered by itself, and yet those that
//! can be are written by one system call.

use taffrail_core::ids::LeaderEpoch;
use taffrail_core::partition::Verdict;
use taffrail_core::record::{Batch, NO_TIMESTAMP, TimestampType};

use super::append::Appended;
use super::{Log, Writer};
use crate::error::AppendError;

impl Log {
    /// Appends batches of clients one after the other, as that many calls of [`Log::append`] would. `done` gets the answer
    /// to each, in their order.
    pub fn append_each(
        &self,
        batches: &[Batch],
        leader_epoch: LeaderEpoch,
        now_ms: i64,
        mut done: impl FnMut(Result<Appended, AppendError>),
    ) {
        let mut writer = self.writer.lock();
        let mut rest = batches;
        while !rest.is_empty() {
            let count = self.count_together(&mut writer, rest, now_ms).max(1);
            let (together, after) = rest.split_at(count);
            rest = after;
            if count > 1
                && self.check_writable().is_ok()
                && let Ok(appended) = self.write_as_leader(&mut writer, together, leader_epoch, now_ms)
            {
                apart(together, appended).for_each(|appended| done(Ok(appended)));
                continue;
            }
            // Nothing is written of what is refused together, so each can be tried by itself, for an answer of its own.
            for batch in together.chunks(1) {
                let appended = self.append_locked(&mut writer, batch, leader_epoch, now_ms);
                done(appended.inspect_err(|error| self.env.note_refused(&self.partition, error, now_ms)));
            }
        }
        drop(writer);
        self.note_changed();
    }

    /// How many of the first batches are sure to be taken and can be written together, in the segment that is active now.
    fn count_together(&self, writer: &mut Writer, batches: &[Batch], now_ms: i64) -> usize {
        let options = self.options();
        let mut end_offset = writer.end_offset;
        let mut bytes = 0;
        for (index, batch) in batches.iter().enumerate() {
            let mut header = *batch.header();
            let before = batches[..index].iter().rfind(|before| before.header().producer_id == header.producer_id);
            let is_next = match before.filter(|_| header.has_producer_id()) {
                Some(before) => header.continues(before.header()),
                None => matches!(writer.producers.check(&header), Ok(Verdict::Append)),
            };
            header.base_offset = end_offset;
            let length = batch.bytes().len();
            let fits = length as u64 <= u64::from(options.segment_bytes)
                && matches!(self.must_roll(writer, &options, bytes, &header, length, now_ms), Ok(false));
            if header.is_control() || !is_next || !fits {
                return index;
            }
            end_offset = header.last_offset() + 1;
            bytes += length as u64;
        }
        batches.len()
    }
}

/// What each batch is told of those that were appended together.
fn apart(batches: &[Batch], together: Appended) -> impl Iterator<Item = Appended> {
    let mut next_offset = together.base_offset;
    batches.iter().map(move |batch| {
        let header = batch.header();
        let base_offset = next_offset;
        next_offset += i64::from(header.last_offset_delta) + 1;
        let log_append_time_ms = match header.timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp,
            TimestampType::CreateTime => NO_TIMESTAMP,
        };
        Appended { base_offset, last_offset: next_offset - 1, log_append_time_ms, ..together }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogOptions;
    use crate::disk::fault::FaultDisk;
    use crate::testing::{batch, batch_of_producer, open_log, read_all, small};

    /// What a client is told, in a form that can be compared.
    fn told(answer: Result<Appended, AppendError>) -> Result<Appended, String> {
        answer.map_err(|error| error.to_string())
    }

    fn append_together(batches: &[Batch], options: LogOptions) -> (Vec<Result<Appended, String>>, Vec<Batch>) {
        let disk = FaultDisk::new(1);
        let (_storage, log) = open_log(&disk, options);
        let mut answers = Vec::new();
        log.append_each(batches, 3, 0, |answer| answers.push(told(answer)));
        (answers, read_all(&log))
    }

    #[test]
    fn answers_and_log_are_those_of_single_appends() {
        let of = batch_of_producer;
        let cases = [
            ("without producers", vec![batch(1, 10, 5), batch(3, 0, 6), batch(2, 50, 4)]),
            ("in sequence", vec![of(1, 0, 0, 2), of(2, 0, 0, 1), of(1, 0, 2, 1), of(1, 0, 3, 4), of(2, 0, 1, 1)]),
            ("repeated", vec![of(1, 0, 0, 2), of(1, 0, 2, 1), of(1, 0, 0, 2), of(1, 0, 2, 1), of(1, 0, 3, 1)]),
            ("with a gap", vec![of(1, 0, 0, 2), of(1, 0, 3, 1), of(1, 0, 2, 1), batch(1, 10, 5)]),
            ("of a new epoch", vec![of(1, 0, 0, 2), of(1, 1, 0, 1), of(1, 0, 2, 1), of(1, 1, 1, 1)]),
            ("one too large", vec![batch(1, 10, 5), batch(1, 2000, 5), batch(1, 10, 5), batch(9, 100, 5)]),
            ("many segments", (0..20).map(|n| batch(1 + n % 3, 200, 5)).collect()),
        ];
        for (name, batches) in cases {
            let disk = FaultDisk::new(1);
            let (_storage, log) = open_log(&disk, small(1000));
            let singly: Vec<_> =
                batches.iter().map(|batch| told(log.append(std::slice::from_ref(batch), 3, 0))).collect();
            let (together, content) = append_together(&batches, small(1000));
            assert_eq!(together.len(), batches.len(), "{name}");
            for (index, (together, singly)) in together.into_iter().zip(singly).enumerate() {
                // Whether a flush is due is told of all that were written together.
                let without_flush = |answer: Result<Appended, String>| {
                    answer.map(|appended| Appended { needs_flush: false, ..appended })
                };
                assert_eq!(without_flush(together), without_flush(singly), "{name}, batch {index}");
            }
            let bytes = |batches: &[Batch]| batches.iter().map(|batch| batch.bytes().to_vec()).collect::<Vec<_>>();
            assert_eq!(bytes(&content), bytes(&read_all(&log)), "{name}");
        }
    }

    #[test]
    fn what_arrives_together_is_written_by_one_call() {
        let disk = FaultDisk::new(1);
        let (_storage, log) = open_log(&disk, LogOptions::default());
        log.append(&[batch_of_producer(1, 0, 0, 1)], 3, 0).unwrap();
        let before = disk.calls();
        let batches: Vec<_> = (1..6).map(|sequence| batch_of_producer(1, 0, sequence, 1)).collect();
        log.append_each(&batches, 3, 0, |answer| assert!(answer.is_ok()));
        assert_eq!(disk.calls() - before, 1);
    }

    #[test]
    fn a_full_disk_refuses_each_and_keeps_none() {
        let disk = FaultDisk::new(1);
        let (_storage, log) = open_log(&disk, LogOptions::default());
        log.append(&[batch(1, 100, 5)], 3, 0).unwrap();
        disk.set_capacity(Some(disk.used()));
        let mut refused = 0;
        log.append_each(&[batch(1, 100, 5), batch(1, 100, 5)], 3, 0, |answer| {
            assert!(matches!(answer, Err(AppendError::DiskFull)));
            refused += 1;
        });
        assert_eq!(refused, 2);
        disk.set_capacity(None);
        assert_eq!(log.append(&[batch(1, 100, 5)], 3, 0).unwrap().base_offset, 1);
        assert_eq!(read_all(&log).len(), 2);
    }
}
