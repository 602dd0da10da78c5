//! Man pages, completions and the reference, made from the command tree so that they cannot drift from it.

use std::io::{self, Write};

use byway_console::generate;

use crate::args::{self, GenWhat};

/// Prints or writes what was asked for.
///
/// # Errors
/// Those of the files written.
pub fn run(what: &GenWhat, out: &mut impl Write) -> io::Result<()> {
    let command = args::command();
    match what {
        GenWhat::Man { dir: None } => generate::man(command, out),
        GenWhat::Man { dir: Some(dir) } => generate::man_pages(command, dir),
        GenWhat::Reference => generate::reference("Commands", command, out),
        GenWhat::Completions { shell } => generate::completions(command, *shell, out),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use byway_console::generate::Shell;

    #[test]
    fn there_is_a_page_for_every_command_with_its_examples() {
        let dir = tempfile::tempdir().unwrap();
        run(&GenWhat::Man { dir: Some(dir.path().join("man1")) }, &mut Vec::new()).unwrap();
        let page = std::fs::read_to_string(dir.path().join("man1/byway-kv-put.1")).unwrap();
        assert!(page.contains("sensor"), "{page}");
        assert!(page.contains("\n.SH EXAMPLES\n.nf\n  byway kv put"), "{page}");
        assert!(dir.path().join("man1/byway-bench-transfer.1").exists());
    }

    #[test]
    fn the_committed_reference_is_what_the_program_says() {
        let mut out = Vec::new();
        run(&GenWhat::Reference, &mut out).unwrap();
        let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/commands.md");
        let same = std::fs::read(committed).unwrap() == out;
        assert!(same, "run: byway gen reference > docs/reference/commands.md");
    }

    #[test]
    fn completions_know_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut out = Vec::new();
            run(&GenWhat::Completions { shell }, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains("discover") && text.contains("import"), "{shell}");
        }
    }
}
