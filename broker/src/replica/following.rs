//! A partition as its follower changes it: what a fetcher brings from the leader.
//!
//! Every change names the leader epoch that it comes from. Whether this broker still follows in that epoch is checked under
//! the same lock under which it is made leader, so no record of an old leader comes after the first one of this broker's own.

use std::sync::atomic::Ordering;

use parking_lot::RwLockWriteGuard;
use taffrail_core::ids::{BrokerId, LeaderEpoch, Offset};
use taffrail_core::partition::follower_high_watermark;
use taffrail_core::record::Batch;
use taffrail_storage::{AppendError, LogError};

use super::partition::{Office, Partition};

/// Whom a follower follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Following {
    /// The leader.
    pub(crate) leader: BrokerId,
    /// The leadership.
    pub(crate) leader_epoch: LeaderEpoch,
}

/// Where a follower stands after it appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Followed {
    /// Offset to fetch from next.
    pub(crate) end_offset: Offset,
    /// Where the leader's log begins, if this one begins before: to be given to [`Partition::raise_log_start`], on the disk
    /// pool.
    pub(crate) raise_log_start_to: Option<Offset>,
    /// Whether `flush.messages` asks for a flush: the leader may not be told of these records before.
    pub(crate) must_flush: bool,
}

/// Why a follower's change was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    /// The metadata have told of another leadership, or of the partition's end.
    #[error("this broker does not follow in leader epoch {0} any more")]
    Superseded(LeaderEpoch),
    /// The log refused batches.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log refused another change.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Partition {
    /// Whom this broker follows, if it keeps a replica that it does not lead and somebody does.
    pub(crate) fn following(&self) -> Option<Following> {
        let state = self.state.load();
        let is_replica = state.replicas.contains(&self.env.own_id) && !self.is_gone();
        let follows = is_replica && state.has_leader() && state.leader != self.env.own_id;
        follows.then(|| Following { leader: state.leader, leader_epoch: state.leader_epoch })
    }

    /// Appends what the leader of `expected_epoch` gave, offsets and epochs as they are, and takes over how far it has
    /// committed; also without batches. Writes to the page cache only.
    ///
    /// # Errors
    /// See [`FollowError`]. Of batches, those before the refused one may be appended.
    pub(crate) fn append_fetched(
        &self,
        expected_epoch: LeaderEpoch,
        batches: &[Batch],
        leader_high_watermark: Offset,
        leader_log_start: Offset,
        now_ms: i64,
    ) -> Result<Followed, FollowError> {
        let _office = self.follow_in(expected_epoch)?;
        if !batches.is_empty() {
            let bytes: usize = batches.iter().map(|batch| batch.bytes().len()).sum();
            self.uncommitted_bytes.fetch_add(bytes as i64, Ordering::AcqRel);
            self.log.append_as_follower(batches, now_ms)?;
        }
        let offsets = self.log.offsets();
        let (known, end_offset) = (offsets.high_watermark, offsets.end_offset);
        // What a follower that is behind copies now is older than that.
        if let (Some(first), true) = (batches.first(), leader_high_watermark <= end_offset) {
            self.append_times.note(first.header().base_offset, now_ms);
        }
        let reached = follower_high_watermark(known, leader_high_watermark, end_offset);
        if reached > known {
            self.log.advance_high_watermark(reached);
            self.tell_committed(reached);
        }
        let is_behind = leader_log_start > offsets.log_start_offset && leader_log_start <= end_offset;
        let must_flush = !batches.is_empty() && self.log.owes_flush();
        Ok(Followed { end_offset, raise_log_start_to: is_behind.then_some(leader_log_start), must_flush })
    }

    /// Drops the records before `offset`, as the leader of `expected_epoch` has. Waits for the disk: call it on the pool.
    ///
    /// # Errors
    /// See [`FollowError`].
    pub(crate) fn raise_log_start(&self, expected_epoch: LeaderEpoch, offset: Offset) -> Result<(), FollowError> {
        let _office = self.follow_in(expected_epoch)?;
        Ok(self.log.raise_log_start(offset)?)
    }

    /// Cuts everything from `offset` on, which the leader of `expected_epoch` does not have; gives the new end, which may be
    /// earlier. Waits for the disk: call it on the pool.
    ///
    /// # Errors
    /// See [`FollowError`].
    pub(crate) fn truncate(
        &self,
        expected_epoch: LeaderEpoch,
        offset: Offset,
        now_ms: i64,
    ) -> Result<Offset, FollowError> {
        let _office = self.follow_in(expected_epoch)?;
        Ok(self.log.truncate_to(offset, now_ms)?)
    }

    /// Forgets all records and begins anew at `offset`, because the leader of `expected_epoch` keeps nothing older. Waits for
    /// the disk: call it on the pool.
    ///
    /// # Errors
    /// See [`FollowError`].
    pub(crate) fn start_over_at(
        &self,
        expected_epoch: LeaderEpoch,
        offset: Offset,
        now_ms: i64,
    ) -> Result<(), FollowError> {
        let _office = self.follow_in(expected_epoch)?;
        Ok(self.log.start_over_at(offset, now_ms)?)
    }

    /// Keeps this broker a follower in `expected_epoch` while the guard lives.
    fn follow_in(&self, expected_epoch: LeaderEpoch) -> Result<RwLockWriteGuard<'_, Office>, FollowError> {
        let office = self.office.write();
        let is_current = self.following().is_some_and(|following| following.leader_epoch == expected_epoch);
        if is_current { Ok(office) } else { Err(FollowError::Superseded(expected_epoch)) }
    }
}
