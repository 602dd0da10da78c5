//! The commands of `byway --help` by what they are about.

use std::fmt::Write;

use clap::Command;

/// Headings, each with its commands. What a command does is said where it is defined.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Devices",
        &[
            "list", "enum", "discover", "info", "identify", "log", "feature", "pass", "format", "sanitize",
            "top",
        ],
    ),
    ("Keys and values", &["kv"]),
    ("Blocks", &["nvm", "dd"]),
    ("Serving", &["serve", "subsystem", "ns", "ana", "port", "host", "key"]),
    ("Unmodified programs (transparent DAX mappings)", &["tdm"]),
    ("Images", &["create", "check", "resize", "snapshot"]),
    ("Measuring", &["perf", "bench"]),
    ("Tools", &["uri", "gen", "help"]),
];

/// Columns of a command's name.
const WIDTH: usize = 11;

/// The root of a command tree, with its commands in groups.
pub fn grouped(command: Command) -> Command {
    let mut lines = String::new();
    for (heading, names) in GROUPS {
        // Writing to a String does not fail.
        let _ = write!(lines, "\n{heading}:\n");
        for name in names {
            let _ = writeln!(lines, "  {name:WIDTH$} {}", about(&command, name));
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{lines}\nOptions:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

fn about(command: &Command, name: &str) -> String {
    let found = command.find_subcommand(name).and_then(Command::get_about);
    // The parser makes this one by itself, later.
    found.map_or_else(|| "Print the help of a command, or of `uri`".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn every_command_is_in_one_group() {
        let command = args::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        known.push("help");
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }
}
