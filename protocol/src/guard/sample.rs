//! Sound bodies of every message at every version, made from the very fields that the guard checks.
//!
//! Tests decode them with the codec crate, which knows nothing of our table of fields: what both agree on is right. The
//! fuzzer starts from them.

use bytes::{BufMut, BytesMut};

use super::shape::{Field, Kind};
use super::{Direction, shape_of};
use crate::versions::ApiKey;
use crate::wire::Writer;

/// Most elements of an array in a sample.
const ELEMENTS_MAX: usize = 3;

/// Most bytes of a string in a sample.
const TEXT_BYTES_MAX: usize = 12;

/// A sound body without nulls and without unknown tagged fields. Whatever is open is decided by `choose`, which gets an
/// exclusive upper bound and gives a number below it; the same choices give the same body.
///
/// ```
/// use taffrail_protocol::guard::{self, Direction};
/// use taffrail_protocol::versions::ApiKey;
///
/// let body = guard::sample(ApiKey::Heartbeat, Direction::Request, 0, &mut |_| 1);
/// assert_eq!(&body[..], b"\0\x01b\x01\x01\x01\x01\0\x01b");
/// ```
pub fn sample(key: ApiKey, direction: Direction, version: i16, choose: &mut dyn FnMut(usize) -> usize) -> BytesMut {
    let mut out = BytesMut::new();
    let mut maker = Maker { version, flexible: key.is_flexible(version), choose };
    maker.fields(shape_of(key, direction), &mut out);
    out
}

struct Maker<'a> {
    version: i16,
    flexible: bool,
    choose: &'a mut dyn FnMut(usize) -> usize,
}

impl Maker<'_> {
    fn fields(&mut self, fields: &'static [Field], out: &mut BytesMut) {
        let version = self.version;
        for field in fields.iter().filter(|field| field.tag.is_none() && field.is_in(version)) {
            self.value(&field.kind, out);
        }
        if !self.flexible {
            return;
        }
        let mut tagged: Vec<&'static Field> =
            fields.iter().filter(|field| field.tag.is_some() && field.is_in(version)).collect();
        tagged.retain(|_| (self.choose)(2) == 1);
        tagged.sort_by_key(|field| field.tag);
        Writer::new(out, true).unsigned_varint(tagged.len() as u32);
        for field in tagged {
            let mut value = BytesMut::new();
            self.value(&field.kind, &mut value);
            Writer::new(out, true).tagged(field.tag.unwrap_or_default(), |writer| writer.raw(&value));
        }
    }

    fn value(&mut self, kind: &'static Kind, out: &mut BytesMut) {
        match kind {
            // A truth value has but two forms that come back the same.
            Kind::Fixed(1) => out.put_u8((self.choose)(2) as u8),
            Kind::Fixed(size) => (0..*size).for_each(|_| out.put_u8((self.choose)(0x80) as u8)),
            Kind::Text => {
                let length = (self.choose)(TEXT_BYTES_MAX);
                let text: String = (0..length).map(|_| char::from(b'a' + (self.choose)(26) as u8)).collect();
                Writer::new(out, self.flexible).string(&text);
            }
            Kind::Bytes => {
                let length = (self.choose)(TEXT_BYTES_MAX);
                Writer::new(out, self.flexible).length(Some(length));
                (0..length).for_each(|_| out.put_u8((self.choose)(0x100) as u8));
            }
            Kind::Struct(fields) => self.fields(fields, out),
            Kind::NullableStruct(fields) => {
                let present = (self.choose)(2) == 1;
                out.put_i8(if present { 1 } else { -1 });
                if present {
                    self.fields(fields, out);
                }
            }
            Kind::Array { element, .. } => {
                let length = (self.choose)(ELEMENTS_MAX + 1);
                Writer::new(out, self.flexible).length(Some(length));
                (0..length).for_each(|_| self.value(element, out));
            }
        }
    }
}
