//! The configuration file's syntax: HCL's first version and JSON, read by one small parser into a tree that remembers
//! where each key and value stood.
//!
//! Both are one grammar here: items are `key = value`, `key: value` or `key "label" { ... }`, commas are optional, keys may be
//! quoted and may contain dots (`"driver.raw_exec.enable" = "1"`, which the second version of HCL refuses). Labels become
//! nested objects. Refuses to know: which keys exist. Bounds: `MAX_DEPTH`, and the text's own length.

use std::ops::Range;

/// Deeper nesting than any configuration needs; keeps the parser's stack small.
const MAX_DEPTH: usize = 32;

/// A value and the bytes it was written in.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntaxNode {
    pub value: ConfigValue,
    pub at: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ConfigValue {
    Text(String),
    /// As written: whether it must be whole is for the reader to say.
    Number(String),
    Bool(bool),
    Null,
    List(Vec<SyntaxNode>),
    Object(Vec<Item>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub key: String,
    pub key_at: Range<usize>,
    pub node: SyntaxNode,
}

/// What is wrong with the text, and where. The message quotes none of it: it may be of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    pub at: Range<usize>,
    pub message: String,
}

/// The items of a whole file. A JSON file's outermost braces are taken off.
pub fn parse(text: &str) -> Result<Vec<Item>, SyntaxError> {
    let mut p = Parser { text, at: 0 };
    p.skip_blank()?;
    if p.peek() == Some('{') {
        let node = p.value(0)?;
        p.skip_blank()?;
        if p.peek().is_some() {
            return Err(p.wrong("text after the closing brace"));
        }
        if let ConfigValue::Object(items) = node.value {
            return Ok(items);
        }
        return Ok(Vec::new());
    }
    p.items(None, 0)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

type Parsed<T> = Result<T, SyntaxError>;

impl<'a> Parser<'a> {
    /// Items up to `end` (which is consumed), or to the end of the text.
    fn items(&mut self, end: Option<char>, depth: usize) -> Parsed<Vec<Item>> {
        let mut items = Vec::new();
        loop {
            self.skip_blank()?;
            match self.peek() {
                None if end.is_none() => return Ok(items),
                None => return Err(self.wrong("a closing brace is missing")),
                c if c == end => {
                    self.bump();
                    return Ok(items);
                }
                Some(_) => items.push(self.item(depth)?),
            }
            self.skip_blank()?;
            if self.peek() == Some(',') {
                self.bump();
            }
        }
    }

    fn item(&mut self, depth: usize) -> Parsed<Item> {
        let (key, key_at) = self.key()?;
        self.skip_blank()?;
        match self.peek() {
            Some('=' | ':') => {
                self.bump();
                self.skip_blank()?;
                let node = self.value(depth)?;
                Ok(Item { key, key_at, node })
            }
            Some('{') => {
                let node = self.value(depth)?;
                Ok(Item { key, key_at, node })
            }
            Some(c) if c == '"' || starts_identifier(c) => {
                if depth >= MAX_DEPTH {
                    return Err(self.wrong("nested too deeply"));
                }
                let inner = self.item(depth + 1)?;
                let at = inner.key_at.start..inner.node.at.end;
                Ok(Item { key, key_at, node: SyntaxNode { value: ConfigValue::Object(vec![inner]), at } })
            }
            _ => Err(self.wrong("after this key either \"=\" and a value or a block is expected")),
        }
    }

    fn key(&mut self) -> Parsed<(String, Range<usize>)> {
        let start = self.at;
        let key = match self.peek() {
            Some('"') => self.string()?,
            Some(c) if starts_identifier(c) => self.word().to_string(),
            _ => return Err(self.wrong("a key is expected")),
        };
        Ok((key, start..self.at))
    }

    fn value(&mut self, depth: usize) -> Parsed<SyntaxNode> {
        if depth >= MAX_DEPTH {
            return Err(self.wrong("nested too deeply"));
        }
        let start = self.at;
        let value = match self.peek() {
            Some('"') => ConfigValue::Text(self.string()?),
            Some('{') => {
                self.bump();
                ConfigValue::Object(self.items(Some('}'), depth + 1)?)
            }
            Some('[') => self.list(depth)?,
            Some('<') if self.rest().starts_with("<<") => ConfigValue::Text(self.heredoc()?),
            Some(c) if c.is_ascii_digit() || c == '-' || c == '+' || c == '.' => {
                ConfigValue::Number(self.word().to_string())
            }
            Some(c) if starts_identifier(c) => match self.word() {
                "true" => ConfigValue::Bool(true),
                "false" => ConfigValue::Bool(false),
                "null" => ConfigValue::Null,
                _ => {
                    let message = "a word is no value: put text in double quotes".to_string();
                    return Err(SyntaxError { at: start..self.at, message });
                }
            },
            _ => return Err(self.wrong("a value is expected")),
        };
        if let ConfigValue::Number(text) = &value
            && text.parse::<f64>().is_err()
        {
            return Err(SyntaxError { at: start..self.at, message: "this is no number".to_string() });
        }
        Ok(SyntaxNode { value, at: start..self.at })
    }

    fn list(&mut self, depth: usize) -> Parsed<ConfigValue> {
        self.bump();
        let mut nodes = Vec::new();
        loop {
            self.skip_blank()?;
            if self.peek() == Some(']') {
                self.bump();
                return Ok(ConfigValue::List(nodes));
            }
            nodes.push(self.value(depth + 1)?);
            self.skip_blank()?;
            match self.peek() {
                Some(',') => self.bump(),
                Some(']') => {}
                _ => return Err(self.wrong("a comma or a closing bracket is expected")),
            }
        }
    }

    /// A quoted text, with JSON's escapes.
    fn string(&mut self) -> Parsed<String> {
        let start = self.at;
        self.bump();
        let mut out = String::new();
        loop {
            match self.peek() {
                None | Some('\n') => {
                    let message = "a closing quote is missing".to_string();
                    return Err(SyntaxError { at: start..self.at, message });
                }
                Some('"') => {
                    self.bump();
                    return Ok(out);
                }
                Some('\\') => out.push(self.escape()?),
                Some(c) => {
                    self.bump();
                    out.push(c);
                }
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        self.bump();
        let c = self.peek();
        self.bump();
        Ok(match c {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('u') => self.unicode()?,
            _ => {
                return Err(
                    self.wrong("an unknown escape: known are \\n \\t \\r \\b \\f \\\" \\\\ \\/ \\uXXXX")
                );
            }
        })
    }

    /// Four hex digits; two of them in a row when they are a surrogate pair.
    fn unicode(&mut self) -> Parsed<char> {
        let high = self.hex4()?;
        if (0xd800..0xdc00).contains(&high) && self.rest().starts_with("\\u") {
            self.at += 2;
            let low = self.hex4()?;
            let code = 0x10000 + ((high - 0xd800) << 10) + (low.wrapping_sub(0xdc00) & 0x3ff);
            return char::from_u32(code).ok_or_else(|| self.wrong("no Unicode character"));
        }
        char::from_u32(high).ok_or_else(|| self.wrong("no Unicode character"))
    }

    fn hex4(&mut self) -> Parsed<u32> {
        let digits = self.rest().get(..4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        let code = code.ok_or_else(|| self.wrong("\\u needs four hex digits"))?;
        self.at += 4;
        Ok(code)
    }

    /// `<<EOF` or `<<-EOF` (which takes off the least common indentation) up to a line that holds only the marker.
    fn heredoc(&mut self) -> Parsed<String> {
        let start = self.at;
        self.at += 2;
        let indented = self.peek() == Some('-');
        if indented {
            self.bump();
        }
        let marker = self.word().to_string();
        let Some(newline) = self.rest().find('\n').filter(|_| !marker.is_empty()) else {
            return Err(self.wrong("a heredoc is \"<<MARKER\", lines, and the marker on a line of its own"));
        };
        self.at += newline + 1;
        let mut lines = Vec::new();
        loop {
            let rest = self.rest();
            if rest.is_empty() {
                let message = "the heredoc's end, a line with its marker alone, is missing".to_string();
                return Err(SyntaxError { at: start..start + 2, message });
            }
            let end = rest.find('\n').unwrap_or(rest.len());
            let line = rest[..end].to_string();
            if line.trim() == marker {
                self.at += end;
                return Ok(dedent(&lines, indented));
            }
            self.at += (end + 1).min(rest.len());
            lines.push(line);
        }
    }

    fn skip_blank(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with('#') || trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                let Some(end) = trimmed.find("*/") else {
                    return Err(self.wrong("the comment's end, */, is missing"));
                };
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    /// Letters, digits, `_`, `-`, `.` and `+`: identifiers and numbers alike.
    fn word(&mut self) -> &'a str {
        let start = self.at;
        let rest = self.rest();
        let more = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
        self.at += rest.find(|c| !more(c)).unwrap_or(rest.len());
        &self.text[start..self.at]
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn wrong(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError { at: self.at..self.at + 1, message: message.into() }
    }
}

fn starts_identifier(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn dedent(lines: &[String], indented: bool) -> String {
    let indent = |l: &String| l.len() - l.trim_start_matches([' ', '\t']).len();
    let least = lines.iter().filter(|l| !l.trim().is_empty()).map(indent).min();
    let cut = if indented { least.unwrap_or(0) } else { 0 };
    lines.iter().map(|l| format!("{}\n", l.get(cut..).unwrap_or(""))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> ConfigValue {
        let items = parse(text).unwrap();
        assert_eq!(items.len(), 1, "{text}");
        items.into_iter().next().map(|i| i.node.value).unwrap()
    }

    fn text(s: &str) -> ConfigValue {
        ConfigValue::Text(s.to_string())
    }

    #[test]
    fn values_are_read_as_written() {
        for (source, expected) in [
            (r#"a = "b""#, text("b")),
            (r#"a = "q\"\\\n\tä\u00e4\ud83d\ude00""#, text("q\"\\\n\tää😀")),
            ("a = 1.5", ConfigValue::Number("1.5".to_string())),
            ("a = -3", ConfigValue::Number("-3".to_string())),
            ("a = true", ConfigValue::Bool(true)),
            (r#"{"a": null}"#, ConfigValue::Null),
            ("a = <<EOF\n  x\n y\nEOF\n", text("  x\n y\n")),
            ("a = <<-EOF\n    x\n      y\n\n  EOF\n", text("x\n  y\n\n")),
            ("a = []", ConfigValue::List(Vec::new())),
            ("a {}", ConfigValue::Object(Vec::new())),
        ] {
            assert_eq!(only(source), expected, "{source}");
        }
        let ConfigValue::List(nodes) = only("a = [1, 2,\n 3,]") else { panic!("no list") };
        assert_eq!(nodes.len(), 3);
    }

    #[test]
    fn labels_become_nested_objects() {
        let ConfigValue::Object(outer) = only("plugin \"raw_exec\" { x = 1 }") else { panic!("no object") };
        assert_eq!((outer[0].key.as_str(), &outer[0].key_at), ("raw_exec", &(7..17)));
        assert!(matches!(&outer[0].node.value, ConfigValue::Object(inner) if inner[0].key == "x"));
    }

    #[test]
    fn errors_name_their_place() {
        for (source, at, message) in [
            ("a = ", 4, "a value is expected"),
            ("a = 1x", 4, "is no number"),
            ("= 1", 0, "a key is expected"),
            ("a = [1 2]", 7, "a comma or a closing bracket"),
            ("a = \"x\\q\"", 8, "unknown escape"),
            ("/* a", 0, "the comment's end"),
            ("a = <<EOF\nx\n", 4, "the heredoc's end"),
            ("{} a", 3, "after the closing brace"),
        ] {
            let error = parse(source).unwrap_err();
            assert!(error.at.start == at && error.message.contains(message), "{source}: {error:?}");
        }
    }
}
