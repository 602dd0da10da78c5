//! Man pages and completions, made from the command tree so that they cannot drift from it.

use std::io::{self, Write};
use std::path::Path;

use clap_mangen::Man;

pub use clap_complete::Shell;

/// Prints the man page of a command.
///
/// # Errors
/// Those of `out`.
pub fn man(command: clap::Command, out: &mut impl Write) -> io::Result<()> {
    out.write_all(page(&Man::new(command))?.as_bytes())
}

/// Prints the completions of a command for a shell.
///
/// # Errors
/// Those of `out`.
pub fn completions(mut command: clap::Command, shell: Shell, out: &mut impl Write) -> io::Result<()> {
    // It panics where it cannot write, so it writes into memory.
    let (mut script, name) = (Vec::new(), command.get_name().to_owned());
    clap_complete::generate(shell, &mut command, name, &mut script);
    out.write_all(&script)
}

/// Prints every command's long help, one heading each, under the `title` of a page.
///
/// # Errors
/// Those of `out`.
pub fn reference(title: &str, command: clap::Command, out: &mut impl Write) -> io::Result<()> {
    let name = command.get_name().to_owned();
    writeln!(out, "# {title}\n\nMade by `{name} gen reference`; a test holds it to the program.")?;
    // A width of its own, so that the page does not depend on a terminal's.
    let mut command = command.term_width(100);
    command.build();
    write_command(&mut command, out)
}

fn write_command(command: &mut clap::Command, out: &mut impl Write) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    if name.split(' ').any(|word| word == "help") {
        return Ok(());
    }
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    writeln!(out, "\n## {name}\n\n```text\n{}\n```", lines.join("\n").trim_end())?;
    command.get_subcommands_mut().try_for_each(|sub| write_command(sub, out))
}

/// Writes a man page for a command and for each below it into a folder, which is made if it is not there.
///
/// # Errors
/// Those of the files.
pub fn man_pages(command: clap::Command, dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages_of(&command, dir)
}

/// A page for a command and for each below it, named with hyphens: byway-kv-put(1).
fn write_pages_of(command: &clap::Command, dir: &Path) -> io::Result<()> {
    let man = Man::new(command.clone());
    std::fs::write(dir.join(man.get_filename()), page(&man)?)?;
    command.get_subcommands().try_for_each(|sub| write_pages_of(sub, dir))
}

/// A man page with its examples in a section of their own, one per line and never wrapped.
fn page(man: &Man) -> io::Result<String> {
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    let Some((head, tail)) = page.split_once(".SH EXTRA\n") else { return Ok(page.into_owned()) };
    let (extra, rest) =
        tail.split_once(".SH ").map_or((tail, String::new()), |(extra, rest)| (extra, format!(".SH {rest}")));
    Ok(format!("{head}{}{rest}", sections_of(extra)))
}

/// Examples, and what is said behind them: indented lines stay as they are, others are filled.
fn sections_of(extra: &str) -> String {
    let (mut sections, mut is_as_it_is, mut has_notes) = (String::new(), false, false);
    for line in extra.lines() {
        if line.starts_with(' ') != is_as_it_is {
            is_as_it_is = !is_as_it_is;
            sections.push_str(if is_as_it_is { ".nf\n" } else { ".fi\n" });
        }
        match line {
            "Example:" | "Examples:" => sections.push_str(".SH EXAMPLES\n"),
            line => {
                if !line.is_empty() && !is_as_it_is && !std::mem::replace(&mut has_notes, true) {
                    sections.push_str(".SH NOTES\n");
                }
                sections.push_str(line);
                sections.push('\n');
            }
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_text_after_the_examples_is_a_notes_section() {
        let made = sections_of(
            "Examples:\n  byway check a\n  byway check b\n\nA repair may end.\n\nExit codes: 0.\n",
        );
        let wanted = ".SH EXAMPLES\n.nf\n  byway check a\n  byway check b\n.fi\n\n.SH NOTES\nA repair may end.\n\nExit codes: 0.\n";
        assert_eq!(made, wanted);
    }
}
