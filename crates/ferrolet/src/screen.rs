//! A few lines on a terminal, drawn over themselves.

use std::fmt::Write as _;

use crate::output::print;

/// Where nothing says how large the terminal is.
const SIZE: (usize, usize) = (80, 24);

/// What was drawn last lies this many lines above.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    height: usize,
}

impl Screen {
    /// In the place of what was drawn before.
    pub(crate) fn draw(&mut self, lines: &[String]) {
        let (width, _) = size();
        let mut text = self.cleared();
        for line in lines {
            // A line that wraps would spoil the count of lines.
            text.extend(line.chars().take(width - 1));
            text.push('\n');
        }
        self.height = lines.len();
        // Whoever looked may be gone; what is shown goes on.
        let _ = print(&text);
    }

    /// A line that stays. What was drawn is gone until it is drawn again.
    pub(crate) fn tell(&mut self, line: &str) {
        let text = format!("{}{line}\n", self.cleared());
        self.height = 0;
        let _ = print(&text);
    }

    /// Up to the first line of before, and clear from there.
    fn cleared(&self) -> String {
        let mut text = String::new();
        if self.height > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\r\x1b[{}A\x1b[J", self.height);
        }
        text
    }
}

/// Columns and rows of the terminal.
pub(crate) fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or(SIZE, |size| {
        // One that nobody has measured says zero.
        let told = |cells: u16, usual, least| match usize::from(cells) {
            0 => usual,
            cells => cells.max(least),
        };
        (told(size.ws_col, SIZE.0, 20), told(size.ws_row, SIZE.1, 10))
    })
}
