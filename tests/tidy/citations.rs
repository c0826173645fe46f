//! Citations of the specification: `server.md 7.3` in a comment or a document has a rule or a section of that number in `docs/behaviour`,
//! whose numbers are each given once; so have `server.md 10 and 11`, each row of docs/nomad-differences.md, and a test that a rule names.

use crate::source::Source;

/// The documents of `docs/behaviour`, as citations name them.
pub const DOCUMENTS: [&str; 6] =
    ["scheduler.md", "server.md", "client.md", "http-api.md", "jobspec.md", "cli.md"];

/// Where the rules are that a room's tests name, `fn r8_2_15_...`.
const DOCUMENTS_OF_ROOMS: &[(&str, &str)] = &[
    ("model", "scheduler.md"),
    ("scheduler", "scheduler.md"),
    ("state", "server.md"),
    ("server", "server.md"),
    ("client", "client.md"),
    ("keeper", "client.md"),
    ("api", "http-api.md"),
    ("jobspec", "jobspec.md"),
    ("cli", "cli.md"),
];

/// What stood here before there was a specification in the repository: a reader cannot open it.
const OUTSIDE: [&str; 3] = ["reference:", "the reference says", "as the reference"];

/// The numbers of a document's sections and rules. A section that is one rule gives it its own number.
pub struct Rules {
    pub document: &'static str,
    sections: Vec<String>,
    rules: Vec<String>,
    text: String,
}

impl Rules {
    pub fn new(document: &'static str, text: &str) -> Rules {
        let numbered = |marks: &[&str]| {
            let after =
                |line: &'_ str| marks.iter().find_map(|mark| line.strip_prefix(mark)).and_then(number);
            text.lines().filter_map(after).collect()
        };
        Rules {
            document,
            sections: numbered(&["## ", "### "]),
            rules: numbered(&["**"]),
            text: text.to_string(),
        }
    }

    pub fn doubled(&self) -> Vec<String> {
        let mut found = Vec::new();
        for numbers in [&self.sections, &self.rules] {
            let mut sorted = numbers.clone();
            sorted.sort();
            let twice = sorted.windows(2).filter(|pair| pair[0] == pair[1]);
            found.extend(
                twice.map(|pair| format!("docs/behaviour/{}: {} is there twice", self.document, pair[0])),
            );
        }
        found
    }

    fn has(&self, number: &str) -> bool {
        self.sections.iter().chain(&self.rules).any(|n| n == number)
    }

    /// A part of a rule, as `(a)` in its paragraph.
    fn has_part(&self, number: &str, letter: char) -> bool {
        let rule = self.text.split("\n\n").find(|paragraph| paragraph.starts_with(&format!("**{number}**")));
        rule.is_some_and(|rule| rule.contains(&format!("({letter})")))
    }
}

/// As in `8. Reconciling`, `8.3 Tainted allocations` and `8.3.1** ...`.
fn number(text: &str) -> Option<String> {
    let digits: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let number = digits.trim_end_matches('.');
    (!number.is_empty()).then(|| number.to_string())
}

pub fn in_comments(source: &Source, rules: &[Rules]) -> Vec<String> {
    let mut found = without_target(&source.path, &source.comments, rules);
    for (at, line) in source.comments.lines().enumerate() {
        let said = OUTSIDE.iter().find(|words| line.contains(**words));
        found.extend(said.map(|words| {
            format!("{}:{}: `{words}` leads out of the repository: cite docs/behaviour", source.path, at + 1)
        }));
    }
    found
}

/// Each citation in `text` that names a rule which is not there.
pub fn without_target(path: &str, text: &str, rules: &[Rules]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for document in rules {
            let cited =
                line.match_indices(document.document).filter(|(from, _)| !continues_a_name(line, *from));
            for (from, name) in cited {
                let cited = numbers(line[from + name.len()..].trim_start());
                let missing = cited.into_iter().filter(|number| !document.has(number));
                found.extend(missing.map(|number| format!("{path}:{}: {name} has no {number}", at + 1)));
            }
        }
    }
    found
}

/// As in `3`, `3 and 4`, `4.3 to 4.6` and `1.1.24, 1.1.25`.
fn numbers(text: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(number) = number(rest) {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        found.push(number);
        let joined = [" and ", " to ", " or ", ", "].iter().find_map(|word| rest.strip_prefix(word));
        let Some(next) = joined else { break };
        rest = next;
    }
    found
}

/// Each test whose name begins with a rule's number that its room's document does not have.
pub fn in_test_names(source: &Source, rules: &[Rules]) -> Vec<String> {
    let mut found = Vec::new();
    for function in source.functions() {
        let Some((number, letter)) = rule_of_name(&function.name) else { continue };
        let name = DOCUMENTS_OF_ROOMS.iter().find(|(room, _)| source.room() == Some(room));
        let document = name.and_then(|(_, name)| rules.iter().find(|rules| rules.document == *name));
        let has = |document: &Rules| match letter {
            Some(letter) => document.has_part(&number, letter),
            None => document.has(&number),
        };
        if !document.is_some_and(has) {
            let (path, line, name) = (&source.path, function.line, &function.name);
            found
                .push(format!("{path}:{line}: `{name}` names a rule that its room's document does not have"));
        }
    }
    found
}

/// The number and the letter that a test's name begins with: `r8_5_3a_...` is of 8.5.3 (a).
fn rule_of_name(name: &str) -> Option<(String, Option<char>)> {
    let words: Vec<&str> = name.strip_prefix('r')?.split('_').collect();
    let is_number = |word: &&&str| word.starts_with(|c: char| c.is_ascii_digit());
    let steps: Vec<&str> = words.iter().take_while(is_number).copied().collect();
    let letter = steps.last()?.chars().next_back().filter(char::is_ascii_lowercase);
    Some((steps.join(".").trim_end_matches(char::is_alphabetic).to_string(), letter))
}

fn continues_a_name(line: &str, from: usize) -> bool {
    line[..from].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

/// Each row of docs/nomad-differences.md whose second column names a rule that is not there. A number without a document is of the one
/// that the section names first, after `Rules: `, or that the cell has named before.
pub fn differences(text: &str, rules: &[Rules]) -> Vec<String> {
    let mut found = Vec::new();
    let mut of_section = "";
    for (at, line) in text.lines().enumerate() {
        if let Some(named) = line.strip_prefix("Rules: ") {
            of_section = named.split(|c: char| c != '-' && !c.is_alphanumeric()).next().unwrap_or("");
        }
        let mut cells = line.split('|').skip(1).map(str::trim);
        let is_row = cells.next().is_some_and(|number| number.parse::<u32>().is_ok());
        let (mut document, cell) = (of_section, cells.next().filter(|_| is_row));
        for cited in cell.into_iter().flat_map(|cell| cell.split(',')).map(str::trim) {
            let (named, number) = cited.split_once(' ').unwrap_or((document, cited));
            document = named;
            let of = rules.iter().find(|rules| rules.document.strip_suffix(".md") == Some(document));
            if !of.is_some_and(|rules| rules.has(number)) {
                found.push(format!("docs/nomad-differences.md:{}: {document}.md has no {number}", at + 1));
            }
        }
    }
    found
}
