//! What a follower makes of its leader's answers, partition by partition.

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_core::image::PartitionKey;
use taffrail_core::partition::following::{LogRange, NextStep, on_divergence, on_error, on_leaders_range};
use taffrail_core::partition::{EpochEnd, EpochHistory};
use taffrail_protocol::fetch::PartitionFetched;
use taffrail_protocol::message::ListOffsetsRequest;
use taffrail_protocol::response;
use taffrail_runtime::time;

use super::check::{Checked, Damage, check};
use super::fetcher::Fetcher;
use super::link::LinkError;
use super::plan::{Place, Standing};
use super::range::RangeQuestion;
use super::work::{Done, Job, JobError, Setback, flush, place_of, setback, start};
use crate::metrics::Loss;
use crate::replica::{FollowError, Side};

impl Fetcher {
    /// Takes what request `number` gave for a partition; tells how many bytes were appended.
    pub(super) fn take_partition(&mut self, number: u64, key: PartitionKey, answer: PartitionFetched<Bytes>) -> usize {
        let leader_epoch = match self.plan.standing(number, key) {
            Standing::Moved => return 0,
            Standing::Outgrown(leader_epoch) => {
                self.take_high_watermark(key, leader_epoch, &answer);
                return 0;
            }
            Standing::Current(leader_epoch) => leader_epoch,
        };
        if answer.error != ErrorCode::None {
            self.step(key, leader_epoch, on_error(answer.error), answer.error.name());
            return 0;
        }
        if let Some((epoch, end_offset)) = answer.diverging_epoch {
            let Some(followed) = self.partitions.get(&key) else { return 0 };
            let log = followed.partition.log();
            let history = EpochHistory::from_entries(log.epochs());
            let next = on_divergence(&history, log.end_offset(), EpochEnd { epoch, end_offset });
            self.step(key, leader_epoch, next, "an epoch that makes no sense of the log here");
            return 0;
        }
        self.append(key, leader_epoch, answer)
    }

    /// Takes the answers of the leader about the range of its logs.
    pub(super) fn take_range(&mut self, question: &RangeQuestion, version: i16, frame: Bytes) -> Result<(), LinkError> {
        let (_, response) = response::decode::<ListOffsetsRequest>(version, frame)?;
        for (key, range) in self.ranges.take(question, &response) {
            let Some(leader_epoch) = self.plan.ranging(key) else { continue };
            let Some(followed) = self.partitions.get(&key) else { continue };
            match range {
                Ok(leaders) => {
                    let offsets = followed.partition.log().offsets();
                    let own = LogRange { start: offsets.log_start_offset, end: offsets.end_offset };
                    tracing::info!(
                        partition = %followed.partition.log().partition(), ?own, ?leaders,
                        "the leader keeps other offsets"
                    );
                    // Within the leader's range by now; not at once, or the two could go on like this for ever.
                    let next = match on_leaders_range(own, leaders) {
                        NextStep::Fetch => NextStep::Retry,
                        next => next,
                    };
                    self.step(key, leader_epoch, next, ErrorCode::OffsetOutOfRange.name());
                }
                Err(error) => {
                    let next = match on_error(error) {
                        NextStep::AwaitMetadata => NextStep::AwaitMetadata,
                        _ => NextStep::Retry,
                    };
                    self.step(key, leader_epoch, next, error.name());
                }
            }
        }
        Ok(())
    }

    /// The questions for the ranges that are to be asked for.
    pub(super) fn range_questions(&mut self) -> Vec<RangeQuestion> {
        let asked = self.plan.ranges_to_ask();
        let named = asked.into_iter().filter_map(|(key, leader_epoch)| {
            let followed = self.partitions.get(&key)?;
            Some((key, &*followed.partition.topic.name, leader_epoch))
        });
        RangeQuestion::both(named)
    }

    /// Does what core says is next; `cause` is what the leader said.
    fn step(&mut self, key: PartitionKey, leader_epoch: LeaderEpoch, next: NextStep, cause: &str) {
        match next {
            NextStep::Fetch => {}
            NextStep::Truncate(offset) => self.work(key, leader_epoch, Job::Truncate(offset)),
            NextStep::StartAt(offset) => self.work(key, leader_epoch, Job::StartOver(offset)),
            NextStep::AskRange => self.plan.ask_range(key),
            NextStep::Retry => self.failed(key, cause),
            NextStep::AwaitMetadata => {
                tracing::debug!(partition = ?key, cause, "waiting for the metadata to tell of the leadership");
                self.plan.stop(key);
            }
        }
    }

    /// Tries a partition again after a pause.
    fn failed(&mut self, key: PartitionKey, cause: &str) {
        let max_ms = i64::from(self.config().replica_fetch_backoff_ms);
        let failures = self.plan.failed(key, max_ms, self.now_ms());
        let Some(followed) = self.partitions.get(&key) else { return };
        // The topic may be gone, or another broker lead it: then it is not fetched from here any more.
        if followed.partition.following().is_none_or(|following| following.leader != self.id.leader) {
            return self.leave(key);
        }
        let partition = followed.partition.log().partition();
        tracing::debug!(%partition, leader = %self.id.leader, cause, failures, "no records; asking again after a pause");
    }

    fn take_high_watermark(&self, key: PartitionKey, leader_epoch: LeaderEpoch, answer: &PartitionFetched<Bytes>) {
        if answer.error == ErrorCode::None
            && answer.diverging_epoch.is_none()
            && let Some(followed) = self.partitions.get(&key)
        {
            let (high_watermark, now_ms) = (answer.high_watermark, time::unix_ms());
            // A refusal shows again at the next answer, which tells more.
            let _ = followed.partition.append_fetched(leader_epoch, &[], high_watermark, -1, now_ms);
        }
    }

    /// Appends what the leader sent, as far as it is sound.
    fn append(&mut self, key: PartitionKey, leader_epoch: LeaderEpoch, answer: PartitionFetched<Bytes>) -> usize {
        let (Some(place), Some(followed)) = (self.plan.place(key), self.partitions.get_mut(&key)) else { return 0 };
        let records = answer.records.into_iter().next().unwrap_or_default();
        let Checked { batches, damage } = check(records, place, leader_epoch);
        if batches.first().is_some_and(|first| first.header().base_offset < place.end) {
            self.work(key, leader_epoch, Job::BeginWith(batches));
            return 0;
        }
        let (high_watermark, log_start) = (answer.high_watermark, answer.log_start_offset);
        let now_ms = time::unix_ms();
        let appended =
            match followed.partition.append_fetched(leader_epoch, &batches, high_watermark, log_start, now_ms) {
                Ok(appended) => appended,
                Err(error) => {
                    self.refused(key, &error);
                    return 0;
                }
            };
        let last_epoch = batches.last().map_or(place.last_epoch, |batch| batch.header().leader_epoch);
        self.plan.advanced(key, Place { end: appended.end_offset, last_epoch, ..place });
        let bytes: usize = batches.iter().map(|batch| batch.bytes().len()).sum();
        let metrics = &self.broker.metrics.followers;
        if bytes > 0 {
            metrics.bytes_in.inc_by(bytes as u64);
            if followed.partition.state().adding.contains(&self.broker.id) {
                metrics.reassignment_bytes_in.inc_by(bytes as u64);
            }
            followed.partition.replicated(Side::Follower, bytes);
        }
        let lag = (high_watermark - appended.end_offset).max(0);
        metrics.note_lag(|| followed.partition.log().partition().clone(), followed.lag, lag);
        followed.lag = lag;
        // Who has everything must be able to say so, or it would not get into the ISR before the debt is paid.
        self.plan.set_throttled(key, lag > 0 && followed.partition.is_held_back());
        if let Some(damage) = &damage {
            self.damaged(key, damage);
        }
        if appended.must_flush {
            self.flush(key, appended.end_offset);
        } else if let Some(offset) = appended.raise_log_start_to.filter(|_| damage.is_none()) {
            self.work(key, leader_epoch, Job::RaiseStart(offset));
        }
        bytes
    }

    /// Leaves a partition out until its records up to `offset` are on the disk: the next request tells the leader that they
    /// are here, which acknowledges them then.
    fn flush(&mut self, key: PartitionKey, offset: Offset) {
        let Some(followed) = self.partitions.get(&key) else { return };
        self.plan.working(key);
        self.jobs.push(flush(key, std::sync::Arc::clone(&followed.partition), offset));
    }

    /// The leader sent what must not be appended.
    fn damaged(&mut self, key: PartitionKey, damage: &Damage) {
        self.broker.metrics.followers.damaged.inc();
        if let Some(followed) = self.partitions.get(&key) {
            let partition = followed.partition.log().partition();
            tracing::error!(%partition, leader = %self.id.leader, %damage, "the leader sent damaged records");
        }
        self.failed(key, "damaged records");
    }

    /// The log here refused what the leader sent.
    fn refused(&mut self, key: PartitionKey, error: &FollowError) {
        let Some(followed) = self.partitions.get(&key) else { return };
        let partition = followed.partition.log().partition().clone();
        match setback(error) {
            Setback::Superseded => self.superseded(key),
            Setback::Passing => {
                tracing::warn!(%partition, %error, "records of the leader were not taken; trying again");
                self.failed(key, "the log here refused");
            }
            Setback::Broken => {
                tracing::error!(%partition, %error, "the partition is not followed any more");
                self.broker.metrics.followers.note_failed(partition);
                self.plan.stop(key);
            }
        }
    }

    /// The metadata have told something else of a partition since the leader was asked, or its job began.
    fn superseded(&mut self, key: PartitionKey) {
        let Some(followed) = self.partitions.get(&key) else { return };
        match followed.partition.following() {
            Some(following) if following.leader == self.id.leader => {
                let place = place_of(followed.partition.log());
                self.plan.stop(key);
                self.plan.follow(key, following.leader_epoch, place);
            }
            _ => self.leave(key),
        }
    }

    /// Has `job` done on the disk pool.
    pub(super) fn work(&mut self, key: PartitionKey, leader_epoch: LeaderEpoch, job: Job) {
        let Some(followed) = self.partitions.get(&key) else { return };
        let partition = std::sync::Arc::clone(&followed.partition);
        tracing::debug!(partition = %partition.log().partition(), ?job, leader_epoch, "the log is changed as the leader's");
        self.plan.working(key);
        self.jobs.push(start(self.broker.disk_pool(), key, partition, leader_epoch, job));
    }

    /// A job is over.
    pub(super) fn worked(&mut self, done: Done) {
        let Done { key, partition, loss, cut, outcome } = done;
        let (metrics, name) = (&self.broker.metrics.followers, partition.log().partition());
        if let Some((from, to)) = cut {
            metrics.truncations.inc();
            tracing::info!(partition = %name, from, to, "records that the leader does not have were cut");
        }
        if let Some((from, to)) = loss {
            let leader_epoch = partition.state().leader_epoch;
            self.broker.metrics.losses.note(Loss { partition: name.clone(), leader_epoch, from, to });
            tracing::error!(
                partition = %name, from, to,
                "committed records are lost: the leader, which came from outside of those in sync, does not have them"
            );
        }
        match outcome {
            // A log that began anew with records has them to flush.
            Ok(()) if partition.log().owes_flush() => self.flush(key, partition.log().end_offset()),
            Ok(()) => self.plan.worked(key, place_of(partition.log())),
            Err(JobError::Follow(error)) => self.refused(key, &error),
            Err(JobError::Pool(error)) => self.failed(key, &error.to_string()),
        }
    }
}
