//! Comparing flat names and texts: fields of one thing, one block, and sets of blocks. Refuses to know what they mean.

use super::{FieldDiff, Kind, ObjectDiff};
use crate::time::Span;
use crate::value::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// Names and texts of fields. An empty text is the same as none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flat(BTreeMap<String, String>);

impl Flat {
    pub fn with(mut self, name: &str, value: impl Display) -> Flat {
        self.0.insert(name.to_string(), value.to_string());
        self
    }

    /// In nanoseconds, as the API has them.
    pub fn with_span(self, name: &str, span: Option<Span>) -> Flat {
        match span {
            Some(span) => self.with(name, span.as_nanos()),
            None => self.with(name, ""),
        }
    }

    pub fn with_map(mut self, name: &str, map: &BTreeMap<String, String>) -> Flat {
        for (key, value) in map {
            self.0.insert(format!("{name}[{key}]"), value.clone());
        }
        self
    }

    /// A tree of values: what is inside another one is named by the way there.
    pub fn of_values(map: &BTreeMap<String, Value>) -> Flat {
        let mut flat = Flat::default();
        map.iter().for_each(|(key, value)| flat.value(key.clone(), value));
        flat
    }

    fn value(&mut self, name: String, value: &Value) {
        let text = match value {
            Value::List(list) => {
                return list.iter().enumerate().for_each(|(i, v)| self.value(format!("{name}[{i}]"), v));
            }
            Value::Map(map) => return map.iter().for_each(|(k, v)| self.value(format!("{name}[{k}]"), v)),
            Value::Null => String::new(),
            Value::Bool(b) => b.to_string(),
            Value::Int(i) => i.to_string(),
            Value::Float(f) => f.to_string(),
            Value::Text(t) => t.clone(),
        };
        self.0.insert(name, text);
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

/// A block: its fields, and the blocks in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    pub flat: Flat,
    pub inner: Vec<(&'static str, Flat)>,
}

impl From<Flat> for Part {
    fn from(flat: Flat) -> Part {
        Part { flat, inner: Vec::new() }
    }
}

pub fn kind_of<T: PartialEq>(old: Option<&T>, new: Option<&T>) -> Kind {
    match (old, new) {
        (None, Some(_)) => Kind::Added,
        (Some(_), None) => Kind::Deleted,
        (old, new) if old == new => Kind::None,
        _ => Kind::Edited,
    }
}

/// `contextual`: with those that are the same.
pub fn changes(old: &Flat, new: &Flat, contextual: bool) -> Vec<FieldDiff> {
    let mut names = BTreeSet::new();
    names.extend(old.0.keys().chain(new.0.keys()));
    let one = |name: &String| field(name, old.text(name), new.text(name));
    names.into_iter().map(one).filter(|f| contextual || f.kind != Kind::None).collect()
}

pub fn field(name: &str, old: &str, new: &str) -> FieldDiff {
    let kind = match (old, new) {
        _ if old == new => Kind::None,
        ("", _) => Kind::Added,
        (_, "") => Kind::Deleted,
        _ => Kind::Edited,
    };
    FieldDiff { kind, name: name.to_string(), old: old.to_string(), new: new.to_string(), annotation: None }
}

/// A block that there is once, if it changed.
pub fn object(name: &'static str, old: Option<Flat>, new: Option<Flat>) -> Option<ObjectDiff> {
    let kind = kind_of(old.as_ref(), new.as_ref());
    let fields = || changes(&old.clone().unwrap_or_default(), &new.clone().unwrap_or_default(), true);
    (kind != Kind::None).then(|| ObjectDiff { kind, name, fields: fields(), objects: vec![] })
}

/// Blocks of which there may be several: one that changed went, and another one came.
pub fn set(name: &'static str, old: Vec<Part>, new: Vec<Part>) -> Vec<ObjectDiff> {
    let (old, new) = (distinct(&old), distinct(&new));
    let came = new.iter().filter(|p| !old.contains(*p)).map(|p| whole(name, Kind::Added, p));
    let went = old.iter().filter(|p| !new.contains(*p)).map(|p| whole(name, Kind::Deleted, p));
    came.chain(went).collect()
}

fn distinct<T: Ord>(parts: &[T]) -> BTreeSet<&T> {
    let mut distinct = BTreeSet::new();
    distinct.extend(parts);
    distinct
}

fn whole(name: &'static str, kind: Kind, part: &Part) -> ObjectDiff {
    let none = Flat::default();
    let fields = |flat: &Flat| match kind {
        Kind::Deleted => changes(flat, &none, true),
        _ => changes(&none, flat, true),
    };
    let inner = |(name, flat): &(&'static str, Flat)| ObjectDiff {
        kind,
        name,
        fields: fields(flat),
        objects: vec![],
    };
    ObjectDiff { kind, name, fields: fields(&part.flat), objects: part.inner.iter().map(inner).collect() }
}

/// Texts without order; all of them, if one came or went.
pub fn texts(name: &'static str, old: &[String], new: &[String]) -> Option<ObjectDiff> {
    let (old, new) = (distinct(old), distinct(new));
    let mut all = BTreeSet::new();
    all.extend(old.iter().chain(new.iter()).copied());
    let text =
        |list: &BTreeSet<&String>, one| if list.contains(&one) { String::clone(one) } else { String::new() };
    let mut fields: Vec<_> =
        all.into_iter().map(|one| field(name, &text(&old, one), &text(&new, one))).collect();
    fields.sort_by_key(|f| f.kind.as_str());
    let has = |kind| fields.iter().any(|f| f.kind == kind);
    let kind = match (has(Kind::Added), has(Kind::Deleted)) {
        (false, false) => return None,
        (true, false) => Kind::Added,
        (false, true) => Kind::Deleted,
        (true, true) => Kind::Edited,
    };
    Some(ObjectDiff { kind, name, fields, objects: vec![] })
}
