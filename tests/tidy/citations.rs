//! Citations of the specification: `server.md 7.3` in a comment or a document has a rule or a section of that number in `docs/behaviour`,
//! whose numbers are each given once.

use crate::source::Source;

/// The documents of `docs/behaviour`, as citations name them.
pub const DOCUMENTS: [&str; 6] =
    ["scheduler.md", "server.md", "client.md", "http-api.md", "jobspec.md", "cli.md"];

/// What stood here before there was a specification in the repository: a reader cannot open it.
const OUTSIDE: [&str; 3] = ["reference:", "the reference says", "as the reference"];

/// The numbers of a document's sections and rules. A section that is one rule gives it its own number.
pub struct Rules {
    pub document: &'static str,
    sections: Vec<String>,
    rules: Vec<String>,
}

impl Rules {
    pub fn new(document: &'static str, text: &str) -> Rules {
        let numbered = |marks: &[&str]| {
            let after =
                |line: &'_ str| marks.iter().find_map(|mark| line.strip_prefix(mark)).and_then(number);
            text.lines().filter_map(after).collect()
        };
        Rules { document, sections: numbered(&["## ", "### "]), rules: numbered(&["**"]) }
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
                let cited = number(line[from + name.len()..].trim_start());
                let missing = cited.filter(|number| !document.has(number));
                found.extend(missing.map(|number| format!("{path}:{}: {name} has no {number}", at + 1)));
            }
        }
    }
    found
}

fn continues_a_name(line: &str, from: usize) -> bool {
    line[..from].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_')
}
