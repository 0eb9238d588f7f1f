//! NetworkPolicies: who may reach which port of a role's pods, where the network enforces them.

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::owned;
use crate::kubernetes::names::{CLUSTER_LABEL, CONTROLLER_PORT, KAFKA_PORT, METRICS_PORT, NAME_LABEL, OPERATOR, Role};
use crate::kubernetes::wanted::Wanted;

/// The policy of a role. Clients and whoever reads metrics may be anywhere; controllers are for the cluster itself and for
/// operators, wherever those run. Nothing is said about where pods may connect to.
pub fn policy(wanted: &Wanted, role: Role) -> NetworkPolicy {
    let names = &wanted.names;
    let own = match role {
        Role::Broker => {
            let further = wanted.listeners.iter().map(|listener| listener.port);
            rule(std::iter::once(KAFKA_PORT).chain(further), None)
        }
        Role::Controller => {
            let cluster = NetworkPolicyPeer {
                pod_selector: Some(labelled(CLUSTER_LABEL, &names.cluster)),
                ..NetworkPolicyPeer::default()
            };
            let operators = NetworkPolicyPeer {
                namespace_selector: Some(LabelSelector::default()),
                pod_selector: Some(labelled(NAME_LABEL, OPERATOR)),
                ..NetworkPolicyPeer::default()
            };
            rule([CONTROLLER_PORT], Some(vec![cluster, operators]))
        }
    };
    NetworkPolicy {
        metadata: owned(wanted, names.policy(role), names.role_labels(role)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector { match_labels: Some(names.selector(role)), ..LabelSelector::default() }),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![own, rule([METRICS_PORT], None)]),
            ..NetworkPolicySpec::default()
        }),
    }
}

fn rule(ports: impl IntoIterator<Item = u16>, from: Option<Vec<NetworkPolicyPeer>>) -> NetworkPolicyIngressRule {
    let port = |port: u16| NetworkPolicyPort {
        port: Some(IntOrString::Int(i32::from(port))),
        protocol: Some("TCP".to_owned()),
        ..NetworkPolicyPort::default()
    };
    NetworkPolicyIngressRule { from, ports: Some(ports.into_iter().map(port).collect()) }
}

fn labelled(name: &str, value: &str) -> LabelSelector {
    LabelSelector { match_labels: Some([(name.to_owned(), value.to_owned())].into()), ..LabelSelector::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::crd::Cluster;
    use crate::kubernetes::wanted;

    fn ingress(role: Role) -> Value {
        let mut cluster = Cluster::new("log", serde_json::from_str("{}").unwrap());
        cluster.metadata.namespace = Some("shop".to_owned());
        let policy = policy(&wanted::validate(&cluster).unwrap(), role);
        serde_json::to_value(policy).unwrap()["spec"]["ingress"].take()
    }

    #[test]
    fn clients_may_come_from_anywhere_and_only_the_cluster_and_operators_reach_controllers() {
        let metrics = json!({"ports": [{"port": 9404, "protocol": "TCP"}]});
        let kafka = json!({"ports": [{"port": 9092, "protocol": "TCP"}]});
        assert_eq!(ingress(Role::Broker), json!([kafka, metrics]));
        let from = json!([
            {"podSelector": {"matchLabels": {"taffrail.dev/cluster": "log"}}},
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "taffrail-operator"}}},
        ]);
        let grpc = json!({"from": from, "ports": [{"port": 9093, "protocol": "TCP"}]});
        assert_eq!(ingress(Role::Controller), json!([grpc, metrics]));
    }
}
