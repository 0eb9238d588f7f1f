//! Quantities as people write them: `cpu: 1` is as good as `cpu: "1"`.
//!
//! The API server stores what was written, and the types of Kubernetes take texts only: without this one such number would
//! keep the operator from reading any Cluster at all.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads something that has quantities and no other numbers in it, with numbers taken as the texts that they are written as.
pub(super) fn read<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let mut value = Value::deserialize(deserializer)?;
    numbers_to_texts(&mut value);
    serde_json::from_value(value).map_err(D::Error::custom)
}

fn numbers_to_texts(value: &mut Value) {
    match value {
        Value::Number(number) => *value = number.to_string().into(),
        Value::Object(map) => map.values_mut().for_each(numbers_to_texts),
        Value::Array(items) => items.iter_mut().for_each(numbers_to_texts),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::crd::ClusterSpec;

    #[test]
    fn quantities_may_be_numbers() {
        let text = r#"{"brokers":{"storage":{"size":1073741824},"resources":{"limits":{"cpu":1,"memory":"1Gi"},"requests":{"cpu":0.5}}},
                       "controllers":{"resources":{"limits":{"cpu":2}},"storage":{"size":null,"volumes":[{"id":0,"size":5}]}}}"#;
        let spec: ClusterSpec = serde_json::from_str(text).unwrap();
        let broker = spec.brokers.resources.unwrap();
        assert_eq!(
            (broker.limits.unwrap()["cpu"].0.as_str(), broker.requests.unwrap()["cpu"].0.as_str()),
            ("1", "0.5")
        );
        assert_eq!(spec.brokers.storage.unwrap().size.unwrap().0, "1073741824");
        assert_eq!(spec.controllers.resources.unwrap().limits.unwrap()["cpu"].0, "2");
        let storage = spec.controllers.storage.unwrap();
        assert_eq!((storage.size, storage.volumes[0].size.0.as_str()), (None, "5"));
    }
}
