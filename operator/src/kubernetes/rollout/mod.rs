//! The rollout planner: what is there in, the next safe step or the reason to wait out.
//!
//! It is a pure function, asked anew whenever something changes. Nothing is remembered between two steps: what is under way
//! is read back from the pods' revisions and from the grant in the metadata log, so that another operator goes on where
//! this one stopped, and a corrected spec counts at once.

mod consent;
mod plan;
mod view;
mod window;

pub use consent::Consent;
pub use plan::{Block, Rule, Step, plan, plan_stop};
pub use view::{BrokerView, GrantView, Health, Lagging, PodView, QuorumView, View, health};
pub use window::Window;
