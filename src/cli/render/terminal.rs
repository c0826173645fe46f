//! The user's terminal during an exec session: raw mode, its size, and the escape sequence.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, stdin, stdout};

/// Restores the earlier mode when dropped.
pub struct Raw(Termios);

impl Raw {
    pub fn new() -> io::Result<Raw> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        Ok(Raw(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // a closed terminal has no mode to restore
        let _gone = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

/// Rows and columns.
pub fn size() -> Option<(u16, u16)> {
    tcgetwinsize(stdout()).ok().map(|size| (size.ws_row, size.ws_col))
}

/// Looks for the escape sequence, the escape character and a dot at a line start, which ends the session. The character
/// twice sends it once.
#[derive(Debug)]
pub struct Escape {
    character: Option<u8>,
    line_begins: bool,
    held: bool,
}

/// The input to pass on, and whether the escape sequence ended it.
#[derive(Debug, PartialEq, Eq)]
pub struct Typed {
    pub bytes: Vec<u8>,
    pub out: bool,
}

impl Escape {
    /// `None`: escape is disabled.
    pub fn new(character: Option<u8>) -> Escape {
        Escape { character, line_begins: true, held: false }
    }

    pub fn take(&mut self, typed: &[u8]) -> Typed {
        let mut bytes = Vec::with_capacity(typed.len());
        for byte in typed {
            let is_escape = Some(*byte) == self.character;
            if std::mem::take(&mut self.held) {
                if *byte == b'.' {
                    return Typed { bytes, out: true };
                }
                if !is_escape {
                    bytes.extend(self.character);
                }
            } else if is_escape && self.line_begins {
                self.held = true;
                continue;
            }
            bytes.push(*byte);
            self.line_begins = matches!(byte, b'\r' | b'\n');
        }
        Typed { bytes, out: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_escape_is_read_only_at_a_line_start() {
        for (typed, passed, out) in [
            (&["ls\r", "~."][..], "ls\r", true),
            (&["~", "."], "", true),
            (&["a~.b"], "a~.b", false),
            (&["~~."], "~.", false),
            (&["~x"], "~x", false),
            (&["\n~", "q\n"], "\n~q\n", false),
        ] {
            let mut escape = Escape::new(Some(b'~'));
            let (mut bytes, mut left) = (Vec::new(), false);
            for part in typed {
                let taken = escape.take(part.as_bytes());
                bytes.extend(taken.bytes);
                left |= taken.out;
            }
            assert_eq!((String::from_utf8_lossy(&bytes).as_ref(), left), (passed, out), "{typed:?}");
        }
        assert_eq!(Escape::new(None).take(b"~."), Typed { bytes: b"~.".to_vec(), out: false });
    }
}
