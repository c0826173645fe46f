//! Whether an item that a document names exists: `Owner::name`, where the owner is a type or a module, or a name alone.
//!
//! Goes by names and braces. Macros and re-exports are not followed.

use crate::source::{Source, body_end, is_word, word_positions};

const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules!"];

/// Names joined by `::`, as opposed to a path in the repository.
pub fn is_path_of_items(name: &str) -> bool {
    name.split("::").all(|step| !step.is_empty() && step.chars().all(is_word))
}

pub fn exists(sources: &[Source], path: &str) -> bool {
    let (owner, name) = path.rsplit_once("::").unwrap_or(("", path));
    let owner = owner.rsplit("::").next().unwrap_or(owner);
    let may =
        |source: &&Source| source.room().is_some() && (source.code.contains(name) || is_module(source, name));
    sources.iter().filter(may).any(|source| {
        if !owner.is_empty() && !is_module(source, owner) && !source.code.contains(owner) {
            return false;
        }
        let chars: Vec<char> = source.code.chars().collect();
        if owner.is_empty() || is_module(source, owner) {
            return declares(&chars, name) || (!owner.is_empty() && is_module(source, name));
        }
        has_member(&chars, owner, name)
    })
}

/// Whether the file is, or lies in, a module of this name.
fn is_module(source: &Source, name: &str) -> bool {
    source.path.trim_end_matches(".rs").split('/').any(|step| step == name)
}

fn declares(chars: &[char], name: &str) -> bool {
    let is_declared = |at: &usize| {
        let before: String = chars[..*at].iter().rev().skip_while(|c| c.is_whitespace()).take(16).collect();
        let before: String = before.chars().take_while(|c| !c.is_whitespace()).collect();
        ITEMS.iter().any(|item| before.chars().rev().eq(item.chars()))
    };
    word_positions(chars, name).iter().any(is_declared)
}

/// A function in an `impl` or a trait of the type, a field of the struct or a variant of the enum.
fn has_member(chars: &[char], owner: &str, name: &str) -> bool {
    let blocks = |keyword: &str| {
        let begin = word_positions(chars, keyword).into_iter();
        begin.filter_map(|at| Some((at, body_end(chars, at)?))).filter_map(|(at, end)| {
            let opens = at + chars[at..end].iter().position(|c| *c == '{')?;
            let names_owner = !word_positions(&chars[at..opens], owner).is_empty();
            names_owner.then(|| &chars[opens + 1..end - 1])
        })
    };
    let has_function = ["impl", "trait"].into_iter().flat_map(blocks).any(|block| declares(block, name));
    let is_part = |block: &[char]| {
        let part = |at: &usize| {
            let line: String = block[..*at].iter().rev().take_while(|c| **c != '\n').collect();
            let is_first = line.split_whitespace().all(|word| word == "bup" || word.ends_with("(bup"));
            is_first && block.get(at + name.len()).is_none_or(|c| ":,({ \n".contains(*c))
        };
        word_positions(block, name).iter().any(part)
    };
    has_function || ["struct", "enum"].into_iter().flat_map(blocks).any(is_part)
}
