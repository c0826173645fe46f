//! Every key that a configuration may name, each declared once: its name, its type and range, the field that it fills, its default, whether
//! a running agent takes a change over, and what it is for. Parsing, defaults, merging, refusals, `agent/self`, reloading and the tables of
//! docs/behaviour/cli.md follow from the declaration.
//!
//! Refuses to know: syntax and positions. To add a key: its row here, its field in `Config`, and the place that obeys it. To build one that
//! is known, its row changes from `not_built` to a type with a setter.

mod client;
mod server;
mod telemetry;
mod top;

use super::Config;
use model::time::Span;
use std::ops::RangeInclusive;
pub use top::TOP;

/// One key and what it means.
pub struct ConfigKey {
    pub name: &'static str,
    pub kind: KeyType,
    pub default: DefaultValue,
    /// The default in dev mode, where it is another.
    pub dev_default: Option<&'static str>,
    /// A running agent takes a change over on SIGHUP.
    pub live: bool,
    /// The value is shown nowhere.
    pub secret: bool,
    /// What the key is for; of a key without effect, why it has none.
    pub about: &'static str,
    /// What a text has to be; empty: any.
    pub takes: &'static str,
}

/// A key's value where nothing is said.
pub enum DefaultValue {
    Nothing,
    /// This value, as it would be written.
    Value(&'static str),
    /// No fixed value: words for docs/behaviour/cli.md.
    Words(&'static str),
}

/// What a key holds. A setter's `Err` is a sentence on why the value is refused.
pub enum KeyType {
    Text(fn(&mut Config, &str) -> Result<(), String>),
    /// Nomad's rule: a later file can only switch it on.
    Bool(fn(&mut Config)),
    /// A later file can switch it on or off.
    Switch(fn(&mut Config, bool)),
    /// A whole number in this range; a zero outside it means "the default" and is passed over.
    Int(RangeInclusive<u64>, fn(&mut Config, u64)),
    Float(fn(&mut Config, f64)),
    Duration(fn(&mut Config, Span)),
    /// Entries are added; an entry said again is replaced.
    Map(fn(&mut Config, &str, &str) -> Result<(), String>),
    /// Texts; each is added to what was said before.
    List(fn(&mut Config, &str) -> Result<(), String>),
    Block(&'static [ConfigKey]),
    /// A block with one label, of which only this one is built. `others`: why another label has no effect; `None`: it is refused.
    Labelled {
        label: &'static str,
        keys: &'static [ConfigKey],
        others: Option<&'static str>,
    },
    /// A block with one label of the user's own, which the first function takes note of; its keys' setters find it there.
    Named(fn(&mut Config, &str) -> Result<(), String>, &'static [ConfigKey]),
    /// A key that would change what drover does, and is not built: refused, unless the value asks for nothing (empty, zero, false) or is
    /// one of these.
    NotBuilt(&'static [&'static str]),
    /// A key that changes nothing here, whatever it says: accepted with a warning that says why.
    NoEffect,
}

const fn key(name: &'static str, kind: KeyType) -> ConfigKey {
    ConfigKey {
        name,
        kind,
        default: DefaultValue::Nothing,
        dev_default: None,
        live: false,
        secret: false,
        about: "",
        takes: "",
    }
}

const fn not_built(name: &'static str) -> ConfigKey {
    key(name, KeyType::NotBuilt(&[]))
}

/// Not built, but for these values, which ask for what is done anyway.
const fn not_built_but(name: &'static str, values: &'static [&'static str]) -> ConfigKey {
    key(name, KeyType::NotBuilt(values))
}

const fn no_effect(name: &'static str, why: &'static str) -> ConfigKey {
    key(name, KeyType::NoEffect).about(why)
}

impl ConfigKey {
    /// The default, as it would be written.
    const fn or(mut self, value: &'static str) -> ConfigKey {
        self.default = DefaultValue::Value(value);
        self
    }

    /// Where the default is no fixed value.
    const fn or_words(mut self, words: &'static str) -> ConfigKey {
        self.default = DefaultValue::Words(words);
        self
    }

    const fn dev(mut self, value: &'static str) -> ConfigKey {
        self.dev_default = Some(value);
        self
    }

    const fn live(mut self) -> ConfigKey {
        self.live = true;
        self
    }

    const fn secret(mut self) -> ConfigKey {
        self.secret = true;
        self
    }

    const fn about(mut self, about: &'static str) -> ConfigKey {
        self.about = about;
        self
    }

    const fn takes(mut self, what: &'static str) -> ConfigKey {
        self.takes = what;
        self
    }

    /// The value that holds where nothing is said.
    pub fn default_value(&self, dev: bool) -> Option<&'static str> {
        match (self.dev_default, &self.default) {
            (Some(value), _) if dev => Some(value),
            (_, DefaultValue::Value(value)) => Some(value),
            _ => None,
        }
    }
}

/// Whether a running agent takes a change of the key, or of the map's entry, with this full name over.
pub fn is_reloadable(full: &str) -> bool {
    let (mut keys, mut rest) = (TOP, full);
    loop {
        let (first, after) = rest.split_once('.').unwrap_or((rest, ""));
        match keys.iter().find(|key| key.name == first) {
            Some(ConfigKey { kind: KeyType::Block(inner), .. }) => (keys, rest) = (inner, after),
            found => return found.is_some_and(|key| key.live),
        }
    }
}

const PORT: RangeInclusive<u64> = 1..=65_535;
const COUNT: RangeInclusive<u64> = 1..=u32::MAX as u64;
const COUNT_OR_ZERO: RangeInclusive<u64> = 0..=u32::MAX as u64;
const AMOUNT: RangeInclusive<u64> = 1..=i64::MAX as u64;
