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
        let lines: Vec<String> = text.lines().flat_map(|line| laid_out(line, columns)).collect();
        for line in fitted(&lines, rows.saturating_sub(1)) {
            out.push_str(&line);
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

/// Where the words of a line of figures such as `health    spare 100 %, used 0 %` begin.
const WORDS: usize = 10;

/// A line as a terminal of so many columns has room for it: figures between commas go on in the next line, all others end in `…`.
fn laid_out(line: &str, columns: usize) -> Vec<String> {
    let letters: Vec<char> = line.chars().filter(|letter| !letter.is_control()).collect();
    if letters.len() <= columns {
        return vec![letters.into_iter().collect()];
    }
    let is_figures =
        letters.get(WORDS - 1) == Some(&' ') && letters.get(WORDS).is_some_and(|letter| *letter != ' ');
    let text: String = letters.iter().collect();
    match is_figures && text.contains(", ") {
        true => by_commas(&text, columns),
        false => vec![cut(&text, columns)],
    }
}

fn by_commas(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for figure in text.split_inclusive(", ") {
        match lines.last_mut() {
            Some(last) if last.chars().count() + figure.trim_end().chars().count() <= columns => {
                last.push_str(figure)
            }
            Some(_) => lines.push(format!("{:WORDS$}{figure}", "")),
            None => lines.push(figure.to_owned()),
        }
    }
    lines.iter().map(|line| cut(line.trim_end(), columns)).collect()
}

/// So much of a line as there is room for, with a mark where it goes on.
fn cut(line: &str, columns: usize) -> String {
    match line.chars().count() > columns {
        true => line.chars().take(columns.saturating_sub(1)).chain(std::iter::once('…')).collect(),
        false => line.to_owned(),
    }
}

/// So many of the lines; where there are more, the last one says how many.
fn fitted(lines: &[String], rows: usize) -> Vec<String> {
    if lines.len() <= rows {
        return lines.to_vec();
    }
    let shown = rows.saturating_sub(1);
    let more = format!("{} more below (--once prints all)", counted((lines.len() - shown) as u64, "line"));
    lines.iter().take(shown).cloned().chain(std::iter::once(more)).collect()
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
        let lines = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(fitted(&lines[..2], 2), ["a", "b"]);
        assert_eq!(fitted(&lines, 3), ["a", "b", "2 lines more below (--once prints all)"]);
        assert_eq!(fitted(&lines[..2], 1), ["2 lines more below (--once prints all)"]);
    }

    #[test]
    fn figures_that_have_no_room_go_on_in_the_next_line() {
        let line = "health    spare 100 %, used 0 %, 0 unsafe shutdowns";
        assert_eq!(laid_out(line, 80), [line]);
        assert_eq!(laid_out(line, 32), ["health    spare 100 %, used 0 %,", "          0 unsafe shutdowns"]);
    }

    #[test]
    fn a_row_that_has_no_room_ends_in_a_mark() {
        assert_eq!(laid_out("read    10  2301 /s  33.58 µs", 24), ["read    10  2301 /s  33…"]);
        assert_eq!(laid_out("a\x1b[31m, b", 20), ["a[31m, b"]);
    }
}
