//! The prompt: history, completion, and keys that end a line or a command.

use std::cell::RefCell;
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use byway_console::files;
use byway_console::terminal::Interrupt;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::help::COMMANDS;
use super::session::{Session, Then};
use super::words::words;

/// Lines of the history that are read back.
const HISTORY_LINES: usize = 1000;
/// Keys that are offered at once.
const OFFERED_KEYS: usize = 100;

/// Completes names of commands, and keys.
struct Completion<'a, 's>(&'a RefCell<Session<'s>>);

impl Helper for Completion<'_, '_> {}
impl Hinter for Completion<'_, '_> {
    type Hint = String;
}
impl Highlighter for Completion<'_, '_> {}
impl Validator for Completion<'_, '_> {}

impl Completer for Completion<'_, '_> {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..at).unwrap_or(line);
        let begin = before.trim_end_matches(|letter: char| !letter.is_whitespace()).len();
        let (done, word) = before.split_at(begin);
        if done.trim().is_empty() {
            let names = COMMANDS.iter().flat_map(|about| about.names);
            let fits = names.filter(|name| name.starts_with(word));
            return Ok((begin, fits.map(|name| (*name).to_owned()).collect()));
        }
        // A key that needs quotes is found by what stands in them so far.
        let prefix = words(word).or_else(|_| words(&format!("{word}\""))).unwrap_or_default();
        let prefix = prefix.first().map(Vec::as_slice).unwrap_or_default();
        // What the device says of it is of no use in the middle of a line.
        let keys =
            self.0.try_borrow_mut().ok().and_then(|mut session| session.keys_from(prefix, OFFERED_KEYS).ok());
        Ok((begin, keys.unwrap_or_default()))
    }
}

/// Reads and does lines until the end.
///
/// # Errors
/// A terminal that cannot be used, or a history that cannot be kept.
pub fn run(
    session: Session<'_>,
    history: Option<History>,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    let session = RefCell::new(session);
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .max_history_size(HISTORY_LINES)?
        .build();
    let mut editor: Editor<_, DefaultHistory> = Editor::with_config(config)?;
    editor.set_helper(Some(Completion(&session)));
    for line in history.iter().flat_map(History::lines) {
        editor.add_history_entry(line)?;
    }
    loop {
        let prompt = match session.borrow().waiting() {
            Some(waiting) => format!("byway ({waiting} waiting)> "),
            None => "byway> ".to_owned(),
        };
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("read a line"),
        };
        if editor.add_history_entry(line.as_str())?
            && let Some(history) = &history
        {
            history.add(&line)?;
        }
        if run_lines(&session, &line, out, interrupt)? == Then::Quit {
            break;
        }
    }
    super::ensure_committed(&session.borrow())
}

/// Runs each line of what was typed or pasted; stops at the first error or signal, which end no shell.
fn run_lines(
    session: &RefCell<Session<'_>>,
    lines: &str,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<Then> {
    let mut then = Ok(Then::GoOn);
    for line in lines.lines() {
        then = session.borrow_mut().line(line, out);
        out.flush()?;
        if interrupt.check().is_err() || !matches!(then, Ok(Then::GoOn)) {
            break;
        }
    }
    interrupt.forget();
    Ok(then.unwrap_or_else(|error| {
        note!("byway: {}", super::sentence(&error));
        Then::GoOn
    }))
}

/// The file of lines that were typed.
pub struct History(PathBuf);

impl History {
    /// In the folder of the user's state; none where the user has none.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn of_user() -> Result<Option<Self>> {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")));
        let Some(folder) = state.map(|state| state.join("byway")) else { return Ok(None) };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|cause| files::refused("make", &folder, cause)).context("or say --no-history")?;
        Ok(Some(Self(folder.join("kv-history"))))
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read(&self.0).unwrap_or_default();
        let lines: Vec<String> = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
        lines.into_iter().rev().take(HISTORY_LINES).rev().collect()
    }

    /// Adds a line: a kill of the shell loses none.
    fn add(&self, line: &str) -> Result<()> {
        let path: &Path = &self.0;
        let file = File::options().create(true).append(true).mode(0o600).open(path);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.map_err(|cause| files::refused("write", path, cause))
    }
}
