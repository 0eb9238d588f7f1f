//! Writes to the Kubernetes API: server-side apply under one field manager, deletes with a precondition.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Node as Machine;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::names::MANAGER;
use crate::reconcile::consumer_group::{Workload, WorkloadKind};

/// An object of Kubernetes that lives in a namespace.
pub trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// What the API server says no to, or why it did not answer.
#[derive(Debug, thiserror::Error)]
#[error("{action} {kind} {name}: {}", told(.source))]
pub struct ApiError {
    action: &'static str,
    kind: String,
    name: String,
    source: Box<kube::Error>,
}

/// What the server said, without the envelope.
fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// HTTP status of what is there already, or was changed meanwhile.
const CONFLICT: u16 = 409;

/// HTTP status of what is not there.
const NOT_FOUND: u16 = 404;

impl ApiError {
    fn of<K: Namespaced>(action: &'static str, name: &str, error: kube::Error) -> Self {
        Self { action, kind: K::kind(&()).into_owned(), name: name.to_owned(), source: Box::new(error) }
    }

    /// Whether somebody else changed the object meanwhile: the next pass sees it.
    pub fn is_conflict(&self) -> bool {
        has_code(&self.source, CONFLICT)
    }

    /// Whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        has_code(&self.source, NOT_FOUND)
    }
}

fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// The API server, as the reconcilers write to it.
#[derive(Clone)]
pub struct Kube {
    client: Client,
}

impl Kube {
    /// Writes through `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The objects of one kind in a namespace.
    pub fn api<K: Namespaced>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn api_of<K: Namespaced>(&self, object: &K) -> Api<K> {
        self.api(&object.namespace().unwrap_or_default())
    }

    /// Reads an object from the server itself.
    ///
    /// # Errors
    /// Anything but that it is not there.
    pub async fn get<K: Namespaced>(&self, namespace: &str, name: &str) -> Result<Option<K>, ApiError> {
        self.api::<K>(namespace).get_opt(name).await.map_err(|error| ApiError::of::<K>("get", name, error))
    }

    /// Creates an object; `None` if there is one of that name already.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn create<K: Namespaced>(&self, object: &K) -> Result<Option<K>, ApiError> {
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match self.api_of(object).create(&parameters, object).await {
            Ok(created) => Ok(Some(created)),
            Err(error) if has_code(&error, CONFLICT) => Ok(None),
            Err(error) => Err(ApiError::of::<K>("create", &object.name_any(), error)),
        }
    }

    /// Makes an object as given in all fields that are given, whoever set them before.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn apply<K: Namespaced>(&self, object: &K) -> Result<K, ApiError> {
        let name = object.name_any();
        let parameters = PatchParams::apply(MANAGER).force();
        let applied = self.api_of(object).patch(&name, &parameters, &Patch::Apply(object)).await;
        applied.map_err(|error| ApiError::of::<K>("apply", &name, error))
    }

    /// Deletes this very object, not a later one of the same name. That it is gone already, or is another one by now, is no
    /// error: the next pass sees what there is.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn delete<K: Namespaced>(&self, object: &K) -> Result<(), ApiError> {
        let name = object.name_any();
        let only_this = Preconditions { uid: object.uid(), ..Preconditions::default() };
        match self.api_of(object).delete(&name, &DeleteParams::default().preconditions(only_this)).await {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, NOT_FOUND) || has_code(&error, CONFLICT) => Ok(()),
            Err(error) => Err(ApiError::of::<K>("delete", &name, error)),
        }
    }

    /// A label of a Kubernetes node; `None` if there is no such node, or it does not have it.
    ///
    /// # Errors
    /// That Nodes may not be read, or anything else.
    pub async fn label_of_node(&self, node: &str, label: &str) -> Result<Option<String>, ApiError> {
        let found = Api::<Machine>::all(self.client.clone()).get_opt(node).await;
        let found = found.map_err(|source| ApiError {
            action: "get",
            kind: Machine::kind(&()).into_owned(),
            name: node.to_owned(),
            source: Box::new(source),
        })?;
        Ok(found.and_then(|node| node.labels().get(label).cloned()))
    }

    /// Writes an annotation of this very object.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn annotate<K: Namespaced>(&self, object: &K, annotation: &str, value: &str) -> Result<K, ApiError> {
        let name = object.name_any();
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patch = json!({ "metadata": { "uid": object.uid(), "annotations": { annotation: value } } });
        let patched = self.api_of(object).patch(&name, &parameters, &Patch::Merge(patch)).await;
        patched.map_err(|error| ApiError::of::<K>("annotate", &name, error))
    }

    /// Replicas that a workload is to have; `None` if it is not there.
    ///
    /// # Errors
    /// Anything but that.
    pub async fn replicas(&self, namespace: &str, workload: &Workload) -> Result<Option<i32>, ApiError> {
        match workload.kind {
            WorkloadKind::Deployment => self.replicas_of::<Deployment>(namespace, &workload.name).await,
            WorkloadKind::StatefulSet => self.replicas_of::<StatefulSet>(namespace, &workload.name).await,
        }
    }

    async fn replicas_of<K: Namespaced>(&self, namespace: &str, name: &str) -> Result<Option<i32>, ApiError> {
        match self.api::<K>(namespace).get_scale(name).await {
            // The server leaves out a zero.
            Ok(scale) => Ok(Some(scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))),
            Err(error) if has_code(&error, NOT_FOUND) => Ok(None),
            Err(error) => Err(ApiError::of::<K>("look at the scale of", name, error)),
        }
    }

    /// Scales a workload.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn set_replicas(&self, namespace: &str, workload: &Workload, replicas: i32) -> Result<(), ApiError> {
        match workload.kind {
            WorkloadKind::Deployment => self.scale::<Deployment>(namespace, &workload.name, replicas).await,
            WorkloadKind::StatefulSet => self.scale::<StatefulSet>(namespace, &workload.name, replicas).await,
        }
    }

    async fn scale<K: Namespaced>(&self, namespace: &str, name: &str, replicas: i32) -> Result<(), ApiError> {
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let scaled = self.api::<K>(namespace).patch_scale(name, &parameters, &patch).await;
        scaled.map(drop).map_err(|error| ApiError::of::<K>("scale", name, error))
    }

    /// Reports: the whole status of an object.
    ///
    /// # Errors
    /// What the server says against it; that the object is gone is no error.
    pub async fn report<K: Namespaced>(&self, object: &K, status: &impl Serialize) -> Result<(), ApiError> {
        let name = object.name_any();
        let mut report: Value = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            // Not one that was created under the same name meanwhile.
            "metadata": { "name": name, "uid": object.uid() },
            "status": status,
        });
        without_nulls(&mut report);
        let parameters = PatchParams::apply(MANAGER).force();
        match self.api_of(object).patch_status(&name, &parameters, &Patch::Apply(&report)).await {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, NOT_FOUND) || has_code(&error, CONFLICT) => Ok(()),
            Err(error) => Err(ApiError::of::<K>("report on", &name, error)),
        }
    }
}

/// Takes out what says nothing: a column of kubectl shows an absent field as empty, and a null as `<no value>`.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Whether `present` is all that `wanted` says. What the server or others have put in besides does not count, so that an
/// object that is as it should be is not written again.
pub fn covers(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            let is_empty = wanted.is_null() || wanted.as_object().is_some_and(serde_json::Map::is_empty);
            present.get(key).map_or(is_empty, |present| covers(present, wanted))
        }),
        (Value::Array(present), Value::Array(wanted)) => {
            present.len() == wanted.len() && present.iter().zip(wanted).all(|(present, wanted)| covers(present, wanted))
        }
        _ => present == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_adds_is_no_difference() {
        for (present, wanted, expected) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!({"a": 1}), json!({"b": 1}), false),
            (json!({"ports": [{"port": 1, "nodePort": 30000}]}), json!({"ports": [{"port": 1}]}), true),
            (json!({"ports": [{"port": 1}, {"port": 2}]}), json!({"ports": [{"port": 1}]}), false),
            (json!({}), json!({"labels": {}}), true),
        ] {
            assert_eq!(covers(&present, &wanted), expected, "{present} covers {wanted}");
        }
    }
}
