//! The names of an enum's variants, as serde knows them: so that none goes without its golden bytes.

use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;

/// In the order of their numbers; none for what is no enum.
pub fn variants<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut names = [].as_slice();
    let read = T::deserialize(Asked(&mut names));
    assert!(read.is_err(), "nothing was there to be read");
    names
}

/// Gives no value, and remembers what it was asked for.
struct Asked<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("no enum"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = variants;
        Err(Error::custom("an enum"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
