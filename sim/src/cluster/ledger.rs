//! What clients sent, what they were told, and what they have seen: the oracle's memory.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A record's content, of which there is only one like it.
pub(super) type Value = u64;

/// One partition as clients know it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Acknowledged records by offset.
    pub(super) acknowledged: BTreeMap<i64, Value>,
    /// Records that consumers were given, by offset.
    pub(super) consumed: BTreeMap<i64, Value>,
    /// Where each value was consumed.
    offsets: BTreeMap<Value, i64>,
    /// Everything that was ever sent.
    sent: BTreeSet<Value>,
    /// What is before this offset somebody has asked to delete.
    pub(super) asked_to_delete: i64,
    /// What is before this offset was said to be deleted.
    pub(super) deleted: i64,
}

impl Seen {
    /// First offset of which no client knows that it is committed.
    pub(super) fn known_end(&self) -> i64 {
        let last = |records: &BTreeMap<i64, Value>| records.last_key_value().map_or(0, |(offset, _)| offset + 1);
        last(&self.acknowledged).max(last(&self.consumed))
    }

    /// What is known to be at `offset`.
    pub(super) fn known(&self, offset: i64) -> Option<Value> {
        self.acknowledged.get(&offset).or_else(|| self.consumed.get(&offset)).copied()
    }

    /// Everything that clients know to be committed and nobody has asked to delete, by offset.
    pub(super) fn everything_known(&self) -> BTreeMap<i64, Value> {
        let known = self.acknowledged.range(self.asked_to_delete..).chain(self.consumed.range(self.asked_to_delete..));
        known.map(|(offset, value)| (*offset, *value)).collect()
    }

    /// Whether everything that was acknowledged and that nobody has asked to delete was consumed, and all before it.
    pub(super) fn is_consumed(&self) -> bool {
        let (from, end) = (self.asked_to_delete, self.known_end());
        self.consumed.range(from..).count() as i64 >= end - from
            && self.acknowledged.range(from..).all(|(offset, _)| self.consumed.contains_key(offset))
    }

    /// The first offset of which it is not known that its producer is done with it: it may send that record again.
    pub(super) fn settled_end(&self) -> i64 {
        let unsettled = self.consumed.keys().find(|offset| !self.acknowledged.contains_key(offset));
        unsettled.copied().unwrap_or_else(|| self.known_end())
    }

    /// Whether `value` was ever sent.
    pub(super) fn was_sent(&self, value: Value) -> bool {
        self.sent.contains(&value)
    }
}

/// The oracle's memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    partitions: BTreeMap<i32, Seen>,
    next_value: Value,
    /// The first promise that was broken in a client's sight.
    broken: Option<String>,
    acknowledged: u64,
    /// Grants that whoever held them has begun to give back.
    given_back: BTreeSet<i64>,
    orders: Orders,
}

/// What those who operate the cluster had done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Times that records were deleted.
    pub deletions: u64,
    /// Reassignments that were accepted, or cancelled.
    pub moves: u64,
    /// Grants that were given.
    pub grants: u64,
}

impl Ledger {
    /// A value that nobody has sent yet, which is now.
    pub(super) fn send(&self, partition: i32) -> Value {
        let mut inner = self.inner.borrow_mut();
        inner.next_value += 1;
        let value = inner.next_value;
        inner.partitions.entry(partition).or_default().sent.insert(value);
        value
    }

    /// Values were acknowledged, the first of them at `base_offset`.
    pub(super) fn acknowledged(&self, partition: i32, base_offset: i64, values: &[Value]) {
        let mut inner = self.inner.borrow_mut();
        inner.acknowledged += values.len() as u64;
        let seen = inner.partitions.entry(partition).or_default();
        let mut broken = None;
        for (offset, value) in (base_offset..).zip(values) {
            if let Some(other) = seen.known(offset).filter(|other| other != value) {
                broken = Some(format!(
                    "acknowledged-stays: partition {partition}: value {value} was acknowledged at offset {offset}, where a \
                     client knows of {other}"
                ));
            }
            seen.acknowledged.insert(offset, *value);
        }
        drop(inner);
        if let Some(broken) = broken {
            self.break_promise(broken);
        }
    }

    /// A consumer was given `value` at `offset`.
    pub(super) fn consumed(&self, consumer: &str, partition: i32, offset: i64, value: Value) {
        let mut inner = self.inner.borrow_mut();
        let seen = inner.partitions.entry(partition).or_default();
        let broken = if !seen.was_sent(value) {
            Some(format!("consumed-was-sent: value {value}, which nobody has sent"))
        } else if let Some(other) = seen.known(offset).filter(|other| *other != value) {
            Some(format!("committed-never-changes: value {value}, where a client knows of {other}"))
        } else {
            let before = seen.offsets.insert(value, offset);
            before.filter(|before| *before != offset).map(|before| {
                format!("no-duplicates: value {value} of an idempotent producer, which is at offset {before} too")
            })
        };
        seen.consumed.insert(offset, value);
        drop(inner);
        if let Some(broken) = broken {
            self.break_promise(format!("{broken} ({consumer} at partition {partition}, offset {offset})"));
        }
    }

    /// A client saw what must not be.
    pub(super) fn break_promise(&self, what: String) {
        self.inner.borrow_mut().broken.get_or_insert(what);
    }

    /// The first promise that was broken in a client's sight.
    pub(super) fn broken(&self) -> Option<String> {
        self.inner.borrow().broken.clone()
    }

    /// Records that were acknowledged.
    pub(super) fn acknowledgements(&self) -> u64 {
        self.inner.borrow().acknowledged
    }

    /// Somebody asks to delete what is before `offset`.
    pub(super) fn ask_to_delete(&self, partition: i32, offset: i64) {
        let mut inner = self.inner.borrow_mut();
        let seen = inner.partitions.entry(partition).or_default();
        seen.asked_to_delete = seen.asked_to_delete.max(offset);
    }

    /// What is before `offset` is said to be deleted on all replicas that live.
    pub(super) fn deleted(&self, partition: i32, offset: i64) {
        let mut inner = self.inner.borrow_mut();
        inner.orders.deletions += 1;
        let seen = inner.partitions.entry(partition).or_default();
        seen.deleted = seen.deleted.max(offset);
    }

    /// A reassignment was accepted.
    pub(super) fn moved(&self) {
        self.inner.borrow_mut().orders.moves += 1;
    }

    /// A grant was given.
    pub(super) fn granted(&self) {
        self.inner.borrow_mut().orders.grants += 1;
    }

    /// Somebody begins to give a grant back.
    pub(super) fn give_back(&self, grant: i64) {
        self.inner.borrow_mut().given_back.insert(grant);
    }

    /// Whether a grant may have been given back.
    pub(super) fn may_be_given_back(&self, grant: i64) -> bool {
        self.inner.borrow().given_back.contains(&grant)
    }

    /// What those who operate the cluster had done.
    pub(super) fn orders(&self) -> Orders {
        self.inner.borrow().orders
    }

    /// Looks at one partition.
    pub(super) fn with<T>(&self, partition: i32, look: impl FnOnce(&Seen) -> T) -> T {
        let mut inner = self.inner.borrow_mut();
        look(inner.partitions.entry(partition).or_default())
    }
}
