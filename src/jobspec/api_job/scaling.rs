//! How far a group may be scaled (reference: jobspec 3.14, 6).

use super::{Decoder, Given, plain};
use crate::model::gather::Gather;
use crate::model::scaling::Scaling;
use crate::model::tree::BTreeMap;
use crate::model::value::Value as Plain;
use serde_json::Value;

impl Decoder<'_> {
    /// The count is the least that there may be, unless somebody says either.
    pub(super) fn count_and_scaling(&mut self, g: Given<'_>, path: &str) -> (i64, Option<Scaling>) {
        let given = g.inner("Scaling");
        let min = given.and_then(|s| s.int("Min"));
        let count = g.int("Count").or(min).unwrap_or(1);
        let Some(given) = given else { return (count, None) };
        if let Some(other) = given.text("Type").filter(|t| !matches!(*t, "" | Scaling::TYPE)) {
            self.checker.wrong(format!(
                "{path}.Scaling: scaling policy type {other:?} is not valid; it is {:?}",
                Scaling::TYPE
            ));
        }
        let scaling = Scaling {
            min: min.unwrap_or(count),
            max: given.int("Max").unwrap_or(Scaling::NO_MAX),
            enabled: given.flag("Enabled").unwrap_or(true),
            policy: free_form(given.0.get("Policy")),
        };
        (count, Some(scaling))
    }
}

/// Numbers are floats here, whole or not (reference: corrections, "Jobs").
pub fn free_form(object: Option<&Value>) -> BTreeMap<String, Plain> {
    let members = object.and_then(Value::as_object).into_iter().flatten();
    members.map(|(name, value)| (name.clone(), in_floats(plain(value)))).gather()
}

fn in_floats(value: Plain) -> Plain {
    match value {
        Plain::Int(n) => Plain::Float(n as f64),
        Plain::List(list) => Plain::List(list.into_iter().map(in_floats).collect()),
        Plain::Map(map) => Plain::Map(map.into_iter().map(|(name, v)| (name, in_floats(v))).gather()),
        other => other,
    }
}
