//! The newest offset of each key, within a bound of memory.

use taffrail_core::collections::HashMap;
use taffrail_core::ids::Offset;

/// Bytes that an entry takes besides its key: the pointer to the key, the offset, and the table's own.
const ENTRY_BYTES: usize = 48;

/// The newest offset of each key.
pub(super) struct KeyMap {
    offsets: HashMap<Box<[u8]>, Offset>,
    bytes: usize,
    bytes_max: usize,
}

impl KeyMap {
    /// An empty map that takes at most about `bytes_max`.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { offsets: HashMap::default(), bytes: 0, bytes_max }
    }

    /// Notes that `key` has a record at `offset`, which is later than all before; false when there is no room for the
    /// key. The first key always has room, so that every pass gets somewhere.
    pub(super) fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        if let Some(newest) = self.offsets.get_mut(key) {
            *newest = offset;
            return true;
        }
        let bytes = key.len() + ENTRY_BYTES;
        if self.bytes + bytes > self.bytes_max && !self.offsets.is_empty() {
            return false;
        }
        self.bytes += bytes;
        self.offsets.insert(key.into(), offset);
        true
    }

    /// Whether a record is the newest of its key, as far as the map knows.
    pub(super) fn is_newest(&self, key: &[u8], offset: Offset) -> bool {
        self.offsets.get(key).is_none_or(|&newest| offset >= newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_offset_counts_and_memory_is_bounded() {
        let mut map = KeyMap::new(3 * (ENTRY_BYTES + 1));
        for (key, offset) in [(b"a", 1), (b"b", 2), (b"a", 3), (b"c", 4)] {
            assert!(map.put(key, offset));
        }
        assert!(!map.put(b"d", 5), "there is room for three");
        assert!(map.put(b"a", 6), "known keys always have room");
        for (key, offset, is_newest) in [(b"a", 3, false), (b"a", 6, true), (b"b", 2, true), (b"d", 0, true)] {
            assert_eq!(map.is_newest(key, offset), is_newest, "{key:?} {offset}");
        }
        assert!(KeyMap::new(0).put(&[0; 1000], 1), "the first key always has room");
    }
}
