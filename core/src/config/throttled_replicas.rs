//! Which replicas of a topic are throttled (KIP-73).

use std::sync::Arc;

use super::typed::FromSetting;
use super::validate::list_items;
use crate::ids::{BrokerId, PartitionIndex};

/// Replicas of a topic whose replication is throttled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ThrottledReplicas {
    /// None.
    #[default]
    None,
    /// Every one.
    All,
    /// These, as pairs of partition and broker, in order.
    Some(Arc<[(PartitionIndex, BrokerId)]>),
}

impl ThrottledReplicas {
    /// Whether the replica of `partition` on `broker` is one of them.
    pub fn contains(&self, partition: PartitionIndex, broker: BrokerId) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Some(replicas) => replicas.binary_search(&(partition, broker)).is_ok(),
        }
    }
}

impl FromSetting for ThrottledReplicas {
    fn from_setting(text: Option<&str>) -> Option<Self> {
        let text = text?.trim();
        if text == "*" {
            return Some(Self::All);
        }
        let pair = |item: &str| {
            let (partition, broker) = item.split_once(':')?;
            // A number that none can have names no replica; what is no number was refused before.
            Some((partition.parse().unwrap_or(PartitionIndex::MAX), BrokerId(broker.parse().unwrap_or(i32::MAX))))
        };
        let mut replicas: Vec<_> = list_items(text).map(pair).collect::<Option<_>>()?;
        replicas.sort_unstable();
        Some(if replicas.is_empty() { Self::None } else { Self::Some(replicas.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_named_by_partition_and_broker() {
        let contains = |text| {
            let replicas = ThrottledReplicas::from_setting(Some(text)).unwrap();
            [(0, 1), (1, 1), (1, 2)].map(|(partition, broker)| replicas.contains(partition, BrokerId(broker)))
        };
        assert_eq!(contains(""), [false, false, false]);
        assert_eq!(contains(" * "), [true, true, true]);
        assert_eq!(contains("1:2, 0:1"), [true, false, true]);
        assert_eq!(contains("1:99999999999,99999999999:1,0:1"), [true, false, false]);
    }
}
