//! When something has to happen if nothing else does.
//!
//! A heartbeat moves its member's deadline thousands of times for each time that one is reached, so moving one must not
//! touch the queue: the queue holds an entry that is no later than the deadline, and when that comes up it is put back at
//! the deadline's present place.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// What a deadline is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeadlineKind {
    /// The session of a member, or of an id that waits for its member.
    Member(Arc<str>),
    /// The join phase of a group.
    Join,
    /// The sync phase of a group.
    Sync,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeadlineKey {
    pub(super) group_id: Arc<str>,
    pub(super) kind: DeadlineKind,
}

/// One deadline, kept where it belongs; [`Deadlines`] knows when to look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deadline {
    at_ms: Option<i64>,
    queued_ms: Option<i64>,
}

impl Deadline {
    /// Nothing to wait for any more.
    pub(super) fn cancel(&mut self) {
        self.at_ms = None;
    }
}

/// What comes of an entry of the queue.
pub(super) enum Due {
    /// The deadline is reached.
    Reached,
    /// It was moved, cancelled or replaced.
    NotNow,
}

/// The queue of a shard's deadlines.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines {
    queue: BinaryHeap<Reverse<(i64, DeadlineKey)>>,
}

impl Deadlines {
    /// Sets a deadline, or moves it.
    pub(super) fn set(&mut self, deadline: &mut Deadline, at_ms: i64, key: impl FnOnce() -> DeadlineKey) {
        deadline.at_ms = Some(at_ms);
        if deadline.queued_ms.is_none_or(|queued| queued > at_ms) {
            deadline.queued_ms = Some(at_ms);
            self.queue.push(Reverse((at_ms, key())));
        }
    }

    /// When to look again; no deadline is earlier.
    pub(super) fn next_ms(&self) -> Option<i64> {
        self.queue.peek().map(|Reverse((at_ms, _))| *at_ms)
    }

    /// The next entry that is due, with the time it was queued for.
    pub(super) fn pop(&mut self, now_ms: i64) -> Option<(i64, DeadlineKey)> {
        if self.next_ms()? > now_ms {
            return None;
        }
        self.queue.pop().map(|Reverse(entry)| entry)
    }

    /// Judges an entry that came up against the deadline it stands for; puts it back if that is later.
    pub(super) fn judge(&mut self, deadline: &mut Deadline, queued_ms: i64, now_ms: i64, key: DeadlineKey) -> Due {
        if deadline.queued_ms != Some(queued_ms) {
            return Due::NotNow;
        }
        deadline.queued_ms = None;
        match deadline.at_ms {
            None => Due::NotNow,
            Some(at_ms) if at_ms > now_ms => {
                self.set(deadline, at_ms, || key);
                Due::NotNow
            }
            Some(_) => {
                deadline.at_ms = None;
                Due::Reached
            }
        }
    }
}
