//! Lines that are drawn again in place on a terminal: at most a screen high, cut at its width, and written in one piece, so that nothing
//! flickers and nothing has to be put right when the user interrupts.
//!
//! `frame` is pure. Refuses to know: what the lines say.

use crate::error::CommandResult;
use crate::output::Printer;

/// A terminal that does not tell its size.
const USUAL: Size = Size { rows: 24, columns: 80 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub rows: usize,
    pub columns: usize,
}

impl Size {
    /// The size of standard output's terminal.
    pub fn now() -> Size {
        match crate::render::terminal::size() {
            Some((rows, columns)) if rows > 1 && columns > 0 => {
                Size { rows: rows.into(), columns: columns.into() }
            }
            _ => USUAL,
        }
    }
}

/// Text by lines, some of them titles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScreenText {
    lines: Vec<ScreenLine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ScreenLine {
    text: String,
    title: bool,
}

impl ScreenText {
    pub fn line(&mut self, text: impl Into<String>) {
        self.lines.push(ScreenLine { text: text.into(), title: false });
    }

    /// Whole lines.
    pub fn text(&mut self, text: &str) {
        text.lines().for_each(|line| self.line(line));
    }

    pub fn title(&mut self, text: impl Into<String>) {
        self.lines.push(ScreenLine { text: text.into(), title: true });
    }

    /// A blank line and the section's title.
    pub fn section(&mut self, title: &str) {
        self.line("");
        self.title(title);
    }

    /// All of it, once.
    pub fn print(&self, out: &Printer) -> CommandResult<()> {
        let shown = |line: &ScreenLine| if line.title { out.bold(&line.text) } else { line.text.clone() };
        let text: String = self.lines.iter().map(|line| shown(line) + "\n").collect();
        out.text(&text)
    }
}

/// What stands on the terminal: the cursor is at the beginning of the line below it.
#[derive(Default)]
pub struct Screen {
    drawn: Vec<ScreenLine>,
    size: Option<Size>,
}

impl Screen {
    /// Draws `page` where the last one stood. The same lines at the same size are left as they are.
    pub fn draw(&mut self, out: &Printer, page: &ScreenText, size: Size) -> CommandResult<()> {
        let lines = fit(page, size);
        if self.drawn == lines && self.size == Some(size) {
            return Ok(());
        }
        let bold = |line: &ScreenLine| if line.title { out.bold(&line.text) } else { line.text.clone() };
        let shown: Vec<String> = lines.iter().map(bold).collect();
        let lengths: Vec<usize> = self.drawn.iter().map(|line| line.text.chars().count()).collect();
        out.text(&frame(&lengths, &shown, size))?;
        (self.drawn, self.size) = (lines, Some(size));
        Ok(())
    }
}

/// The lines that have room above the cursor's, each cut at the width.
fn fit(page: &ScreenText, size: Size) -> Vec<ScreenLine> {
    let room = size.rows.saturating_sub(1).max(1);
    let cut = |line: &ScreenLine| ScreenLine {
        text: line.text.chars().take(size.columns).collect(),
        title: line.title,
    };
    if page.lines.len() <= room {
        return page.lines.iter().map(cut).collect();
    }
    let left_out = page.lines.len() - (room - 1);
    let more = ScreenLine { text: format!("... {left_out} more lines"), title: false };
    page.lines.iter().take(room - 1).chain([&more]).map(cut).collect()
}

/// What the terminal is sent: up over what was drawn, each line over the old one, and what is left below erased. `drawn`: the lengths
/// of the lines that stand there; a terminal that has become narrower has wrapped them.
fn frame(drawn: &[usize], lines: &[String], size: Size) -> String {
    const UNWRAPPED: &str = "\x1b[?7l";
    const WRAPPED: &str = "\x1b[?7h";
    const ERASE_LINE: &str = "\x1b[K";
    const ERASE_BELOW: &str = "\x1b[J";
    let height: usize = drawn.iter().map(|length| length.div_ceil(size.columns).max(1)).sum();
    let mut out = match height {
        0 => UNWRAPPED.to_string(),
        // further up than the first row there is nothing to reach
        _ => format!("{UNWRAPPED}\r\x1b[{}A", height.min(size.rows.saturating_sub(1).max(1))),
    };
    for line in lines {
        out.push_str(&format!("{line}{ERASE_LINE}\n"));
    }
    out + ERASE_BELOW + WRAPPED
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Size = Size { rows: 4, columns: 10 };

    fn page(lines: &[&str]) -> ScreenText {
        let mut page = ScreenText::default();
        lines.iter().for_each(|line| page.line(*line));
        page
    }

    fn texts(page: &ScreenText, size: Size) -> Vec<String> {
        fit(page, size).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn a_page_is_cut_to_the_screen() {
        assert_eq!(texts(&page(&["a", "b", "c"]), SMALL), ["a", "b", "c"]);
        assert_eq!(texts(&page(&["a", "b", "c", "d", "e"]), SMALL), ["a", "b", "... 3 more"]);
        assert_eq!(texts(&page(&["0123456789abc"]), SMALL), ["0123456789"]);
        assert_eq!(texts(&page(&["äöüäöüäöüäöü"]), SMALL), ["äöüäöüäöüä"]);
        assert_eq!(texts(&page(&["a", "b"]), Size { rows: 1, columns: 80 }), ["... 2 more lines"]);
    }

    #[test]
    fn a_frame_overwrites_the_last_one_and_erases_the_rest() {
        let lines = ["one".to_string(), "two".to_string()];
        let written = "one\x1b[K\ntwo\x1b[K\n\x1b[J\x1b[?7h";
        for (drawn, up) in [
            (&[][..], ""),
            (&[3, 3], "\r\x1b[2A"),
            (&[3, 0, 3], "\r\x1b[3A"),
            // 25 characters in a terminal of 10 columns have become three lines, of which the first has left the screen
            (&[3, 25], "\r\x1b[3A"),
        ] {
            assert_eq!(frame(drawn, &lines, SMALL), format!("\x1b[?7l{up}{written}"), "{drawn:?}");
        }
    }
}
