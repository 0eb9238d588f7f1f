//! The schemas of the resources, made of the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use super::{Cluster, ConsumerGroup, Kind, Topic};

/// The CustomResourceDefinition of a kind as the API server takes it.
pub fn document(kind: Kind) -> Value {
    let definition: CustomResourceDefinition = match kind {
        Kind::Cluster => Cluster::crd(),
        Kind::Topic => Topic::crd(),
        Kind::ConsumerGroup => ConsumerGroup::crd(),
    };
    let mut document = serde_json::to_value(definition).unwrap_or_default();
    open(&mut document);
    // A setting without a value is none: a null would be stored, and say nothing.
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/config/properties";
    let settings = document.pointer_mut(path).and_then(Value::as_object_mut);
    for setting in settings.into_iter().flat_map(|settings| settings.values_mut()).filter_map(Value::as_object_mut) {
        setting.remove("nullable");
    }
    // kubectl explain has the words on these parts of Kubernetes; with them the schema would not fit into the annotation
    // that kubectl apply writes.
    for part in ["affinity", "tolerations"] {
        let path =
            format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/template/properties/{part}");
        if let Some(part) = document.pointer_mut(&path) {
            without_descriptions(part);
        }
    }
    document
}

/// The schema of `spec` of a kind.
pub fn spec_schema(kind: Kind) -> Value {
    document(kind)
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec")
        .map(Value::take)
        .unwrap_or_default()
}

/// Takes `additionalProperties: false` out, which the types' refusal of unknown fields puts in: in a structural schema it
/// may not stand beside `properties`, which close the object by themselves. Floats that stand for whole bounds become
/// whole numbers.
fn open(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("additionalProperties") == Some(&Value::Bool(false)) {
                map.remove("additionalProperties");
            }
            map.values_mut().for_each(open);
        }
        Value::Array(items) => items.iter_mut().for_each(open),
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0) {
                *value = (whole as i64).into();
            }
        }
        _ => {}
    }
}

fn without_descriptions(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("description").is_some_and(Value::is_string) {
                map.remove("description");
            }
            map.values_mut().for_each(without_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}
