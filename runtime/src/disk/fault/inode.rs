//! The two contents of a file: what the process sees, and what a power cut would leave.

use std::io;

use super::Rng;

/// A file of the fault disk.
pub(super) struct Inode {
    /// What the process sees.
    pub(super) current: Vec<u8>,
    /// When it was changed last.
    pub(super) modified_ms: i64,
    durable: Vec<u8>,
    unsynced: Vec<Edit>,
}

enum Edit {
    Write { position: u64, bytes: Vec<u8> },
    SetLen(u64),
}

impl Edit {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::SetLen(len) => content.resize(*len as usize, 0),
            Self::Write { position, bytes } => write_into(content, *position as usize, bytes),
        }
    }
}

fn write_into(content: &mut Vec<u8>, position: usize, bytes: &[u8]) {
    let end = position + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[position..end].copy_from_slice(bytes);
}

impl Inode {
    pub(super) fn new(now_ms: i64) -> Self {
        Self { current: Vec::new(), modified_ms: now_ms, durable: Vec::new(), unsynced: Vec::new() }
    }

    pub(super) fn write(&mut self, position: u64, bytes: Vec<u8>, now_ms: i64) {
        self.edit(Edit::Write { position, bytes }, now_ms);
    }

    pub(super) fn set_len(&mut self, len: u64, now_ms: i64) {
        self.edit(Edit::SetLen(len), now_ms);
    }

    fn edit(&mut self, edit: Edit, now_ms: i64) {
        edit.apply(&mut self.current);
        self.unsynced.push(edit);
        self.modified_ms = now_ms;
    }

    /// Makes everything durable.
    pub(super) fn sync(&mut self) {
        for edit in self.unsynced.drain(..) {
            edit.apply(&mut self.durable);
        }
    }

    /// What a failed sync does on Linux: the pages count as clean, though they never reached the medium.
    pub(super) fn forget_unsynced(&mut self) {
        self.unsynced.clear();
    }

    /// Keeps a random first part of the edits, the last of them torn.
    pub(super) fn crash(&mut self, rng: &mut Rng) {
        let kept = rng.below(self.unsynced.len() as u64 + 1) as usize;
        let torn = self.unsynced.drain(..).take(kept + 1);
        for (index, edit) in torn.enumerate() {
            match edit {
                Edit::Write { position, bytes } if index == kept => {
                    let part = rng.below(bytes.len() as u64 + 1) as usize;
                    if part > 0 {
                        write_into(&mut self.durable, position as usize, &bytes[..part]);
                    }
                }
                Edit::SetLen(_) if index == kept => {}
                whole => whole.apply(&mut self.durable),
            }
        }
        self.current.clone_from(&self.durable);
    }

    pub(super) fn flip(&mut self, position: usize, mask: u8) -> io::Result<()> {
        let byte = self.current.get_mut(position).ok_or(io::ErrorKind::UnexpectedEof)?;
        *byte ^= mask;
        if let Some(byte) = self.durable.get_mut(position) {
            *byte ^= mask;
        }
        Ok(())
    }
}
