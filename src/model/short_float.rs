//! Floats that are mostly 0 or round, written as numbers are: 0 takes one byte, 0.5 three, where a plain float takes eight. For
//! `#[serde(with = "short_float")]`.

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::Serializer;
use std::fmt;

/// The newtype that it is in serde's model.
pub const NAME: &str = "ShortFloat";

/// What is written of a float: its bits with the lowest byte, which is mostly 0, first.
pub fn number(value: f64) -> u64 {
    value.to_bits().swap_bytes()
}

pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(NAME, &number(*value))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_newtype_struct(NAME, Number)
}

struct Number;

impl<'de> Visitor<'de> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a float")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<f64, D::Error> {
        Ok(f64::from_bits(u64::deserialize(deserializer)?.swap_bytes()))
    }
}
