//! A terminal in which a text stays in place. Whatever ends the work, the terminal is as it was.

use std::io::{self, IsTerminal, Stdin, Write};
use std::time::Duration;

use byway_console::size::counted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

/// The other screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\r\n";
const CLEAR_BELOW: &str = "\x1b[J";

/// Size of a terminal that does not report it.
const ROWS: usize = 24;
const COLUMNS: usize = 80;

/// A key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The word to end.
    Quit,
    /// Something else, or nothing.
    Other,
}

/// The terminal.
pub struct Screen {
    input: Stdin,
    /// As it was; none where nothing can be typed.
    before: Option<Termios>,
}

impl Screen {
    /// Takes the terminal, if standard output is one.
    pub fn take() -> Option<Self> {
        let mut output = io::stdout();
        if !output.is_terminal() {
            return None;
        }
        let input = io::stdin();
        let before = tcgetattr(&input).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // A stop (Ctrl-Z) would leave the terminal in this mode.
            raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
            raw.special_codes[SpecialCodeIndex::VMIN] = 0;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            // A terminal that refuses shows what is typed.
            let _ = tcsetattr(&input, OptionalActions::Now, &raw);
        }
        let _ = output.write_all(ENTER.as_bytes());
        Some(Self { input, before })
    }

    /// Shows a text, as much of it as there is room for.
    ///
    /// # Errors
    /// Those of standard output.
    pub fn show(&self, text: &str) -> io::Result<()> {
        let (rows, columns) = size();
        let mut out = HOME.to_owned();
        for line in fitted(text, rows.saturating_sub(1)) {
            out.extend(line.chars().filter(|letter| !letter.is_control()).take(columns));
            out.push_str(CLEAR_LINE);
        }
        out.push_str(CLEAR_BELOW);
        let mut output = io::stdout();
        output.write_all(out.as_bytes())?;
        output.flush()
    }

    /// How many letters a line has room for.
    pub fn columns(&self) -> usize {
        size().1
    }

    /// Waits so long for something to be typed.
    pub fn key_within(&self, time: Duration) -> Key {
        if self.before.is_none() {
            std::thread::sleep(time);
            return Key::Other;
        }
        let mut fds = [PollFd::new(&self.input, PollFlags::IN)];
        let ready = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
        if ready.unwrap_or(0) == 0 {
            return Key::Other;
        }
        let mut typed = [0; 16];
        match rustix::io::read(&self.input, &mut typed) {
            Ok(0) | Err(_) => {
                // The terminal has closed: it stays readable from now on.
                std::thread::sleep(time);
                Key::Other
            }
            Ok(bytes) if typed[..bytes].iter().any(|key| matches!(key, b'q' | b'Q')) => Key::Quit,
            Ok(_) => Key::Other,
        }
    }
}

/// So many lines of a text; where there are more, the last one says how many.
fn fitted(text: &str, rows: usize) -> Vec<String> {
    let all = text.lines().count();
    if all <= rows {
        return text.lines().map(str::to_owned).collect();
    }
    let shown = rows.saturating_sub(1);
    let more = format!("{} more below (--once prints all)", counted((all - shown) as u64, "line"));
    text.lines().take(shown).map(str::to_owned).chain(std::iter::once(more)).collect()
}

fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => (ROWS, COLUMNS),
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut output = io::stdout();
        let _ = output.write_all(LEAVE.as_bytes()).and_then(|()| output.flush());
        if let Some(before) = &self.before {
            let _ = tcsetattr(&self.input, OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_says_how_much_of_it_is_below() {
        assert_eq!(fitted("a\nb\n", 2), ["a", "b"]);
        assert_eq!(fitted("a\nb\nc\nd\n", 3), ["a", "b", "2 lines more below (--once prints all)"]);
        assert_eq!(fitted("a\nb\n", 1), ["2 lines more below (--once prints all)"]);
    }
}
