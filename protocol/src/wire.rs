//! The primitive types of the Kafka protocol, read with bounds and written in place.
//!
//! [`Reader`] never allocates and never reads past its end; what it hands out are slices of the frame. It serves the
//! header, the shape guard and the hand-written messages.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;
use taffrail_core::ids::Uuid;

/// Bytes of the longest unsigned varint: five groups of seven bits carry 32.
const VARINT_BYTES_MAX: u32 = 5;

/// Elements for which an array reserves memory before they are read, as in Kafka 4.4. More are made room for as they come,
/// so that a count alone never takes much memory.
const RESERVED_ELEMENTS_MAX: usize = 1000;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A value goes past the end of what was received.
    #[error("{wanted} bytes needed, {left} left")]
    Truncated {
        /// Bytes that the value takes.
        wanted: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A length is negative, or null stands where null is not allowed.
    #[error("length {0} is not allowed here")]
    Length(i64),
    /// A varint has more than 32 bits.
    #[error("a varint is longer than 32 bits")]
    Varint,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
}

/// Reads one message from a frame. `flexible` says whether lengths are compact (KIP-482).
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a Bytes,
    position: usize,
    flexible: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a Bytes, flexible: bool) -> Self {
        Self { bytes, position: 0, flexible }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Passes over bytes and returns where they lay.
    pub(crate) fn skip(&mut self, count: usize) -> Result<std::ops::Range<usize>, WireError> {
        let left = self.remaining();
        if count > left {
            return Err(WireError::Truncated { wanted: count, left });
        }
        let start = self.position;
        self.position += count;
        Ok(start..self.position)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let range = self.skip(N)?;
        let mut value = [0; N];
        value.copy_from_slice(&self.bytes[range]);
        Ok(value)
    }

    pub(crate) fn i8(&mut self) -> Result<i8, WireError> {
        self.fixed().map(i8::from_be_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, WireError> {
        self.i8().map(|value| value != 0)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, WireError> {
        self.fixed().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, WireError> {
        self.fixed().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, WireError> {
        self.fixed().map(i64::from_be_bytes)
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid, WireError> {
        self.fixed().map(Uuid)
    }

    pub(crate) fn unsigned_varint(&mut self) -> Result<u32, WireError> {
        let mut value: u32 = 0;
        for group in 0..VARINT_BYTES_MAX {
            let byte = self.i8()? as u8;
            let bits = u32::from(byte & 0x7f);
            let shift = group * 7;
            if bits.leading_zeros() < shift {
                return Err(WireError::Varint);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::Varint)
    }

    /// A length that is `short` (16 bits) or long (32 bits) in old versions, and one more than itself as an unsigned
    /// varint in flexible ones. `None` is null. The bytes or elements it counts need not be there.
    fn length(&mut self, short: bool) -> Result<Option<usize>, WireError> {
        let length = if self.flexible {
            i64::from(self.unsigned_varint()?) - 1
        } else if short {
            i64::from(self.i16()?)
        } else {
            i64::from(self.i32()?)
        };
        match length {
            -1 => Ok(None),
            _ => usize::try_from(length).map(Some).map_err(|_| WireError::Length(length)),
        }
    }

    /// Number of elements of an array; `None` is a null array. Each element takes at least one byte, so a number above
    /// the bytes that are left is refused.
    pub(crate) fn array_length(&mut self) -> Result<Option<usize>, WireError> {
        let length = self.length(false)?;
        match length {
            Some(wanted) if wanted > self.remaining() => Err(WireError::Truncated { wanted, left: self.remaining() }),
            _ => Ok(length),
        }
    }

    /// Where a string lies; `None` is null.
    pub(crate) fn string_range(&mut self) -> Result<Option<std::ops::Range<usize>>, WireError> {
        self.length(true)?.map(|length| self.skip(length)).transpose()
    }

    /// Where a byte string (also a record set) lies; `None` is null.
    pub(crate) fn bytes_range(&mut self) -> Result<Option<std::ops::Range<usize>>, WireError> {
        self.length(false)?.map(|length| self.skip(length)).transpose()
    }

    pub(crate) fn nullable_string(&mut self) -> Result<Option<StrBytes>, WireError> {
        let range = self.string_range()?;
        range.map(|range| StrBytes::from_utf8(self.bytes.slice(range)).map_err(|_| WireError::Utf8)).transpose()
    }

    pub(crate) fn string(&mut self) -> Result<StrBytes, WireError> {
        self.nullable_string()?.ok_or(WireError::Length(-1))
    }

    /// Reads an array of what `element` reads; `None` is a null array.
    pub(crate) fn nullable_array<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<Vec<T>>, WireError> {
        let Some(length) = self.array_length()? else { return Ok(None) };
        let mut values = Vec::with_capacity(length.min(RESERVED_ELEMENTS_MAX));
        for _ in 0..length {
            values.push(element(self)?);
        }
        Ok(Some(values))
    }

    /// Reads an array that may not be null.
    pub(crate) fn array<T>(
        &mut self,
        element: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        self.nullable_array(element)?.ok_or(WireError::Length(-1))
    }

    /// Reads the tagged fields at the end of a structure; nothing in versions that are not flexible. `field` gets each
    /// tag with a reader at its value, and says whether it has read it; what it has not is passed over.
    pub(crate) fn tagged_fields(
        &mut self,
        mut field: impl FnMut(u32, &mut Self) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            let end = self.position + size;
            if size > self.remaining() {
                return Err(WireError::Truncated { wanted: size, left: self.remaining() });
            }
            field(tag, self)?;
            if self.position > end {
                return Err(WireError::Truncated { wanted: self.position - end + size, left: size });
            }
            self.position = end;
        }
        Ok(())
    }

    /// Passes over the tagged fields at the end of a structure.
    pub(crate) fn skip_tagged_fields(&mut self) -> Result<(), WireError> {
        self.tagged_fields(|_, _| Ok(()))
    }
}

/// Writes one message. `flexible` says whether lengths are compact (KIP-482).
pub(crate) struct Writer<'a> {
    out: &'a mut BytesMut,
    flexible: bool,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut BytesMut, flexible: bool) -> Self {
        Self { out, flexible }
    }

    /// Bytes in the buffer so far, with those that were there before.
    pub(crate) fn position(&self) -> usize {
        self.out.len()
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.out.put_u8(u8::from(value));
    }

    pub(crate) fn i8(&mut self, value: i8) {
        self.out.put_i8(value);
    }

    pub(crate) fn i16(&mut self, value: i16) {
        self.out.put_i16(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    pub(crate) fn uuid(&mut self, value: &Uuid) {
        self.out.put_slice(&value.0);
    }

    pub(crate) fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    /// Number of elements of an array, or -1 for null. Arrays and byte strings count in 32 bits in old versions.
    pub(crate) fn length(&mut self, length: Option<usize>) {
        if self.flexible {
            self.unsigned_varint(length.map_or(0, |length| length as u32 + 1));
        } else {
            self.i32(length.map_or(-1, |length| length as i32));
        }
    }

    /// A string or null. Strings longer than 32,767 bytes do not fit old versions and are cut at a character's start.
    pub(crate) fn nullable_string(&mut self, value: Option<&str>) {
        let Some(mut text) = value else {
            if self.flexible {
                self.unsigned_varint(0);
            } else {
                self.i16(-1);
            }
            return;
        };
        if self.flexible {
            self.unsigned_varint(text.len() as u32 + 1);
        } else {
            text = &text[..text.floor_char_boundary(i16::MAX as usize)];
            self.i16(text.len() as i16);
        }
        self.out.put_slice(text.as_bytes());
    }

    pub(crate) fn string(&mut self, value: &str) {
        self.nullable_string(Some(value));
    }

    /// Writes an array, each element by `element`.
    pub(crate) fn array<T>(&mut self, values: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.length(Some(values.len()));
        for value in values {
            element(self, value);
        }
    }

    /// Bytes that are encoded already.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.put_slice(bytes);
    }

    /// Ends a structure that has no tagged fields; nothing in versions that are not flexible.
    pub(crate) fn no_tagged_fields(&mut self) {
        if self.flexible {
            self.out.put_u8(0);
        }
    }

    /// Writes one tagged field: tag, size, and the value that `value` writes.
    pub(crate) fn tagged(&mut self, tag: u32, value: impl FnOnce(&mut Writer<'_>)) {
        let mut bytes = BytesMut::new();
        value(&mut Writer::new(&mut bytes, self.flexible));
        self.unsigned_varint(tag);
        self.unsigned_varint(bytes.len() as u32);
        self.out.put_slice(&bytes);
    }
}
