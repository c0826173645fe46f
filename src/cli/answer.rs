//! Reading what the API answers: JSON into structs, by a table of members for each. Everything has a default, as an older agent may
//! say less: a member that is null counts as absent, and one that is not known is passed over.
//!
//! Refuses to know: what any answer means. One function reads all structs; derived readers were a quarter of a megabyte.
use serde_json::Value;
use std::collections::BTreeMap;

/// What can be read of an answer.
pub trait Shape {
    fn fill(&mut self, value: &Value) -> Result<(), Unlike>;
}

/// The answer has another shape than expected: where, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct Unlike(pub String);

/// Structs with an object's members: in PascalCase, or as `key` says.
macro_rules! shape {
    ($(
        $(#[doc = $about:literal])*
        $visible:vis struct $name:ident {
            $($(#[doc = $doc:literal])* $(#[key = $key:literal])? $member_visible:vis $member:ident: $kind:ty,)*
        }
    )*) => { $(
        $(#[doc = $about])*
        #[derive(Clone, Debug, Default)]
        $visible struct $name {
            $($(#[doc = $doc])* $member_visible $member: $kind,)*
        }

        impl $crate::answer::Shape for $name {
            fn fill(&mut self, value: &serde_json::Value) -> Result<(), $crate::answer::Unlike> {
                $crate::answer::fill(value, &mut [
                    $(($crate::answer::shape!(@ $member $($key)?), &mut self.$member),)*
                ])
            }
        }
    )* };
    (@ $member:ident) => { stringify!($member) };
    (@ $member:ident $key:literal) => { $key };
}
pub(crate) use shape;

pub fn read<T: Shape + Default>(value: &Value) -> Result<T, Unlike> {
    let mut read = T::default();
    read.fill(value)?;
    Ok(read)
}

pub fn fill(value: &Value, members: &mut [(&str, &mut dyn Shape)]) -> Result<(), Unlike> {
    let Value::Object(given) = value else { return Err(unlike(value, "an object")) };
    for (name, member) in members {
        let name = pascal_case(name);
        let value = given.get(&name).unwrap_or(&Value::Null);
        if !value.is_null() {
            member.fill(value).map_err(|unlike| unlike.within(&name))?;
        }
    }
    Ok(())
}

/// `job_summary` is `JobSummary`.
fn pascal_case(name: &str) -> String {
    let mut begins = true;
    let mut cased = String::with_capacity(name.len());
    for c in name.chars() {
        if c != '_' {
            cased.push(if begins { c.to_ascii_uppercase() } else { c });
        }
        begins = c == '_';
    }
    cased
}

impl Unlike {
    fn within(self, name: &str) -> Unlike {
        Unlike(format!("{name}: {}", self.0))
    }
}

fn unlike(value: &Value, expected: &str) -> Unlike {
    let (kind, given) = match value {
        Value::Null => ("null", String::new()),
        Value::Bool(b) => ("boolean", format!(" `{b}`")),
        Value::Number(n) => ("number", format!(" `{n}`")),
        Value::String(text) => ("string", format!(" {text:?}")),
        Value::Array(_) => ("array", String::new()),
        Value::Object(_) => ("object", String::new()),
    };
    Unlike(format!("invalid type: {kind}{given}, expected {expected}"))
}

macro_rules! plain {
    ($($kind:ty, $expected:literal: $read:expr;)*) => { $(
        impl Shape for $kind {
            fn fill(&mut self, value: &Value) -> Result<(), Unlike> {
                let read: fn(&Value) -> Option<$kind> = $read;
                *self = read(value).ok_or_else(|| unlike(value, $expected))?;
                Ok(())
            }
        }
    )* };
}

plain! {
    String, "a string": |v| v.as_str().map(str::to_string);
    bool, "a boolean": Value::as_bool;
    i64, "i64": Value::as_i64;
    u64, "u64": Value::as_u64;
    u16, "u16": |v| u16::try_from(v.as_u64()?).ok();
    u8, "u8": |v| u8::try_from(v.as_u64()?).ok();
    f64, "f64": Value::as_f64;
    Value, "anything": |v| Some(without_nulls(v));
}

/// Optional members come as null or not at all: one rule for both.
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

impl<T: Shape + Default> Shape for Option<T> {
    fn fill(&mut self, value: &Value) -> Result<(), Unlike> {
        *self = if value.is_null() { None } else { Some(read(value)?) };
        Ok(())
    }
}

impl<T: Shape + Default> Shape for Vec<T> {
    fn fill(&mut self, value: &Value) -> Result<(), Unlike> {
        let items = value.as_array().ok_or_else(|| unlike(value, "an array"))?;
        for item in items {
            self.push(read(item)?);
        }
        Ok(())
    }
}

impl<T: Shape + Default> Shape for BTreeMap<String, T> {
    fn fill(&mut self, value: &Value) -> Result<(), Unlike> {
        let members = value.as_object().ok_or_else(|| unlike(value, "an object"))?;
        for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            self.insert(name.clone(), read(value).map_err(|unlike| unlike.within(name))?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    shape! {
        /// With one of each.
        struct Everything {
            #[key = "ID"]
            id: String,
            is_so: bool,
            below: i64,
            above: u64,
            share: Option<f64>,
            ports: Vec<u16>,
            by_name: BTreeMap<String, Part>,
            free: Value,
        }

        struct Part {
            small: u8,
        }
    }

    #[test]
    fn members_are_read_by_their_names_and_null_is_absent() {
        let all: Everything = read(&json!({
            "ID": "a", "IsSo": true, "Below": -1, "Above": u64::MAX, "Share": 2, "Ports": [1, 65535], "Unknown": {},
            "ByName": {"x": {"Small": 3}, "y": null}, "Free": {"a": null, "b": [{"c": null, "d": 1}]},
        }))
        .expect("is read");
        assert_eq!((all.id.as_str(), all.is_so, all.below, all.above), ("a", true, -1, u64::MAX));
        assert_eq!(
            (all.share, all.ports, all.by_name.len(), all.by_name["x"].small),
            (Some(2.0), vec![1, 65535], 1, 3)
        );
        assert_eq!(all.free, json!({"b": [{"d": 1}]}));
        let none: Everything = read(&json!({"ID": null, "Share": null, "Ports": null})).expect("is read");
        assert_eq!((none.id.as_str(), none.share, none.ports.len(), none.free), ("", None, 0, Value::Null));
        assert!(matches!(read::<Option<Part>>(&Value::Null), Ok(None)));
    }

    #[test]
    fn what_is_unlike_is_told_with_its_place() {
        for (given, told) in [
            (json!({"ID": 1}), "ID: invalid type: number `1`, expected a string"),
            (json!({"Above": -1}), "Above: invalid type: number `-1`, expected u64"),
            (json!({"Ports": [65536]}), "Ports: invalid type: number `65536`, expected u16"),
            (
                json!({"ByName": {"x": {"Small": "3"}}}),
                "ByName: x: Small: invalid type: string \"3\", expected u8",
            ),
            (json!({"Ports": [null]}), "Ports: invalid type: null, expected u16"),
            (json!([]), "invalid type: array, expected an object"),
            (json!(null), "invalid type: null, expected an object"),
        ] {
            assert_eq!(read::<Everything>(&given).err(), Some(Unlike(told.to_string())), "{given}");
        }
    }
}
