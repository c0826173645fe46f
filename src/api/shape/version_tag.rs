//! A tag of a job's version, as a job and the lists of its versions show it.

use model::job::VersionTag;
use serde::Serialize;

/// The name of a version.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TagShape<'a> {
    name: &'a str,
    description: &'a str,
    /// Nanoseconds since 1970.
    tagged_time: i64,
}

impl<'a> TagShape<'a> {
    pub fn new(t: &'a VersionTag) -> Self {
        TagShape { name: &t.name, description: &t.description, tagged_time: t.at.0 }
    }
}
