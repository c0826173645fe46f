//! Floats that are mostly 0 or round, written as numbers are: 0 takes one byte, 0.5 three, where a plain float takes eight. For
//! `#[serde(with = "short_float")]`. Refuses to know what a float says.

use serde::de::{Deserialize, Deserializer};
use serde::ser::Serializer;

/// Writes the bits with the lowest byte, which is mostly 0, first.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(value.to_bits().swap_bytes())
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(f64::from_bits(u64::deserialize(deserializer)?.swap_bytes()))
}
