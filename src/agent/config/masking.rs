//! The text of a configuration as messages may quote it: without the values of secrets (cli.md 4.1.10).
//!
//! Refuses to know: what any key does. Positions stay: a byte of a secret becomes one `*`.

use super::keys::{ConfigKey, KeyType, TOP};
use super::syntax::{ConfigValue, Item};
use std::ops::Range;

/// The text without values of secrets and of unknown keys, which may be misspelt secrets.
pub fn masked(text: &str, items: &[Item]) -> String {
    let mut spans = Vec::new();
    collect(text, TOP, items, &mut spans);
    blot(text, &spans)
}

fn collect(text: &str, keys: &[ConfigKey], items: &[Item], spans: &mut Vec<Range<usize>>) {
    for item in items {
        let at = item.node.at.clone();
        match keys.iter().find(|key| key.name.eq_ignore_ascii_case(&item.key)) {
            None => spans.push(at),
            // a remark behind a secret may be the one before it
            Some(key) if key.secret => {
                let line_end = text[at.end..].find('\n').map_or(text.len(), |length| at.end + length);
                spans.push(at.start..line_end);
            }
            Some(key) => inside(text, key, item, spans),
        }
    }
}

fn inside(text: &str, key: &ConfigKey, item: &Item, spans: &mut Vec<Range<usize>>) {
    for items in objects(&item.node.value) {
        match &key.kind {
            KeyType::Block(keys) => collect(text, keys, items, spans),
            KeyType::Labelled { keys, .. } | KeyType::Named(_, keys) => {
                let blocks = items.iter().flat_map(|labelled| objects(&labelled.node.value));
                blocks.for_each(|items| collect(text, keys, items, spans));
            }
            KeyType::Map(_) => {}
            // a block where a value belongs
            _ => spans.push(item.node.at.clone()),
        }
    }
}

/// The items of a block, or of each block of a list.
fn objects(value: &ConfigValue) -> Vec<&[Item]> {
    match value {
        ConfigValue::Object(items) => vec![items],
        ConfigValue::List(nodes) => nodes.iter().flat_map(|node| objects(&node.value)).collect(),
        _ => Vec::new(),
    }
}

/// A text that is no configuration: where a secret begins and ends is not known. If the text names one, of each line its first word
/// stays, and that only if it is a key.
pub fn masked_whole(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if !any_key(TOP, &|key| key.secret && lower.contains(key.name)) {
        return text.to_string();
    }
    let mut spans = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        let rest = &line[indent..];
        let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let is_key = any_key(TOP, &|key| key.name.eq_ignore_ascii_case(&rest[..word]));
        let kept = if is_key { indent + word } else { indent };
        spans.push(start + kept..start + line.len());
        start += line.len();
    }
    blot(text, &spans)
}

fn any_key(keys: &[ConfigKey], fits: &dyn Fn(&ConfigKey) -> bool) -> bool {
    keys.iter().any(|key| {
        let below = match &key.kind {
            KeyType::Block(keys) | KeyType::Named(_, keys) | KeyType::Labelled { keys, .. } => *keys,
            _ => &[],
        };
        fits(key) || any_key(below, fits)
    })
}

fn blot(text: &str, spans: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut sorted = spans.to_vec();
    sorted.sort_by_key(|span| span.start);
    for span in sorted {
        let start = span.start.clamp(at, text.len());
        let end = span.end.clamp(start, text.len());
        out.push_str(&text[at..start]);
        out.extend(
            text[start..end].bytes().map(|b| if b.is_ascii_whitespace() { char::from(b) } else { '*' }),
        );
        at = end;
    }
    out.push_str(&text[at..]);
    out
}
