//! Setting offsets, and how that came out.

use taffrail_client::groups::GroupsError;
use taffrail_core::errors::ErrorCode;

use super::build::{Blocked, Change, GroupPlan, InitialPlan, ResetPlan};
use super::fetch::ObservedGroup;
use super::validate::ValidGroup;
use crate::crd::reasons::Reason;
use crate::platform::groups::GroupAdmin;

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// There was nothing to do.
    Nothing,
    /// Offsets were set now.
    Set(Change),
    /// The coordinator knows this reset already: somebody did it, and did not live to report it.
    Known(String),
    /// The reset waits.
    Blocked(Blocked),
    /// Offsets that the group begins with were set now.
    Begun(Change),
    /// They are to be set, and cannot be yet.
    NotBegun(Blocked),
}

impl Applied {
    /// Whether it waits for something, so that it should be looked at again soon.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Self::Blocked(_) | Self::NotBegun(_))
    }
}

/// Does what the plan says. The coordinator has the last word on whether the group is empty and the reset is a new one:
/// what was seen before may be over.
///
/// # Errors
/// When it cannot be done now, or nobody knows whether it was done; the next pass sees.
pub async fn apply(
    valid: &ValidGroup,
    plan: &GroupPlan,
    observed: &ObservedGroup,
    groups: &mut impl GroupAdmin,
) -> Result<Applied, GroupsError> {
    let change = match &plan.reset {
        ResetPlan::Set(change) => change,
        // What there is to begin with, the next pass resets.
        ResetPlan::Blocked(_) if matches!(plan.initial, InitialPlan::Set(_)) => {
            return begin(valid, &plan.initial, observed, groups).await;
        }
        ResetPlan::Blocked(blocked) => return Ok(Applied::Blocked(blocked.clone())),
        ResetPlan::None | ResetPlan::Done { .. } | ResetPlan::Report(_) => {
            return begin(valid, &plan.initial, observed, groups).await;
        }
    };
    match groups.reset(&valid.id, &change.id, &observed.resets, &change.after).await {
        Ok(()) => Ok(Applied::Set(change.clone())),
        Err(error) => match error.refusal() {
            Some(ErrorCode::DuplicateResource) => Ok(Applied::Known(change.id.clone())),
            Some(ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration | ErrorCode::RebalanceInProgress) => {
                let message = "a member came while the reset was worked out: stop it, and the reset is done at once";
                Ok(Applied::Blocked(Blocked::new(Reason::GroupActive, message)))
            }
            Some(ErrorCode::UnknownTopicOrPartition) => {
                let message = "a topic went while the reset was worked out; nothing is reset";
                Ok(Applied::Blocked(Blocked::new(Reason::UnknownTopic, message)))
            }
            _ => Err(error),
        },
    }
}

/// Sets the offsets that a group begins with. The coordinator keeps their id as that of a reset, so that a group whose
/// members went again, or whose offsets somebody deleted, is not begun a second time.
async fn begin(
    valid: &ValidGroup,
    plan: &InitialPlan,
    observed: &ObservedGroup,
    groups: &mut impl GroupAdmin,
) -> Result<Applied, GroupsError> {
    let change = match plan {
        InitialPlan::None => return Ok(Applied::Nothing),
        InitialPlan::Blocked(blocked) => return Ok(Applied::NotBegun(blocked.clone())),
        InitialPlan::Set(change) => change,
    };
    match groups.reset(&valid.id, &change.id, &observed.resets, &change.after).await {
        Ok(()) => Ok(Applied::Begun(change.clone())),
        Err(error) => match error.refusal() {
            // It has begun by itself, or somebody else did it.
            Some(
                ErrorCode::DuplicateResource
                | ErrorCode::UnknownMemberId
                | ErrorCode::IllegalGeneration
                | ErrorCode::RebalanceInProgress,
            ) => Ok(Applied::Nothing),
            Some(ErrorCode::UnknownTopicOrPartition) => {
                let message = "a topic went while the offsets were worked out";
                Ok(Applied::NotBegun(Blocked::new(Reason::UnknownTopic, message)))
            }
            _ => Err(error),
        },
    }
}
