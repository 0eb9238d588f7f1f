//! PodDisruptionBudgets: how many pods node drains may take.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::owned;
use crate::kubernetes::names::Role;
use crate::kubernetes::rollout::{BrokerView, View};
use crate::kubernetes::wanted::Wanted;

/// Pods of a role that have to stay, of `nodes`. Of brokers one may go, and none while anything is not as it should be: then
/// what a drain took away would come on top. Controllers keep a majority.
pub fn must_stay(role: Role, nodes: usize, view: &View) -> usize {
    let is_at_rest = match role {
        Role::Broker => {
            let all_well = |broker: &BrokerView| broker.serves && broker.in_sync;
            view.grant.is_none() && view.brokers.as_ref().is_some_and(|brokers| brokers.values().all(all_well))
        }
        Role::Controller => view.quorum.as_ref().is_some_and(|quorum| quorum.voters.values().all(|has_all| *has_all)),
    };
    // A lone node would hold up every drain for good: it may go, as nothing can be done to spare it.
    if nodes > 1 && !is_at_rest { nodes } else { nodes.saturating_sub(1) }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::rollout::{GrantView, QuorumView};

    fn view(brokers: &[(bool, bool)]) -> View {
        let broker = |(id, (serves, in_sync)): (usize, &(bool, bool))| {
            (id as i32, BrokerView { serves: *serves, in_sync: *in_sync })
        };
        View { brokers: Some(brokers.iter().enumerate().map(broker).collect()), ..View::default() }
    }

    #[test]
    fn one_broker_may_go_at_rest_and_none_otherwise() {
        let well = view(&[(true, true); 3]);
        assert_eq!(must_stay(Role::Broker, 3, &well), 2);
        assert_eq!(must_stay(Role::Broker, 3, &view(&[(true, true), (true, false), (true, true)])), 3);
        assert_eq!(must_stay(Role::Broker, 3, &view(&[(true, true), (false, true), (true, true)])), 3);
        let grant = Some(GrantView { id: 1, brokers: [2].into() });
        assert_eq!(must_stay(Role::Broker, 3, &View { grant, ..well }), 3);
        assert_eq!(must_stay(Role::Broker, 3, &View::default()), 3, "the metadata are not known");
        assert_eq!(must_stay(Role::Broker, 1, &View::default()), 0, "a lone broker holds no drain up");
    }

    #[test]
    fn controllers_keep_a_majority() {
        let quorum =
            |voters: &[(i32, bool)]| Some(QuorumView { active: Some(0), voters: voters.iter().copied().collect() });
        let with = |voters: &[(i32, bool)]| View { quorum: quorum(voters), ..View::default() };
        assert_eq!(must_stay(Role::Controller, 3, &with(&[(0, true), (1, true), (2, true)])), 2);
        assert_eq!(must_stay(Role::Controller, 3, &with(&[(0, true), (1, false), (2, true)])), 3);
        assert_eq!(must_stay(Role::Controller, 3, &View::default()), 3);
    }
}
