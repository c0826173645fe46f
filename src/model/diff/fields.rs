//! Comparing flat names and texts: fields of one thing, one block, and sets of blocks. Refuses to know what they mean.

use super::{DiffType, FieldDiff, ObjectDiff};
use crate::schema::{
    Block, BlockList, BlockMap, ChangeEffect, DiffForm, FieldView, Fields, Member, Shape, ValueKind,
};
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

    /// The fields of a block, but for the blocks in it.
    pub fn of(block: &dyn Fields) -> Flat {
        let mut flat = Flat::default();
        block.each(&mut |member, view| flat.field(member, view));
        flat
    }

    fn field(&mut self, member: &Member, view: FieldView<'_>) {
        if !is_told(member) || member.json.is_empty() {
            return;
        }
        let name = member.json.to_string();
        let text = match view {
            FieldView::Text(text) => text.to_string(),
            FieldView::Int(0) if member.zero_is_no_difference => return,
            FieldView::Int(number) => number.to_string(),
            FieldView::Bool(flag) => flag.to_string(),
            FieldView::Span(span) => span.as_nanos().to_string(),
            FieldView::Null if matches!(member.shape, Shape::Value(_)) => String::new(),
            FieldView::TextMap(map) => {
                let entries = map.iter().map(|(key, value)| (format!("{name}[{key}]"), value.clone()));
                return self.0.extend(entries);
            }
            FieldView::Texts(texts) if member.diff_form == DiffForm::InOrder => {
                let entries =
                    texts.iter().enumerate().map(|(i, text)| (format!("{name}[{i}]"), text.clone()));
                return self.0.extend(entries);
            }
            FieldView::Free(_) if member.diff_form == DiffForm::AsBlock => return,
            FieldView::Free(map) => {
                return map.iter().for_each(|(k, v)| self.value(format!("{name}[{k}]"), v));
            }
            FieldView::Null | FieldView::NotKept | FieldView::Texts(_) => return,
            FieldView::Block(_) | FieldView::Blocks(_) | FieldView::ByLabel(_) => return,
        };
        self.0.insert(name, text);
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

impl Part {
    pub fn of(block: &dyn Fields) -> Part {
        let mut inner = Vec::new();
        block.each(&mut |member, view| match view {
            FieldView::Block(block) if is_told(member) => {
                inner.push((name(member, block.block()), Flat::of(block)))
            }
            FieldView::Blocks(list) if is_told(member) => {
                inner.extend(blocks(list).map(|block| (name(member, block.block()), Flat::of(block))));
            }
            _ => {}
        });
        inner.sort_by_key(|(name, _)| *name);
        Part { flat: Flat::of(block), inner }
    }

    pub fn all(list: &dyn BlockList) -> Vec<Part> {
        blocks(list).map(Part::of).collect()
    }

    pub fn labelled(map: &dyn BlockMap) -> Vec<Part> {
        let one = |label: &str| {
            let part = map.get(label).map(Part::of)?;
            Some(Part { flat: part.flat.with("Name", label), ..part })
        };
        map.labels().into_iter().filter_map(one).collect()
    }
}

/// What differences call a block that stands there.
fn name(member: &Member, block: &Block) -> &'static str {
    if member.diff_name.is_empty() { block.shown } else { member.diff_name }
}

fn blocks(list: &dyn BlockList) -> impl Iterator<Item = &dyn Fields> {
    (0..list.count()).filter_map(|i| list.at(i))
}

fn is_told(member: &Member) -> bool {
    member.diff_form != DiffForm::ByHand && member.change != ChangeEffect::Nothing
}

/// What changed of the blocks in a block, ordered by name.
pub fn objects(old: Option<&dyn Fields>, new: Option<&dyn Fields>) -> Vec<ObjectDiff> {
    let (old, new) = (views(old), views(new));
    let mut names = BTreeSet::new();
    names.extend(old.keys().chain(new.keys()).copied());
    let mut objects = Vec::new();
    for name in names {
        let (was, is) = (old.get(name), new.get(name));
        let Some((member, _)) = was.or(is) else { continue };
        let (was, is) = (was.map_or(FieldView::Null, |w| w.1), is.map_or(FieldView::Null, |i| i.1));
        objects.extend(of_member(member, was, is));
    }
    objects.sort_by_key(|object| object.name);
    objects
}

fn views(block: Option<&dyn Fields>) -> BTreeMap<&'static str, (&'static Member, FieldView<'_>)> {
    let mut views = BTreeMap::new();
    if let Some(block) = block {
        block.each(&mut |member, view| {
            if is_told(member) {
                views.insert(member.json, (member, view));
            }
        });
    }
    views
}

fn of_member(member: &'static Member, old: FieldView<'_>, new: FieldView<'_>) -> Vec<ObjectDiff> {
    let parts = |view| match view {
        FieldView::Blocks(list) => Part::all(list),
        FieldView::ByLabel(map) => Part::labelled(map),
        _ => vec![],
    };
    match (member.shape, member.diff_form) {
        (Shape::One(inner), _) => block(inner.shown, one(old), one(new)).into_iter().collect(),
        (Shape::Many(inner), DiffForm::InOrder) => {
            let at = |view, i| if let FieldView::Blocks(list) = view { list.at(i) } else { None };
            let count = |view| if let FieldView::Blocks(list) = view { list.count() } else { 0 };
            let all = 0..count(old).max(count(new));
            all.filter_map(|i| block(inner.shown, at(old, i), at(new, i))).collect()
        }
        (Shape::Many(inner) | Shape::ByLabel(inner), _) => set(inner.shown, parts(old), parts(new)),
        (Shape::Value(ValueKind::Texts), DiffForm::AsSet) => {
            let list = |view| if let FieldView::Texts(texts) = view { texts } else { &[] };
            texts(member.json, list(old), list(new)).into_iter().collect()
        }
        (Shape::Value(ValueKind::Free), DiffForm::AsBlock) => {
            let flat = |view| match view {
                FieldView::Free(map) if !map.is_empty() => Some(Flat::of_values(map)),
                _ => None,
            };
            object(member.json, flat(old), flat(new)).into_iter().collect()
        }
        (Shape::Value(_) | Shape::Ignored, _) => vec![],
    }
}

fn one(view: FieldView<'_>) -> Option<&dyn Fields> {
    if let FieldView::Block(block) = view { Some(block) } else { None }
}

/// A block that there is once, if it or a block in it changed.
fn block(name: &'static str, old: Option<&dyn Fields>, new: Option<&dyn Fields>) -> Option<ObjectDiff> {
    let inner = objects(old, new);
    let (old, new) = (old.map(Flat::of), new.map(Flat::of));
    let kind = match kind_of(old.as_ref(), new.as_ref()) {
        DiffType::None if !inner.is_empty() => DiffType::Edited,
        kind => kind,
    };
    let fields = || changes(&old.unwrap_or_default(), &new.unwrap_or_default(), true);
    (kind != DiffType::None).then(|| ObjectDiff { kind, name, fields: fields(), objects: inner })
}

pub fn kind_of<T: PartialEq>(old: Option<&T>, new: Option<&T>) -> DiffType {
    match (old, new) {
        (None, Some(_)) => DiffType::Added,
        (Some(_), None) => DiffType::Deleted,
        (old, new) if old == new => DiffType::None,
        _ => DiffType::Edited,
    }
}

/// `contextual`: with those that are the same.
pub fn changes(old: &Flat, new: &Flat, contextual: bool) -> Vec<FieldDiff> {
    let mut names = BTreeSet::new();
    names.extend(old.0.keys().chain(new.0.keys()));
    let one = |name: &String| field(name, old.text(name), new.text(name));
    names.into_iter().map(one).filter(|f| contextual || f.kind != DiffType::None).collect()
}

pub fn field(name: &str, old: &str, new: &str) -> FieldDiff {
    let kind = match (old, new) {
        _ if old == new => DiffType::None,
        ("", _) => DiffType::Added,
        (_, "") => DiffType::Deleted,
        _ => DiffType::Edited,
    };
    FieldDiff { kind, name: name.to_string(), old: old.to_string(), new: new.to_string(), annotation: None }
}

/// A block that there is once, if it changed.
pub fn object(name: &'static str, old: Option<Flat>, new: Option<Flat>) -> Option<ObjectDiff> {
    let kind = kind_of(old.as_ref(), new.as_ref());
    let fields = || changes(&old.clone().unwrap_or_default(), &new.clone().unwrap_or_default(), true);
    (kind != DiffType::None).then(|| ObjectDiff { kind, name, fields: fields(), objects: vec![] })
}

/// Blocks of which there may be several: one that changed went, and another one came.
pub fn set(name: &'static str, old: Vec<Part>, new: Vec<Part>) -> Vec<ObjectDiff> {
    let (old, new) = (distinct(&old), distinct(&new));
    let came = new.iter().filter(|p| !old.contains(*p)).map(|p| whole(name, DiffType::Added, p));
    let went = old.iter().filter(|p| !new.contains(*p)).map(|p| whole(name, DiffType::Deleted, p));
    came.chain(went).collect()
}

fn distinct<T: Ord>(parts: &[T]) -> BTreeSet<&T> {
    let mut distinct = BTreeSet::new();
    distinct.extend(parts);
    distinct
}

fn whole(name: &'static str, kind: DiffType, part: &Part) -> ObjectDiff {
    let none = Flat::default();
    let fields = |flat: &Flat| match kind {
        DiffType::Deleted => changes(flat, &none, true),
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
    let kind = match (has(DiffType::Added), has(DiffType::Deleted)) {
        (false, false) => return None,
        (true, false) => DiffType::Added,
        (false, true) => DiffType::Deleted,
        (true, true) => DiffType::Edited,
    };
    Some(ObjectDiff { kind, name, fields, objects: vec![] })
}
