//! What a Cluster is made of: pure functions from what is wanted to the objects that are.

mod budget;
mod pod;
mod policy;
mod services;
mod storage;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

pub use budget::{budget, must_stay};
pub use pod::pod;
pub use policy::policy;
pub use services::{bootstrap, headless, of_listeners};
pub use storage::{claim, is_grown};

use super::names::{Names, Role};
use super::wanted::Wanted;
use crate::crd;

/// Key of the Secret that all processes of a cluster share.
pub const TRUST_KEY: &str = "secret";

/// The Cluster as the owner of what goes with it; nobody where it is protected from deletion.
fn owner(wanted: &Wanted) -> Option<Vec<OwnerReference>> {
    let owner = OwnerReference {
        api_version: crd::API_VERSION.to_owned(),
        kind: crd::Kind::Cluster.name().to_owned(),
        name: wanted.names.cluster.clone(),
        uid: wanted.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    };
    (!wanted.protected).then(|| vec![owner])
}

/// Metadata of an object that goes with the Cluster.
fn owned(wanted: &Wanted, name: String, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta { owner_references: owner(wanted), ..kept(&wanted.names, name, labels) }
}

/// Metadata of an object that outlives the Cluster.
fn kept(names: &Names, name: String, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(names.namespace.clone()),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}

/// Metadata of the ConfigMap and the Secret that belong to the controllers' disks: they stay where those stay.
pub fn beside_disks(wanted: &Wanted, name: String) -> ObjectMeta {
    let labels = wanted.names.labels();
    if wanted.disk(Role::Controller).retained { kept(&wanted.names, name, labels) } else { owned(wanted, name, labels) }
}

/// The Secret that all processes of the cluster share.
pub fn trust(wanted: &Wanted, secret: &str) -> Secret {
    let data = [(TRUST_KEY.to_owned(), ByteString(secret.as_bytes().to_vec()))];
    Secret {
        metadata: beside_disks(wanted, wanted.names.trust()),
        type_: Some("Opaque".to_owned()),
        data: Some(data.into()),
        ..Secret::default()
    }
}

/// The pods' ServiceAccount, which has no rights and gives no token.
pub fn account(wanted: &Wanted) -> ServiceAccount {
    ServiceAccount {
        metadata: owned(wanted, wanted.names.account(), wanted.names.labels()),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}
