//! Commands that moved to `byway-lab`: their old spellings name the new ones.

use std::process::ExitCode;

use clap::error::ErrorKind;

/// Exit code of an error.
const ERROR: u8 = 2;
/// Commands as they were spelled, each with its name in `byway-lab`.
const MOVED: [(&str, &str); 5] = [
    ("bench kv", "kv"),
    ("bench endurance", "endurance"),
    ("bench workload", "workload"),
    ("bench calibrate", "calibrate"),
    ("report", "report"),
];

/// Says where a command of an older release is now, if the arguments name one.
pub fn end(error: &clap::Error) -> Option<ExitCode> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (old, new) = moved(&words)?;
    note!("byway: `byway {old}` is now `byway-lab {new}`, with the same options");
    Some(ExitCode::from(ERROR))
}

fn moved(words: &[String]) -> Option<(&'static str, &'static str)> {
    MOVED
        .into_iter()
        .find(|(old, _)| old.split(' ').eq(words.iter().map(String::as_str).take(old.split(' ').count())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<&'static str> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        moved(&words).map(|(_, new)| new)
    }

    #[test]
    fn an_old_spelling_names_the_new_one_with_or_without_arguments() {
        assert_eq!(of("bench kv --vs fjall"), Some("kv"));
        assert_eq!(of("report"), Some("report"));
        assert_eq!(of("report out --full"), Some("report"));
        for other in ["bench", "bench transfer", "host kv", "kv bench"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
