//! Pieces that several resources share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reasons::Reason;

/// Which cluster a Topic or ConsumerGroup belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRef {
    /// Name of the Cluster.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Its namespace; this resource's own if absent. Another one must be allowed by the Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Whether we make it so, or only watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Management {
    /// The resource is made and kept as the spec says.
    #[default]
    Managed,
    /// The resource is only watched and reported.
    Observe,
}

/// What happens to the thing itself when its resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It stays, and is reported as an orphan.
    #[default]
    Retain,
    /// It is deleted, with its data.
    Delete,
}

/// Status of a [`Condition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be told.
    Unknown,
}

impl ConditionStatus {
    /// The word that Kubernetes has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Types of conditions. `Ready`, `Reconciling` and `Stalled` are the ones that kstatus reads, and with it kubectl wait,
/// Flux, Argo CD and Helm.
pub mod condition {
    /// The resource is as the spec says.
    pub const READY: &str = "Ready";
    /// Work is under way.
    pub const RECONCILING: &str = "Reconciling";
    /// Work cannot go on without somebody's help.
    pub const STALLED: &str = "Stalled";
    /// The topic differs from the spec.
    pub const DRIFTED: &str = "Drifted";
    /// A partition has fewer replicas in sync than its minimum.
    pub const UNDER_MIN_ISR: &str = "UnderMinIsr";
    /// Two resources claim the same thing.
    pub const CONFLICT: &str = "Conflict";
    /// A group's lag is large, lasts and does not shrink.
    pub const LAGGING: &str = "Lagging";
    /// There is an active controller.
    pub const QUORUM_HEALTHY: &str = "QuorumHealthy";
    /// A restart waits.
    pub const ROLLOUT_BLOCKED: &str = "RolloutBlocked";
    /// A node cannot leave.
    pub const SCALE_DOWN_BLOCKED: &str = "ScaleDownBlocked";
    /// The operator keeps its hands off.
    pub const PAUSED: &str = "Paused";
    /// A reset of a group's offsets waits.
    pub const RESET_BLOCKED: &str = "ResetBlocked";
    /// A reset of a group's offsets was done.
    pub const RESET_COMPLETE: &str = "ResetComplete";
}

/// A condition as Kubernetes writes it.
pub fn condition(
    type_: &str,
    status: ConditionStatus,
    reason: Reason,
    message: impl Into<String>,
    generation: Option<i64>,
    now: Time,
) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.name().to_owned(),
        reason: reason.name().to_owned(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: now,
    }
}

/// The conditions of a resource that cannot be acted on before somebody changes it.
pub fn not_acted_on(reason: Reason, message: &str, generation: Option<i64>, now: &Time) -> Vec<Condition> {
    let state = |type_, status| condition(type_, status, reason, message, generation, now.clone());
    vec![state(condition::READY, ConditionStatus::False), state(condition::STALLED, ConditionStatus::True)]
}

/// A text such as `1h30m` in milliseconds; `None` if it is not one, is zero, or is longer than there is time.
pub fn duration_ms(text: &str) -> Option<i64> {
    let (mut total, mut rest) = (0_i64, text);
    for (unit, unit_ms) in [('h', 3_600_000), ('m', 60_000), ('s', 1000)] {
        if let Some((number, after)) = rest.split_once(unit) {
            let number: u32 = number.parse().ok()?;
            total = total.checked_add(i64::from(number).checked_mul(unit_ms)?)?;
            rest = after;
        }
    }
    (rest.is_empty() && total > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read() {
        for (text, expected) in [
            ("5m", Some(300_000)),
            ("1h30m", Some(5_400_000)),
            ("1h2m3s", Some(3_723_000)),
            ("90s", Some(90_000)),
            ("0s", None),
            ("", None),
            ("5", None),
            ("m5", None),
            ("5s5m", None),
            ("99999999999h", None),
        ] {
            assert_eq!(duration_ms(text), expected, "{text}");
        }
    }
}
