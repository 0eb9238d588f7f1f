//! Whoever has applied the metadata up to some offset has the same metadata as everybody else who has.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};

use taffrail_protocol::persisted::metadata::encode_snapshot;

use super::{Invariant, View};

#[derive(Default)]
pub(super) struct ImagesAgree {
    /// Who had the metadata up to an offset first, and what they were.
    digests: BTreeMap<i64, (String, u64)>,
    /// Up to where each one was looked at.
    looked_at: BTreeMap<String, i64>,
}

impl Invariant for ImagesAgree {
    fn name(&self) -> &'static str {
        "images-agree"
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        for (name, image) in &view.images {
            let offset = image.offset();
            if self.looked_at.insert(name.clone(), offset) == Some(offset) {
                continue;
            }
            let mut hasher = foldhash::quality::FixedState::default().build_hasher();
            hasher.write(&encode_snapshot(image));
            let digest = hasher.finish();
            let (first, expected) = self.digests.entry(offset).or_insert_with(|| (name.clone(), digest));
            if *expected != digest {
                return Err(format!("up to offset {offset}, {name} has other metadata than {first} had"));
            }
        }
        Ok(())
    }
}
