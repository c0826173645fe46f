//! Reading what the API answers: JSON into structs with serde's derive. Agents of other versions say less or more: a member that is absent
//! or null has its default, and one that is not known is passed over.
//!
//! Refuses to know: what any answer means.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// What can be read of an answer.
pub trait ResponseBody: DeserializeOwned + Default {}

impl<T: DeserializeOwned + Default> ResponseBody for T {}

/// The answer has another shape than expected, in a sentence.
#[derive(Debug, PartialEq, Eq)]
pub struct ShapeMismatch(pub String);

pub fn read<T: ResponseBody>(value: &Value) -> Result<T, ShapeMismatch> {
    T::deserialize(without_nulls(value)).map_err(|e| ShapeMismatch(e.to_string()))
}

/// Optional members come as null or not at all, and empty lists as null: one rule for all of them.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, v)| !v.is_null());
            Value::Object(kept.map(|(k, v)| (k.clone(), without_nulls(v))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// With one of each.
    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "PascalCase", default)]
    struct Everything {
        #[serde(rename = "ID")]
        id: String,
        is_so: bool,
        below: i64,
        above: u64,
        share: Option<f64>,
        ports: Vec<u16>,
        by_name: BTreeMap<String, Part>,
        free: Value,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "PascalCase", default)]
    struct Part {
        small: u8,
    }

    #[test]
    fn absent_and_null_members_have_their_defaults() {
        let all: Everything = read(&json!({
            "ID": "a", "IsSo": true, "Below": -1, "Above": u64::MAX, "Share": 2, "Ports": [1, 65535], "Unknown": {},
            "ByName": {"x": {"Small": 3}, "y": null}, "Free": {"a": null, "b": [{"c": null, "d": 1}]},
        }))
        .expect("is read");
        assert_eq!((all.id.as_str(), all.is_so, all.below, all.above), ("a", true, -1, u64::MAX));
        assert_eq!((all.share, all.ports), (Some(2.0), vec![1, 65535]));
        assert_eq!(all.by_name, [("x".to_string(), Part { small: 3 })].into());
        assert_eq!(all.free, json!({"b": [{"d": 1}]}));
        let none: Everything = read(&json!({"ID": null, "Share": null, "Ports": null})).expect("is read");
        assert_eq!(none, Everything::default());
        assert_eq!(read::<Option<Part>>(&Value::Null), Ok(None));
    }

    #[test]
    fn an_answer_of_another_shape_is_refused() {
        for (given, told) in [
            (json!({"ID": 1}), "invalid type: integer `1`, expected a string"),
            (json!({"Above": -1}), "invalid value: integer `-1`, expected u64"),
            (json!({"Ports": [65536]}), "invalid value: integer `65536`, expected u16"),
            (json!({"Ports": [null]}), "invalid type: null, expected u16"),
            (json!(null), "invalid type: null, expected struct Everything"),
        ] {
            assert_eq!(read::<Everything>(&given), Err(ShapeMismatch(told.to_string())), "{given}");
        }
    }
}
