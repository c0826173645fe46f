//! How many members the largest object of a text has, before it is parsed: the parser compares each new member of an
//! object with all earlier ones, so an object of a megabyte would keep it busy for a minute.
//!
//! Refuses to know: whether the text is right. What it misjudges there, the parser refuses.

/// More members than this in one object or block are refused.
pub const MAX_MEMBERS: usize = 10_000;
/// The parser refuses deeper nesting before it matters here.
const MAX_DEPTH: usize = 200;

/// What a text as a whole is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    Code,
    Template,
}

enum Frame<'t> {
    /// Between brackets, or in `${}`: assignments so far.
    Code(usize),
    Quoted,
    /// Up to a line with the delimiter; without one, to the end.
    Template(Option<&'t str>),
}

/// The place where an object gets too large, if there is one.
pub fn too_large(text: &str, whole: Whole) -> Option<usize> {
    let assignments = text.bytes().filter(|b| matches!(b, b'=' | b':')).take(MAX_MEMBERS + 1).count();
    if assignments <= MAX_MEMBERS {
        return None;
    }
    let first = if whole == Whole::Code { Frame::Code(0) } else { Frame::Template(None) };
    let mut scan = Scan { text, at: 0, frames: vec![first] };
    while scan.at < text.len() && scan.frames.len() < MAX_DEPTH {
        if let Some(place) = scan.step() {
            return Some(place);
        }
    }
    None
}

struct Scan<'t> {
    text: &'t str,
    at: usize,
    /// Innermost last; never empty.
    frames: Vec<Frame<'t>>,
}

impl<'t> Scan<'t> {
    fn rest(&self) -> &'t [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn step(&mut self) -> Option<usize> {
        match self.frames.last() {
            Some(Frame::Code(_)) => return self.code(),
            Some(Frame::Quoted) => match self.rest() {
                [b'\\', ..] => self.at += 2,
                [b'"', ..] => self.close(),
                _ => self.template(),
            },
            Some(Frame::Template(delimiter)) => match delimiter.and_then(|d| self.heredoc_end(d)) {
                Some(end) => {
                    self.at = end - 1;
                    self.close();
                }
                None => self.template(),
            },
            None => self.at = self.text.len(),
        }
        None
    }

    /// One byte of a template, or the start of an interpolation; a doubled marker is text.
    fn template(&mut self) {
        match self.rest() {
            [b'$', b'$', b'{', ..] | [b'%', b'%', b'{', ..] => self.at += 3,
            [b'$' | b'%', b'{', ..] => {
                self.at += 2;
                self.frames.push(Frame::Code(0));
            }
            _ => self.at += 1,
        }
    }

    fn code(&mut self) -> Option<usize> {
        match self.rest() {
            [b'#', ..] | [b'/', b'/', ..] => self.skip_past("\n"),
            [b'/', b'*', ..] => self.skip_past("*/"),
            [b'"', ..] => self.open(Frame::Quoted),
            [b'{' | b'[' | b'(', ..] => self.open(Frame::Code(0)),
            [b'}' | b']' | b')', ..] => self.close(),
            [b'<', b'<', ..] => self.heredoc_start(),
            [b'=' | b':', ..] => {
                self.at += 1;
                if let Some(Frame::Code(count)) = self.frames.last_mut() {
                    *count += 1;
                    return (*count > MAX_MEMBERS).then_some(self.at - 1);
                }
            }
            _ => self.at += 1,
        }
        None
    }

    fn open(&mut self, frame: Frame<'t>) {
        self.at += 1;
        self.frames.push(frame);
    }

    fn close(&mut self) {
        self.at += 1;
        if self.frames.len() > 1 {
            self.frames.pop();
        }
    }

    fn skip_past(&mut self, end: &str) {
        let tail = self.text.get(self.at..).and_then(|t| t.find(end));
        self.at = tail.map_or(self.text.len(), |i| self.at + i + end.len());
    }

    fn heredoc_start(&mut self) {
        self.at += 2;
        let rest = self.text.get(self.at..).unwrap_or_default();
        let name = rest.strip_prefix('-').unwrap_or(rest);
        let end = name.find(['\n', '\r']).unwrap_or(0);
        if end > 0 && name.as_bytes()[..end].iter().all(is_name) {
            self.frames.push(Frame::Template(Some(&name[..end])));
            self.at += rest.len() - name.len() + end;
        }
    }

    /// After a line's end: where the delimiter that stands alone ends.
    fn heredoc_end(&self, delimiter: &str) -> Option<usize> {
        let after = self.rest().strip_prefix(b"\n")?;
        let blanks = after.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let tail = after[blanks..].strip_prefix(delimiter.as_bytes())?;
        let ends = !tail.first().is_some_and(is_name);
        ends.then_some(self.at + 1 + blanks + delimiter.len())
    }
}

fn is_name(b: &u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-') || !b.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_that_are_too_large_are_found() {
        let many = "a = 1\n".repeat(MAX_MEMBERS + 1);
        let few = "a = 1\n".repeat(MAX_MEMBERS - 10);
        let quoted = "a = 1 ".repeat(MAX_MEMBERS + 1);
        for (text, large) in [
            (format!("x = {{\n{many}}}"), true),
            (format!("x {{\n{many}}}"), true),
            (format!("x = {{\n{few}}}\ny = {{\n{few}}}\n"), false),
            (format!("x = \"{quoted}\""), false),
            (format!("x = \"\\\"{quoted}\""), false),
            (format!("x = \"${{ {{ {quoted} }} }}\""), true),
            (format!("x = \"$${{ {{ {quoted} }} }}\""), false),
            (format!("x = <<EOF\n{many}EOF\ny = 1\n"), false),
            (format!("x = <<-EOF\nEOFF\n${{ {{ {quoted} }} }}\n  EOF\n"), true),
            (format!("x = <<EOF\n  EOF\ny = {{ {quoted} }}"), true),
            (format!("/* {quoted} */ x = 1"), false),
            (format!("# {quoted}\n// {quoted}\nx = 1"), false),
            (format!("x = \"# \" \n y = {{ {quoted} }}"), true),
        ] {
            assert_eq!(too_large(&text, Whole::Code).is_some(), large, "{}", &text[..20]);
        }
        assert!(too_large(&format!("{quoted} ${{ {{ {quoted} }} }}"), Whole::Template).is_some());
        assert!(too_large(&quoted, Whole::Template).is_none());
    }
}
