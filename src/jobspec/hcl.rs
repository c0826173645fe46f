//! HCL text as a tree of attributes and blocks with positions, whether written in HCL's own syntax or in its JSON one.
//! The agent's configuration files are read with it, too.
//!
//! Refuses to know: which names are allowed, and what an expression evaluates to.

use super::diagnostic::{Diagnostic, Label, Source};
use super::json_syntax::{self, JsonNode};
use super::object_size::{self, MAX_MEMBERS, Whole};
use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{self, Structure};
use std::ops::Range;

/// Longer texts are refused.
pub const MAX_TEXT: usize = 1 << 20;

#[derive(Debug)]
pub struct Attribute {
    pub name: String,
    pub name_at: Range<usize>,
    pub value: Expr,
}

#[derive(Debug)]
pub struct HclBlock {
    pub name: String,
    pub name_at: Range<usize>,
    pub labels: Vec<Label>,
    pub body: BlockBody,
}

#[derive(Clone, Debug)]
pub enum Expr {
    Hcl(Expression),
    Json(JsonNode),
}

impl Expr {
    pub fn span(&self) -> Range<usize> {
        match self {
            Expr::Hcl(e) => e.span().unwrap_or(0..0),
            Expr::Json(n) => n.at.clone(),
        }
    }
}

/// What stands between a block's braces.
#[derive(Clone, Debug)]
pub enum BlockBody {
    Hcl(structure::Body),
    /// The members of an object, or of several that count as one. Which of them are blocks only a schema can tell.
    Json(Vec<(Label, JsonNode)>),
}

/// Attributes and blocks of one body, each in the order of the text.
#[derive(Debug, Default)]
pub struct Content {
    pub attributes: Vec<Attribute>,
    pub blocks: Vec<HclBlock>,
    /// Members of the JSON syntax that are blocks by their name, but not by their form.
    pub malformed: Vec<Label>,
}

impl BlockBody {
    /// Members named `//` are comments in the JSON syntax. `labels_of` says how many labels the block of a name has; none: no block has that name. Only the JSON syntax asks.
    pub fn content(self, labels_of: &dyn Fn(&str) -> Option<usize>) -> Content {
        let mut content = Content::default();
        match self {
            BlockBody::Hcl(body) => {
                for structure in body {
                    native(structure, &mut content);
                }
            }
            BlockBody::Json(members) => {
                for (name, node) in members.into_iter().filter(|(name, _)| name.text != "//") {
                    match labels_of(&name.text) {
                        Some(labels) => json_blocks(&name, node, labels, &mut Vec::new(), &mut content),
                        None => content.attributes.push(Attribute {
                            name: name.text,
                            name_at: name.at,
                            value: Expr::Json(node),
                        }),
                    }
                }
            }
        }
        content
    }
}

fn native(structure: Structure, content: &mut Content) {
    match structure {
        Structure::Attribute(a) => content.attributes.push(Attribute {
            name: a.key.as_str().to_string(),
            name_at: a.key.span().unwrap_or(0..0),
            value: Expr::Hcl(a.value),
        }),
        Structure::Block(b) => {
            let label = |l: &structure::BlockLabel| Label {
                text: l.as_str().to_string(),
                at: l.span().unwrap_or_else(|| b.ident.span().unwrap_or(0..0)),
            };
            content.blocks.push(HclBlock {
                name: b.ident.as_str().to_string(),
                name_at: b.ident.span().unwrap_or(0..0),
                labels: b.labels.iter().map(label).collect(),
                body: BlockBody::Hcl(b.body),
            });
        }
    }
}

/// One object per block, a list of them for several, and around that one object per label. Null is none.
fn json_blocks(name: &Label, node: JsonNode, labels: usize, outer: &mut Vec<Label>, content: &mut Content) {
    match node.kind {
        json_syntax::JsonKind::Null => {}
        json_syntax::JsonKind::List(items) => {
            for item in items {
                json_blocks(name, item, labels, outer, content);
            }
        }
        json_syntax::JsonKind::Object(members) if labels > 0 => {
            for (label, inner) in members {
                outer.push(label);
                json_blocks(name, inner, labels - 1, outer, content);
                outer.pop();
            }
        }
        json_syntax::JsonKind::Object(members) => content.blocks.push(HclBlock {
            name: name.text.clone(),
            name_at: name.at.clone(),
            labels: outer.clone(),
            body: BlockBody::Json(members),
        }),
        _ => content.malformed.push(name.clone()),
    }
}

/// Reads a whole text. One that starts with `{` is in JSON's syntax.
pub fn document(source: Source<'_>) -> Result<BlockBody, Diagnostic> {
    if source.text.len() > MAX_TEXT {
        let detail = format!("it has {} bytes, at most {MAX_TEXT} are read", source.text.len());
        return Err(Diagnostic::nowhere(source.name, "File too large", detail));
    }
    if source.text.trim_start().starts_with('{') {
        return match json_syntax::parse(source)? {
            JsonNode { kind: json_syntax::JsonKind::Object(members), .. } => Ok(BlockBody::Json(members)),
            other => Err(Diagnostic::at(source, other.at, "Invalid JSON body", "an object is expected")),
        };
    }
    if let Some(at) = object_size::too_large(source.text, Whole::Code) {
        let detail = format!("at most {MAX_MEMBERS} members are read in one");
        return Err(Diagnostic::at(source, at..at + 1, "Object or block too large", detail));
    }
    hcl_edit::parser::parse_body(source.text).map(BlockBody::Hcl).map_err(|e| {
        let at = e.location().offset();
        match habit(source.text, at) {
            Some((summary, detail)) => Diagnostic::at(source, at..at + 1, summary, detail),
            None => Diagnostic::at(source, at..at + 1, "Invalid syntax", e.message()),
        }
    })
}

/// What was meant where the syntax broke, for the two habits that older job files have.
fn habit(text: &str, at: usize) -> Option<(&'static str, &'static str)> {
    let (before, rest) = (text.get(..at)?, text.get(at..)?);
    let line = before.rsplit('\n').next()?.trim_start();
    let after = rest.trim_start_matches(' ');
    if line.is_empty() && after.starts_with('"') {
        let detail = "argument names must not be quoted: write the name without quotes, or the whole as a map, \
                      as in env = { \"a.b\" = \"c\" }";
        return Some(("Invalid argument name", detail));
    }
    let (header, argument) = line.rsplit_once('{')?;
    let detail =
        "a block on one line holds one argument and ends there: give each argument a line of its own";
    let block = !header.contains('=') && argument.contains('=');
    block.then_some(("Invalid single-argument block", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BlockBody, Diagnostic> {
        document(Source { name: "t", text })
    }

    #[test]
    fn both_syntaxes_give_the_same_tree() {
        let native = "a = 1\njob \"x\" {\n  group \"g\" {}\n  group \"h\" {}\n}\n";
        let json = r#"{"a": 1, "job": {"x": {"group": {"g": {}, "h": [{}]}}}}"#;
        let labels = |n: &str| ["job", "group"].contains(&n).then_some(1);
        for text in [native, json] {
            let top = read(text).unwrap().content(&labels);
            assert_eq!(top.attributes.len(), 1);
            assert_eq!((top.blocks[0].name.as_str(), top.blocks[0].labels[0].text.as_str()), ("job", "x"));
            let inner = top.blocks[0].body.clone().content(&labels);
            let names: Vec<&str> = inner.blocks.iter().map(|b| b.labels[0].text.as_str()).collect();
            assert_eq!(names, ["g", "h"]);
        }
    }

    #[test]
    fn deep_nesting_is_a_diagnostic() {
        for open in ["[", "{", "(", "a {\n", "f(", "${", "\"${", "!", "-", "[for x in ", "{\"a\":"] {
            let text = format!("a = {}", open.repeat(100_000));
            assert!(read(&text).is_err(), "{open}");
            assert!(read(&open.repeat(100_000)).is_err(), "{open}");
        }
    }

    #[test]
    fn syntax_errors_have_a_place() {
        let d = read("a = 1\nb = = 2\n").unwrap_err();
        assert_eq!((d.line, d.column), (2, 5));
        assert!(read(&" ".repeat(MAX_TEXT + 1)).unwrap_err().detail.contains("at most"));
    }
}
