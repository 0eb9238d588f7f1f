//! Which cluster the disks of a Cluster belong to, and whether it is founded yet.
//!
//! It is written once, before the first pod, and outlives pods, operator and, with retained disks, the Cluster resource.
//! Pods read the grant to found the cluster from here when a container starts: once the cluster is founded the grant is
//! taken away here, without touching a pod, so that disks that were lost later never found it again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use taffrail_core::ids::Uuid;

use super::names::{CONTROLLERS_MAX, Names};

/// Key of the cluster's id.
pub const CLUSTER_ID: &str = "cluster-id";

/// Key of the image that the cluster was created with.
const IMAGE: &str = "image";

/// Key of the ids of the controllers that found the cluster.
const FOUNDERS: &str = "founders";

/// Key of the grant to found the cluster: `true` or `false`.
pub const BOOTSTRAP: &str = "bootstrap";

/// Key of the addresses of the controllers.
pub const CONTROLLERS: &str = "controllers";

/// Key of the identity of the resource that the cluster was created for.
const RESOURCE: &str = "resource-uid";

/// Which cluster this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its id.
    pub cluster_id: Uuid,
    /// Image that its pods have when the resource names none. Written down, so that an operator of another release rolls
    /// nothing.
    pub image: String,
    /// Controllers that found it.
    pub founders: Vec<i32>,
    /// Whether it is founded: there is no grant any more.
    pub founded: bool,
    /// The resource that it was created for.
    pub resource_uid: String,
}

/// Why an identity cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the ConfigMap {name} has no sound {key}: restore it, the cluster's disks belong to the id in it")]
pub struct IdentityError {
    name: String,
    key: &'static str,
}

impl Identity {
    /// A cluster that is to be founded by `controllers` controllers.
    pub fn new(cluster_id: Uuid, image: &str, controllers: i32, resource_uid: &str) -> Self {
        let founders = (0..controllers).collect();
        let (image, resource_uid) = (image.to_owned(), resource_uid.to_owned());
        Self { cluster_id, image, founders, founded: false, resource_uid }
    }

    /// Reads it back.
    ///
    /// # Errors
    /// When a part is missing or is not what it should be: nothing is guessed about whose disks these are.
    pub fn read(map: &ConfigMap) -> Result<Self, IdentityError> {
        let name = map.metadata.name.clone().unwrap_or_default();
        let damaged = |key| IdentityError { name: name.clone(), key };
        let get = |key: &'static str| {
            let value = map.data.as_ref().and_then(|data| data.get(key));
            value.filter(|value| !value.is_empty()).ok_or_else(|| damaged(key))
        };
        let ids = get(FOUNDERS)?.split(',').map(|id| id.parse().ok()).collect::<Option<Vec<i32>>>();
        Ok(Self {
            cluster_id: get(CLUSTER_ID)?.parse().map_err(|_| damaged(CLUSTER_ID))?,
            image: get(IMAGE)?.clone(),
            founders: ids.ok_or_else(|| damaged(FOUNDERS))?,
            founded: match get(BOOTSTRAP)?.as_str() {
                "true" => false,
                "false" => true,
                _ => return Err(damaged(BOOTSTRAP)),
            },
            resource_uid: get(RESOURCE)?.clone(),
        })
    }

    /// Addresses that controllers are started with. Those who found the cluster are told of each other and of nobody else:
    /// all of them have to answer. Later the list has every controller that there can ever be, so that it never changes.
    pub fn controllers(&self, names: &Names) -> Vec<String> {
        let ids: Vec<i32> = if self.founded { (0..CONTROLLERS_MAX).collect() } else { self.founders.clone() };
        ids.into_iter().map(|id| names.controller_address(id)).collect()
    }

    /// The ConfigMap that keeps it.
    pub fn to_config_map(&self, names: &Names, metadata: ObjectMeta) -> ConfigMap {
        let founders: Vec<String> = self.founders.iter().map(ToString::to_string).collect();
        let data = [
            (CLUSTER_ID, self.cluster_id.to_string()),
            (IMAGE, self.image.clone()),
            (FOUNDERS, founders.join(",")),
            (BOOTSTRAP, (!self.founded).to_string()),
            (CONTROLLERS, self.controllers(names).join(",")),
            (RESOURCE, self.resource_uid.clone()),
        ];
        let data: BTreeMap<String, String> = data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity::new(Uuid([7; 16]), "image:1", 3, "uid")
    }

    fn map(identity: &Identity) -> ConfigMap {
        identity.to_config_map(&Names::new("shop", "log"), ObjectMeta::default())
    }

    #[test]
    fn it_is_read_back_as_it_was_written() {
        for founded in [false, true] {
            let identity = Identity { founded, ..identity() };
            assert_eq!(Identity::read(&map(&identity)), Ok(identity));
        }
    }

    #[test]
    fn founders_know_each_other_and_later_ones_all_that_there_can_be() {
        let names = Names::new("shop", "log");
        assert_eq!(identity().controllers(&names).len(), 3);
        assert_eq!(Identity { founded: true, ..identity() }.controllers(&names).len(), 5);
    }

    #[test]
    fn nothing_is_guessed_where_a_part_is_missing() {
        for key in [CLUSTER_ID, IMAGE, FOUNDERS, BOOTSTRAP, RESOURCE] {
            for value in [None, Some(""), Some("?")] {
                let mut map = map(&identity());
                let data = map.data.as_mut().unwrap();
                match value {
                    None => drop(data.remove(key)),
                    Some(value) => drop(data.insert(key.to_owned(), value.to_owned())),
                }
                let is_text = matches!((key, value), (IMAGE | RESOURCE, Some("?")));
                assert_eq!(Identity::read(&map).is_ok(), is_text, "{key}: {value:?}");
            }
        }
    }
}
