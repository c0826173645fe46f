//! Namespaces and node pools, the objects that are found by name and have a line of description.

use crate::error::{CommandError, CommandResult};
use crate::http::decode;
use crate::render::layout;
use crate::session::{Session, ambiguous};
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NamedObject {
    pub name: String,
    pub description: String,
}

/// The object of this name, or the only one whose name begins so. `list`: where they are listed.
pub fn find(session: &Session, list: &str, noun: &str, prefix: &str) -> CommandResult<Value> {
    let value = session.client.get_value(list, &[("prefix", prefix)])?;
    let found: Vec<NamedObject> = decode(&value)?;
    let place = found.iter().position(|one| one.name == prefix);
    let subject = noun[..1].to_uppercase() + &noun[1..];
    match (&found[..], place) {
        ([], _) => Err(CommandError::new(format!("{subject} {prefix:?} matched no {noun}s"))),
        (_, Some(at)) => Ok(value[at].clone()),
        ([_], None) => Ok(value[0].clone()),
        (many, None) => Err(ambiguous(prefix, &format!("{noun}s"), &table(many))),
    }
}

pub fn table(all: &[NamedObject]) -> String {
    let rows: Vec<_> = all.iter().map(|one| vec![one.name.clone(), one.description.clone()]).collect();
    layout::table(&["Name", "Description"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_listed_by_name() {
        let team = NamedObject { name: "team".into(), description: "ours".into() };
        assert_eq!(table(&[team]), "Name  Description\nteam  ours\n");
    }
}
