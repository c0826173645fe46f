//! A diagnostic: a position in a text, a summary, a detail, and the way to show several of them to a person.

use std::fmt;
use std::ops::Range;

/// More problems than this are counted, not shown.
pub const MAX_SHOWN: usize = 20;

/// Problems beyond this many are not looked for: finding the place of each takes a walk through the text.
pub const MAX_KEPT: usize = 50;

/// A text with the name it is known by; spans are byte ranges in it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

/// A name as it is written, and where.
#[derive(Clone, Debug)]
pub struct Label {
    pub text: String,
    pub at: Range<usize>,
}

/// Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub file: String,
    pub line: usize,
    pub column: usize,
    /// The column after the last one meant, on the same line.
    pub end_column: usize,
    pub summary: String,
    pub detail: String,
    /// The line itself, cut to a length that fits a screen; empty when the problem has no place.
    pub source_line: String,
}

impl Diagnostic {
    pub fn at(
        source: Source<'_>,
        span: Range<usize>,
        summary: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let text = source.text;
        let start = floor_boundary(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        let end = floor_boundary(text, span.end).clamp(start, line_end);
        let column = text[line_start..start].chars().count() + 1;
        Diagnostic {
            file: source.name.to_string(),
            line: text[..start].matches('\n').count() + 1,
            column,
            end_column: column + text[start..end].chars().count().max(1),
            summary: summary.into(),
            detail: detail.into(),
            source_line: text[line_start..line_end].trim_end().chars().take(MAX_LINE).collect(),
        }
    }

    /// About a whole file or no file at all.
    pub fn nowhere(file: &str, summary: impl Into<String>, detail: impl Into<String>) -> Self {
        Diagnostic {
            file: file.to_string(),
            line: 0,
            column: 0,
            end_column: 0,
            summary: summary.into(),
            detail: detail.into(),
            source_line: String::new(),
        }
    }
}

/// Problems found so far, at most `MAX_KEPT`.
#[derive(Clone, Debug, Default)]
pub struct Problems(Vec<Diagnostic>);

impl Problems {
    pub fn is_full(&self) -> bool {
        self.0.len() >= MAX_KEPT
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn push(&mut self, d: Diagnostic) {
        if !self.is_full() {
            self.0.push(d);
        }
    }

    pub fn at(
        &mut self,
        source: Source<'_>,
        span: Range<usize>,
        summary: impl Into<String>,
        detail: impl Into<String>,
    ) {
        if !self.is_full() {
            self.0.push(Diagnostic::at(source, span, summary, detail));
        }
    }

    pub fn into_inner(self) -> Vec<Diagnostic> {
        self.0
    }
}

const MAX_LINE: usize = 160;

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// `file:line,column-column: Summary; Detail` on one line.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{},{}-{}:", self.line, self.column, self.end_column)?;
        }
        write!(f, " {}", self.summary)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, "; {}", self.detail) }
    }
}

/// Each with its source line and a caret under the place; at most `MAX_SHOWN`, then a count of the rest.
pub fn render(diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    for d in diagnostics.iter().take(MAX_SHOWN) {
        out.push_str(&format!("{d}\n"));
        if d.line == 0 || d.column > MAX_LINE {
            continue;
        }
        let gutter = d.line.to_string();
        let pad: String =
            d.source_line.chars().take(d.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let carets = "^".repeat(d.end_column.saturating_sub(d.column).clamp(1, MAX_LINE));
        out.push_str(&format!("  {gutter} | {}\n", d.source_line));
        out.push_str(&format!("  {} | {pad}{carets}\n", " ".repeat(gutter.len())));
    }
    if diagnostics.len() > MAX_SHOWN {
        out.push_str(&format!("... and {} more\n", diagnostics.len() - MAX_SHOWN));
    }
    out
}

/// One line each, without the source: what the HTTP API answers.
#[cfg(any(test, feature = "testing"))]
pub fn render_lines(diagnostics: &[Diagnostic]) -> String {
    let lines: Vec<String> = diagnostics.iter().take(MAX_SHOWN).map(Diagnostic::to_string).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Source<'static> = Source { name: "a.hcl", text: "one\n  twö = drei\nend" };

    #[test]
    fn positions_count_characters() {
        let d = Diagnostic::at(SOURCE, 13..17, "Bad", "it is");
        assert_eq!((d.line, d.column, d.end_column), (2, 9, 13));
        assert_eq!(d.to_string(), "a.hcl:2,9-13: Bad; it is");
        assert_eq!(render(&[d]), "a.hcl:2,9-13: Bad; it is\n  2 |   twö = drei\n    |         ^^^^\n");
    }

    #[test]
    fn no_span_leaves_the_text() {
        for span in [0..0, 8..9, 9..9, 0..1000, 1000..2000, 21..21] {
            let d = Diagnostic::at(SOURCE, span, "x", "");
            assert!(d.line >= 1 && d.end_column > d.column);
        }
        let empty = Diagnostic::at(Source { name: "e", text: "" }, 5..9, "x", "");
        assert_eq!((empty.line, empty.column), (1, 1));
    }

    #[test]
    fn many_are_counted_not_shown() {
        let all = vec![Diagnostic::nowhere("f", "x", ""); MAX_SHOWN + 7];
        assert!(render(&all).ends_with("... and 7 more\n"));
        assert_eq!(render_lines(&all).lines().count(), MAX_SHOWN);
    }
}
