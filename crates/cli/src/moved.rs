//! Commands that moved to `byway-lab`, or take the device first now: their old spellings name the new ones.

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::args::{Page, Structure};

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
    let words: Vec<String> = std::env::args().skip(1).collect();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let (old, new) = moved(&words)?;
            note!("byway: `byway {old}` is now `byway-lab {new}`, with the same options");
        }
        ErrorKind::ValueValidation => note!("byway: the device comes first: `{}`", device_first(&words)?),
        _ => return None,
    }
    Some(ExitCode::from(ERROR))
}

/// The command with its device first, where the words have the name of a structure or a page there.
fn device_first(words: &[String]) -> Option<String> {
    let [command, what, device, ..] = words else { return None };
    let is_named = match command.as_str() {
        "identify" => what.parse::<Structure>().is_ok() && device.parse::<Structure>().is_err(),
        "log" => what.parse::<Page>().is_ok() && device.parse::<Page>().is_err(),
        _ => false,
    };
    is_named.then(|| format!("byway {command} {device} {what}"))
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
    fn name_of_a_structure_or_page_before_the_device_names_the_new_order() {
        let of = |line: &str| device_first(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("identify controller disk.img"), Some("byway identify disk.img controller".into()));
        assert_eq!(of("log smart disk.img --json"), Some("byway log disk.img smart".into()));
        for other in ["identify disk.img contoller", "identify controller", "kv get disk.img"] {
            assert_eq!(of(other), None, "{other}");
        }
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
