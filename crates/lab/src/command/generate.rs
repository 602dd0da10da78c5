//! Man pages, completions and the reference, made from the command tree so that they cannot drift from it.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use byway_console::generate;
use clap::CommandFactory;

use crate::args::{Cli, FigureForm, GenWhat};
use crate::report::account::Account;
use crate::report::wire_bytes;

/// Prints or writes what was asked for.
///
/// # Errors
/// Those of the files read and written.
pub fn run(what: &GenWhat, out: &mut impl Write) -> Result<()> {
    let command = Cli::command();
    match what {
        GenWhat::Man { dir: None } => generate::man(command, out)?,
        GenWhat::Man { dir: Some(dir) } => generate::man_pages(command, dir)?,
        GenWhat::Reference => generate::reference("Commands of byway-lab", command, out)?,
        GenWhat::Figure { results, account, form } => figure(results, *account, *form, out)?,
        GenWhat::Completions { shell } => generate::completions(command, *shell, out)?,
    }
    Ok(())
}

fn figure(results: &Path, account: Account, form: FigureForm, out: &mut impl Write) -> Result<()> {
    let text = match results == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(results),
    };
    let text = text.with_context(|| results.display().to_string())?;
    let parsed = wire_bytes::Results::parse(&text).with_context(|| results.display().to_string())?;
    let figure = parsed.figure(account).with_context(|| format!("{} has no rows", results.display()))?;
    let bytes = match form {
        FigureForm::Svg => figure.svg()?.into_bytes(),
        FigureForm::Pdf => figure.pdf()?,
        FigureForm::Csv => figure.csv().into_bytes(),
    };
    Ok(out.write_all(&bytes)?)
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
        let page = std::fs::read_to_string(dir.path().join("man1/byway-lab-kv.1")).unwrap();
        assert!(page.contains("YCSB"), "{page}");
        assert!(page.contains("\n.SH EXAMPLES\n.nf\n  byway\\-lab kv"), "{page}");
        assert!(dir.path().join("man1/byway-lab-calibrate.1").exists());
    }

    #[test]
    fn the_committed_reference_is_what_the_program_says() {
        let mut out = Vec::new();
        run(&GenWhat::Reference, &mut out).unwrap();
        let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/lab-commands.md");
        let same = std::fs::read(committed).unwrap() == out;
        assert!(same, "run: byway-lab gen reference > docs/reference/lab-commands.md");
    }

    #[test]
    fn the_committed_figure_is_drawn_from_the_committed_results() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let mut out = Vec::new();
        let figure = |account, form, out: &mut Vec<u8>| {
            let results = root.join("benches/results/wire-bytes.json");
            run(&GenWhat::Figure { results, account, form }, out).unwrap();
        };
        figure(Account::Wire, FigureForm::Svg, &mut out);
        let same = std::fs::read(root.join("docs/images/wire-bytes.svg")).unwrap() == out;
        assert!(
            same,
            "run: byway-lab gen figure benches/results/wire-bytes.json > docs/images/wire-bytes.svg"
        );
        let (mut pdf, mut csv) = (Vec::new(), Vec::new());
        figure(Account::Payload, FigureForm::Pdf, &mut pdf);
        figure(Account::Payload, FigureForm::Csv, &mut csv);
        let csv = String::from_utf8(csv).unwrap();
        assert!(pdf.starts_with(b"%PDF") && csv.contains("without headers"), "{csv}");
    }

    #[test]
    fn completions_know_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut out = Vec::new();
            run(&GenWhat::Completions { shell }, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains("calibrate") && text.contains("endurance"), "{shell}");
        }
    }
}
