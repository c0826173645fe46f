//! The structs that brains are made of: how many fields each has, and how many files extend it. What belongs together is a part, with its own
//! state and methods (decision 0065).
//!
//! Goes by lines as rustfmt writes them. What only builds for tests have does not count.

use crate::public::shipped;
use crate::source::Source;

/// A brain's struct, and how large it may be.
pub struct Ceiling {
    pub room: &'static str,
    pub name: &'static str,
    pub fields: usize,
    /// With an `impl` block of it.
    pub files: usize,
}

/// Raising one is a decision, to be explained beside it; lowering one is housekeeping.
pub const CEILINGS: &[Ceiling] = &[
    Ceiling { room: "server", name: "Server", fields: 15, files: 7 },
    Ceiling { room: "client", name: "Client", fields: 20, files: 8 },
];

/// What is over its ceiling.
pub fn overgrown(sources: &[Source], ceilings: &[Ceiling]) -> Vec<String> {
    let mut found = Vec::new();
    for Ceiling { room, name, fields, files } in ceilings {
        let of_room: Vec<&Source> = shipped(sources).filter(|s| s.room() == Some(*room)).collect();
        match of_room.iter().find_map(|source| Some((&source.path, field_count(source, name)?))) {
            None => found.push(format!("src/{room}: there is no `struct {name}`: correct the list")),
            Some((path, count)) if count > *fields => found.push(format!(
                "{path}: `{name}` has {count} fields, over its ceiling of {fields}: make a part of what belongs together"
            )),
            Some(_) => {}
        }
        let extend = of_room.iter().filter(|source| extends(source, name));
        let paths: Vec<&str> = extend.map(|source| source.path.as_str()).collect();
        if paths.len() > *files {
            found.push(format!(
                "{}: {} files extend `{name}`, over its ceiling of {files}: give parts methods of their own",
                paths.join(", "),
                paths.len()
            ));
        }
    }
    found
}

/// The lines of code that ship.
fn lines(source: &Source) -> impl Iterator<Item = &str> {
    source.code.lines().take(source.tests_begin().saturating_sub(1))
}

/// How many fields the struct has, if the file declares it.
fn field_count(source: &Source, name: &str) -> Option<usize> {
    let opening = format!("struct {name} {{");
    let mut below = lines(source).skip_while(|line| !line.trim_end().ends_with(&opening));
    below.next()?;
    let is_field = |line: &&str| {
        let indented = line.strip_prefix("    ").is_some_and(|rest| !rest.starts_with([' ', '#']));
        indented && (line.contains(": ") || line.trim_end().ends_with(':'))
    };
    Some(below.take_while(|line| !line.starts_with('}')).filter(is_field).count())
}

fn extends(source: &Source, name: &str) -> bool {
    let block = format!("impl {name} {{");
    lines(source).any(|line| line.starts_with(&block))
}
