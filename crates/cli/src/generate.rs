//! Man pages and completions, made from the command tree so that they cannot drift from it.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;

use crate::args::{Cli, GenWhat};

/// Prints or writes what was asked for.
///
/// # Errors
/// Those of the files written.
pub fn run(what: &GenWhat, out: &mut impl Write) -> io::Result<()> {
    let mut command = Cli::command();
    match what {
        GenWhat::Man { dir: None } => clap_mangen::Man::new(command).render(out),
        GenWhat::Man { dir: Some(dir) } => write_pages(command, dir),
        GenWhat::Completions { shell } => {
            clap_complete::generate(*shell, &mut command, "byway", out);
            Ok(())
        }
    }
}

fn write_pages(command: clap::Command, dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    // Pages of nested commands are named with hyphens: byway-kv-put(1).
    clap_mangen::generate_to(command, dir)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_every_command_with_its_examples() {
        let dir = tempfile::tempdir().unwrap();
        run(&GenWhat::Man { dir: Some(dir.path().join("man1")) }, &mut Vec::new()).unwrap();
        let page = std::fs::read_to_string(dir.path().join("man1/byway-kv-put.1")).unwrap();
        assert!(page.contains("sensor"), "{page}");
        assert!(dir.path().join("man1/byway-bench-transfer.1").exists());
    }

    #[test]
    fn completions_know_the_commands() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let mut out = Vec::new();
            run(&GenWhat::Completions { shell }, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains("calibrate") && text.contains("import"), "{shell}");
        }
    }
}
