//! Whether every checker of the simulator can fail: each `fn check_...` of `src/sim` is broken on purpose in a test there, in a statement
//! that wants its error.
//!
//! Goes by names: what a test calls by another one is nobody's proof, and what a helper wants for it is not seen.

use crate::source::{Source, is_word, word_positions};

const ROOM: &str = "src/sim/";
const PREFIX: &str = "check_";
/// Words of a statement that wants an error.
const WANT_ERRORS: &[&str] = &["is_err", "is_err_and", "expect_err", "unwrap_err", "is_found"];

pub fn never_broken(sources: &[Source]) -> Vec<String> {
    let sim: Vec<&Source> = sources.iter().filter(|source| source.path.starts_with(ROOM)).collect();
    let tests: Vec<Vec<Vec<char>>> = sim.iter().flat_map(|source| tests_of(source)).collect();
    let mut found = Vec::new();
    for source in &sim {
        for checker in source.functions().into_iter().filter(|f| f.name.starts_with(PREFIX)) {
            if !tests.iter().any(|statements| breaks(statements, &checker.name)) {
                let (path, line, name) = (&source.path, checker.line, &checker.name);
                found.push(format!(
                    "{path}:{line}: no test breaks what `{name}` looks for, and wants its error"
                ));
            }
        }
    }
    found
}

/// The statements of each test.
fn tests_of(source: &Source) -> Vec<Vec<Vec<char>>> {
    let lines: Vec<&str> = source.code.lines().collect();
    let is_test = |line: usize| {
        let above = lines[..line - 1].iter().rev().map(|text| text.trim());
        above.take_while(|text| text.is_empty() || text.starts_with("#[")).any(|text| text == "#[test]")
    };
    let tests = source.functions().into_iter().filter(|function| is_test(function.line));
    let statements = |line: usize, count: usize| {
        let body = lines[line - 1..line - 1 + count].join("\n");
        body.split(';').map(|statement| statement.chars().collect()).collect()
    };
    tests.map(|test| statements(test.line, test.lines)).collect()
}

/// By itself, or by a name that the test gives to what it says.
fn breaks(statements: &[Vec<char>], checker: &str) -> bool {
    let wants = |name: &str| {
        let of_name = statements.iter().filter(|statement| !word_positions(statement, name).is_empty());
        of_name.into_iter().any(|s| WANT_ERRORS.iter().any(|word| !word_positions(s, word).is_empty()))
    };
    let naming = statements.iter().filter(|statement| !word_positions(statement, checker).is_empty());
    wants(checker) || naming.filter_map(|statement| given_name(statement)).any(|name| wants(&name))
}

/// What the statement's last `let` declares.
fn given_name(statement: &[char]) -> Option<String> {
    let at = *word_positions(statement, "let").last()?;
    let rest: String = statement[at + "let".len()..].iter().collect();
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("mut ").unwrap_or(rest);
    let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
    Some(name).filter(|name| !name.is_empty())
}
