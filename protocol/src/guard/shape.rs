//! How the fields of a message are described to the guard.

/// Bytes of a string, byte string or array as a field of a decoded struct.
const TEXT_MEMORY_BYTES: usize = 32;
const ARRAY_MEMORY_BYTES: usize = 24;
/// Bytes of the map of unknown tagged fields that every decoded struct has.
const TAGS_MEMORY_BYTES: usize = 24;

/// A message: its fields in the order of the wire, each with the versions that have it.
pub(super) type Shape = &'static [Field];

/// A field of a message or of a structure inside it.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// First version that has the field.
    since: i16,
    /// Last version that has the field.
    until: i16,
    /// Number of a tagged field.
    pub(super) tag: Option<u32>,
    pub(super) kind: Kind,
}

/// What a field holds. Whether it may be null is the decoder's business, so every kind with a length admits null.
#[derive(Debug)]
pub(super) enum Kind {
    /// A number, truth value or id of this many bytes.
    Fixed(usize),
    /// A string: 16-bit or compact length.
    Text,
    /// A byte string or record set: 32-bit or compact length.
    Bytes,
    /// Fields in a row.
    Struct(&'static [Field]),
    /// A byte that is -1 for null, then fields in a row.
    NullableStruct(&'static [Field]),
    /// A 32-bit or compact count, then that many of the same.
    Array {
        element: &'static Kind,
        /// What one element occupies when decoded, without what it points to.
        element_memory_bytes: usize,
    },
}

pub(super) const BOOL: Kind = Kind::Fixed(1);
pub(super) const INT8: Kind = Kind::Fixed(1);
pub(super) const INT16: Kind = Kind::Fixed(2);
pub(super) const INT32: Kind = Kind::Fixed(4);
pub(super) const INT64: Kind = Kind::Fixed(8);
pub(super) const UUID: Kind = Kind::Fixed(16);
pub(super) const TEXT: Kind = Kind::Text;
pub(super) const BYTES: Kind = Kind::Bytes;

/// An array of numbers or strings.
pub(super) const fn array_of(element: &'static Kind) -> Kind {
    Kind::Array { element, element_memory_bytes: element.memory_bytes() }
}

/// A field that versions `since` and up have.
pub(super) const fn field(name: &'static str, since: i16, kind: Kind) -> Field {
    Field { name, since, until: i16::MAX, tag: None, kind }
}

impl Field {
    /// The last version that has the field.
    pub(super) const fn until(mut self, version: i16) -> Self {
        self.until = version;
        self
    }

    /// Makes it a tagged field.
    pub(super) const fn tagged(mut self, tag: u32) -> Self {
        self.tag = Some(tag);
        self
    }

    pub(super) const fn is_in(&self, version: i16) -> bool {
        self.since <= version && version <= self.until
    }
}

impl Kind {
    /// Bytes of a decoded value itself, without what it points to. A struct has a slot for every field of any version.
    const fn memory_bytes(&self) -> usize {
        match self {
            Self::Fixed(size) => *size,
            Self::Text | Self::Bytes => TEXT_MEMORY_BYTES,
            Self::Array { .. } => ARRAY_MEMORY_BYTES,
            Self::Struct(fields) | Self::NullableStruct(fields) => {
                let mut sum = TAGS_MEMORY_BYTES;
                let mut index = 0;
                while index < fields.len() {
                    sum += fields[index].kind.memory_bytes();
                    index += 1;
                }
                sum.next_multiple_of(8)
            }
        }
    }
}
