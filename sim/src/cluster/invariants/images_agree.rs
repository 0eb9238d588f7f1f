//! Whoever has applied the metadata up to some offset has the same metadata as everybody else who has, and so has whoever
//! takes them from a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use taffrail_core::image::MetadataImage;
use taffrail_protocol::persisted::metadata::{decode_snapshot, encode_snapshot};

use super::{Invariant, View};

#[derive(Default)]
pub(super) struct ImagesAgree {
    /// Who had the metadata up to an offset first, and what they were.
    first: BTreeMap<i64, (String, Arc<MetadataImage>)>,
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
            if let Some((first, expected)) = self.first.get(&offset) {
                if image != expected {
                    return Err(format!("up to offset {offset}, {name} has other metadata than {first} had"));
                }
                continue;
            }
            let copy = decode_snapshot(&encode_snapshot(image)).map_err(|error| error.to_string())?;
            if copy != **image {
                return Err(format!("up to offset {offset}, a snapshot of {name} has other metadata than it has"));
            }
            self.first.insert(offset, (name.clone(), Arc::clone(image)));
        }
        Ok(())
    }
}
