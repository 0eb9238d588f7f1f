//! The ConsumerGroup: known in full, not acted on yet.

use crate::crd::ConsumerGroup;
use crate::yaml::{Loaded, Problem};

/// Refuses every ConsumerGroup by name.
pub fn validate(groups: &[Loaded<ConsumerGroup>], problems: &mut Vec<Problem>) {
    for group in groups {
        problems.push(group.problem(&["kind"], "not acted on yet: take the ConsumerGroup out"));
    }
}
