//! The ConsumerGroup: its offsets set where asked, once for each request, and its lag reported.
//!
//! That a request is carried out once is not known here but by the group's coordinator, which keeps its id beside the
//! offsets that it set ([`taffrail_core::group::RESET_MARKER`]).

mod apply;
mod build;
mod fetch;
mod lag;
mod status;
mod validate;

pub use apply::{Applied, apply};
pub use build::{Blocked, GroupPlan, ResetPlan, build};
pub use fetch::{ObservedGroup, fetch};
pub use lag::{LagWatch, Lagging, Objective};
pub use status::status;
pub use validate::{Target, ValidGroup, ValidReset, group_id, validate};

use crate::crd::ConsumerGroup;
use crate::yaml::{Loaded, Problem};

/// Refuses every ConsumerGroup of a file by name: `taffrail up` does not act on them yet.
pub fn refuse(groups: &[Loaded<ConsumerGroup>], problems: &mut Vec<Problem>) {
    for group in groups {
        problems.push(group.problem(&["kind"], "not acted on yet: take the ConsumerGroup out"));
    }
}
