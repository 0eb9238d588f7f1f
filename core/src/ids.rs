//! Identities that travel through every layer.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Offset of a record in a partition's log.
pub type Offset = i64;

/// Number of a partition within its topic, from 0.
pub type PartitionIndex = i32;

/// Generation of a partition's leadership; rises with every election. -1 = unknown (KIP-101).
pub type LeaderEpoch = i32;

/// Id that the controllers hand to an idempotent producer; -1 = none.
pub type ProducerId = i64;

/// Epoch of a producer id; -1 = none.
pub type ProducerEpoch = i16;

/// Number of a broker (`node.id` in Kafka).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerId(pub i32);

impl BrokerId {
    /// The id that stands for "no broker", for instance as the leader of an offline partition.
    pub const NONE: Self = Self(-1);
}

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A 16-byte identity, written as Kafka writes one: URL-safe base64 without padding, 22 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

/// Identity of one life of a topic: a topic that is deleted and created again gets another one (KIP-516).
pub type TopicId = Uuid;

/// Why a text is no [`Uuid`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseUuidError {
    /// It is something else.
    #[error("'{0}' is not an id: 22 characters of A-Z, a-z, 0-9, '-' and '_' are needed (URL-safe base64)")]
    NoId(String),
    /// It says more than 16 bytes: the lower four bits of the last character are not in use.
    #[error("'{0}' is not an id: the last of its 22 characters must be A, Q, g or w (URL-safe base64 of 16 bytes)")]
    UnusedBits(String),
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Characters of a 16-byte id in base64 without padding.
const UUID_CHARS: usize = 22;

impl Uuid {
    /// The id that stands for "none" on the wire.
    pub const ZERO: Self = Self([0; 16]);

    /// The id after all others.
    pub const MAX: Self = Self([0xff; 16]);

    /// Whether this is the id that stands for "none".
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// A random (version 4) id from 16 random bytes. As in Kafka, ids whose text would start with '-' are not made,
    /// because command lines would take them for a flag.
    pub fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        // The first character encodes the upper six bits of the first byte, and '-' is number 62.
        if bytes[0] >> 2 == 62 {
            bytes[0] &= 0x7f;
        }
        Self(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; UUID_CHARS];
        let number = u128::from_be_bytes(self.0);
        for (index, slot) in text.iter_mut().enumerate() {
            // 22 characters carry 132 bits: the number is read as if four zero bits followed it.
            let shift = 122_i32 - 6 * index as i32;
            let bits = if shift >= 0 { number >> shift } else { number << -shift };
            *slot = ALPHABET[(bits & 63) as usize];
        }
        f.pad(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        let refused = || ParseUuidError::NoId(text.chars().take(64).collect());
        if text.len() != UUID_CHARS {
            return Err(refused());
        }
        let mut number: u128 = 0;
        for (index, byte) in text.bytes().enumerate() {
            let value = ALPHABET.iter().position(|&c| c == byte).ok_or_else(refused)? as u128;
            let shift = 122_i32 - 6 * index as i32;
            if shift < 0 && value & 15 != 0 {
                return Err(ParseUuidError::UnusedBits(text.to_owned()));
            }
            number |= if shift >= 0 { value << shift } else { value >> -shift };
        }
        Ok(Self(number.to_be_bytes()))
    }
}

/// A partition by its topic's name. The name is shared, so cloning costs no allocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: PartitionIndex,
}

impl TopicPartition {
    /// A partition of a topic.
    pub fn new(topic: impl Into<Arc<str>>, partition: PartitionIndex) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_kafka_writes_them() {
        // Pairs printed by Kafka's own Uuid class.
        let cases: [([u8; 16], &str); 3] = [
            ([0; 16], "AAAAAAAAAAAAAAAAAAAAAA"),
            ([0xff; 16], "_____________________w"),
            ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], "AAECAwQFBgcICQoLDA0ODw"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Uuid(bytes).to_string(), text);
            assert_eq!(text.parse::<Uuid>(), Ok(Uuid(bytes)));
        }
    }

    #[test]
    fn texts_that_are_no_ids_are_refused() {
        for text in ["", "short", "AAAAAAAAAAAAAAAAAAAAA+", "AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAAAAAAAAAAAAAA"] {
            let error = text.parse::<Uuid>().unwrap_err();
            assert_eq!(matches!(error, ParseUuidError::UnusedBits(_)), text.ends_with('B'), "{error}");
        }
    }

    #[test]
    fn random_ids_never_start_with_a_dash() {
        for first in 0..=255 {
            let id = Uuid::from_random([first; 16]);
            assert!(!id.to_string().starts_with('-'), "{id}");
        }
    }
}
