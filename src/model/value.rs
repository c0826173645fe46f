//! A free-form value, for what users write and drover only hands on: a task's `config`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Whole numbers stay whole, as in the job file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}
