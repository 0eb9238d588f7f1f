//! The shape guard: walks a body before it is decoded and refuses what would cost memory out of proportion.
//!
//! The codec crate reserves memory for as many elements as a message claims to have, so five bytes can ask for hundreds
//! of gigabytes. The guard knows the fields of every message ([`requests`], [`responses`]), allocates nothing itself, and
//! makes sure that
//! - every count and length is covered by bytes that are there,
//! - no array and no list of tagged fields is longer than Kafka 4.4 allows,
//! - what the decoded structs will occupy stays within [`MEMORY_PER_BYTE`] times the body plus [`MEMORY_FLOOR_BYTES`].
//!
//! Whether values make sense (UTF-8, nulls) is left to the decoder. Nesting is bounded by the messages' own fields.

mod cluster_responses;
mod requests;
mod responses;
mod sample;
mod shape;
#[cfg(test)]
mod tests;

use bytes::Bytes;

pub use self::sample::sample;
use self::shape::{Field, Kind, Shape};
use crate::versions::ApiKey;
use crate::wire::{Reader, WireError};

/// Most elements of one array, as in Kafka 4.4.
pub const ARRAY_ELEMENTS_MAX: usize = 1_000_000;

/// Most tagged fields of one structure, as in Kafka 4.4.
pub const TAGGED_FIELDS_MAX: usize = 10_000;

/// Bytes of decoded structs that a byte of a message may cost.
pub const MEMORY_PER_BYTE: usize = 4;

/// Bytes of decoded structs that any message may cost, however short it is.
pub const MEMORY_FLOOR_BYTES: usize = 4 * 1024 * 1024;

/// Bytes that the first unknown tagged field of a structure costs: a node of the map it is kept in.
const UNKNOWN_TAG_NODE_BYTES: usize = 512;

/// Bytes that each unknown tagged field costs besides.
const UNKNOWN_TAG_BYTES: usize = 64;

/// Whether a message is asked or answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From client to broker.
    Request,
    /// From broker to client.
    Response,
}

/// Why a body must not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A count or length is not covered by the bytes that are there, or is broken.
    #[error("field {field}: {error}")]
    Broken {
        /// Name of the field, in Kafka's spelling for the wire.
        field: &'static str,
        /// What is wrong.
        error: WireError,
    },
    /// An array is longer than any that is served.
    #[error("field {field} has {count} elements, more than {ARRAY_ELEMENTS_MAX}")]
    TooManyElements {
        /// Name of the field.
        field: &'static str,
        /// Elements that it claims.
        count: usize,
    },
    /// A structure has more tagged fields than any that is served.
    #[error("{count} tagged fields, more than {TAGGED_FIELDS_MAX}")]
    TooManyTaggedFields {
        /// Tagged fields that it claims.
        count: usize,
    },
    /// A tagged field has a number of more than 31 bits, or one that belongs to another version. Kafka refuses the latter
    /// too.
    #[error("tag {tag} is not allowed here")]
    Tag {
        /// Number of the tagged field.
        tag: u32,
    },
    /// A tagged field has another size than its value.
    #[error("tagged field {field} has {actual} bytes, not {claimed}")]
    TaggedFieldSize {
        /// Name of the field.
        field: &'static str,
        /// Size in front of it.
        claimed: usize,
        /// Size of its value.
        actual: usize,
    },
    /// Decoded, the message would be too large in proportion to its bytes.
    #[error("field {field}: decoding {body_bytes} bytes would take more than {limit_bytes} bytes of memory")]
    TooMuchMemory {
        /// Name of the field at which the limit was passed.
        field: &'static str,
        /// Size of the body.
        body_bytes: usize,
        /// The limit for it.
        limit_bytes: usize,
    },
}

/// Checks the shape of a body. Bytes after the message are not looked at.
pub fn check(key: ApiKey, direction: Direction, version: i16, body: &Bytes) -> Result<(), ShapeError> {
    let flexible = key.is_flexible(version);
    let limit_bytes = body.len().saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_FLOOR_BYTES);
    let mut walk = Walk { reader: Reader::new(body, flexible), flexible, version, memory_bytes: 0, limit_bytes };
    walk.fields(shape_of(key, direction))
}

/// The fields of a message.
fn shape_of(key: ApiKey, direction: Direction) -> Shape {
    match direction {
        Direction::Request => requests::shape(key),
        Direction::Response => responses::shape(key),
    }
}

/// One pass over a body.
struct Walk<'a> {
    reader: Reader<'a>,
    flexible: bool,
    version: i16,
    memory_bytes: usize,
    limit_bytes: usize,
}

impl Walk<'_> {
    /// Passes over the fields of a structure, then over its tagged fields.
    fn fields(&mut self, fields: &'static [Field]) -> Result<(), ShapeError> {
        for field in fields {
            if field.tag.is_none() && field.is_in(self.version) {
                self.value(field.name, &field.kind)?;
            }
        }
        if self.flexible { self.tagged_fields(fields) } else { Ok(()) }
    }

    fn value(&mut self, name: &'static str, kind: &'static Kind) -> Result<(), ShapeError> {
        let broken = |error| ShapeError::Broken { field: name, error };
        match kind {
            Kind::Fixed(size) => self.reader.skip(*size).map(drop).map_err(broken),
            Kind::Text => self.reader.string_range().map(drop).map_err(broken),
            Kind::Bytes => self.reader.bytes_range().map(drop).map_err(broken),
            Kind::Struct(fields) => self.fields(fields),
            Kind::NullableStruct(fields) => match self.reader.i8().map_err(broken)? {
                -1 => Ok(()),
                _ => self.fields(fields),
            },
            Kind::Array { element, element_memory_bytes } => self.array(name, element, *element_memory_bytes),
        }
    }

    fn array(
        &mut self,
        name: &'static str,
        element: &'static Kind,
        element_memory_bytes: usize,
    ) -> Result<(), ShapeError> {
        let length = self.reader.array_length().map_err(|error| ShapeError::Broken { field: name, error })?;
        let count = length.unwrap_or(0);
        if count > ARRAY_ELEMENTS_MAX {
            return Err(ShapeError::TooManyElements { field: name, count });
        }
        self.charge(name, count.saturating_mul(element_memory_bytes))?;
        if let Kind::Fixed(size) = element {
            let skipped = self.reader.skip(count.saturating_mul(*size));
            return skipped.map(drop).map_err(|error| ShapeError::Broken { field: name, error });
        }
        for _ in 0..count {
            self.value(name, element)?;
        }
        Ok(())
    }

    fn tagged_fields(&mut self, fields: &'static [Field]) -> Result<(), ShapeError> {
        let broken = |error| ShapeError::Broken { field: "tagged fields", error };
        let count = self.reader.unsigned_varint().map_err(broken)? as usize;
        if count > TAGGED_FIELDS_MAX {
            return Err(ShapeError::TooManyTaggedFields { count });
        }
        let mut cost = UNKNOWN_TAG_NODE_BYTES + UNKNOWN_TAG_BYTES;
        for _ in 0..count {
            let tag = self.reader.unsigned_varint().map_err(broken)?;
            let claimed = self.reader.unsigned_varint().map_err(broken)? as usize;
            let known = fields.iter().find(|field| field.tag == Some(tag));
            if tag > i32::MAX as u32 || known.is_some_and(|field| !field.is_in(self.version)) {
                return Err(ShapeError::Tag { tag });
            }
            let Some(field) = known else {
                self.charge("tagged fields", cost)?;
                cost = UNKNOWN_TAG_BYTES;
                self.reader.skip(claimed).map_err(broken)?;
                continue;
            };
            let start = self.reader.position();
            self.value(field.name, &field.kind)?;
            let actual = self.reader.position() - start;
            if actual != claimed {
                return Err(ShapeError::TaggedFieldSize { field: field.name, claimed, actual });
            }
        }
        Ok(())
    }

    /// Counts memory that decoding will take.
    fn charge(&mut self, field: &'static str, bytes: usize) -> Result<(), ShapeError> {
        self.memory_bytes = self.memory_bytes.saturating_add(bytes);
        if self.memory_bytes > self.limit_bytes {
            let body_bytes = self.reader.position() + self.reader.remaining();
            return Err(ShapeError::TooMuchMemory { field, body_bytes, limit_bytes: self.limit_bytes });
        }
        Ok(())
    }
}
