//! From what resources say to what the cluster does.
//!
//! Each kind is reconciled in four steps of their own: **fetch** reads what is there, **validate** turns the raw spec into
//! one that makes sense (nothing raw passes it), **build** compares both and says what to do as a value, **apply** does
//! it. Validate and build are pure, so what would be done can be shown, tested and explained without doing it.

pub mod acted;
pub mod cluster;
pub mod consumer_group;
pub mod topic;

use std::collections::BTreeMap;

use crate::yaml::{Problem, Problems, Resources};

/// All resources, validated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// The cluster, if a resource describes it.
    pub cluster: Option<cluster::ValidCluster>,
    /// Topics, by name of the topic.
    pub topics: BTreeMap<String, topic::ValidTopic>,
    /// Consumer groups, by id of the group.
    pub groups: BTreeMap<String, consumer_group::ValidGroup>,
}

/// Turns resources into what is wanted, for a platform that runs one cluster.
///
/// # Errors
/// Everything that does not make sense, or that nothing acts on yet.
pub fn validate(resources: &Resources) -> Result<Desired, Problems> {
    let mut problems: Vec<Problem> = acted::refused(resources);
    let cluster = cluster::validate(&resources.clusters, &mut problems);
    let topics = topic::validate(&resources.topics, cluster.as_ref(), &mut problems);
    let groups = consumer_group::validate_files(&resources.groups, cluster.as_ref(), &mut problems);
    if problems.is_empty() { Ok(Desired { cluster, topics, groups }) } else { Err(Problems(problems)) }
}
