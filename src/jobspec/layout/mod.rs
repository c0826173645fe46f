//! HCL text in its canonical layout: two blanks for each level, `=` and comments behind lines that follow each other in columns, one
//! blank between tokens that want one. What the text says stays the same: that is checked before it is handed out.
//!
//! Refuses to know: what a name or a block means. Works on tokens, not on the syntax tree, because a tree forgets where its lines end.

mod meaning;
mod spacing;
mod tokens;

use super::diagnostic::{Diagnostic, Source};
use super::hcl::{self, BlockBody};
use tokens::{Token, TokenKind};

const INDENT: usize = 2;

/// The canonical layout of a text in HCL's own syntax. JSON's syntax, and text that is no HCL, is a diagnostic.
pub fn canonical(source: Source<'_>) -> Result<String, Diagnostic> {
    let before = native(source)?;
    let text = laid_out(source.text);
    let after = native(Source { name: source.name, text: &text });
    if after.as_ref().is_ok_and(|after| *after == before) {
        return Ok(text);
    }
    let detail = "its canonical layout would say something else: the file is left as it is";
    Err(Diagnostic::nowhere(source.name, "Cannot be laid out", detail))
}

fn native(source: Source<'_>) -> Result<hcl_edit::structure::Body, Diagnostic> {
    match hcl::document(source)? {
        BlockBody::Hcl(body) => Ok(meaning::of(body)),
        BlockBody::Json(_) => {
            let detail = "it is written in JSON, which has no canonical layout here";
            Err(Diagnostic::nowhere(source.name, "Not HCL's own syntax", detail))
        }
    }
}

fn laid_out(text: &str) -> String {
    let mut lines: Vec<Line> = tokens::lines(text).into_iter().map(Line::new).collect();
    indent(&mut lines);
    align_values(&mut lines);
    align_comments(&mut lines);
    lines.iter().map(Line::text).collect()
}

/// A line as up to three cells: what is named, what it is given, and a remark.
struct Line {
    indent: usize,
    lead: String,
    /// From `=` on; empty when there is none to be aligned.
    value: String,
    value_gap: usize,
    comment: String,
    comment_gap: usize,
    /// Brackets opened less brackets closed.
    opens: i32,
    end: String,
    /// Where the line ends is inside of `value`: a heredoc or a long comment.
    tall: bool,
}

impl Line {
    fn new(line: tokens::TokenLine<'_>) -> Line {
        let mut all = line.tokens;
        let is_comment = |t: &Token<'_>| t.kind == TokenKind::Comment;
        let comment = if all.len() > 1 { all.pop_if(|last| is_comment(last)) } else { None };
        let opens: i32 = all.iter().map(Token::opens).sum();
        let assign = all.iter().position(|t| t.text == "=").filter(|at| {
            // a value that goes on in the next line stands in no column, and neither does an object on one line
            let level: i32 = all[..*at].iter().map(Token::opens).sum();
            *at > 0 && level == 0 && opens == 0 && !is_comment(&all[0])
        });
        let (lead, value) = all.split_at(assign.unwrap_or(all.len()));
        let comment = comment.map(|t| t.text.to_string()).unwrap_or_default();
        Line {
            indent: 0,
            lead: spacing::joined(lead),
            value: spacing::joined(value),
            value_gap: 1,
            comment_gap: 1,
            opens,
            end: line.end.to_string(),
            tall: value.iter().chain(lead).any(|t| t.text.contains('\n')),
            comment,
        }
    }

    fn is_blank(&self) -> bool {
        self.lead.is_empty() && self.comment.is_empty()
    }

    /// Columns up to where a remark may stand.
    fn width(&self) -> usize {
        let value = if self.value.is_empty() { 0 } else { self.value_gap + columns(&self.value) };
        self.indent + columns(&self.lead) + value
    }

    fn text(&self) -> String {
        if self.is_blank() {
            return self.end.clone();
        }
        let mut out = " ".repeat(self.indent) + &self.lead;
        for (gap, cell) in [(self.value_gap, &self.value), (self.comment_gap, &self.comment)] {
            if !cell.is_empty() {
                out.extend(std::iter::repeat_n(' ', gap));
                out.push_str(cell);
            }
        }
        out + &self.end
    }
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// A line that opens several brackets at once is one level, and so is the line that closes them.
fn indent(lines: &mut [Line]) {
    let mut open: Vec<i32> = Vec::new();
    for line in lines {
        if line.opens < 0 {
            close(&mut open, -line.opens);
        }
        line.indent = open.len() * INDENT;
        if line.opens > 0 {
            open.push(line.opens);
        }
    }
}

fn close(open: &mut Vec<i32>, mut brackets: i32) {
    while brackets > 0
        && let Some(last) = open.last_mut()
    {
        if *last > brackets {
            *last -= brackets;
            return;
        }
        brackets -= *last;
        open.pop();
    }
}

/// In each run of lines that have a value, the values begin in one column.
fn align_values(lines: &mut [Line]) {
    for run in lines.chunk_by_mut(|a, b| !a.value.is_empty() && !b.value.is_empty()) {
        let widest = run.iter().map(|l| columns(&l.lead)).max().unwrap_or(0);
        for line in run {
            line.value_gap = widest - columns(&line.lead) + 1;
        }
    }
}

/// The same for the remarks behind lines.
fn align_comments(lines: &mut [Line]) {
    let has = |line: &Line| !line.comment.is_empty() && !line.tall;
    for run in lines.chunk_by_mut(|a, b| has(a) && has(b)) {
        if !has(&run[0]) {
            continue;
        }
        let widest = run.iter().map(Line::width).max().unwrap_or(0);
        for line in run {
            line.comment_gap = widest - line.width() + 1;
        }
    }
}

#[cfg(test)]
mod tests;
