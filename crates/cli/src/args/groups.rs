//! The commands of `byway --help` by what they are about.

use std::fmt::Write;

use clap::Command;

use super::fold::folded;

/// Headings, each with its commands. What a command does is said where it is defined.
const GROUPS: [(&str, &[&str]); 10] = [
    ("Images, each the file of one SSD in software", &["create", "check", "resize", "snapshot"]),
    ("Keys and values", &["kv"]),
    ("Computation in the device", &["sql"]),
    ("Blocks", &["nvm", "dd"]),
    (
        "Devices",
        &[
            "list", "enum", "discover", "info", "identify", "log", "feature", "pass", "format", "sanitize",
            "top",
        ],
    ),
    ("Serving", &["serve", "subsystem", "ns", "ana", "port", "host", "key"]),
    ("Unmodified programs (transparent DAX mappings)", &["tdm"]),
    ("Measuring", &["perf", "bench"]),
    (
        "Namespaces, reservations and controllers, as nvme-cli names them",
        &[
            "create-ns",
            "delete-ns",
            "attach-ns",
            "detach-ns",
            "resv-register",
            "resv-acquire",
            "resv-release",
            "resv-report",
            "show-regs",
            "reset",
            "telemetry-log",
        ],
    ),
    ("Tools", &["uri", "gen", "help"]),
];

/// Spellings of nvme-cli for commands of ours, which the help lists without what they do.
const SPELLINGS: &[&str] = &[
    "id-ctrl",
    "id-ns",
    "list-ns",
    "list-ctrl",
    "ns-descs",
    "smart-log",
    "error-log",
    "fw-log",
    "effects-log",
    "changed-ns-list-log",
    "self-test-log",
    "ana-log",
    "sanitize-log",
    "supported-log-pages",
    "get-log",
    "get-feature",
    "set-feature",
    "admin-passthru",
    "io-passthru",
];

/// Columns of a command's name.
const WIDTH: usize = 13;

/// The root of a command tree, with its commands in groups.
pub fn grouped(command: Command) -> Command {
    let mut lines = String::new();
    for (heading, names) in GROUPS {
        // Writing to a String does not fail.
        let _ = write!(lines, "\n{heading}:\n");
        for name in names {
            let _ = writeln!(lines, "  {name:WIDTH$} {}", folded(&about(&command, name), WIDTH + 3));
        }
    }
    let _ = write!(lines, "\nAs in nvme-cli, for identify, log, feature and pass:\n");
    for names in SPELLINGS.chunks(5) {
        let _ = writeln!(lines, "  {}", names.join(" "));
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
    use crate::args::fold::COLUMNS;

    #[test]
    fn every_command_is_in_one_group() {
        let command = args::command();
        let in_groups = GROUPS.iter().flat_map(|(_, names)| names.iter());
        let mut grouped: Vec<&str> = in_groups.chain(SPELLINGS).copied().collect();
        let mut known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        known.push("help");
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn no_line_of_the_groups_is_wider_than_a_terminal() {
        let help = args::command().render_help().to_string();
        let groups = help.split("\nOptions:").next().unwrap_or_default();
        for line in groups.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
    }
}
