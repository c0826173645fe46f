//! Blocks of a job as JSON, by the table of their fields: what a struct declares is what is written.
//!
//! Refuses to know: any single block. What is not written as it is kept stands in the shapes of jobs, groups and tasks.

use model::schema::{BlockMap, FieldView, Fields, Member, Shape, ValueKind};
use model::value::Value;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// All members of a block but those that are written by hand.
#[derive(Clone, Copy)]
pub struct BlockShape<'a> {
    block: &'a dyn Fields,
    /// Where the label names the block and no field does.
    label: Option<&'a str>,
}

impl<'a> BlockShape<'a> {
    pub fn new(block: &'a dyn Fields) -> Self {
        BlockShape { block, label: None }
    }
}

impl Serialize for BlockShape<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        let (mut result, named) = (Ok(()), self.block.block().label);
        self.block.each(&mut |member, view| {
            if result.is_err() || member.json.is_empty() || member.written_by_hand || is_ignored(member) {
                return;
            }
            result = match self.label.filter(|_| named == Some(member.json)) {
                Some(label) => map.serialize_entry(member.json, label),
                None => map.serialize_entry(member.json, &ViewShape { member, view }),
            };
        });
        result.and_then(|()| map.end())
    }
}

fn is_ignored(member: &Member) -> bool {
    matches!(member.shape, Shape::Ignored)
}

struct ViewShape<'a> {
    member: &'static Member,
    view: FieldView<'a>,
}

impl Serialize for ViewShape<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.view {
            FieldView::Text(text) => s.serialize_str(text),
            FieldView::Int(number) => s.serialize_i64(number),
            FieldView::Bool(flag) => s.serialize_bool(flag),
            FieldView::Span(span) => s.serialize_i64(span.as_nanos()),
            FieldView::Texts(texts) if !texts.is_empty() => texts.serialize(s),
            FieldView::TextMap(map) if !map.is_empty() => map.serialize(s),
            FieldView::Free(map) if !map.is_empty() => free(map).serialize(s),
            FieldView::Block(block) => BlockShape::new(block).serialize(s),
            FieldView::Blocks(list) if list.count() > 0 => {
                let mut seq = s.serialize_seq(Some(list.count()))?;
                for block in (0..list.count()).filter_map(|i| list.at(i)) {
                    seq.serialize_element(&BlockShape::new(block))?;
                }
                seq.end()
            }
            FieldView::ByLabel(map) if !map.labels().is_empty() => Labelled(map).serialize(s),
            _ => nothing(self.member, s),
        }
    }
}

/// Go's nil, or the zero of a type that has none.
fn nothing<S: Serializer>(member: &Member, s: S) -> Result<S::Ok, S::Error> {
    match member.shape {
        Shape::Value(kind) if member.zero_for_none => match kind {
            ValueKind::Text => s.serialize_str(""),
            ValueKind::Int | ValueKind::Span => s.serialize_i64(0),
            ValueKind::Bool => s.serialize_bool(false),
            ValueKind::Texts => s.serialize_seq(Some(0))?.end(),
            ValueKind::TextMap | ValueKind::TextsMap | ValueKind::Free | ValueKind::Opaque => {
                s.serialize_unit()
            }
        },
        _ => s.serialize_unit(),
    }
}

/// Blocks by their labels.
struct Labelled<'a>(&'a dyn BlockMap);

impl Serialize for Labelled<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        for label in self.0.labels() {
            if let Some(block) = self.0.get(label) {
                map.serialize_entry(label, &BlockShape { block, label: Some(label) })?;
            }
        }
        map.end()
    }
}

/// What its user wrote freely: whole numbers stay whole.
pub struct FreeForm<'a>(pub &'a Value);

/// The same of a block.
pub fn free(map: &BTreeMap<String, Value>) -> BTreeMap<&str, FreeForm<'_>> {
    map.iter().map(|(name, value)| (name.as_str(), FreeForm(value))).collect()
}

impl Serialize for FreeForm<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => s.serialize_unit(),
            Value::Bool(b) => s.serialize_bool(*b),
            Value::Int(i) => s.serialize_i64(*i),
            Value::Float(f) => s.serialize_f64(*f),
            Value::Text(t) => s.serialize_str(t),
            Value::List(l) => s.collect_seq(l.iter().map(FreeForm)),
            Value::Map(m) => s.collect_map(m.iter().map(|(k, v)| (k, FreeForm(v)))),
        }
    }
}
