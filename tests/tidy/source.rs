//! One source file, split into what is code, what is comment and what is string, and the scans that need that split.
//!
//! Knows enough of Rust's lexing for that and no more: no types, no macros, no name resolution.

use std::fs;
use std::path::Path;

/// The repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Three views of one text. Each has the text's own line breaks; what belongs to another view is blank.
pub struct Source {
    /// Relative to the repository, with forward slashes.
    pub path: String,
    pub text: String,
    pub code: String,
    pub comments: String,
    pub strings: String,
}

/// A function with a body: where it starts and how many lines it spans.
pub struct Function {
    pub name: String,
    pub line: usize,
    pub lines: usize,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let mut split = Split::default();
        split.run(&text.chars().collect::<Vec<_>>());
        let Split { code, comments, strings } = split;
        Source { path: path.to_string(), text: text.to_string(), code, comments, strings }
    }

    /// Every Rust file of the project, in path order.
    pub fn all() -> Vec<Source> {
        let root = root();
        let mut paths = Vec::new();
        for dir in ["src", "tests", "fuzz"] {
            rust_files(&root.join(dir), &mut paths);
        }
        paths.sort();
        paths
            .iter()
            .map(|path| {
                let text = fs::read_to_string(path).expect("a listed source file is readable");
                let name = path.strip_prefix(root).expect("listed under the root");
                Source::new(&name.to_string_lossy(), &text)
            })
            .collect()
    }

    /// The room a file belongs to: the first step below `src`, none for the root's own files.
    pub fn room(&self) -> Option<&str> {
        let below = self.path.strip_prefix("src/")?;
        match below.split_once('/') {
            Some((room, _)) => Some(room),
            None => below.strip_suffix(".rs").filter(|name| *name != "lib" && *name != "main"),
        }
    }

    /// The first line of a file's own tests; past the end where it has none.
    pub fn tests_begin(&self) -> usize {
        if self.path.ends_with("tests.rs") || self.path.contains("tests/") {
            return 0;
        }
        let lines: Vec<&str> = self.code.lines().map(str::trim).collect();
        let opens = |at: &usize| {
            lines.get(at + 1).is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'))
        };
        let begin = (0..lines.len()).filter(|at| lines[*at] == "#[cfg(test)]").find(opens);
        begin.map_or(usize::MAX, |at| at + 1)
    }

    pub fn line_count(&self) -> usize {
        self.text.lines().count()
    }

    /// Lines (from 1) in which `word` stands in the code as a whole word; a word may hold punctuation.
    pub fn code_lines_with(&self, word: &str) -> Vec<usize> {
        lines_with(&self.code, word)
    }

    pub fn comment_lines_with(&self, word: &str) -> Vec<usize> {
        lines_with(&self.comments, word)
    }

    pub fn functions(&self) -> Vec<Function> {
        let chars: Vec<char> = self.code.chars().collect();
        let mut found = Vec::new();
        for at in word_positions(&chars, "fn") {
            let name: String = chars[at + 2..]
                .iter()
                .skip_while(|c| c.is_whitespace())
                .take_while(|c| is_word(**c))
                .collect();
            let body = if name.is_empty() { None } else { body_end(&chars, at) };
            if let Some(end) = body {
                let lines = newlines(&chars[at..end]) + 1;
                found.push(Function { name, line: newlines(&chars[..at]) + 1, lines });
            }
        }
        found
    }
}

/// Positions (in characters) at which `word` stands as a whole word.
pub fn word_positions(chars: &[char], word: &str) -> Vec<usize> {
    let word: Vec<char> = word.chars().collect();
    if word.is_empty() || chars.len() < word.len() {
        return Vec::new();
    }
    let starts_word = is_word(word[0]);
    let ends_word = is_word(word[word.len() - 1]);
    (0..=chars.len() - word.len())
        .filter(|at| {
            let end = at + word.len();
            chars[*at..end] == word[..]
                && !(starts_word && *at > 0 && is_word(chars[at - 1]))
                && !(ends_word && end < chars.len() && is_word(chars[end]))
        })
        .collect()
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn lines_with(view: &str, word: &str) -> Vec<usize> {
    let hit = |line: &str| !word_positions(&line.chars().collect::<Vec<_>>(), word).is_empty();
    view.lines().enumerate().filter(|(_, line)| hit(line)).map(|(number, _)| number + 1).collect()
}

fn newlines(chars: &[char]) -> usize {
    chars.iter().filter(|c| **c == '\n').count()
}

/// Just past the closing brace of the item that starts at `at`; none when it has no body.
pub fn body_end(chars: &[char], at: usize) -> Option<usize> {
    let (mut round, mut curly) = (0i32, 0i32);
    for (offset, c) in chars[at..].iter().enumerate() {
        match c {
            '(' | '[' => round += 1,
            ')' | ']' => round -= 1,
            ';' if round == 0 && curly == 0 => return None,
            '{' => curly += 1,
            '}' => {
                curly -= 1;
                if curly == 0 && round == 0 {
                    return Some(at + offset + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn rust_files(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.expect("a directory entry is readable").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum View {
    Code,
    Comment,
    Text,
}

#[derive(Default)]
struct Split {
    code: String,
    comments: String,
    strings: String,
}

impl Split {
    fn run(&mut self, chars: &[char]) {
        let mut at = 0;
        while at < chars.len() {
            let (view, end) = next_piece(chars, at);
            for c in &chars[at..end] {
                self.push(view, *c);
            }
            at = end;
        }
    }

    fn push(&mut self, view: View, c: char) {
        let blank = if c == '\n' { '\n' } else { ' ' };
        self.code.push(if view == View::Code { c } else { blank });
        self.comments.push(if view == View::Comment { c } else { blank });
        self.strings.push(if view == View::Text { c } else { blank });
    }
}

/// The piece that starts at `at`, never empty: its view and its end.
fn next_piece(chars: &[char], at: usize) -> (View, usize) {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => (View::Comment, find(chars, at, '\n')),
        '/' if next == Some('*') => (View::Comment, block_comment_end(chars, at)),
        '"' => (View::Text, quoted_end(chars, at, '"')),
        '\'' if next == Some('\\') || chars.get(at + 2) == Some(&'\'') => {
            (View::Text, quoted_end(chars, at, '\''))
        }
        'r' if raw_hashes(chars, at).is_some() => (View::Text, raw_end(chars, at)),
        c if is_word(c) => (View::Code, word_end(chars, at)),
        _ => (View::Code, at + 1),
    }
}

/// Words are taken whole, so that the `r` that opens a raw string is never the tail of a name; `br` and `cr` stop before it.
fn word_end(chars: &[char], at: usize) -> usize {
    if matches!(chars[at], 'b' | 'c')
        && chars.get(at + 1) == Some(&'r')
        && raw_hashes(chars, at + 1).is_some()
    {
        return at + 1;
    }
    chars[at..].iter().position(|c| !is_word(*c)).map_or(chars.len(), |length| at + length)
}

fn raw_hashes(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    (chars.get(at + 1 + hashes) == Some(&'"')).then_some(hashes)
}

fn raw_end(chars: &[char], at: usize) -> usize {
    let hashes = raw_hashes(chars, at).unwrap_or(0);
    let mut end = at + hashes + 2;
    while end < chars.len() {
        end = find(chars, end, '"') + 1;
        if chars.get(end..end + hashes).is_some_and(|tail| tail.iter().all(|c| *c == '#')) {
            return end + hashes;
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut end = at + 1;
    while end < chars.len() {
        match chars[end] {
            '\\' => end += 2,
            c if c == quote => return end + 1,
            _ => end += 1,
        }
    }
    chars.len()
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut end) = (0, at);
    while end + 1 < chars.len() {
        match (chars[end], chars[end + 1]) {
            ('/', '*') => (depth, end) = (depth + 1, end + 2),
            ('*', '/') => (depth, end) = (depth - 1, end + 2),
            _ => end += 1,
        }
        if depth == 0 {
            return end;
        }
    }
    chars.len()
}

fn find(chars: &[char], from: usize, wanted: char) -> usize {
    chars[from.min(chars.len())..]
        .iter()
        .position(|c| *c == wanted)
        .map_or(chars.len(), |offset| from + offset)
}
