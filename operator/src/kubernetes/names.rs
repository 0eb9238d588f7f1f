//! Names and labels of what belongs to a Cluster.
//!
//! They are an interface: dashboards, selectors of people's own and the chart know them. Names end in the node's id, which
//! may be any number, so that any node can go, come back or be built anew.

use std::collections::BTreeMap;
use std::fmt;

/// Who writes: the field manager of server-side apply, and what `app.kubernetes.io/managed-by` says.
pub const MANAGER: &str = "taffrail-operator";

/// Label that names the Cluster.
pub const CLUSTER_LABEL: &str = "taffrail.dev/cluster";

/// Label of a pod: the id of its node.
pub const ID_LABEL: &str = "taffrail.dev/id";

/// Label of a Service: the listener that it is for.
pub const LISTENER_LABEL: &str = "taffrail.dev/listener";

/// Label of a pod: hash of everything that needs a restart when it changes.
pub const REVISION_LABEL: &str = "taffrail.dev/revision";

/// Label of a ConfigMap that says which workload is parked for a reset of offsets.
pub const PARKED_LABEL: &str = "taffrail.dev/parked";

/// Annotation of a pod: the rack of the Kubernetes node that it is on.
pub const RACK_ANNOTATION: &str = "taffrail.dev/rack";

/// Annotation of a pod: the parts of its revision, as JSON, by which a change has a reason.
pub const PARTS_ANNOTATION: &str = "taffrail.dev/revision-parts";

/// Label that tells brokers from controllers.
pub const COMPONENT_LABEL: &str = "app.kubernetes.io/component";

/// Label that says who manages an object.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";

/// Label that says what an object is.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";

/// What the chart calls the pods of operators.
pub const OPERATOR: &str = "taffrail-operator";

/// Port that Kafka clients connect to.
pub const KAFKA_PORT: u16 = 9092;

/// Port of the controllers' gRPC services.
pub const CONTROLLER_PORT: u16 = 9093;

/// Port of metrics and health.
pub const METRICS_PORT: u16 = 9404;

/// Controllers that a cluster has at most; their ids are below it.
pub const CONTROLLERS_MAX: i32 = 5;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It keeps the metadata. Stands first: controllers are replaced before brokers.
    Controller,
    /// It keeps partitions.
    Broker,
}

impl Role {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Controller, Self::Broker];

    /// Its name in labels and names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Broker => "broker",
        }
    }

    /// The role of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A broker or controller by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// What it is.
    pub role: Role,
    /// Its number.
    pub id: i32,
}

impl Node {
    /// A broker.
    pub const fn broker(id: i32) -> Self {
        Self { role: Role::Broker, id }
    }

    /// A controller.
    pub const fn controller(id: i32) -> Self {
        Self { role: Role::Controller, id }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role.name(), self.id)
    }
}

/// The names of a Cluster's objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Names {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Its name.
    pub cluster: String,
}

impl Names {
    /// The names of the objects of this Cluster.
    pub fn new(namespace: impl Into<String>, cluster: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), cluster: cluster.into() }
    }

    /// A node's pod.
    pub fn pod(&self, node: Node) -> String {
        format!("{}-{}-{}", self.cluster, node.role.name(), node.id)
    }

    /// The claim of a node's disk.
    pub fn claim(&self, node: Node) -> String {
        format!("data-{}", self.pod(node))
    }

    /// The headless Service that gives the pods of a role their names.
    pub fn headless(&self, role: Role) -> String {
        format!("{}-{}s", self.cluster, role.name())
    }

    /// The Service that clients begin with.
    pub fn bootstrap(&self) -> String {
        format!("{}-bootstrap", self.cluster)
    }

    /// The Service by which clients of a listener reach a broker.
    pub fn listener(&self, id: i32, listener: &str) -> String {
        format!("{}-{listener}", self.pod(Node::broker(id)))
    }

    /// The ConfigMap that says which cluster this is.
    pub fn identity(&self) -> String {
        format!("{}-identity", self.cluster)
    }

    /// The Secret that all processes of the cluster share.
    pub fn trust(&self) -> String {
        format!("{}-trust", self.cluster)
    }

    /// The pods' ServiceAccount.
    pub fn account(&self) -> String {
        format!("{}-nodes", self.cluster)
    }

    /// The PodDisruptionBudget of a role.
    pub fn budget(&self, role: Role) -> String {
        self.headless(role)
    }

    /// The NetworkPolicy of a role.
    pub fn policy(&self, role: Role) -> String {
        self.headless(role)
    }

    /// Host under which a node is reached from within the Kubernetes cluster.
    pub fn host(&self, node: Node) -> String {
        format!("{}.{}.{}.svc", self.pod(node), self.headless(node.role), self.namespace)
    }

    /// Address of a controller, as the cluster knows it.
    pub fn controller_address(&self, id: i32) -> String {
        format!("{}:{CONTROLLER_PORT}", self.host(Node::controller(id)))
    }

    /// Labels of all that belongs to the Cluster.
    pub fn labels(&self) -> BTreeMap<String, String> {
        labels([
            (NAME_LABEL, "taffrail"),
            ("app.kubernetes.io/instance", &self.cluster),
            (MANAGED_BY_LABEL, MANAGER),
            (CLUSTER_LABEL, &self.cluster),
        ])
    }

    /// Labels of what belongs to one role.
    pub fn role_labels(&self, role: Role) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.insert(COMPONENT_LABEL.to_owned(), role.name().to_owned());
        labels
    }

    /// Labels that select the pods of a role. Never more than these: the selectors of Services and budgets outlive releases.
    pub fn selector(&self, role: Role) -> BTreeMap<String, String> {
        labels([(CLUSTER_LABEL, &*self.cluster), (COMPONENT_LABEL, role.name())])
    }
}

/// The node that these labels of a pod or claim name.
pub fn node_of(labels: &BTreeMap<String, String>) -> Option<Node> {
    let role = Role::from_name(labels.get(COMPONENT_LABEL)?)?;
    Some(Node { role, id: labels.get(ID_LABEL)?.parse().ok().filter(|id| *id >= 0)? })
}

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_dashboards_and_the_chart_know() {
        let names = Names::new("shop", "log");
        assert_eq!(names.pod(Node::broker(4)), "log-broker-4");
        assert_eq!(names.claim(Node::controller(0)), "data-log-controller-0");
        assert_eq!(names.host(Node::broker(4)), "log-broker-4.log-brokers.shop.svc");
        assert_eq!(names.controller_address(2), "log-controller-2.log-controllers.shop.svc:9093");
    }

    #[test]
    fn a_node_is_read_back_from_its_labels() {
        let names = Names::new("shop", "log");
        let mut labels = names.role_labels(Role::Broker);
        assert_eq!(node_of(&labels), None, "no id");
        for (id, node) in [("7", Some(Node::broker(7))), ("-1", None), ("x", None)] {
            labels.insert(ID_LABEL.to_owned(), id.to_owned());
            assert_eq!(node_of(&labels), node, "{id}");
        }
    }
}
