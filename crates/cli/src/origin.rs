//! Where figures were measured: command, machine, commit, date.

use byway_figure::Source;
use serde::{Deserialize, Serialize};

/// Where and by what a measurement was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// The command, as a shell takes it.
    pub command: String,
    /// Processor, their number, kernel.
    pub machine: Option<String>,
    /// The commit of the program.
    pub commit: Option<String>,
    /// The day, in universal time.
    pub date: Option<String>,
}

impl Origin {
    /// This process, now.
    pub fn here() -> Self {
        let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
        let command = std::iter::once("byway".to_owned()).chain(words).collect::<Vec<_>>().join(" ");
        let source = Source::of_this_machine(command);
        Self { command: source.command, machine: source.machine, commit: source.commit, date: source.date }
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:,=%+@".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_command_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("--depth"), "--depth");
        assert_eq!(quoted("a.img?ns=2&direct=1"), "'a.img?ns=2&direct=1'");
        assert_eq!((quoted(""), quoted("it's")), ("''".to_owned(), r"'it'\''s'".to_owned()));
    }
}
