//! The answers of both searches as JSON.

use super::MetaShape;
use serde::Serialize;
use std::collections::BTreeMap;

/// `M`: an id (`/v1/search`), or a `Match` (`/v1/search/fuzzy`).
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SearchShape<M> {
    pub matches: BTreeMap<&'static str, Vec<M>>,
    pub truncations: BTreeMap<&'static str, bool>,
    #[serde(flatten)]
    pub meta: MetaShape,
}

/// A name, and what leads to the object that has it: namespace, job, group and so on.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Match {
    #[serde(rename = "ID")]
    pub id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<String>,
}
