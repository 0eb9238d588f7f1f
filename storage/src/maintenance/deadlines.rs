//! What is due at which time.

use std::collections::BTreeMap;

/// Things that wait for their time; those of the same time keep their order.
#[derive(Debug)]
pub(super) struct Deadlines<T> {
    waiting: BTreeMap<(i64, u64), T>,
    next: u64,
}

impl<T> Default for Deadlines<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), next: 0 }
    }
}

impl<T> Deadlines<T> {
    /// Lets `thing` wait until `due_ms`.
    pub(super) fn push(&mut self, due_ms: i64, thing: T) {
        self.waiting.insert((due_ms, self.next), thing);
        self.next += 1;
    }

    /// When the next thing is due.
    pub(super) fn next_ms(&self) -> Option<i64> {
        self.waiting.first_key_value().map(|((due_ms, _), _)| *due_ms)
    }

    /// The next thing whose time has come.
    pub(super) fn pop(&mut self, now_ms: i64) -> Option<T> {
        let entry = self.waiting.first_entry()?;
        (entry.key().0 <= now_ms).then(|| entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_in_the_order_of_their_times() {
        let mut deadlines = Deadlines::default();
        for (due_ms, thing) in [(30, 'c'), (10, 'a'), (i64::MAX, 'z'), (10, 'b')] {
            deadlines.push(due_ms, thing);
        }
        assert_eq!((deadlines.next_ms(), deadlines.pop(9)), (Some(10), None));
        let popped: String = std::iter::from_fn(|| deadlines.pop(30)).collect();
        assert_eq!(popped, "abc");
    }
}
