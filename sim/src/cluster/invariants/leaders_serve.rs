//! Whoever leads by the metadata is registered and not fenced: clients are sent to nobody who does not serve.

use super::{Invariant, View, named, partitions};

#[derive(Default)]
pub(super) struct LeadersServe;

impl Invariant for LeadersServe {
    fn name(&self) -> &'static str {
        "leaders-serve"
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        for (name, image) in &view.images {
            for ((_, partition), state) in partitions(image).into_iter().filter(|(_, state)| state.has_leader()) {
                if !image.is_active(state.leader) {
                    let (partition, leader) = (named(partition), state.leader);
                    return Err(format!(
                        "{partition} is led by {leader} says {name}, which is fenced or not registered"
                    ));
                }
            }
        }
        Ok(())
    }
}
