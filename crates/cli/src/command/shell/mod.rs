//! `byway kv shell`: commands on keys and values, at a prompt or from a script.

mod help;
mod options;
mod prompt;
mod session;
mod words;

use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, ensure};
use byway_console::failure::{No, is_no, sentence};
use byway_console::files;
use byway_console::size::counted;
use byway_console::terminal::Interrupt;

use self::prompt::History;
use self::session::{Session, Then};
use crate::{args, opened};

/// Longest line of a script: the largest value, 16 MiB, with escapes for every byte.
const LINE_MAX_BYTES: u64 = 80 << 20;

/// Does the commands that are typed, or those of a script.
///
/// # Errors
/// A device that cannot be opened; of a script, what its commands failed with.
pub fn run(shell: &args::Shell, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let uri = shell.device.uri();
    let is_scripted = shell.file.is_some() || !shell.command.is_empty();
    let is_typed = !is_scripted && io::stdin().is_terminal() && io::stdout().is_terminal();
    let session = Session::new(&uri, &opened::open(&uri)?, is_typed, interrupt)?;
    if is_typed {
        let history = if shell.no_history { None } else { History::of_user()? };
        return prompt::run(session, history, out, interrupt);
    }
    let mut script = Script { session, keep_going: shell.keep_going, commands: 0, failed: 0, all_no: true };
    if shell.command.is_empty() {
        let file = shell.file.as_deref().unwrap_or(Path::new("-"));
        script.lines(BufReader::new(files::open(file, interrupt)?), out, interrupt)?;
    } else {
        let mut commands = shell.command.iter().peekable();
        while let Some(command) = commands.next() {
            let then = script.command(command, || "-c".to_owned(), out, interrupt);
            if error_if_more(then, || Ok(commands.peek().is_some()))? == Then::Quit {
                break;
            }
        }
    }
    script.end()
}

/// Commands that follow one another without a person.
struct Script<'a> {
    session: Session<'a>,
    keep_going: bool,
    commands: u64,
    failed: u64,
    /// Whether each failure was an answer that is no.
    all_no: bool,
}

impl Script<'_> {
    fn lines(&mut self, mut from: impl BufRead, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
        let mut text = Vec::new();
        for number in 1_u64.. {
            text.clear();
            let read = io::Read::take(&mut from, LINE_MAX_BYTES).read_until(b'\n', &mut text);
            let place = || format!("line {number}");
            if read.with_context(place)? == 0 {
                break;
            }
            ensure!(
                text.len() as u64 != LINE_MAX_BYTES,
                "line {number}: it is longer than {} MiB",
                LINE_MAX_BYTES >> 20
            );
            let then = match std::str::from_utf8(&text) {
                Ok(line) => self.command(line.trim_end_matches(['\n', '\r']), place, out, interrupt),
                Err(_) => {
                    self.ended(Err(anyhow!("it is no text (UTF-8): write other bytes as \"\\x00\"")), place)
                }
            };
            if error_if_more(then, || Ok(!from.fill_buf()?.is_empty()))? == Then::Quit {
                break;
            }
        }
        Ok(())
    }

    fn command(
        &mut self,
        line: &str,
        place: impl FnOnce() -> String,
        out: &mut impl Write,
        interrupt: &Interrupt,
    ) -> Result<Then> {
        interrupt.check()?;
        let then = self.session.line(line, out);
        interrupt.check()?;
        self.ended(then, place)
    }

    /// What a command ended in: an error ends the script, or is said and counted.
    fn ended(&mut self, then: Result<Then>, place: impl FnOnce() -> String) -> Result<Then> {
        self.commands += 1;
        let error = match then {
            Ok(then) => return Ok(then),
            Err(error) => error.context(place()),
        };
        if !self.keep_going || is_closed(&error) {
            return Err(error);
        }
        self.failed += 1;
        self.all_no &= is_no(&error);
        note!("byway: {}", sentence(&error));
        Ok(Then::GoOn)
    }

    fn end(self) -> Result<()> {
        ensure_committed(&self.session)?;
        let said = format!("{} of {} failed", self.failed, counted(self.commands, "command"));
        match (self.failed, self.all_no) {
            (0, _) => Ok(()),
            (_, true) => Err(No(said).into()),
            (_, false) => Err(anyhow!(said)),
        }
    }
}

/// An error where a batch was begun, and neither committed nor discarded.
fn ensure_committed(session: &Session<'_>) -> Result<()> {
    match session.waiting() {
        None => Ok(()),
        Some(waiting) => Err(anyhow!(
            "the batch was not committed: nothing of its {} is stored",
            counted(waiting as u64, "change")
        )),
    }
}

/// What a command ended in. A closed output is an error of a script only where more commands would follow.
fn error_if_more(then: Result<Then>, has_more: impl FnOnce() -> io::Result<bool>) -> Result<Then> {
    match then {
        Err(error) if is_closed(&error) && has_more()? => {
            // Not as its cause: the program ends without an error where that is a closed output.
            Err(anyhow!("{error}: standard output is closed; the remaining commands were not run"))
        }
        then => then,
    }
}

fn is_closed(error: &Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
}
