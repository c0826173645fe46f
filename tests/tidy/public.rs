//! Public items that nobody names. The compiler finds dead code inside a crate; what one room offers and no other takes it cannot find.
//!
//! Goes by names: an item is found when its name stands nowhere else in what ships. One that shares its name with something else is missed.

use crate::source::{Source, is_word};
use std::collections::BTreeMap;

/// The path packages whose items a published crate dictates.
pub const ENGINE_TYPES: &str = "engine_types";

const ITEMS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "static"];

pub fn unnamed(sources: &[Source]) -> Vec<String> {
    let shipped: Vec<&Source> = shipped(sources).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for source in &shipped {
        for line in shipped_lines(source) {
            line.split(|c| !is_word(c))
                .filter(|word| !word.is_empty())
                .for_each(|word| *uses.entry(word).or_default() += 1);
        }
    }
    let mut found = Vec::new();
    for source in shipped.iter().filter(|s| !s.path.contains(ENGINE_TYPES)) {
        for (line, name) in offered(source) {
            let once = uses.get(name.as_str()).is_none_or(|count| *count <= 1);
            if once {
                found.push(format!("{}:{line}: nobody names `{name}` in what ships", source.path));
            }
        }
    }
    found
}

/// The sources that no build for tests alone has.
pub fn shipped(sources: &[Source]) -> impl Iterator<Item = &Source> {
    let for_tests = modules_for_tests(sources);
    sources.iter().filter(move |s| {
        let in_room = s.room().is_some_and(|room| room != "sim" && room != "fuzz");
        in_room && !for_tests.iter().any(|module| s.path.starts_with(module))
    })
}

/// The files of modules that only builds for tests have.
fn modules_for_tests(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let code = source.text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        let lines: Vec<&str> = code.collect();
        let folder = source.path.trim_end_matches("mod.rs").trim_end_matches(".rs").trim_end_matches('/');
        for pair in
            lines.windows(2).filter(|pair| pair[0].starts_with("#[cfg(any(test") || pair[0] == "#[cfg(test)]")
        {
            let name =
                pair[1].trim_start_matches("pub ").strip_prefix("mod ").and_then(|m| m.strip_suffix(';'));
            found.extend(name.map(|name| format!("{folder}/{name}")));
        }
    }
    found
}

/// The code of a file up to its own tests.
fn shipped_lines(source: &Source) -> impl Iterator<Item = &str> {
    source.code.lines().take(source.tests_begin().saturating_sub(1))
}

/// The lines and names of public items that are not for tests.
fn offered(source: &Source) -> Vec<(usize, String)> {
    let lines: Vec<&str> = shipped_lines(source).collect();
    let for_tests = |at: usize| {
        let above = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.trim_start().starts_with("#[") || line.trim().is_empty());
        above.take(3).any(|line| line.contains("cfg(any(test") || line.contains("cfg(test"))
    };
    let name = |line: &str| {
        let mut words = line.trim_start().strip_prefix("pub ")?.split_whitespace();
        let item = words
            .find(|word| *word != "const" || !line.contains(" fn "))
            .filter(|word| ITEMS.contains(word))?;
        let name: String = words.next()?.chars().take_while(|c| is_word(*c)).collect();
        (!item.is_empty() && !name.is_empty()).then_some(name)
    };
    let items = lines.iter().enumerate().filter_map(|(at, line)| Some((at, name(line)?)));
    items.filter(|(at, _)| !for_tests(*at)).map(|(at, name)| (at + 1, name)).collect()
}
