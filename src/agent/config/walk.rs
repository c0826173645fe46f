//! Walks one source after the other along the declared keys, sets values and collects what is wrong with its place.
//!
//! Merge rules (cli.md 4.1.3): a later value wins; an empty or zero value says nothing; a plain boolean can only be switched
//! on; entries of maps add up. Keys are matched without regard to case.

use super::keys::{ConfigKey, KeyType, TOP};
use super::masking;
use super::secret::Secret;
use super::syntax::{self, ConfigValue, Item, SyntaxNode};
use super::{Config, FlagSetting, Setting, Settings, SourceFile};
use jobspec::diagnostic::{Diagnostic, Source};
use jobspec::duration;
use jobspec::nearest::nearest;
use model::time::Span;
use std::ops::{Range, RangeInclusive};

/// A longer configuration file is not read.
const MAX_FILE_BYTES: usize = 1 << 20;

pub struct ConfigLoader {
    walked: LoadedConfig,
}

/// The result of reading all sources.
pub struct LoadedConfig {
    pub config: Config,
    pub settings: Settings,
    pub warnings: Vec<String>,
    pub errors: Vec<Diagnostic>,
}

impl ConfigLoader {
    pub fn new(config: Config) -> ConfigLoader {
        let (settings, warnings, errors) = Default::default();
        ConfigLoader { walked: LoadedConfig { config, settings, warnings, errors } }
    }

    pub fn finish(self) -> LoadedConfig {
        self.walked
    }

    /// The declared default of each key, before any source.
    pub fn defaults(&mut self, dev: bool) {
        self.default_of_each(TOP, "", dev);
    }

    fn default_of_each(&mut self, keys: &'static [ConfigKey], above: &str, dev: bool) {
        for key in keys {
            let name = join(above, key.name);
            match &key.kind {
                KeyType::Block(inner) => self.default_of_each(inner, &name, dev),
                KeyType::Labelled { label, keys, .. } => self.default_of_each(keys, &join(&name, label), dev),
                _ => {
                    let Some(value) = key.default_value(dev) else { continue };
                    let place = Source { name: "default", text: value };
                    let node = SyntaxNode { value: ConfigValue::Text(value.to_string()), at: 0..value.len() };
                    self.value(place, &name, key, &node);
                }
            }
        }
    }

    pub fn file(&mut self, file: &SourceFile) {
        if file.text.len() > MAX_FILE_BYTES {
            let summary = format!("Configuration file is longer than {MAX_FILE_BYTES} bytes");
            return self.walked.errors.push(Diagnostic::nowhere(&file.name, summary, ""));
        }
        let place = |text| Source { name: file.name.as_str(), text };
        match syntax::parse(&file.text) {
            Ok(items) => self.items(place(&masking::masked(&file.text, &items)), "", TOP, &items),
            Err(e) => {
                self.refuse(place(&masking::masked_whole(&file.text)), e.at, "Syntax error", e.message);
            }
        }
    }

    /// One flag: as if its key stood in a file that was read last.
    pub fn flag(&mut self, setting: &FlagSetting) {
        let mut keys: &[ConfigKey] = TOP;
        let mut parts = setting.key.split('.').peekable();
        while let Some(part) = parts.next() {
            let Some(found) = keys.iter().find(|k| k.name == part) else { return };
            match &found.kind {
                KeyType::Block(inner) if parts.peek().is_some() => keys = inner,
                KeyType::Map(set) => return self.map_flag(setting, *set),
                _ => return self.single_flag(setting, found),
            }
        }
    }

    fn single_flag(&mut self, setting: &FlagSetting, key: &ConfigKey) {
        let place = Source { name: setting.flag, text: if key.secret { "" } else { &setting.value } };
        let at = 0..place.text.len();
        let node = SyntaxNode { value: ConfigValue::Text(setting.value.clone()), at: at.clone() };
        match &key.kind {
            KeyType::List(set) => {
                let list = SyntaxNode { value: ConfigValue::List(vec![node]), at };
                self.list(place, setting.key, *set, &list);
            }
            _ => self.value(place, setting.key, key, &node),
        }
    }

    fn map_flag(&mut self, setting: &FlagSetting, set: fn(&mut Config, &str, &str) -> Result<(), String>) {
        let done = match setting.value.split_once('=') {
            Some((key, value)) => {
                set(&mut self.walked.config, key, value).map(|()| self.said(&join(setting.key, key), value))
            }
            None => Err(format!("{:?} is not key=value", setting.value)),
        };
        if let Err(why) = done {
            self.walked.errors.push(Diagnostic::nowhere(setting.flag, "Invalid value", why));
        }
    }

    fn items(&mut self, place: Source<'_>, above: &str, keys: &'static [ConfigKey], items: &[Item]) {
        for item in items {
            match keys.iter().find(|k| k.name.eq_ignore_ascii_case(&item.key)) {
                Some(found) => self.known(place, &join(above, found.name), found, item),
                None => self.unknown(place, above, keys, item),
            }
        }
    }

    fn unknown(&mut self, place: Source<'_>, above: &str, keys: &[ConfigKey], item: &Item) {
        // JSON files carry remarks this way
        if item.key == "//" {
            return;
        }
        let detail = match nearest(&item.key, keys.iter().map(|k| k.name)) {
            Some(name) => format!("did you mean {:?}?", join(above, name)),
            None => "docs/behaviour/cli.md and the files in config/ list every key".to_string(),
        };
        let summary = format!("Unknown configuration key {:?}", join(above, &item.key));
        self.refuse(place, item.key_at.clone(), summary, detail);
    }

    fn known(&mut self, place: Source<'_>, name: &str, key: &'static ConfigKey, item: &Item) {
        match &key.kind {
            KeyType::Block(keys) => self.each_object(place, name, &item.node, &mut |loading, items| {
                loading.items(place, name, keys, items);
            }),
            KeyType::Labelled { label, keys, others } => {
                self.each_object(place, name, &item.node, &mut |loading, items| {
                    loading.labelled(place, name, (label, keys, *others), items);
                })
            }
            KeyType::Named(begin, keys) => {
                self.each_object(place, name, &item.node, &mut |loading, items| {
                    loading.named(place, name, *begin, keys, items);
                })
            }
            KeyType::Map(set) => self.each_object(place, name, &item.node, &mut |loading, items| {
                loading.entries(place, name, *set, items);
            }),
            KeyType::NotBuilt(harmless) => self.not_built(place, name, harmless, item),
            KeyType::List(set) => self.list(place, name, *set, &item.node),
            KeyType::NoEffect if is_zero_value(&item.node.value) => {}
            KeyType::NoEffect => self.warn(place, name, key.about),
            _ => self.value(place, name, key, &item.node),
        }
    }

    fn warn(&mut self, place: Source<'_>, name: &str, why: &str) {
        let text = format!("{}: {name} has no effect: {why}", place.name);
        if !self.walked.warnings.contains(&text) {
            self.walked.warnings.push(text);
        }
    }

    /// A block may be written as a block, as an object, or (in JSON) as a list of objects.
    fn each_object(
        &mut self,
        place: Source<'_>,
        name: &str,
        node: &SyntaxNode,
        visit: &mut dyn FnMut(&mut ConfigLoader, &[Item]),
    ) {
        match &node.value {
            ConfigValue::Object(items) => visit(self, items),
            ConfigValue::List(nodes) if nodes.iter().all(|n| matches!(n.value, ConfigValue::Object(_))) => {
                nodes.iter().for_each(|n| self.each_object(place, name, n, visit));
            }
            ConfigValue::Null => {}
            _ => self.refuse(
                place,
                node.at.clone(),
                format!("{name} must be a block"),
                format!("{name} {{ ... }}"),
            ),
        }
    }

    fn labelled(
        &mut self,
        place: Source<'_>,
        name: &str,
        (label, keys, others): (&str, &'static [ConfigKey], Option<&str>),
        items: &[Item],
    ) {
        for item in items {
            if item.key == label {
                let below = format!("{name}.{label}");
                self.each_object(place, &below, &item.node, &mut |loading, items| {
                    loading.items(place, &below, keys, items);
                });
            } else if let Some(why) = others {
                self.warn(place, &format!("{name} {:?}", item.key), why);
            } else {
                let summary = format!("not supported yet: {name} {:?}", item.key);
                self.refuse(place, item.key_at.clone(), summary, format!("known is {name} {label:?}"));
            }
        }
    }

    /// One block for each label.
    fn named(
        &mut self,
        place: Source<'_>,
        name: &str,
        begin: fn(&mut Config, &str) -> Result<(), String>,
        keys: &'static [ConfigKey],
        items: &[Item],
    ) {
        for item in items {
            if let Err(why) = begin(&mut self.walked.config, &item.key) {
                self.refuse(place, item.key_at.clone(), format!("Invalid name of a {name}"), why);
                continue;
            }
            let below = format!("{name}.{}", item.key);
            self.each_object(place, &below, &item.node, &mut |loading, items| {
                loading.items(place, &below, keys, items);
            });
        }
    }

    fn entries(
        &mut self,
        place: Source<'_>,
        name: &str,
        set: fn(&mut Config, &str, &str) -> Result<(), String>,
        items: &[Item],
    ) {
        for item in items {
            let full = join(name, &item.key);
            let Some(text) = scalar(&item.node.value) else {
                self.refuse(
                    place,
                    item.node.at.clone(),
                    format!("{full} must be a text"),
                    "put it in double quotes",
                );
                continue;
            };
            match set(&mut self.walked.config, &item.key, &text) {
                Ok(()) => self.said(&full, &text),
                Err(why) => self.refuse(place, item.key_at.clone(), format!("Invalid value of {full}"), why),
            }
        }
    }

    fn list(
        &mut self,
        place: Source<'_>,
        name: &str,
        set: fn(&mut Config, &str) -> Result<(), String>,
        node: &SyntaxNode,
    ) {
        let nodes = match &node.value {
            ConfigValue::List(nodes) => nodes.as_slice(),
            ConfigValue::Null => &[],
            _ => return self.refuse(place, node.at.clone(), format!("{name} must be a list"), "[\"...\"]"),
        };
        for node in nodes {
            let done = match &node.value {
                ConfigValue::Text(text) => {
                    set(&mut self.walked.config, text).map(|()| self.listed(name, text))
                }
                _ => Err("it must be a text".to_string()),
            };
            if let Err(why) = done {
                self.refuse(place, node.at.clone(), format!("Invalid value of {name}"), why);
            }
        }
    }

    fn not_built(&mut self, place: Source<'_>, name: &str, harmless: &[&str], item: &Item) {
        let harmless = scalar(&item.node.value).is_some_and(|text| harmless.contains(&text.as_str()));
        if !harmless && !is_zero_value(&item.node.value) {
            self.refuse(place, item.key_at.clone(), format!("not supported yet: {name}"), "");
        }
    }

    fn value(&mut self, place: Source<'_>, name: &str, key: &ConfigKey, node: &SyntaxNode) {
        match self.set(&key.kind, &node.value) {
            Ok(Some(text)) if key.secret => {
                self.walked.settings.insert(name.to_string(), Setting::Hidden(Secret::new(text)));
            }
            Ok(Some(text)) => self.said(name, &text),
            Ok(None) => {}
            Err(why) => self.refuse(place, node.at.clone(), format!("Invalid value of {name}"), why),
        }
    }

    /// A list is what all sources put into it, with commas between.
    fn listed(&mut self, name: &str, text: &str) {
        let all = self.walked.settings.entry(name.to_string()).or_insert(Setting::Shown(String::new()));
        let Setting::Shown(all) = all else { return };
        if !all.split(',').any(|one| one == text) {
            let comma = if all.is_empty() { "" } else { "," };
            *all = format!("{all}{comma}{text}");
        }
    }

    fn said(&mut self, name: &str, text: &str) {
        self.walked.settings.insert(name.to_string(), Setting::Shown(text.to_string()));
    }

    /// Sets the value and returns it as text; `None`: it says nothing.
    fn set(&mut self, kind: &KeyType, value: &ConfigValue) -> Result<Option<String>, String> {
        if matches!(value, ConfigValue::Null) {
            return Ok(None);
        }
        let text = scalar(value).ok_or("it must be a single value")?;
        let config = &mut self.walked.config;
        let said = match kind {
            KeyType::Text(set) if !text.is_empty() => set(config, &text).map(Some)?,
            KeyType::Bool(set) => boolean(&text)?.then(|| set(config)),
            KeyType::Switch(set) => Some(boolean(&text)?).map(|on| set(config, on)),
            KeyType::Int(range, set) => whole(&text, range)?.map(|n| set(config, n)),
            KeyType::Float(set) => float(&text)?.map(|n| set(config, n)),
            KeyType::Duration(set) => span(&text)?.map(|span| set(config, span)),
            _ => None,
        };
        Ok(said.map(|()| text))
    }

    fn refuse(
        &mut self,
        place: Source<'_>,
        at: Range<usize>,
        summary: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.walked.errors.push(Diagnostic::at(place, at, summary, detail));
    }
}

fn join(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_string() } else { format!("{above}.{name}") }
}

/// Whether the value asks for nothing: empty, zero, false. An empty block says that there is one.
fn is_zero_value(value: &ConfigValue) -> bool {
    match value {
        ConfigValue::Null | ConfigValue::Bool(false) => true,
        ConfigValue::Text(text) => text.is_empty(),
        ConfigValue::Number(text) => text.parse::<f64>() == Ok(0.0),
        ConfigValue::List(nodes) => nodes.is_empty(),
        ConfigValue::Bool(true) | ConfigValue::Object(_) => false,
    }
}

/// Text, number or boolean as text; lists and objects are none.
fn scalar(value: &ConfigValue) -> Option<String> {
    match value {
        ConfigValue::Text(text) | ConfigValue::Number(text) => Some(text.clone()),
        ConfigValue::Bool(b) => Some(b.to_string()),
        ConfigValue::Null => Some(String::new()),
        ConfigValue::List(_) | ConfigValue::Object(_) => None,
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// `None`: a zero that says nothing.
fn whole(text: &str, range: &RangeInclusive<u64>) -> Result<Option<u64>, String> {
    let digits = text.strip_suffix(".0").unwrap_or(text);
    let n: u64 = match digits {
        "" => 0,
        _ => digits.parse().map_err(|_| format!("{text:?} is not a whole number from 0 up"))?,
    };
    match range.contains(&n) {
        true => Ok(Some(n)),
        false if n == 0 => Ok(None),
        false => Err(format!("it must be from {} to {}", range.start(), range.end())),
    }
}

fn float(text: &str) -> Result<Option<f64>, String> {
    let n: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if !n.is_finite() || n < 0.0 {
        return Err("it must be zero or more".to_string());
    }
    Ok(Some(n).filter(|n| *n > 0.0))
}

fn span(text: &str) -> Result<Option<Span>, String> {
    let span = duration::parse(text).map_err(|e| e.to_string())?;
    if span < Span::ZERO {
        return Err("it may not be negative".to_string());
    }
    Ok(Some(span).filter(|span| *span > Span::ZERO))
}
