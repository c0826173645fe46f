//! The expressions inside of a quoted template, each laid out like one that stands alone.
//!
//! Refuses to know: the template's text, which stays as it is.

use crate::layout::tokens::{self, TokenLine};

/// A quoted template, its expressions with canonical blanks. One that goes over several lines stays as it is.
pub fn tidied(quoted: &str) -> String {
    let mut out = String::new();
    let mut rest = quoted;
    while let Some((text, expression)) = next_expression(rest) {
        let (opening, inner) = expression.split_at(2);
        let inner = &inner[..inner.len() - 1];
        out.push_str(text);
        out.push_str(opening);
        out.push_str(&one_line(inner).unwrap_or_else(|| inner.to_string()));
        out.push('}');
        rest = &rest[text.len() + expression.len()..];
    }
    out + rest
}

/// Text before the first `${...}` or `%{...}`, and that, braces included.
fn next_expression(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let c = rest.chars().next()?;
        if rest.starts_with("${") || rest.starts_with("%{") {
            return Some((&text[..at], &rest[..expression_length(rest)?]));
        }
        at += match c {
            '\\' => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            _ if rest.starts_with("$${") || rest.starts_with("%%{") => 3,
            _ => c.len_utf8(),
        };
    }
}

/// Up to the brace that closes the one at its beginning.
fn expression_length(text: &str) -> Option<usize> {
    let mut open = 0;
    let mut at = 1;
    while at < text.len() {
        let (token, length) = tokens::next(&text[at..])?;
        open += token.map_or(0, |t| t.opens());
        at += length;
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// Strip markers `~` stand tight at the braces.
fn one_line(inner: &str) -> Option<String> {
    let (left, inner) = inner.strip_prefix('~').map_or(("", inner), |rest| ("~", rest));
    let (right, inner) = inner.strip_suffix('~').map_or(("", inner), |rest| ("~", rest));
    match &tokens::lines(inner)[..] {
        [TokenLine { tokens, .. }] => Some(format!("{left}{}{right}", super::joined(tokens))),
        _ => None,
    }
}
