//! JSON with positions, for job files written in HCL's JSON syntax. Repeated names stay repeated: they are repeated
//! blocks. Refuses to know what any name means; strings are templates only to whoever evaluates them.

use super::diagnostic::{Diagnostic, Label, Source};
use std::ops::Range;

const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug)]
pub struct JsonNode {
    pub at: Range<usize>,
    pub kind: JsonKind,
}

#[derive(Clone, Debug)]
pub enum JsonKind {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<JsonNode>),
    Object(Vec<(Label, JsonNode)>),
}

pub fn parse(source: Source<'_>) -> Result<JsonNode, Diagnostic> {
    let mut reader = Reader { source, at: 0 };
    let node = reader.value(0)?;
    reader.blanks();
    if reader.at < source.text.len() { Err(reader.fail("nothing more is expected here")) } else { Ok(node) }
}

struct Reader<'a> {
    source: Source<'a>,
    at: usize,
}

impl Reader<'_> {
    fn fail(&self, detail: impl Into<String>) -> Diagnostic {
        Diagnostic::at(self.source, self.at..self.at + 1, "Invalid JSON", detail)
    }

    fn rest(&self) -> &[u8] {
        &self.source.text.as_bytes()[self.at..]
    }

    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.rest().first().copied()
    }

    fn blanks(&mut self) {
        self.at += self.rest().iter().take_while(|b| b" \t\r\n".contains(b)).count();
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, Diagnostic> {
        if depth > MAX_DEPTH {
            return Err(self.fail(format!("at most {MAX_DEPTH} nested levels are read")));
        }
        let next = self.peek();
        let start = self.at;
        let kind = match next {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => JsonKind::Text(self.text()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(_) => self.word()?,
            None => return Err(self.fail("a value is missing")),
        };
        Ok(JsonNode { at: start..self.at, kind })
    }

    fn object(&mut self, depth: usize) -> Result<JsonKind, Diagnostic> {
        let mut members = Vec::new();
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(JsonKind::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.fail("a name in double quotes is expected"));
            }
            let start = self.at;
            let text = self.text()?;
            let label = Label { text, at: start..self.at };
            if self.peek() != Some(b':') {
                return Err(self.fail("':' is expected"));
            }
            self.at += 1;
            members.push((label, self.value(depth + 1)?));
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(JsonKind::Object(members));
                }
                _ => return Err(self.fail("',' or '}' is expected")),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<JsonKind, Diagnostic> {
        let mut items = Vec::new();
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(JsonKind::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(JsonKind::List(items));
                }
                _ => return Err(self.fail("',' or ']' is expected")),
            }
        }
    }

    /// The extent is found here, the escapes are left to the JSON library.
    fn text(&mut self) -> Result<String, Diagnostic> {
        let bytes = self.rest();
        let mut len = 1;
        loop {
            match bytes.get(len) {
                Some(b'"') => break,
                Some(b'\\') => len += 2,
                Some(_) => len += 1,
                None => return Err(self.fail("the closing quote is missing")),
            }
        }
        let text = serde_json::from_slice(&bytes[..=len]).map_err(|e| self.fail(e.to_string()))?;
        self.at += len + 1;
        Ok(text)
    }

    fn number(&mut self) -> Result<JsonKind, Diagnostic> {
        let bytes = self.rest();
        let len = bytes.iter().take_while(|b| b"+-.eE0123456789".contains(b)).count();
        let number = serde_json::from_slice(&bytes[..len]).map_err(|_| self.fail("this is not a number"))?;
        self.at += len;
        Ok(JsonKind::Number(number))
    }

    fn word(&mut self) -> Result<JsonKind, Diagnostic> {
        for (word, kind) in
            [("null", JsonKind::Null), ("true", JsonKind::Bool(true)), ("false", JsonKind::Bool(false))]
        {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(kind);
            }
        }
        Err(self.fail("a value is expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<JsonNode, Diagnostic> {
        parse(Source { name: "t", text })
    }

    #[test]
    fn values_keep_their_places_and_repeated_names() {
        let node = read(r#" {"a": [1, -2.5, true, null], "a": "x\"\u00e9\/"} "#).unwrap();
        let JsonKind::Object(members) = node.kind else { panic!("no object") };
        assert_eq!(members.len(), 2);
        assert_eq!(members[1].0.at, 30..33);
        assert!(matches!(&members[1].1.kind, JsonKind::Text(t) if t == "x\"é/"));
        assert!(matches!(&members[0].1.kind, JsonKind::List(l) if l.len() == 4));
    }

    #[test]
    fn broken_texts_are_refused() {
        for bad in [
            "", "{", "[", "{\"a\"}", "{\"a\":}", "[1,]", "\"a", "\"\\", "1x", "tru", "{} {}", "{a:1}",
            "\"\\x\"", "é",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
    }
}
