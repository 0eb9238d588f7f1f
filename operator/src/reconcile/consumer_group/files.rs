//! ConsumerGroups that are written in files, for the one process of `taffrail up`.

use std::collections::BTreeMap;

use taffrail_core::config;

use super::validate::{ValidGroup, group_id, validate};
use crate::crd::ConsumerGroup;
use crate::crd::parts::Management;
use crate::reconcile::cluster::ValidCluster;
use crate::yaml::{Loaded, Origin, Problem};

/// The groups of these resources, by id. `cluster` = the one that they have to name, if there is one.
pub fn validate_files(
    groups: &[Loaded<ConsumerGroup>],
    cluster: Option<&ValidCluster>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, ValidGroup> {
    let mut valid: BTreeMap<String, (ValidGroup, &Origin)> = BTreeMap::new();
    let cluster = cluster.map(|cluster| cluster.name.as_str()).or_else(|| {
        // Without a Cluster among the resources, all groups must name the same one.
        groups.first().map(|group| group.resource.spec.cluster_ref.name.as_str())
    });
    for group in groups {
        let (spec, id) = (&group.resource.spec, group_id(&group.resource));
        let before = problems.len();
        let field: &[&str] = if spec.group_id.is_some() { &["spec", "groupId"] } else { &["metadata", "name"] };
        if let Some((_, first)) = valid.get(&id) {
            let message = format!("the group {id} has a resource already, at {}:{}", first.file, first.place.line);
            problems.push(group.problem(field, message));
        }
        if let Some(cluster) = cluster.filter(|cluster| *cluster != spec.cluster_ref.name) {
            let hint = config::hint(&spec.cluster_ref.name, [cluster]);
            let message = format!("there is no Cluster {}{hint}", spec.cluster_ref.name);
            problems.push(group.problem(&["spec", "clusterRef", "name"], message));
        }
        let flaw = |field: &str, message: String| group.problem(&field.split('.').collect::<Vec<_>>(), message);
        match validate(&group.resource) {
            Err(flaws) => problems.extend(flaws.into_iter().map(|found| flaw(found.field, found.message))),
            // On Kubernetes that is a condition: there a schema cannot see both fields at once.
            Ok(found) if asks_in_vain(&found) => {
                let message = "management: Observe only watches; to set offsets, say management: Managed".to_owned();
                problems.push(flaw("spec.reset", message));
            }
            Ok(found) if found.reset.as_ref().is_some_and(|reset| reset.park.is_some()) => {
                let message = "Park: there are no workloads outside of Kubernetes; say Refuse".to_owned();
                problems.push(flaw("spec.reset.ifActive", message));
            }
            Ok(found) if problems.len() == before => drop(valid.insert(id, (found, &group.origin))),
            Ok(_) => {}
        }
    }
    valid.into_iter().map(|(id, (group, _))| (id, group)).collect()
}

/// Whether offsets are to be set by a resource that only watches.
fn asks_in_vain(group: &ValidGroup) -> bool {
    group.management == Management::Observe && group.reset.as_ref().is_some_and(|reset| !reset.dry_run)
}
