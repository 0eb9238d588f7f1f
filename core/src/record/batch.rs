//! Views over whole batches: borrowed, or sharing the buffer that they arrived in.

use super::header::{BATCH_HEADER_BYTES, BatchError, BatchHeader, PREFIX_BYTES};
use crate::ids::{LeaderEpoch, Offset};
use bytes::Bytes;

/// A batch in bytes that someone else owns.
#[derive(Clone, Copy, Debug)]
pub struct BatchRef<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl<'a> BatchRef<'a> {
    /// The batch at the front of `bytes`; what follows it is left alone. The CRC is not checked.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let header = BatchHeader::parse(bytes)?;
        let needed = header.total_bytes();
        let bytes = bytes.get(..needed).ok_or(BatchError::Truncated { needed, available: bytes.len() })?;
        Ok(Self { header, bytes })
    }

    /// Its header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// All its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Checks the stored CRC against the bytes.
    pub fn verify_crc(&self) -> Result<(), BatchError> {
        self.header.verify_crc(self.bytes)
    }
}

/// A batch that shares the buffer it arrived in; cloning copies no bytes.
#[derive(Clone, Debug)]
pub struct Batch {
    header: BatchHeader,
    bytes: Bytes,
}

impl Batch {
    /// The batch at the front of `bytes`; what follows it is left out. The CRC is not checked.
    pub fn parse(bytes: &Bytes) -> Result<Self, BatchError> {
        let view = BatchRef::parse(bytes)?;
        Ok(Self { header: view.header, bytes: bytes.slice(..view.bytes.len()) })
    }

    /// A batch whose header was parsed before.
    pub(super) fn from_parts(header: BatchHeader, bytes: Bytes) -> Self {
        Self { header, bytes }
    }

    /// Its header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Its records as they are in it, compressed or not.
    pub(super) fn records_bytes(&self) -> &[u8] {
        self.bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default()
    }

    /// All its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The same batch, borrowed.
    pub fn as_ref(&self) -> BatchRef<'_> {
        BatchRef { header: self.header, bytes: &self.bytes }
    }

    /// Checks the stored CRC against the bytes.
    pub fn verify_crc(&self) -> Result<(), BatchError> {
        self.header.verify_crc(&self.bytes)
    }
}

/// Cuts a buffer into its batches, in order; ends after the first error. See [`split_batches`].
#[derive(Clone, Debug)]
pub struct Batches {
    rest: Bytes,
}

/// The batches that lie one after the other in `bytes`. A cut last batch is an error ([`BatchError::Truncated`]); fetched
/// data may legally end so, and its reader stops there.
pub fn split_batches(bytes: Bytes) -> Batches {
    Batches { rest: bytes }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let parsed = Batch::parse(&self.rest);
        match &parsed {
            Ok(batch) => self.rest = self.rest.slice(batch.bytes.len()..),
            Err(_) => self.rest = Bytes::new(),
        }
        Some(parsed)
    }
}

/// The first 16 bytes of a batch as a log stores them: given base offset and leader epoch, own length. The CRC does not
/// cover them, so a log writes these and then the batch's bytes from the 17th on, without copying or summing anything.
pub fn patch_prefix(base_offset: Offset, leader_epoch: LeaderEpoch, header: &BatchHeader) -> [u8; PREFIX_BYTES] {
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..8].copy_from_slice(&base_offset.to_be_bytes());
    prefix[8..12].copy_from_slice(&header.batch_length.to_be_bytes());
    prefix[12..].copy_from_slice(&leader_epoch.to_be_bytes());
    prefix
}
