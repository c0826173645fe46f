//! Reads blocks by the schema table into the API's JSON (jobspec.md 2.4, jobspec.md 4): types, repeated and labelled blocks,
//! `dynamic`, free-form bodies; and says what it does not know and what is not built yet.
//!
//! Refuses to know: what any key means. What single blocks need beyond the table is in `hooks`.

mod hooks;

use super::diagnostic::{Diagnostic, Label, Problems};
use super::duration;
use super::eval::Evaluator;
use super::hcl::{Attribute, BlockBody, Content, Expr, HclBlock};
use super::nearest::nearest;
use super::operators;
use super::scope::Scope;
use hcl_edit::Span as _;
use model::schema::{Block, Member, Shape, ValueKind};
use serde_json::{Map, Value};
use std::ops::Range;

pub struct Decoder<'a> {
    pub evaluator: &'a Evaluator<'a>,
    pub diagnostics: Problems,
    pub not_supported: Problems,
}

/// A block read so far: its members, and what has no member of its own, by its name in the job file.
pub struct Read {
    pub json: Map<String, Value>,
    pub extra: Map<String, Value>,
    pub at: Range<usize>,
}

impl<'a> Decoder<'a> {
    pub fn new(evaluator: &'a Evaluator<'a>) -> Self {
        Decoder { evaluator, diagnostics: Problems::default(), not_supported: Problems::default() }
    }

    pub fn fail(&mut self, at: Range<usize>, summary: impl Into<String>, detail: impl Into<String>) {
        self.diagnostics.at(self.evaluator.source, at, summary, detail);
    }

    fn refuse(&mut self, at: Range<usize>, name: &str) {
        self.not_supported.at(self.evaluator.source, at, format!("not supported yet: {name}"), "");
    }

    /// One written block as its JSON, with every member present.
    pub fn block(&mut self, schema: &'static Block, written: HclBlock, scope: &Scope<'_>) -> Value {
        let mut read = Read { json: Map::new(), extra: Map::new(), at: written.name_at.clone() };
        self.label(schema, &written, &mut read);
        let content = written.body.content(&|name| labels_of(schema, name));
        self.content(schema, content, scope, &mut read);
        hooks::finish(self, schema.hook, &mut read);
        complete(schema, &mut read.json);
        Value::Object(read.json)
    }

    fn label(&mut self, schema: &'static Block, written: &HclBlock, read: &mut Read) {
        match (schema.label, written.labels.as_slice()) {
            (None, []) => {}
            (Some(member), [label]) => {
                read.json.insert(member.to_string(), Value::String(label.text.clone()));
            }
            (Some(_), []) => {
                let detail = format!("write it as {} \"name\" {{ ... }}", schema.name);
                self.fail(written.name_at.clone(), format!("Missing name for {}", schema.name), detail);
            }
            (wanted, [.., extra]) => {
                let number = usize::from(wanted.is_some());
                let detail = format!("{number} expected, {} given", written.labels.len());
                self.fail(extra.at.clone(), format!("Extraneous label for {}", schema.name), detail);
            }
        }
    }

    fn content(&mut self, schema: &'static Block, content: Content, scope: &Scope<'_>, read: &mut Read) {
        for a in &content.attributes {
            self.attribute(schema, a, scope, read);
        }
        for label in content.malformed {
            let detail = format!("{:?} is an object or a list of objects here", label.text);
            self.fail(label.at, "Invalid block", detail);
        }
        for b in content.blocks {
            self.expand(b, scope, &mut |me, b, scope| me.inner(schema, b, scope, read));
        }
    }

    fn attribute(&mut self, schema: &'static Block, a: &Attribute, scope: &Scope<'_>, read: &mut Read) {
        if self.diagnostics.is_full() {
            return;
        }
        let Some(member) = schema.by_hcl(&a.name) else {
            return self.unknown(schema, &a.name, a.name_at.clone(), "Unsupported argument");
        };
        let Shape::Value(kind) = member.shape else {
            let detail = format!("{0:?} is a block: write {0} {{ ... }}, without '='", a.name);
            return self.fail(a.name_at.clone(), "Unsupported argument", detail);
        };
        let value = match self.evaluator.value(&a.value, scope) {
            Ok(v) => v,
            Err(d) => return self.diagnostics.push(d),
        };
        match convert(kind, value) {
            Ok(value) => self.set(member, a.name_at.clone(), value, read),
            Err(why) => {
                let summary = if kind == ValueKind::Span {
                    "Unsuitable duration value"
                } else {
                    "Incorrect attribute value type"
                };
                self.fail(a.value.span(), summary, format!("{}: {why}", a.name));
            }
        }
    }

    fn set(&mut self, member: &'static Member, at: Range<usize>, value: Value, read: &mut Read) {
        if !member.built && !is_default(&value) {
            self.refuse(at, member.hcl);
        }
        if value.is_null() {
            return;
        }
        let (map, key) = if member.json.is_empty() {
            (&mut read.extra, member.hcl)
        } else {
            (&mut read.json, member.json)
        };
        map.insert(key.to_string(), value);
    }

    fn unknown(&mut self, schema: &'static Block, name: &str, at: Range<usize>, summary: &str) {
        let known = schema.members.iter().map(|m| m.hcl).filter(|n| !n.is_empty());
        let hint = match nearest(name, known) {
            Some(n) => format!("; did you mean {n:?}?"),
            None => String::new(),
        };
        self.fail(at, summary, format!("{} has no {name:?}{hint}", schema.name));
    }

    /// A block inside a block.
    fn inner(&mut self, schema: &'static Block, b: HclBlock, scope: &Scope<'_>, read: &mut Read) {
        let Some(member) = schema.by_hcl(&b.name) else {
            return self.unknown(schema, &b.name, b.name_at.clone(), "Unsupported block type");
        };
        let key = if member.json.is_empty() { member.hcl } else { member.json };
        let at = b.name_at.clone();
        if !member.built {
            self.refuse(at.clone(), member.hcl);
        }
        let seen = read.json.contains_key(key) || read.extra.contains_key(key);
        let value = match member.shape {
            Shape::Value(ValueKind::TextMap | ValueKind::TextsMap | ValueKind::Free) | Shape::One(_)
                if seen =>
            {
                let detail = format!("only one {:?} block is allowed in {}", b.name, schema.name);
                return self.fail(at, format!("Duplicate {} block", b.name), detail);
            }
            Shape::Value(ValueKind::Free) => Value::Object(self.free(b, scope)),
            Shape::Value(kind @ (ValueKind::TextMap | ValueKind::TextsMap)) => self.map_block(kind, b, scope),
            Shape::One(inner) => self.block(inner, b, scope),
            Shape::Many(inner) | Shape::ByLabel(inner) => {
                let value = self.block(inner, b, scope);
                let map = if member.json.is_empty() { &mut read.extra } else { &mut read.json };
                return match (member.shape, inner.label.and_then(|l| value.get(l)).and_then(Value::as_str)) {
                    (Shape::ByLabel(_), Some(label)) => {
                        let label = label.to_string();
                        if let Value::Object(all) =
                            map.entry(key).or_insert_with(|| Value::Object(Map::new()))
                            && all.insert(label, value).is_some()
                        {
                            self.fail(
                                at,
                                format!("Duplicate {} block", inner.name),
                                "its label is used twice",
                            );
                        }
                    }
                    _ => {
                        if let Value::Array(all) = map.entry(key).or_insert_with(|| Value::Array(vec![])) {
                            all.push(value);
                        }
                    }
                };
            }
            Shape::Value(_) | Shape::Ignored => {
                let detail = format!("{0:?} is not a block: write {0} = ...", b.name);
                return self.fail(at, "Unsupported block type", detail);
            }
        };
        let map = if member.json.is_empty() { &mut read.extra } else { &mut read.json };
        map.insert(key.to_string(), value);
    }

    /// `meta`, `env`, `header` and the like in block form.
    fn map_block(&mut self, kind: ValueKind, b: HclBlock, scope: &Scope<'_>) -> Value {
        let content = b.body.content(&|n| (n == "dynamic").then_some(1));
        let mut out = Map::new();
        for a in content.attributes {
            if let Some(v) = self.value(&a, scope) {
                out.insert(a.name, v);
            }
        }
        for inner in content.blocks {
            let detail = format!("{} holds only name = value", b.name);
            self.fail(inner.name_at, "Unsupported block type", detail);
        }
        match convert(kind, Value::Object(out)) {
            Ok(v) => v,
            Err(why) => {
                self.fail(b.name_at.clone(), "Incorrect attribute value type", format!("{}: {why}", b.name));
                Value::Null
            }
        }
    }

    fn value(&mut self, a: &Attribute, scope: &Scope<'_>) -> Option<Value> {
        if self.diagnostics.is_full() {
            return None;
        }
        self.evaluator.value(&a.value, scope).map_err(|d| self.diagnostics.push(d)).ok()
    }

    /// A free-form body (jobspec.md 2.4.3): nested blocks and object-valued attributes become lists of maps.
    fn free(&mut self, b: HclBlock, scope: &Scope<'_>) -> Map<String, Value> {
        let content = b.body.content(&|n| (n == "dynamic").then_some(1));
        let mut out = Map::new();
        for a in content.attributes {
            if let Some(v) = self.value(&a, scope) {
                let (name, v) = wrapped((a.name, v));
                out.insert(name, v);
            }
        }
        for inner in content.blocks {
            self.expand(inner, scope, &mut |me, inner, scope| {
                let (name, name_at, labels) =
                    (inner.name.clone(), inner.name_at.clone(), inner.labels.clone());
                let body = Value::Object(me.free(inner, scope));
                let value = labels.iter().rev().fold(body, |v, label| {
                    Value::Object([(label.text.clone(), Value::Array(vec![v]))].into_iter().collect())
                });
                match out.entry(name).or_insert_with(|| Value::Array(vec![])) {
                    Value::Array(all) => all.push(value),
                    _ => me.fail(name_at, "Duplicate argument", "it is already set as an attribute"),
                }
            });
        }
        out
    }

    /// Hands over the block itself, or for a `dynamic` block one block per element of `for_each`.
    fn expand(
        &mut self,
        b: HclBlock,
        scope: &Scope<'_>,
        take: &mut dyn FnMut(&mut Self, HclBlock, &Scope<'_>),
    ) {
        if b.name != "dynamic" {
            return take(self, b, scope);
        }
        if let Err(d) = self.generate(b, scope, take) {
            self.diagnostics.push(d);
        }
    }

    fn generate(
        &mut self,
        b: HclBlock,
        scope: &Scope<'_>,
        take: &mut dyn FnMut(&mut Self, HclBlock, &Scope<'_>),
    ) -> Result<(), Diagnostic> {
        let source = self.evaluator.source;
        let invalid = |at: Range<usize>, detail: &str| {
            Diagnostic::at(source, at, "Invalid dynamic block", detail.to_string())
        };
        let [name] = b.labels.as_slice() else {
            return Err(invalid(b.name_at.clone(), "it has one label: the kind of block to generate"));
        };
        let content = b.body.content(&|n| (n == "content").then_some(0));
        let attribute = |n: &str| content.attributes.iter().find(|a| a.name == n);
        if let Some(a) =
            content.attributes.iter().find(|a| !["for_each", "iterator", "labels"].contains(&a.name.as_str()))
        {
            return Err(invalid(a.name_at.clone(), "it has for_each, iterator, labels and content"));
        }
        let [body] = content.blocks.as_slice() else {
            return Err(invalid(name.at.clone(), "it has exactly one content block"));
        };
        let Some(each) = attribute("for_each") else {
            return Err(invalid(name.at.clone(), "for_each is missing"));
        };
        let iterator = match attribute("iterator") {
            None => name.text.clone(),
            Some(a) => {
                iterator_name(&a.value).ok_or_else(|| invalid(a.value.span(), "iterator is a plain name"))?
            }
        };
        let collection = self.evaluator.value(&each.value, scope)?;
        let pairs = operators::pairs(collection).map_err(|why| invalid(each.value.span(), &why))?;
        let weight = body_weight(&body.body);
        for (key, value) in pairs {
            if self.diagnostics.is_full() {
                break;
            }
            let spent = self.evaluator.spend(weight, name.at.clone());
            spent.map_err(|f| Diagnostic::at(source, f.at, f.summary, f.detail))?;
            let item =
                Value::Object([("key".to_string(), key), ("value".to_string(), value)].into_iter().collect());
            let inner = scope.with(&iterator, &item);
            let labels = match attribute("labels") {
                None => vec![],
                Some(a) => self.labels(a, &inner)?,
            };
            let made = HclBlock {
                name: name.text.clone(),
                name_at: name.at.clone(),
                labels,
                body: body.body.clone(),
            };
            take(self, made, &inner);
        }
        Ok(())
    }

    fn labels(&mut self, a: &Attribute, scope: &Scope<'_>) -> Result<Vec<Label>, Diagnostic> {
        let source = self.evaluator.source;
        let value = self.evaluator.value(&a.value, scope)?;
        let texts = convert(ValueKind::Texts, value)
            .map_err(|why| Diagnostic::at(source, a.value.span(), "Invalid dynamic block label", why))?;
        let texts = texts.as_array().map(Vec::as_slice).unwrap_or_default();
        let label =
            |v: &Value| Label { text: v.as_str().unwrap_or_default().to_string(), at: a.value.span() };
        Ok(texts.iter().map(label).collect())
    }
}

fn labels_of(schema: &'static Block, name: &str) -> Option<usize> {
    match schema.by_hcl(name) {
        Some(member) => member.block().map(|b| usize::from(b.label.is_some())),
        None => (name == "dynamic").then_some(1),
    }
}

fn iterator_name(e: &Expr) -> Option<String> {
    match e {
        Expr::Hcl(e) => e.as_variable().map(|v| v.as_str()).or_else(|| e.as_str()).map(str::to_string),
        Expr::Json(node) => match &node.kind {
            super::json_syntax::JsonKind::Text(t) => Some(t.clone()),
            _ => None,
        },
    }
}

/// What reading a body once costs.
fn body_weight(body: &BlockBody) -> u64 {
    64 + match body {
        BlockBody::Hcl(b) => b.span().map_or(0, |s| s.len() as u64),
        BlockBody::Json(members) => members.iter().map(|(_, n)| n.at.len() as u64).sum(),
    }
}

/// Absent, or what absent would mean.
pub fn is_default(v: &Value) -> bool {
    match v {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_default),
    }
}

/// Every member is present, except those that Nomad leaves out.
pub fn complete(schema: &'static Block, json: &mut Map<String, Value>) {
    for m in schema.members.iter().filter(|m| !m.json.is_empty() && !m.omitted) {
        json.entry(m.json).or_insert_with(|| zero(m));
    }
}

fn zero(m: &Member) -> Value {
    match m.shape {
        Shape::Value(_) if m.nullable => Value::Null,
        Shape::Value(ValueKind::Text) => Value::String(String::new()),
        Shape::Value(ValueKind::Bool) => Value::Bool(false),
        Shape::Value(ValueKind::Int | ValueKind::Span) => Value::from(0),
        _ => Value::Null,
    }
}

/// A value as its member wants it: HCL's conversions, and durations as nanoseconds.
pub fn convert(kind: ValueKind, value: Value) -> Result<Value, String> {
    if value.is_null() {
        return Ok(value);
    }
    match kind {
        ValueKind::Text => operators::text(&value).map(Value::String),
        ValueKind::Bool => operators::truth(&value).map(Value::Bool),
        ValueKind::Int => operators::integer(&value).map(Value::from),
        ValueKind::Span => match &value {
            Value::String(s) => {
                duration::parse(s).map(|d| Value::from(d.as_nanos())).map_err(|e| e.to_string())
            }
            other => operators::integer(other).map(Value::from),
        },
        ValueKind::Texts => match value {
            Value::Array(items) => {
                let texts = items.iter().map(|v| operators::text(v).map(Value::String));
                Ok(Value::Array(texts.collect::<Result<_, _>>()?))
            }
            other => Err(format!("a list of strings is required, this is {}", operators::kind(&other))),
        },
        ValueKind::TextMap => each_member(value, ValueKind::Text),
        ValueKind::TextsMap => each_member(value, ValueKind::Texts),
        ValueKind::Free => match value {
            Value::Object(members) => Ok(Value::Object(members.into_iter().map(wrapped).collect())),
            other => Err(format!("an object is required, this is {}", operators::kind(&other))),
        },
        ValueKind::Opaque => Ok(value),
    }
}

fn wrapped((key, value): (String, Value)) -> (String, Value) {
    let value = if value.is_object() { Value::Array(vec![value]) } else { value };
    (key, value)
}

fn each_member(value: Value, kind: ValueKind) -> Result<Value, String> {
    match value {
        Value::Object(members) => {
            let converted = members.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| {
                let v = convert(kind, v).map_err(|why| format!("{k}: {why}"))?;
                Ok::<_, String>((k, v))
            });
            Ok(Value::Object(converted.collect::<Result<_, _>>()?))
        }
        other => Err(format!("names with values are required, this is {}", operators::kind(&other))),
    }
}
