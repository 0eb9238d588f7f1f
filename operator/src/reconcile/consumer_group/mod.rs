//! The ConsumerGroup: its offsets set where asked, once for each request, and its lag reported.
//!
//! That a request is carried out once is not known here but by the group's coordinator, which keeps its id beside the
//! offsets that it set ([`taffrail_core::group::RESET_MARKER`]).

mod apply;
mod build;
mod fetch;
mod files;
mod lag;
mod lookout;
mod status;
mod validate;

use std::time::Duration;

pub use apply::{Applied, apply};
pub use build::{Blocked, GroupPlan, InitialPlan, ResetPlan, build};
pub use fetch::{ObservedGroup, fetch};
pub use files::validate_files;
pub use lag::{LagWatch, Lagging, Objective};
pub use lookout::{Look, Lookout, Removal, remove};
pub use status::{status, unreachable};
pub use validate::{Flaw, INITIAL_ID, Target, ValidGroup, ValidReset, Workload, WorkloadKind, group_id, validate};

/// How often groups are looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(20);

/// The same while one waits for something that may be over soon.
pub const LOOK_EVERY_BUSY: Duration = Duration::from_secs(2);

/// How long a broker may take for an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
