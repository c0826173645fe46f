//! The tokens of an HCL text, line by line. Never fails: what it does not know is a token of its own, and the syntax was checked before.
//!
//! Refuses to know: where a token belongs. A quoted template is one token, and so is a heredoc: neither is looked into.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Name,
    Number,
    Quoted,
    Heredoc,
    Comment,
    Sign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
}

impl Token<'_> {
    /// 1 for an opening bracket, -1 for a closing one.
    pub fn opens(&self) -> i32 {
        match (self.kind, self.text) {
            (TokenKind::Sign, "(" | "[" | "{") => 1,
            (TokenKind::Sign, ")" | "]" | "}") => -1,
            _ => 0,
        }
    }

    pub fn is(&self, sign: &str) -> bool {
        self.kind == TokenKind::Sign && self.text == sign
    }
}

/// What stands between two ends of lines that are in no token, and that end.
#[derive(Debug)]
pub struct TokenLine<'a> {
    pub tokens: Vec<Token<'a>>,
    pub end: &'a str,
}

/// Signs of more than one character, the longest first.
const LONG_SIGNS: &[&str] = &["...", "==", "!=", "<=", ">=", "&&", "||", "=>", "[*]", ".*"];

pub fn lines(text: &str) -> Vec<TokenLine<'_>> {
    let mut lines = Vec::new();
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some((token, length)) = next(rest) {
        let (taken, after) = rest.split_at(length);
        match token {
            Some(token) => tokens.push(token),
            None if taken.ends_with('\n') => {
                lines.push(TokenLine { tokens: std::mem::take(&mut tokens), end: taken });
            }
            None => {}
        }
        rest = after;
    }
    lines.push(TokenLine { tokens, end: "" });
    lines
}

/// The token that `rest` begins with, none for a blank or an end of line; and the length of either. None: there is nothing left.
pub fn next(rest: &str) -> Option<(Option<Token<'_>>, usize)> {
    let first = rest.chars().next()?;
    if let Some(end) = ["\r\n", "\n"].into_iter().find(|end| rest.starts_with(end)) {
        return Some((None, end.len()));
    }
    if [' ', '\t', '\r', '\u{feff}'].contains(&first) {
        return Some((None, first.len_utf8()));
    }
    let (kind, length) = token(rest);
    Some((Some(Token { kind, text: &rest[..length] }), length))
}

/// The kind of the token that `rest` begins with, and its length in bytes, at least one character.
fn token(rest: &str) -> (TokenKind, usize) {
    let first = rest.chars().next().unwrap_or(' ');
    let second = rest.chars().nth(1).unwrap_or(' ');
    match first {
        '#' => (TokenKind::Comment, line_length(rest)),
        '/' if second == '/' => (TokenKind::Comment, line_length(rest)),
        '/' if second == '*' => (TokenKind::Comment, rest.find("*/").map_or(rest.len(), |at| at + 2)),
        '"' => (TokenKind::Quoted, quoted_length(rest)),
        '<' if second == '<' => match heredoc_length(rest) {
            Some(length) => (TokenKind::Heredoc, length),
            None => (TokenKind::Sign, 1),
        },
        '0'..='9' => (TokenKind::Number, number_length(rest)),
        c if is_name_start(c) => (TokenKind::Name, prefix_length(rest, is_name)),
        _ => {
            let long = LONG_SIGNS.iter().find(|sign| rest.starts_with(**sign));
            (TokenKind::Sign, long.map_or(first.len_utf8(), |sign| sign.len()))
        }
    }
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

fn prefix_length(text: &str, belongs: fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// Up to the end of the line, without it.
fn line_length(text: &str) -> usize {
    text.find('\n').map_or(text.len(), |at| at - usize::from(text[..at].ends_with('\r')))
}

/// Digits with one fraction and an exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = digits(0);
    if bytes.get(at) == Some(&b'.') && digits(at + 1) > 0 {
        at += 1 + digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits((at + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    at
}

/// From one quote to its partner: those inside of `${...}` and `%{...}` open templates of their own.
fn quoted_length(text: &str) -> usize {
    // true: in a template's text; false: in an expression's braces
    let mut inside = vec![true];
    let mut at = 1;
    while let (Some(in_text), Some(rest)) = (inside.last().copied(), text.get(at..))
        && let Some(c) = rest.chars().next()
    {
        let mut length = c.len_utf8();
        if in_text {
            match c {
                '\\' => length += rest.chars().nth(1).map_or(0, char::len_utf8),
                '"' => drop(inside.pop()),
                _ if rest.starts_with("$${") || rest.starts_with("%%{") => length = 3,
                _ if rest.starts_with("${") || rest.starts_with("%{") => {
                    length = 2;
                    inside.push(false);
                }
                _ => {}
            }
        } else {
            match c {
                '"' => inside.push(true),
                '{' => inside.push(false),
                '}' => drop(inside.pop()),
                _ => {}
            }
        }
        at += length;
        if inside.is_empty() {
            return at;
        }
    }
    text.len()
}

/// From `<<NAME` to the line that holds only that name, without this line's end.
fn heredoc_length(text: &str) -> Option<usize> {
    let name = text[2..].strip_prefix('-').unwrap_or(&text[2..]);
    let name = &name[..prefix_length(name, is_name)];
    let mut at = text.find('\n')? + 1;
    if name.is_empty() {
        return None;
    }
    loop {
        let line = &text[at..];
        let length = line_length(line);
        if line[..length].trim() == name {
            return Some(at + length);
        }
        at += line.find('\n')? + 1;
    }
}
