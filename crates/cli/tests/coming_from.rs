//! What `docs/coming-from.md` says is here: commands are run, options and functions looked up.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::pages::{run, text_of};

/// The code of the second column of each row, by tables.
fn ours(page: &str) -> Vec<(String, Vec<String>)> {
    let sections = page.split("\n## ").skip(1);
    let codes = |row: &str| {
        row.split('`').skip(1).step_by(2).map(|code| code.replace("\\|", "|")).collect::<Vec<String>>()
    };
    let of = |section: &str| {
        let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        rows.flat_map(|(_, ours)| codes(ours)).collect()
    };
    sections.map(|section| (section.lines().next().unwrap().to_owned(), of(section))).collect()
}

/// Whether a command needs what a test has not: a name in capitals stands for it, or it is a device of the machine.
fn names_what_is_not_there(command: &str) -> bool {
    let is_placeholder =
        |word: &str| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase());
    command.split(|letter: char| !letter.is_alphanumeric()).any(is_placeholder) || command.contains("/dev/")
}

/// What `byway --help` and its pages know: the section of a command, which has its options.
fn section_of<'a>(commands: &'a str, command: &str) -> Option<&'a str> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let found = |count: &usize| commands.contains(&format!("\n## {}\n", words[..*count].join(" ")));
    let name = words[..(2..=words.len().min(3)).rev().find(found)?].join(" ");
    commands.split(&format!("\n## {name}\n")).nth(1)?.split("\n## ").next()
}

fn runs(command: &str, folder: &Path) {
    let output = run(command, folder);
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A folder with what the commands of a table work on.
fn workplace() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(folder.path().join("data.bin"), [7; 4096]).unwrap();
    std::fs::write(folder.path().join("changes.txt"), "put\tto\t110\ndelete\tother\n").unwrap();
    std::fs::write(folder.path().join("commands.txt"), "set a 1\nget a\n").unwrap();
    runs("byway create disk.img --size 128M --ns kv:64M --ns nvm", folder.path());
    folder
}

/// The pages that the names of a table are looked up in.
struct Pages {
    commands: String,
    options: String,
    api: String,
}

impl Pages {
    fn read() -> Self {
        Self {
            commands: text_of("docs/reference/commands.md"),
            options: text_of("docs/reference/uri-options.md"),
            api: text_of("docs/reference/languages.md") + &text_of("bindings/c/include/byway.h"),
        }
    }

    /// Whether a command's help knows it, with each option.
    fn know_command(&self, command: &str) -> bool {
        let mut given = command.split_whitespace().filter(|word| word.starts_with("--"));
        section_of(&self.commands, command)
            .is_some_and(|section| given.all(|option| section.contains(option)))
    }

    /// Whether something that is no command is there: an option of `perf`, a function, an option of URIs, or a word of no kind.
    fn know(&self, code: &str) -> bool {
        match code.split_once('=') {
            _ if code.starts_with("--") => self.know_command(&format!("byway perf {code}")),
            _ if code.contains("::") || code.starts_with("byway_") => self.api.contains(code),
            Some((option, _)) => self.options.contains(&format!("`{option}=`")),
            None => true,
        }
    }
}

#[test]
fn commands_and_functions_for_those_coming_from_other_tools_are_there() {
    let pages = Pages::read();
    for (tool, codes) in ours(&text_of("docs/coming-from.md")) {
        let folder = workplace();
        assert!(codes.len() >= 10, "{tool}: {codes:?}");
        for code in &codes {
            match code.starts_with("byway ") {
                true if names_what_is_not_there(code) => assert!(pages.know_command(code), "{tool}: {code}"),
                true => runs(code, folder.path()),
                false => assert!(pages.know(code), "{tool}: {code}"),
            }
        }
    }
}
