//! Reading postcard's form with structs as they were: a struct that gained fields at its end is read with as many as it had
//! when the bytes were written, and has the defaults of the others (`#[serde(default)]`).
//!
//! Refuses to know: what any record means, and which version has which layout. Writing is postcard's own.

use model::short_float;
use serde::de::value::{U32Deserializer, U64Deserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use std::fmt;

/// One change: structs by name, and how many fields each had before it. A short float had none: it was a plain one.
pub type Change = &'static [(&'static str, usize)];

/// The value at the beginning of the bytes as they were before all of `changes`, and what follows it.
pub fn read<'de, T: Deserialize<'de>>(
    bytes: &'de [u8],
    changes: &'static [Change],
) -> Result<(T, &'de [u8]), Unreadable> {
    let mut reader = Reader { left: bytes, changes };
    let value = T::deserialize(&mut reader)?;
    Ok((value, reader.left))
}

/// The bytes are not of this type. Which byte is wrong helps nobody.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are damaged or of another kind")
    }
}

impl std::error::Error for Unreadable {}

impl Error for Unreadable {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Unreadable
    }
}

type Result<T, E = Unreadable> = std::result::Result<T, E>;

struct Reader<'de> {
    left: &'de [u8],
    changes: &'static [Change],
}

impl<'de> Reader<'de> {
    fn take(&mut self, n: usize) -> Result<&'de [u8]> {
        let (taken, left) = self.left.split_at_checked(n).ok_or(Unreadable)?;
        self.left = left;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        let (first, left) = self.left.split_first().ok_or(Unreadable)?;
        self.left = left;
        Ok(*first)
    }

    /// Seven bits in each byte, the lowest first.
    fn varint(&mut self, bits: u32) -> Result<u64> {
        let mut value = 0;
        for shift in (0..bits).step_by(7) {
            let byte = self.byte()?;
            let low = u64::from(byte & 0x7f);
            if shift + 7 > bits && low >> (bits - shift) != 0 {
                return Err(Unreadable);
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Unreadable)
    }

    /// Small numbers of either sign in few bits.
    fn zigzag(&mut self, bits: u32) -> Result<i64> {
        let value = self.varint(bits)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn length(&mut self) -> Result<usize> {
        self.varint(usize::BITS).map(|n| n as usize)
    }

    fn bytes(&mut self) -> Result<&'de [u8]> {
        let n = self.length()?;
        self.take(n)
    }

    fn text(&mut self) -> Result<&'de str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Unreadable)
    }

    fn flag(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Unreadable),
        }
    }

    fn of(&mut self, count: usize) -> Elements<'_, 'de> {
        Elements { reader: self, left: count }
    }

    /// How many of its fields the struct had.
    fn fields(&self, name: &str, today: usize) -> usize {
        let of_struct = self.changes.iter().copied().flatten().filter(|(n, _)| *n == name);
        of_struct.map(|(_, fields)| *fields).min().unwrap_or(today).min(today)
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $read:ident $bits:literal $type:ty;)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            visitor.$visit(self.$read($bits)? as $type)
        }
    )* };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Unreadable;

    fn is_human_readable(&self) -> bool {
        false
    }

    /// The form does not say what it holds.
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value> {
        Err(Unreadable)
    }

    numbers! {
        deserialize_u16 visit_u16 varint 16 u16;
        deserialize_u32 visit_u32 varint 32 u32;
        deserialize_u64 visit_u64 varint 64 u64;
        deserialize_i16 visit_i16 zigzag 16 i16;
        deserialize_i32 visit_i32 zigzag 32 i32;
        deserialize_i64 visit_i64 zigzag 64 i64;
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_u8(self.byte()?)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_i8(self.byte()? as i8)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_bool(self.flag()?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let bytes = self.take(8)?.try_into().map_err(|_| Unreadable)?;
        visitor.visit_f64(f64::from_le_bytes(bytes))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_bytes(self.bytes()?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.flag()? { visitor.visit_some(self) } else { visitor.visit_none() }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        if name == short_float::NAME && self.fields(name, 1) == 0 {
            let number = short_float::number(f64::deserialize(self)?);
            return visitor.visit_newtype_struct(U64Deserializer::new(number));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let count = self.length()?;
        visitor.visit_seq(self.of(count))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value> {
        visitor.visit_seq(self.of(len))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_seq(self.of(len))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let count = self.length()?;
        visitor.visit_map(self.of(count))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let count = self.fields(name, fields.len());
        visitor.visit_seq(self.of(count))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! { f32 char identifier ignored_any }
}

/// The elements of a list, or the entries of a map, that are still to come.
struct Elements<'r, 'de> {
    reader: &'r mut Reader<'de>,
    left: usize,
}

impl Elements<'_, '_> {
    fn next(&mut self) -> bool {
        let more = self.left > 0;
        self.left -= usize::from(more);
        more
    }

    /// No more than there can be: an element takes a byte, but for those that take none.
    fn hint(&self) -> Option<usize> {
        Some(self.left.min(self.reader.left.len()))
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Unreadable;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        if self.next() { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }

    fn size_hint(&self) -> Option<usize> {
        self.hint()
    }
}

impl<'de> MapAccess<'de> for Elements<'_, 'de> {
    type Error = Unreadable;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        if self.next() { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        self.hint()
    }
}

impl<'de> EnumAccess<'de> for &mut Reader<'de> {
    type Error = Unreadable;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self)> {
        let variant = self.varint(32)? as u32;
        let variant: U32Deserializer<Unreadable> = variant.into_deserializer();
        Ok((seed.deserialize(variant)?, self))
    }
}

impl<'de> VariantAccess<'de> for &mut Reader<'de> {
    type Error = Unreadable;

    fn unit_variant(self) -> Result<()> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value> {
        visitor.visit_seq(self.of(len))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_seq(self.of(fields.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    enum Kind {
        #[default]
        None,
        One(u8),
        Two(i16, String),
        Named {
            a: f64,
            b: Option<bool>,
        },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Everything {
        numbers: (u8, i8, u16, i16, u32, i32, u64, i64),
        kinds: Vec<Kind>,
        map: BTreeMap<String, Vec<u8>>,
        unit: (),
        fixed: [u8; 3],
    }

    fn everything() -> Everything {
        let kinds = vec![
            Kind::None,
            Kind::One(7),
            Kind::Two(-300, "ü".into()),
            Kind::Named { a: 0.5, b: Some(true) },
        ];
        Everything {
            numbers: (1, -1, 300, -300, 70_000, -70_000, u64::MAX, i64::MIN),
            kinds,
            map: [("a".to_string(), vec![1, 2]), (String::new(), vec![])].into(),
            unit: (),
            fixed: [1, 2, 3],
        }
    }

    #[test]
    fn what_postcard_writes_is_read() {
        let bytes = postcard::to_stdvec(&everything()).expect("is written");
        assert_eq!(read(&[bytes.clone(), vec![9]].concat(), &[]), Ok((everything(), &[9u8][..])));
        for cut in 0..bytes.len() {
            assert_eq!(read::<Everything>(&bytes[..cut], &[]), Err(Unreadable), "{cut}");
        }
    }

    #[test]
    fn what_postcard_refuses_is_refused() {
        for bytes in [&[2u8][..], &[0xff; 12], &[]] {
            assert!(postcard::from_bytes::<bool>(bytes).is_err() && read::<bool>(bytes, &[]).is_err());
            assert!(postcard::from_bytes::<Kind>(bytes).is_err() || read::<Kind>(bytes, &[]).is_ok());
        }
        let too_large = [0xff, 0xff, 0x04];
        assert!(postcard::from_bytes::<u16>(&too_large).is_err());
        assert_eq!(read::<u16>(&too_large, &[]), Err(Unreadable));
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Inner {
        a: u8,
        #[serde(default)]
        b: Vec<u8>,
        #[serde(default)]
        c: u8,
    }

    #[test]
    fn a_struct_is_read_as_it_was_wherever_it_is() {
        let inner = |a, b: &[u8], c| Inner { a, b: b.to_vec(), c };
        const FIRST: Change = &[("Inner", 1)];
        const SECOND: Change = &[("Other", 1), ("Inner", 2)];
        let got = read::<Vec<Inner>>(&[2, 7, 8], &[FIRST, SECOND]);
        assert_eq!(got, Ok((vec![inner(7, &[], 0), inner(8, &[], 0)], &[][..])));
        let got = read::<Vec<Inner>>(&[1, 7, 1, 9], &[SECOND]);
        assert_eq!(got, Ok((vec![inner(7, &[9], 0)], &[][..])));
        assert_eq!(read::<Inner>(&[7, 1, 9, 3], &[]), Ok((inner(7, &[9], 3), &[][..])));
    }
}
