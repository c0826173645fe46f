//! Where a blank stands between two tokens of one line.
//!
//! Refuses to know: lines and columns.

mod quoted;

use super::tokens::{Token, TokenKind};

/// The tokens in their order, with the blanks between them.
pub fn joined(tokens: &[Token<'_>]) -> String {
    let mut out = String::new();
    for (at, token) in tokens.iter().enumerate() {
        if at > 0 && wants_blank(&tokens[..at], token) {
            out.push(' ');
        }
        match token.kind {
            TokenKind::Quoted => out.push_str(&quoted::tidied(token.text)),
            _ => out.push_str(token.text),
        }
    }
    out
}

/// `before` is not empty.
fn wants_blank(before: &[Token<'_>], next: &Token<'_>) -> bool {
    let last = &before[before.len() - 1];
    let is = |sign: &str| last.is(sign);
    match next.text {
        _ if last.kind == TokenKind::Comment || next.kind == TokenKind::Comment || is(",") => true,
        _ if next.kind == TokenKind::Quoted || next.kind == TokenKind::Heredoc => !opens_tightly(before),
        "," | ")" | "]" | "." | ".*" | "[*]" | "..." => false,
        "}" => !is("{"),
        "(" | "[" if ends_operand(last) => false,
        _ => !opens_tightly(before),
    }
}

/// Nothing comes between the last token and what follows it.
fn opens_tightly(before: &[Token<'_>]) -> bool {
    let last = &before[before.len() - 1];
    match (last.kind, last.text) {
        (TokenKind::Sign, "(" | "[" | "." | "!") => true,
        (TokenKind::Sign, "-") => before.len() < 2 || !ends_operand(&before[before.len() - 2]),
        _ => false,
    }
}

/// An expression may end with it: what follows is called, indexed or subtracted.
fn ends_operand(token: &Token<'_>) -> bool {
    match token.kind {
        TokenKind::Name => token.text != "in",
        TokenKind::Number | TokenKind::Quoted => true,
        TokenKind::Sign => matches!(token.text, ")" | "]" | "}" | ".*" | "[*]"),
        TokenKind::Heredoc | TokenKind::Comment => false,
    }
}
