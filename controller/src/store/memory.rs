//! A backend in memory: for tests and `--ephemeral`.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::{Mark, MetaStore, StoreError};

/// Keeps everything until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<u64, Vec<u8>>,
    marks: BTreeMap<Mark, Vec<u8>>,
}

impl MetaStore for MemoryStore {
    fn append(&self, entries: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
        self.state.lock().entries.extend(entries.iter().cloned());
        Ok(())
    }

    fn truncate(&self, index: u64) -> Result<(), StoreError> {
        drop(self.state.lock().entries.split_off(&index));
        Ok(())
    }

    fn purge(&self, index: u64) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        state.entries = state.entries.split_off(&index.saturating_add(1));
        Ok(())
    }

    fn read(&self, first: u64, end: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let state = self.state.lock();
        Ok(state.entries.range(first..end.max(first)).map(|(index, value)| (*index, value.clone())).collect())
    }

    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError> {
        let state = self.state.lock();
        let (first, last) = (state.entries.keys().next(), state.entries.keys().next_back());
        Ok(first.copied().zip(last.copied()))
    }

    fn put(&self, mark: Mark, value: &[u8]) -> Result<(), StoreError> {
        self.state.lock().marks.insert(mark, value.to_vec());
        Ok(())
    }

    fn get(&self, mark: Mark) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state.lock().marks.get(&mark).cloned())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
