//! Doing it.

use taffrail_core::control::{AlterConfigs, Command, ConfigAlteration, ConfigChanges, Reply};
use taffrail_core::event::ConfigResource;

use super::ClusterPlan;
use crate::platform::{Platform, PlatformError};
use crate::reconcile::topic::ConfigChange;

/// Carries the plan out.
///
/// # Errors
/// What the controllers refuse, or that they cannot be reached.
pub async fn apply(plan: &ClusterPlan, platform: &impl Platform) -> Result<(), PlatformError> {
    if plan.changes.is_empty() {
        return Ok(());
    }
    let changes = ConfigChanges::Incremental(plan.changes.iter().map(ConfigChange::to_operation).collect());
    let resource = ConfigResource::broker_default();
    let request = AlterConfigs { resources: vec![ConfigAlteration { resource, changes }], validate_only: false };
    match platform.propose(Command::AlterConfigs(request)).await? {
        Reply::ConfigsAltered(altered) => {
            altered.into_iter().try_for_each(|altered| altered.outcome).map_err(PlatformError::Refused)
        }
        _ => Err(PlatformError::UnexpectedReply("AlterConfigs")),
    }
}
