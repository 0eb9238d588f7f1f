//! Claims: the nodes' disks.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{kept, owned};
use crate::kubernetes::names::{ID_LABEL, Node};
use crate::kubernetes::quantity;
use crate::kubernetes::wanted::Wanted;

/// The claim of a node's disk.
pub fn claim(wanted: &Wanted, node: Node) -> PersistentVolumeClaim {
    let (names, disk) = (&wanted.names, wanted.disk(node.role));
    let mut labels = names.role_labels(node.role);
    labels.insert(ID_LABEL.to_owned(), node.id.to_string());
    let metadata =
        if disk.retained { kept(names, names.claim(node), labels) } else { owned(wanted, names.claim(node), labels) };
    let requests = [("storage".to_owned(), Quantity(disk.size.clone()))];
    PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: disk.class.clone(),
            resources: Some(VolumeResourceRequirements { requests: Some(requests.into()), ..Default::default() }),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// Whether a claim asks for less than the Cluster does. A disk that somebody made larger by hand is left alone: it cannot
/// shrink.
pub fn is_grown(present: &PersistentVolumeClaim, wanted: &PersistentVolumeClaim) -> bool {
    let size = |claim: &PersistentVolumeClaim| {
        let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
        quantity::bytes(&requests.get("storage")?.0)
    };
    size(present) < size(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_size(size: &str) -> PersistentVolumeClaim {
        let requests = [("storage".to_owned(), Quantity(size.to_owned()))];
        let resources = VolumeResourceRequirements { requests: Some(requests.into()), ..Default::default() };
        PersistentVolumeClaim {
            spec: Some(PersistentVolumeClaimSpec { resources: Some(resources), ..Default::default() }),
            ..PersistentVolumeClaim::default()
        }
    }

    #[test]
    fn disks_grow_and_never_shrink() {
        for (present, wanted, grows) in
            [("1Gi", "2Gi", true), ("2Gi", "1Gi", false), ("1Gi", "1024Mi", false), ("1G", "1Gi", true)]
        {
            assert_eq!(is_grown(&of_size(present), &of_size(wanted)), grows, "{present} -> {wanted}");
        }
    }
}
