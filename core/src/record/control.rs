//! Control records: the transaction markers that end a transaction in a partition (KIP-98).

use super::iter::Record;

/// What a control record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlKind {
    /// The transaction is aborted.
    Abort,
    /// The transaction is committed.
    Commit,
    /// A kind that this version does not know (Raft's own, or a later one).
    Other(i16),
}

/// Why a record is no transaction marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The key is missing or shorter than four bytes.
    #[error("a control record's key has {0} bytes, not 4")]
    Key(usize),
    /// The value is missing or shorter than six bytes.
    #[error("a transaction marker's value has {0} bytes, not 6")]
    Value(usize),
    /// A version below 0.
    #[error("control record version {0}")]
    Version(i16),
}

/// The record that ends a transaction: key (version, kind), value (version, coordinator epoch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// Commit or abort.
    pub kind: ControlKind,
    /// Epoch of the transaction coordinator that wrote it.
    pub coordinator_epoch: i32,
}

const VERSION: i16 = 0;

impl ControlKind {
    /// The kind in a control record's key.
    pub fn of(key: Option<&[u8]>) -> Result<Self, ControlError> {
        let key = key.unwrap_or_default();
        let &[v0, v1, k0, k1, ..] = key else { return Err(ControlError::Key(key.len())) };
        let version = i16::from_be_bytes([v0, v1]);
        if version < VERSION {
            return Err(ControlError::Version(version));
        }
        Ok(match i16::from_be_bytes([k0, k1]) {
            0 => Self::Abort,
            1 => Self::Commit,
            other => Self::Other(other),
        })
    }

    fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::Other(id) => id,
        }
    }
}

impl EndTransactionMarker {
    /// Reads the marker from the record of a control batch.
    pub fn read(record: &Record<'_>) -> Result<Self, ControlError> {
        let kind = ControlKind::of(record.key)?;
        let value = record.value.unwrap_or_default();
        let &[v0, v1, e0, e1, e2, e3, ..] = value else { return Err(ControlError::Value(value.len())) };
        let version = i16::from_be_bytes([v0, v1]);
        if version < VERSION {
            return Err(ControlError::Version(version));
        }
        Ok(Self { kind, coordinator_epoch: i32::from_be_bytes([e0, e1, e2, e3]) })
    }

    /// Key of the control record.
    pub fn key(&self) -> [u8; 4] {
        let [a, b] = VERSION.to_be_bytes();
        let [c, d] = self.kind.id().to_be_bytes();
        [a, b, c, d]
    }

    /// Value of the control record.
    pub fn value(&self) -> [u8; 6] {
        let [a, b] = VERSION.to_be_bytes();
        let [c, d, e, f] = self.coordinator_epoch.to_be_bytes();
        [a, b, c, d, e, f]
    }
}
