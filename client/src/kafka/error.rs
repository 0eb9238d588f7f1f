//! Why a call to a broker gave nothing.

use taffrail_core::errors::ErrorCode;
use taffrail_core::record::{BatchError, BuildError, RecordError};

use super::connection::ConnectionError;

/// Why a call to a cluster failed.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// None of the addresses that were given leads to a broker.
    #[error("no broker answers at {addresses}")]
    Unreachable {
        /// The addresses.
        addresses: String,
        /// What happened at the last of them.
        source: ConnectionError,
    },
    /// The broker that was asked first is of no use, or no version of a request.
    #[error("the cluster cannot be asked")]
    Unusable(#[source] ConnectionError),
    /// A connection broke, or what came over it makes no sense.
    #[error("broker {broker}")]
    Broker {
        /// Number of the broker.
        broker: i32,
        /// What happened.
        source: ConnectionError,
    },
    /// The cluster does not name a broker that it refers to.
    #[error("the cluster does not say where broker {0} is")]
    UnknownBroker(i32),
    /// A broker refuses.
    #[error("{what}: {text} ({})", .code.name())]
    Refused {
        /// What was asked for.
        what: String,
        /// Kafka's code.
        code: ErrorCode,
        /// The broker's words, or Kafka's for the code.
        text: String,
    },
    /// An answer says nothing of what was asked for.
    #[error("{0}: the broker's answer does not mention it")]
    NotAnswered(String),
    /// A batch cannot be read.
    #[error("{topic}-{partition} at offset {offset}")]
    Damaged {
        /// Name of the topic.
        topic: String,
        /// Number of the partition.
        partition: i32,
        /// Where the batch is.
        offset: i64,
        /// What is wrong with it.
        source: DamageError,
    },
    /// A record cannot be written.
    #[error("a record for {topic} cannot be written")]
    Unwritable {
        /// Name of the topic.
        topic: String,
        /// What is wrong with it.
        source: BuildError,
    },
    /// There is no partition of that number.
    #[error("{topic} has no partition {partition}: it has {count}")]
    NoPartition {
        /// Name of the topic.
        topic: String,
        /// Number that was asked for.
        partition: i32,
        /// How many there are.
        count: usize,
    },
}

/// What is wrong with a batch that came.
#[derive(Debug, thiserror::Error)]
pub enum DamageError {
    /// Its header, or its checksum.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// One of its records.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl KafkaError {
    /// Nobody leads a partition.
    pub(super) fn leaderless(topic: &str, partition: i32) -> Self {
        let text = "Nobody leads this partition now.".to_owned();
        Self::Refused { what: format!("{topic}-{partition}"), code: ErrorCode::LeaderNotAvailable, text }
    }

    /// Kafka's code, if a broker refused with one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the same may succeed a little later, by other brokers perhaps.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused { code, .. } => code.is_retriable(),
            Self::Broker { source, .. } => !matches!(
                source,
                ConnectionError::Decode(_) | ConnectionError::Encode(_) | ConnectionError::Versions { .. }
            ),
            Self::UnknownBroker(_) => true,
            _ => false,
        }
    }
}

/// Whether a code in an answer is none; `text` is what the broker says about it, if it says anything.
///
/// # Errors
/// The refusal of `what`.
pub(super) fn check(what: impl Into<String>, code: i16, text: Option<&str>) -> Result<(), KafkaError> {
    let code = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
    if code == ErrorCode::None {
        return Ok(());
    }
    let text = text.filter(|text| !text.is_empty()).unwrap_or_else(|| code.message()).to_owned();
    Err(KafkaError::Refused { what: what.into(), code, text })
}
