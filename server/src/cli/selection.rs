//! Partitions as people name them: `orders`, or some of it as in `orders:0,2`.

use std::str::FromStr;

use taffrail_client::kafka::{KafkaClient, KafkaError, PartitionKey};

/// A topic, or some of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(super) topic: String,
    /// Numbers of partitions; all without them.
    pub(super) partitions: Vec<i32>,
}

/// Why a text is none.
#[derive(Debug, thiserror::Error)]
#[error("numbers of partitions are needed after the colon, such as orders:0,2")]
pub(crate) struct NoSelection;

impl FromStr for Selection {
    type Err = NoSelection;

    fn from_str(text: &str) -> Result<Self, NoSelection> {
        let Some((topic, numbers)) = text.split_once(':') else {
            return Ok(Self { topic: text.to_owned(), partitions: Vec::new() });
        };
        let numbers = numbers.split(',').map(str::parse).collect::<Result<Vec<i32>, _>>();
        Ok(Self { topic: topic.to_owned(), partitions: numbers.map_err(|_| NoSelection)? })
    }
}

/// The partitions that are meant, each once.
///
/// # Errors
/// When one of them is not there.
pub(super) async fn select(client: &mut KafkaClient, wanted: &[Selection]) -> Result<Vec<PartitionKey>, KafkaError> {
    let mut partitions = Vec::new();
    for selection in wanted {
        partitions.extend(client.partitions(&selection.topic, &selection.partitions).await?);
    }
    partitions.sort_unstable();
    partitions.dedup();
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_with_their_partitions() {
        let read = |text: &str| text.parse::<Selection>().map(|it| (it.topic, it.partitions));
        assert_eq!(read("orders").unwrap(), ("orders".to_owned(), vec![]));
        assert_eq!(read("orders:0,2").unwrap(), ("orders".to_owned(), vec![0, 2]));
        for wrong in ["orders:", "orders:x", "orders:1,,2"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
