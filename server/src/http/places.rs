//! A limited number of places for what may run at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places, shared by their clones.
#[derive(Clone)]
pub(crate) struct Places {
    free: Arc<AtomicUsize>,
}

/// A place that was taken; it is free again when this is dropped.
pub(crate) struct Place {
    free: Arc<AtomicUsize>,
}

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: Arc::new(AtomicUsize::new(count)) }
    }

    /// Takes a place; `None` if all are taken.
    pub(crate) fn take(&self) -> Option<Place> {
        let taken = self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(1));
        taken.ok().map(|_| Place { free: Arc::clone(&self.free) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.free.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_places_as_there_are_and_they_come_back() {
        let places = Places::new(2);
        let (first, _second) = (places.take(), places.take());
        assert!(first.is_some() && places.take().is_none());
        drop(first);
        assert!(places.take().is_some());
    }
}
