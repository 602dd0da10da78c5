//! Escapes control characters and bidirectional overrides in text output (paths, names, errors) and in JSON.
//!
//! All text and JSON output passes here. Data (values of keys, blocks) does not.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

/// Writes words to standard output, as `write!` does.
#[macro_export]
macro_rules! put {
    ($out:expr, $($words:tt)*) => { $crate::visible::write($out, format_args!($($words)*)) };
}

/// Writes a sentence to standard error, as `eprintln!` does.
#[macro_export]
macro_rules! note {
    ($($words:tt)*) => { $crate::visible::note(format_args!($($words)*)) };
}

/// Writes words, in which ends of lines and tabs stay.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut (impl Write + ?Sized), words: fmt::Arguments<'_>) -> io::Result<()> {
    out.write_all(lines(&words.to_string()).as_bytes())
}

/// Writes a sentence to standard error, on one line. Errors of that are ignored: there is no other place for them.
pub fn note(words: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", line(&words.to_string()));
}

/// Text of one line.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_unsafe)
}

/// Text of several lines and columns.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t'))
}

/// JSON on one line, with escapes for what JSON itself leaves as it is: DEL, C1, and what turns the direction of text.
pub fn json(text: &str) -> Cow<'_, str> {
    replaced(text, is_unsafe, |letter, shown| {
        // None of them is beyond the first plane.
        let _ = fmt::Write::write_fmt(shown, format_args!("\\u{:04x}", u32::from(letter)));
    })
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    replaced(text, is_escaped, |letter, shown| shown.extend(letter.escape_default()))
}

fn replaced(
    text: &str,
    is_replaced: impl Fn(char) -> bool,
    replace: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match is_replaced(letter) {
            true => replace(letter, &mut shown),
            false => shown.push(letter),
        }
    }
    shown.into()
}

/// Whether a terminal acts on a character: control characters (C0, DEL, C1), and those that turn the direction of text.
fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_other_text_stays() {
        assert_eq!(line("disk\u{1b}[2J\u{7f}\u{9b}1m.img"), "disk\\u{1b}[2J\\u{7f}\\u{9b}1m.img");
        assert_eq!(line("a\nb\tc\r"), "a\\nb\\tc\\r");
        assert_eq!(line("gpj.\u{202e}img"), "gpj.\\u{202e}img");
        assert!(matches!(line("Größe 4 µs, ✓"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_escapes_unsafe_characters_that_serde_json_leaves() {
        let text = "a\u{1b}\u{7f}\u{9b}\u{202e}\n";
        let json = serde_json::to_string(text).unwrap_or_default();
        let shown = super::json(&json);
        assert!(shown.is_ascii() && !shown.contains(char::is_control), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).ok().as_deref(), Some(text));
    }

    #[test]
    fn ends_of_lines_stay_in_text_of_several_lines() {
        assert_eq!(lines("a\tb\nc\u{7}\r\n"), "a\tb\nc\\u{7}\\r\n");
    }
}
