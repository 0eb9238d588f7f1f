//! PodDisruptionBudgets: how many pods node drains may take.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::owned;
use crate::kubernetes::names::Role;
use crate::kubernetes::wanted::Wanted;

/// The budget of a role: `available` of its pods have to stay. It is a number that stays, not one that may go: for the
/// latter Kubernetes would ask the pods' owner how many there are, and both roles have the same owner, or none.
pub fn budget(wanted: &Wanted, role: Role, available: i32) -> PodDisruptionBudget {
    let names = &wanted.names;
    PodDisruptionBudget {
        metadata: owned(wanted, names.budget(role), names.role_labels(role)),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(available)),
            selector: Some(LabelSelector { match_labels: Some(names.selector(role)), ..LabelSelector::default() }),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
