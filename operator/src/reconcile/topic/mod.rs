//! The Topic: its partitions and settings, from its creation to its end.

mod apply;
mod build;
mod fetch;
mod status;
mod validate;

pub use apply::{TopicResult, apply};
pub use build::{Action, ConfigChange, Stall, THROTTLED, TopicPlan, build, build_removed};
pub use fetch::{ObservedTopic, fetch, fetch_wanted, min_in_sync, orphans};
pub use status::status;
pub use validate::{ValidTopic, validate};
