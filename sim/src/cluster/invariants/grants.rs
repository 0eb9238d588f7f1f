//! The permission to take brokers down: it is given only where every partition keeps its minimum in sync without them, and to
//! one at a time.

use std::sync::Arc;

use taffrail_core::event::Grant;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;

use super::{Invariant, View};
use crate::cluster::clients::{GRANT_MS, MIN_IN_SYNC};

#[derive(Default)]
pub(super) struct Grants {
    /// The one that was open last.
    last: Option<Arc<Grant>>,
}

impl Invariant for Grants {
    fn name(&self) -> &'static str {
        "grants-are-safe"
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        for (_, image) in &view.images {
            // At the very moment at which it was given; brokers may fail by themselves right after it.
            if let Some(grant) = image.grant().filter(|grant| grant.id == image.offset()) {
                check_minimum(image, grant)?;
            }
        }
        let Some(grant) = view.newest.grant() else { return Ok(()) };
        if let Some(before) = self.last.replace(Arc::clone(grant)).filter(|before| before.id != grant.id) {
            // By the clock of the controllers, which are set in runs as they please.
            let given_ms = grant.expires_ms - GRANT_MS;
            if before.is_open(given_ms) && !view.ledger.may_be_given_back(before.id) {
                return Err(format!("{grant:?} is given while {before:?} is open"));
            }
        }
        Ok(())
    }
}

/// Refuses a grant without whose brokers a partition would have less than its minimum in sync.
fn check_minimum(image: &MetadataImage, grant: &Grant) -> Result<(), String> {
    for topic in image.topics().iter() {
        for (partition, state) in topic.numbered() {
            let settled = state.replicas.iter().filter(|id| !state.adding.contains(id)).count();
            let minimum = MIN_IN_SYNC.min(settled).max(1);
            let (going, staying): (Vec<BrokerId>, Vec<BrokerId>) =
                state.isr.iter().partition(|id| grant.brokers.contains(id));
            if !going.is_empty() && staying.len() < minimum {
                let (name, isr) = (&topic.name, &state.isr);
                return Err(format!(
                    "{grant:?} is given, and {name}-{partition} has {isr:?} in sync of which {minimum} must stay"
                ));
            }
        }
    }
    Ok(())
}
