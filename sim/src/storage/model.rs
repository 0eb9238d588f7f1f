//! What must be in the log.

/// A record as the model remembers it; its offset is its place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) timestamp: i64,
    /// Tells records apart: no two have the same.
    pub(super) number: u64,
    /// Its sequence, if an idempotent producer wrote it.
    pub(super) sequence: Option<i32>,
}

/// The plain list that the log is compared with.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// All records ever appended and not cut off, by offset; those before the log's start are kept too.
    pub(super) entries: Vec<Entry>,
    /// Records before this offset were on disk when somebody was told so.
    pub(super) flushed: i64,
    /// Records before this offset were deleted, and somebody was told so.
    pub(super) floor: i64,
}

impl Model {
    pub(super) fn end(&self) -> i64 {
        self.entries.len() as i64
    }

    /// Offset and sequence of the last record of the idempotent producer.
    pub(super) fn last_sequence(&self) -> Option<(i64, i32)> {
        let numbered = self.entries.iter().enumerate().rev();
        numbered.filter_map(|(offset, entry)| Some((offset as i64, entry.sequence?))).next()
    }

    /// After a reopening, the log ends at `end`; what was behind it is gone.
    pub(super) fn cut(&mut self, end: i64) {
        self.entries.truncate(end as usize);
        self.flushed = self.flushed.min(end);
    }
}
