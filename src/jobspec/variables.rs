//! Input variables and locals: declarations, where their values come from, in which order (jobspec.md 2.1).

use super::Vars;
use super::diagnostic::{Diagnostic, Label, Problems, Source};
use super::eval::Evaluator;
use super::functions::World;
use super::hcl::{self, Attribute, Expr, HclBlock};
use super::json_syntax;
use super::nearest::nearest;
use super::object_size::{self, Whole};
use super::scope::Scope;
use super::types::Type;
use hcl_edit::expr::{Expression, Traversal, TraversalOperator};
use hcl_edit::visit::{Visit, visit_traversal};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Where a value comes from that nobody gave.
const DEFAULT: &str = "default";

struct Declared {
    at: Range<usize>,
    kind: Type,
    /// Values from the environment and the command line are taken as they are, not as expressions.
    raw: bool,
    default: Option<Value>,
    /// Where the default is written.
    default_at: Range<usize>,
    /// A default or a value was there and is wrong, which has been reported: without another one, it is not called unset.
    refused: bool,
    validations: Vec<Validation>,
}

struct Validation {
    condition: Expr,
    message: String,
}

/// Declared variables, and what is wrong with them.
pub struct Variables<'a> {
    evaluator: &'a Evaluator<'a>,
    declared: BTreeMap<String, Declared>,
    pub diagnostics: Problems,
    pub warnings: Problems,
}

impl<'a> Variables<'a> {
    pub fn new(evaluator: &'a Evaluator<'a>) -> Self {
        Variables {
            evaluator,
            declared: BTreeMap::new(),
            diagnostics: Problems::default(),
            warnings: Problems::default(),
        }
    }

    fn fail(&mut self, at: Range<usize>, summary: &str, detail: impl Into<String>) {
        self.diagnostics.at(self.evaluator.source, at, summary, detail);
    }

    /// A `variables` block: names with defaults.
    pub fn declare_all(&mut self, block: HclBlock) {
        let content = block.body.content(&|_| None);
        for inner in content.blocks {
            self.fail(inner.name_at, "Unsupported block type", "only name = default is expected here");
        }
        for a in content.attributes {
            if self.diagnostics.is_full() {
                return;
            }
            match self.evaluator.value(&a.value, &Scope::EMPTY) {
                Ok(default) => {
                    let kind = Type::of(&default);
                    let raw = matches!(kind, Type::Text | Type::Number);
                    let (default, default_at) = (Some(default), a.value.span());
                    let (at, refused, validations) = (a.name_at, false, vec![]);
                    let declared = Declared { at, kind, raw, default, default_at, refused, validations };
                    self.add(a.name, declared);
                }
                Err(d) => self.diagnostics.push(d),
            }
        }
    }

    /// A `variable "name"` block.
    pub fn declare(&mut self, block: HclBlock) {
        if self.diagnostics.is_full() {
            return;
        }
        let [label] = block.labels.as_slice() else {
            return self.fail(
                block.name_at.clone(),
                "Invalid variable block",
                "one name is expected: variable \"name\"",
            );
        };
        let content = block.body.content(&|n| (n == "validation").then_some(0));
        let mut declared = Declared {
            at: label.at.clone(),
            kind: Type::Any,
            raw: true,
            default: None,
            default_at: label.at.clone(),
            refused: false,
            validations: vec![],
        };
        let mut typed = false;
        for a in &content.attributes {
            match a.name.as_str() {
                "type" => match read_type(&a.value) {
                    Ok(kind) => {
                        typed = true;
                        declared.raw = matches!(kind, Type::Text | Type::Number | Type::Any);
                        declared.kind = kind;
                    }
                    Err(why) => self.fail(a.value.span(), "Invalid type specification", why),
                },
                "default" => match self.evaluator.value(&a.value, &Scope::EMPTY) {
                    Ok(v) => (declared.default, declared.default_at) = (Some(v), a.value.span()),
                    Err(d) => {
                        declared.refused = true;
                        self.diagnostics.push(d);
                    }
                },
                "description" | "sensitive" => {}
                other => {
                    let detail = format!(
                        "a variable has no {other:?}: type, default, description and validation are known"
                    );
                    self.fail(a.name_at.clone(), "Unsupported argument", detail);
                }
            }
        }
        self.finish_default(&mut declared, typed);
        for inner in content.blocks {
            if inner.name == "validation" {
                declared.validations.extend(self.validation(inner));
            } else {
                self.fail(inner.name_at, "Unsupported block type", "a variable has validation blocks only");
            }
        }
        self.add(label.text.clone(), declared);
    }

    /// An untyped variable has its default's type.
    fn finish_default(&mut self, declared: &mut Declared, typed: bool) {
        let Some(default) = declared.default.take() else { return };
        if !typed {
            declared.kind = Type::of(&default);
            declared.raw = default.is_null() || matches!(declared.kind, Type::Text | Type::Number);
        }
        match declared.kind.convert(default) {
            Ok(v) => declared.default = Some(v),
            Err(why) => {
                declared.refused = true;
                self.fail(declared.default_at.clone(), "Invalid default value for variable", why);
            }
        }
    }

    fn validation(&mut self, block: HclBlock) -> Option<Validation> {
        let (mut condition, mut message) = (None, None);
        for a in block.body.content(&|_| None).attributes {
            match a.name.as_str() {
                "condition" => condition = Some(a.value),
                "error_message" => match self.evaluator.value(&a.value, &Scope::EMPTY) {
                    Ok(v) => message = v.as_str().map(str::to_string),
                    Err(d) => self.diagnostics.push(d),
                },
                other => {
                    let detail = format!("a validation has condition and error_message, not {other:?}");
                    self.fail(a.name_at, "Unsupported argument", detail);
                }
            }
        }
        match (condition, message) {
            (Some(condition), Some(message)) if !message.trim().is_empty() => {
                Some(Validation { condition, message })
            }
            _ => {
                let detail = "a validation needs a condition and an error_message that is not blank";
                self.fail(block.name_at.clone(), "Invalid validation", detail);
                None
            }
        }
    }

    fn add(&mut self, name: String, declared: Declared) {
        let mut chars = name.chars();
        let good = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && chars.all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        if !good {
            let detail = "a name starts with a letter or an underscore, then letters, digits, '_' and '-'";
            return self.fail(declared.at, "Invalid variable name", detail);
        }
        if self.declared.contains_key(&name) {
            return self.fail(declared.at, "Duplicate variable", format!("{name:?} is declared twice"));
        }
        self.declared.insert(name, declared);
    }

    /// Each declared variable's value: default, then environment, then files in order, then flags in order.
    pub fn values(mut self, vars: &Vars) -> (Map<String, Value>, Problems, Problems) {
        let mut given: BTreeMap<String, (Value, &'static str)> = BTreeMap::new();
        for (key, text) in &vars.env {
            let Some(name) = key.strip_prefix("NOMAD_VAR_") else { continue };
            if self.declared.contains_key(name) {
                self.set_text(name, text, "environment", &mut given);
            }
        }
        for (file, text) in &vars.files {
            self.set_file(Source { name: file, text }, vars.strict, &mut given);
        }
        for (name, text) in &vars.flags {
            if self.declared.contains_key(name) {
                self.set_text(name, text, "-var", &mut given);
            } else {
                let detail = self.undeclared(name);
                self.complain(vars.strict, Diagnostic::nowhere("-var", "Undefined -var variable", detail));
            }
        }
        let mut out = Map::new();
        for (name, declared) in std::mem::take(&mut self.declared) {
            let (value, from) = match (given.remove(&name), &declared.default) {
                (Some(v), _) => v,
                (None, Some(v)) => (v.clone(), DEFAULT),
                (None, None) if declared.refused => continue,
                (None, None) => {
                    let detail = format!(
                        "it has no default: give it a value with -var {name}=..., a variable file or NOMAD_VAR_{name}"
                    );
                    self.fail(declared.at, &format!("Unset variable {name:?}"), detail);
                    continue;
                }
            };
            self.validate(&name, &declared, &value, from);
            out.insert(name, value);
        }
        (out, self.diagnostics, self.warnings)
    }

    fn complain(&mut self, strict: bool, d: Diagnostic) {
        if strict { self.diagnostics.push(d) } else { self.warnings.push(d) }
    }

    fn undeclared(&self, name: &str) -> String {
        let near = nearest(name, self.declared.keys().map(String::as_str));
        let hint = near.map(|n| format!("; did you mean {n:?}?")).unwrap_or_default();
        format!("the job file declares no variable {name:?}{hint}")
    }

    fn set_text(
        &mut self,
        name: &str,
        text: &str,
        from: &'static str,
        given: &mut BTreeMap<String, (Value, &'static str)>,
    ) {
        let Some(declared) = self.declared.get_mut(name) else { return };
        let file = format!("<{from} {name}>");
        let value = if declared.raw {
            Ok(Value::String(text.to_string()))
        } else {
            expression(Source { name: &file, text }, self.evaluator.world)
        };
        let converted = value.and_then(|v| {
            let convert = declared.kind.convert(v);
            convert.map_err(|why| Diagnostic::nowhere(&file, "Invalid value for variable", why))
        });
        match converted {
            Ok(v) => {
                given.insert(name.to_string(), (v, from));
            }
            Err(d) => {
                declared.refused = true;
                self.diagnostics.push(d);
            }
        }
    }

    fn set_file(
        &mut self,
        source: Source<'_>,
        strict: bool,
        given: &mut BTreeMap<String, (Value, &'static str)>,
    ) {
        let content = match hcl::document(source) {
            Ok(body) => body.content(&|_| None),
            Err(d) => return self.diagnostics.push(d),
        };
        for b in content.blocks {
            let summary = if b.name == "variable" {
                "Variable declaration in a .var file"
            } else {
                "Unsupported block type"
            };
            let detail = "a variable file has only lines like name = value";
            self.diagnostics.at(source, b.name_at, summary, detail);
        }
        let evaluator = Evaluator { source, world: self.evaluator.world };
        for a in content.attributes {
            if self.diagnostics.is_full() {
                return;
            }
            let Some(declared) = self.declared.get_mut(&a.name) else {
                let detail = self.undeclared(&a.name);
                self.complain(strict, Diagnostic::at(source, a.name_at, "Undefined variable", detail));
                continue;
            };
            let value = evaluator.value(&a.value, &Scope::EMPTY).and_then(|v| {
                let convert = declared.kind.convert(v);
                convert
                    .map_err(|why| Diagnostic::at(source, a.value.span(), "Invalid value for variable", why))
            });
            match value {
                Ok(v) => {
                    given.insert(a.name, (v, "variable file"));
                }
                Err(d) => {
                    declared.refused = true;
                    self.diagnostics.push(d);
                }
            }
        }
    }

    fn validate(&mut self, name: &str, declared: &Declared, value: &Value, from: &str) {
        let own = json!({ name: value });
        let scope = Scope::EMPTY.with("var", &own);
        for v in &declared.validations {
            let at = v.condition.span();
            let own_reference = format!("var.{name}");
            if !self.evaluator.source.text.get(at.clone()).is_some_and(|t| t.contains(&own_reference)) {
                let detail = format!("the condition must be about {own_reference}, and nothing else");
                self.fail(at, "Invalid variable validation condition", detail);
                continue;
            }
            match self.evaluator.value(&v.condition, &scope) {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => {
                    let at = if from == DEFAULT { &declared.default_at } else { &declared.at };
                    self.fail(at.clone(), &format!("Invalid value for {from} variable"), &v.message);
                }
                Ok(_) => self.fail(
                    at,
                    "Invalid variable validation result",
                    "the condition must give true or false",
                ),
                Err(d) => self.diagnostics.push(d),
            }
        }
    }
}

fn read_type(e: &Expr) -> Result<Type, String> {
    match e {
        Expr::Hcl(e) => Type::read(e),
        Expr::Json(node) => match &node.kind {
            json_syntax::JsonKind::Text(t) => Type::from_text(t),
            _ => Err("a type is written as a string here".into()),
        },
    }
}

fn expression(source: Source<'_>, world: World<'_>) -> Result<Value, Diagnostic> {
    if source.text.len() > hcl::MAX_TEXT {
        return Err(Diagnostic::nowhere(source.name, "Value too large", "at most 1 MiB is read"));
    }
    if object_size::too_large(source.text, Whole::Code).is_some() {
        return Err(Diagnostic::nowhere(
            source.name,
            "Value too large",
            "one of its objects has too many members",
        ));
    }
    let parsed = hcl_edit::parser::parse_expr(source.text).map_err(|e| {
        let at = e.location().offset();
        Diagnostic::at(source, at..at + 1, "Invalid value for variable", e.message())
    })?;
    Evaluator { source, world }.value(&Expr::Hcl(parsed), &Scope::EMPTY)
}

/// Evaluates `locals` in the order of their dependencies, whatever their order in the text.
pub fn locals(evaluator: &Evaluator<'_>, attributes: Vec<Attribute>, vars: &Value) -> (Value, Problems) {
    let source = evaluator.source;
    let mut diagnostics = Problems::default();
    let mut pending: BTreeMap<String, (Attribute, BTreeSet<String>)> = BTreeMap::new();
    for a in attributes {
        if pending.contains_key(&a.name) {
            let detail = format!("{:?} is defined twice", a.name);
            diagnostics.at(source, a.name_at, "Duplicate value in locals", detail);
            continue;
        }
        let uses = local_names(&a.value);
        pending.insert(a.name.clone(), (a, uses));
    }
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let known: BTreeSet<String> = pending.keys().cloned().collect();
    let mut ready = Vec::new();
    for (name, (_, uses)) in &mut pending {
        uses.retain(|u| known.contains(u));
        for u in uses.iter() {
            users.entry(u.clone()).or_default().push(name.clone());
        }
        if uses.is_empty() {
            ready.push(name.clone());
        }
    }
    let mut done = Value::Object(Map::new());
    while let Some(name) = ready.pop()
        && !diagnostics.is_full()
    {
        let Some((a, _)) = pending.remove(&name) else { continue };
        let outer = Scope::EMPTY.with("var", vars);
        let result = evaluator.value(&a.value, &outer.with("local", &done));
        match (result, &mut done) {
            (Ok(v), Value::Object(map)) => {
                map.insert(name.clone(), v);
            }
            (Err(d), _) => diagnostics.push(d),
            (Ok(_), _) => {}
        }
        for user in users.remove(&name).unwrap_or_default() {
            if let Some((_, uses)) = pending.get_mut(&user) {
                uses.remove(&name);
                if uses.is_empty() {
                    ready.push(user);
                }
            }
        }
    }
    for (name, (a, uses)) in pending {
        let among = uses.into_iter().collect::<Vec<_>>().join(", ");
        let detail = format!("{name:?} depends on itself through: {among}");
        diagnostics.at(source, a.name_at, "Unresolvable local", detail);
    }
    (done, diagnostics)
}

/// The names `x` of all `local.x` and `local["x"]`.
fn local_names(e: &Expr) -> BTreeSet<String> {
    let mut found = LocalNames(BTreeSet::new());
    match e {
        Expr::Hcl(e) => found.visit_expr(e),
        Expr::Json(node) => found.json(node),
    }
    found.0
}

struct LocalNames(BTreeSet<String>);

impl LocalNames {
    fn json(&mut self, node: &json_syntax::JsonNode) {
        match &node.kind {
            json_syntax::JsonKind::Text(t) => self.json_text(t),
            json_syntax::JsonKind::List(items) => items.iter().for_each(|n| self.json(n)),
            json_syntax::JsonKind::Object(members) => members.iter().for_each(|(label, n): &(Label, _)| {
                self.json_text(&label.text);
                self.json(n);
            }),
            json_syntax::JsonKind::Null
            | json_syntax::JsonKind::Bool(_)
            | json_syntax::JsonKind::Number(_) => {}
        }
    }

    fn json_text(&mut self, text: &str) {
        if object_size::too_large(text, Whole::Template).is_none()
            && let Ok(template) = hcl_edit::parser::parse_template(text)
        {
            self.visit_template(&template);
        }
    }
}

impl Visit for LocalNames {
    fn visit_traversal(&mut self, t: &Traversal) {
        if matches!(&t.expr, Expression::Variable(v) if v.as_str() == "local") {
            match t.operators.first().map(|o| o.value()) {
                Some(TraversalOperator::GetAttr(name)) => {
                    self.0.insert(name.as_str().to_string());
                }
                Some(TraversalOperator::Index(Expression::String(name))) => {
                    self.0.insert(name.value().clone());
                }
                _ => {}
            }
        }
        visit_traversal(self, t);
    }
}
