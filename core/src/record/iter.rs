//! Records inside a batch, read in place.

use super::batch::BatchRef;
use super::header::{BatchError, BatchHeader, NO_SEQUENCE, TimestampType, increment_sequence};
use super::varint::{VarintError, read_varint, read_varlong};
use crate::ids::Offset;

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A number breaks the format.
    #[error(transparent)]
    Varint(#[from] VarintError),
    /// The record's length is negative or larger than what is left.
    #[error("a record length of {length} with {available} bytes left")]
    Length {
        /// What the record says.
        length: i32,
        /// What there is.
        available: usize,
    },
    /// A key, a value or a header is larger than what is left of the record.
    #[error("a field of {length} bytes with {available} bytes left in the record")]
    Field {
        /// What the field says.
        length: i32,
        /// What there is.
        available: usize,
    },
    /// The number of headers is negative or cannot fit.
    #[error("a header count of {0}")]
    HeaderCount(i32),
    /// The fields end before the record does.
    #[error("{0} bytes are left over at the end of the record")]
    LeftOver(usize),
    /// Bytes follow the last record that the header counts.
    #[error("{0} bytes follow the last record of the batch")]
    AfterLast(usize),
}

/// One record; all its bytes are borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset.
    pub offset: Offset,
    /// Milliseconds since 1970, by the clock that the batch's timestamp type says; -1 = none.
    pub timestamp: i64,
    /// Its sequence, or [`NO_SEQUENCE`].
    pub sequence: i32,
    /// Its key; `None` is null, which is not the empty key.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` is null, a tombstone on compacted topics.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers<'a>,
}

/// The headers of a record, checked when the record was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    count: i32,
    bytes: &'a [u8],
}

impl Headers<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> Iterator for Headers<'a> {
    /// Name and value (`None` is null).
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.count <= 0 {
            return None;
        }
        self.count -= 1;
        // Parsing the record has walked these bytes, so both fields are there.
        let name = read_bytes(&mut self.bytes).ok()??;
        let value = read_bytes(&mut self.bytes).ok()?;
        Some((name, value))
    }
}

/// A length and so many bytes; any negative length is null, as in Kafka.
fn read_bytes<'a>(input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, RecordError> {
    let length = read_varint(input)?;
    if length < 0 {
        return Ok(None);
    }
    let (bytes, rest) =
        input.split_at_checked(length as usize).ok_or(RecordError::Field { length, available: input.len() })?;
    *input = rest;
    Ok(Some(bytes))
}

/// What a record says about itself before the batch's base values are added.
struct Body<'a> {
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

fn read_body<'a>(input: &mut &'a [u8]) -> Result<Body<'a>, RecordError> {
    let length = read_varint(input)?;
    let available = input.len();
    let (mut body, rest) = usize::try_from(length)
        .ok()
        .and_then(|length| input.split_at_checked(length))
        .ok_or(RecordError::Length { length, available })?;
    // One byte of attributes, all unused.
    body = body.split_first().ok_or(RecordError::Length { length, available })?.1;
    let timestamp_delta = read_varlong(&mut body)?;
    let offset_delta = read_varint(&mut body)?;
    let key = read_bytes(&mut body)?;
    let value = read_bytes(&mut body)?;
    let count = read_varint(&mut body)?;
    // A header takes at least two bytes.
    if count < 0 || count as usize > body.len() / 2 {
        return Err(RecordError::HeaderCount(count));
    }
    let headers = Headers { count, bytes: body };
    for _ in 0..count {
        if read_bytes(&mut body)?.is_none() {
            return Err(RecordError::Field { length: -1, available: body.len() });
        }
        read_bytes(&mut body)?;
    }
    if !body.is_empty() {
        return Err(RecordError::LeftOver(body.len()));
    }
    *input = rest;
    Ok(Body { timestamp_delta, offset_delta, key, value, headers })
}

/// Walks the records of one batch in order. Ends after the first error; bytes after the last counted record are an error.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    header: BatchHeader,
    input: &'a [u8],
    index: i32,
    finished: bool,
}

impl<'a> RecordIter<'a> {
    /// Over the uncompressed records of a batch with this header.
    pub(crate) fn new(header: BatchHeader, records: &'a [u8]) -> Self {
        Self { header, input: records, index: 0, finished: false }
    }

    /// How many bytes of records are still to come.
    pub fn remaining_bytes(&self) -> usize {
        self.input.len()
    }

    fn read(&mut self) -> Result<Record<'a>, RecordError> {
        let body = read_body(&mut self.input)?;
        let header = &self.header;
        let timestamp = match header.timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp,
            TimestampType::CreateTime => header.base_timestamp.wrapping_add(body.timestamp_delta),
        };
        let sequence = if header.base_sequence >= 0 {
            increment_sequence(header.base_sequence, body.offset_delta)
        } else {
            NO_SEQUENCE
        };
        Ok(Record {
            offset: header.base_offset.wrapping_add(i64::from(body.offset_delta)),
            timestamp,
            sequence,
            key: body.key,
            value: body.value,
            headers: body.headers,
        })
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        if self.index >= self.header.record_count {
            self.finished = true;
            let left = self.input.len();
            return (left > 0)
                .then_some(Err(BatchError::Record { index: self.index, source: RecordError::AfterLast(left) }));
        }
        let index = self.index;
        self.index += 1;
        Some(self.read().map_err(|source| {
            self.finished = true;
            BatchError::Record { index, source }
        }))
    }
}

impl<'a> BatchRef<'a> {
    /// The records as they lie in the batch, still compressed if it is.
    pub fn raw_records(&self) -> &'a [u8] {
        &self.bytes()[super::BATCH_HEADER_BYTES..]
    }

    /// Walks the records. A compressed batch is decompressed first, into `decompressor`'s buffer and under its limits;
    /// an uncompressed one is read in place. The CRC is not checked here.
    pub fn records<'b>(&self, decompressor: &'b mut super::Decompressor) -> Result<RecordIter<'b>, BatchError>
    where
        'a: 'b,
    {
        let records = decompressor.decompress(self.header().compression()?, self.raw_records())?;
        Ok(RecordIter::new(*self.header(), records))
    }
}
