//! The rights that the operator needs: what the chart's Role is checked against.

use serde_json::{Value, json};

const READ: [&str; 3] = ["get", "list", "watch"];

const WRITE: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// The rules of the Role in each namespace that is watched.
pub fn rules() -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    vec![
        rule("taffrail.dev", &["clusters", "topics", "consumergroups"], &READ),
        rule("taffrail.dev", &["clusters/status", "topics/status", "consumergroups/status"], &["get", "patch"]),
        // To name a Cluster as the owner of objects, where the API server asks for it.
        rule("taffrail.dev", &["clusters/finalizers"], &["update"]),
        rule("", &["pods", "persistentvolumeclaims", "services", "configmaps", "serviceaccounts"], &WRITE),
        // Never listed: the operator reads the Secrets of its Clusters by name.
        rule("", &["secrets"], &["get", "create"]),
        // To park what consumes while its group's offsets are reset, where a ConsumerGroup asks for it.
        rule("apps", &["deployments/scale", "statefulsets/scale"], &["get", "patch"]),
        rule("policy", &["poddisruptionbudgets"], &WRITE),
        rule("networking.k8s.io", &["networkpolicies"], &WRITE),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ]
}

/// The rules of the Role in the operator's own namespace, beside those: the election, and the resources that `--apply`
/// creates.
pub fn own_rules() -> Vec<Value> {
    vec![
        json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"] }),
        json!({ "apiGroups": ["taffrail.dev"], "resources": ["clusters", "topics"], "verbs": ["create"] }),
    ]
}
