//! What can be wrong with a message, and the small checks that all conversions share.

use bytes::Bytes;
use taffrail_core::ids::Uuid;

/// Why bytes or a message are not what they claim to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Written by a newer release.
    #[error("{what} has format version {found}; this release knows versions up to {newest}")]
    NewerVersion {
        /// What was read.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The newest version known here.
        newest: u32,
    },
    /// Not written by any release.
    #[error("{what} has no format version")]
    NoVersion {
        /// What was read.
        what: &'static str,
    },
    /// A part that cannot be missing is.
    #[error("{what} lacks {field}, or has a kind of it that this release does not know")]
    Missing {
        /// What was read.
        what: &'static str,
        /// The part.
        field: &'static str,
    },
    /// A value out of its range.
    #[error("{what} has a wrong {field}: {value}")]
    Invalid {
        /// What was read.
        what: &'static str,
        /// The part.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// Not in the encoding at all.
    #[error("{what} cannot be decoded: {source}")]
    Decode {
        /// What was read.
        what: &'static str,
        /// Where the encoding breaks.
        source: prost::DecodeError,
    },
    /// Cut short, or with something behind its end.
    #[error("{what} is cut short or has bytes too many")]
    Length {
        /// What was read.
        what: &'static str,
    },
}

/// Refuses formats that this release does not know.
///
/// # Errors
/// When `found` is newer than `newest`, or 0.
pub fn check_version(what: &'static str, found: u32, newest: u32) -> Result<(), FormatError> {
    match found {
        0 => Err(FormatError::NoVersion { what }),
        found if found > newest => Err(FormatError::NewerVersion { what, found, newest }),
        _ => Ok(()),
    }
}

/// A part that must be there.
///
/// # Errors
/// When it is not.
pub fn required<T>(what: &'static str, field: &'static str, part: Option<T>) -> Result<T, FormatError> {
    part.ok_or(FormatError::Missing { what, field })
}

/// An id from its 16 bytes.
///
/// # Errors
/// When there are more or fewer.
pub fn id_from_bytes(what: &'static str, field: &'static str, bytes: &[u8]) -> Result<Uuid, FormatError> {
    let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let bytes = bytes.try_into().map_err(|_| FormatError::Invalid { what, field, value: length })?;
    Ok(Uuid(bytes))
}

/// The 16 bytes of an id.
pub fn id_to_bytes(id: Uuid) -> Bytes {
    Bytes::copy_from_slice(&id.0)
}

/// A number of 16 bits that travels as one of 32.
pub(crate) fn short(what: &'static str, field: &'static str, value: i32) -> Result<i16, FormatError> {
    i16::try_from(value).map_err(|_| FormatError::Invalid { what, field, value: i64::from(value) })
}
