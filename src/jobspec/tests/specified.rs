//! The specification names what is read.

use model::job::JobSpec;
use model::schema::{Block, Declared, Shape};

const SPECIFICATION: &str = include_str!("../../../docs/behaviour/jobspec.md");

/// Each block once, with the blocks in it.
fn blocks(block: &'static Block, found: &mut Vec<&'static Block>) {
    if found.iter().any(|known| std::ptr::eq(known.members, block.members)) {
        return;
    }
    found.push(block);
    for member in block.members {
        if let Some(inner) = member.block() {
            blocks(inner, found);
        }
    }
}

#[test]
fn every_key_stands_in_the_specification() {
    let mut found = Vec::new();
    blocks(JobSpec::BLOCK, &mut found);
    assert!(found.len() > 40, "{} blocks", found.len());
    let words: std::collections::BTreeSet<&str> =
        SPECIFICATION.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut missing = Vec::new();
    for block in found {
        for member in block.members.iter().filter(|m| !matches!(m.shape, Shape::Ignored)) {
            let names = [member.hcl, member.json].into_iter().filter(|name| !name.is_empty());
            missing.extend(
                names.filter(|name| !words.contains(name)).map(|name| format!("{}.{name}", block.name)),
            );
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "are read, but not in docs/behaviour/jobspec.md");
}
