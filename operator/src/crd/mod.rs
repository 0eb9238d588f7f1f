//! The three resources, written once.
//!
//! `Cluster`, `Topic` and `ConsumerGroup` of `taffrail.dev/v1alpha1`: the Kubernetes schemas in `crds/` are generated
//! from these types, and the files that `taffrail up` and `taffrail validate` read are checked against the very same
//! schemas. Which fields a platform acts on is [`crate::reconcile`]'s to say.

pub mod cluster;
pub mod cluster_status;
pub mod consumer_group;
pub mod parts;
pub mod reasons;
pub mod settings;
pub mod topic;

mod quantities;
mod schema;

pub use cluster::{Cluster, ClusterSpec};
pub use cluster_status::ClusterStatus;
pub use consumer_group::{ConsumerGroup, ConsumerGroupSpec, ConsumerGroupStatus};
pub use schema::{document, spec_schema};
pub use topic::{Topic, TopicSpec, TopicStatus};

/// API group of the resources.
pub const GROUP: &str = "taffrail.dev";

/// Version of the API group.
pub const VERSION: &str = "v1alpha1";

/// What resources say in `apiVersion`.
pub const API_VERSION: &str = "taffrail.dev/v1alpha1";

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Brokers and controllers that belong together.
    Cluster,
    /// A topic of a cluster.
    Topic,
    /// A consumer group of a cluster.
    ConsumerGroup,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Topic, Self::ConsumerGroup];

    /// What resources say in `kind`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Topic => "Topic",
            Self::ConsumerGroup => "ConsumerGroup",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
