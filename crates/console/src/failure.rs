//! How a command that did not succeed ends: what it says, and its exit code.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use byway::ErrorKind;

use crate::terminal::{INTERRUPTED, Interrupted};
use crate::visible;

/// Exit code of an answer that is no: a condition that does not hold, a key that is not there, a difference that was found.
const NO: u8 = 1;
/// Exit code of an error.
const ERROR: u8 = 2;

/// Exit code of a program that was not found, or could not be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// The answer is no: not an error of the device, yet not what was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct No(pub String);

/// An image that cannot be used as it is: what was found was printed already.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub String);

/// The answer is no, and its exit code says all of it.
#[derive(Debug, thiserror::Error)]
#[error("no")]
pub struct Silent;

/// A program that was to replace this one (exec), and did not start: exit codes are those of env(1).
#[derive(Debug, thiserror::Error)]
#[error("{program} cannot be started: {cause}")]
pub struct NotStarted {
    program: String,
    cause: String,
    code: u8,
}

impl NotStarted {
    /// By the system's answer.
    pub fn new(program: &Path, cause: &io::Error) -> Self {
        let code = if cause.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
        Self { program: program.display().to_string(), cause: cause.to_string(), code }
    }
}

/// Says on standard error why a command of `program` ended, and gives its exit code.
pub fn end(program: &str, error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        // The reader of our output has enough.
        return ExitCode::SUCCESS;
    }
    if error.downcast_ref::<Silent>().is_some() {
        return ExitCode::from(NO);
    }
    note!("{program}: {}", sentence(error));
    if is_interrupted(error) {
        return ExitCode::from(INTERRUPTED);
    }
    if let Some(not_started) = error.downcast_ref::<NotStarted>() {
        return ExitCode::from(not_started.code);
    }
    ExitCode::from(if is_no(error) { NO } else { ERROR })
}

/// Whether a signal ended the work, or a read that it waited for.
fn is_interrupted(error: &anyhow::Error) -> bool {
    let of_read = |cause: &(dyn std::error::Error + 'static)| {
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.is_some_and(|inner| inner.is::<Interrupted>())
    };
    error.downcast_ref::<Interrupted>().is_some() || error.chain().any(of_read)
}

/// Whether the answer is no: said here, or by the device of a key or of blocks that were compared.
fn is_no(error: &anyhow::Error) -> bool {
    let of_device = |error: &byway::Error| {
        matches!(error.kind(), ErrorKind::KeyNotFound | ErrorKind::KeyExists | ErrorKind::Mismatch)
    };
    error.downcast_ref::<No>().is_some() || error.downcast_ref::<byway::Error>().is_some_and(of_device)
}

/// Says what is wrong with the arguments, or the help that was asked for, and gives the exit code.
pub fn end_of_usage(error: &clap::Error) -> ExitCode {
    let plain = error.render().to_string();
    // Without anyone to read it there is nothing to be done: the exit code says the rest.
    let _ = match visible::lines(&plain) {
        // Colours and all, as the parser has it.
        Cow::Borrowed(_) => error.print(),
        Cow::Owned(shown) if error.use_stderr() => io::stderr().write_all(shown.as_bytes()),
        Cow::Owned(shown) => io::stdout().write_all(shown.as_bytes()),
    };
    u8::try_from(error.exit_code()).map_or(ExitCode::from(ERROR), ExitCode::from)
}

/// The error and its causes in one line. A cause that its error names already is not said twice.
fn sentence(error: &anyhow::Error) -> String {
    let mut said = String::new();
    let mut is_said = false;
    for cause in error.chain() {
        let words = cause.to_string();
        if said.is_empty() {
            said = words;
        } else if !is_said && !said.contains(&words) {
            said = format!("{said}: {words}");
        }
        // The library's error says what there is to say of its cause.
        is_said = cause.is::<byway::Error>();
    }
    said
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().any(broken)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn causes_are_printed_once_in_one_line() {
        let error = anyhow::anyhow!("no such file").context("open a.img: no such file").context("import");
        assert_eq!(sentence(&error), "import: open a.img: no such file");
    }

    #[test]
    fn a_cause_that_the_library_left_out_is_not_said_either() {
        let missing = || std::io::Error::from_raw_os_error(2);
        let error = byway::Error::kernel("a.img does not exist", missing()).covering_source();
        assert_eq!(sentence(&anyhow::Error::new(error).context("import")), "import: a.img does not exist");
        let error = anyhow::Error::new(byway::Error::kernel("opening a.img failed", missing()));
        assert_eq!(sentence(&error), "opening a.img failed: No such file or directory (os error 2)");
    }

    #[test]
    fn interruption_and_negative_answer_are_found_under_any_context() {
        let interrupted = Err::<(), _>(Interrupted("all is well".into())).context("import").unwrap_err();
        assert!(interrupted.downcast_ref::<Interrupted>().is_some());
        let read = io::Error::other(Interrupted("all is well".into()));
        assert!(is_interrupted(&anyhow::Error::from(read).context("import")));
        assert!(!is_interrupted(&anyhow::Error::from(io::Error::other("no"))));
        let no = Err::<(), _>(No("no such key".to_owned())).context("get").unwrap_err();
        assert!(no.downcast_ref::<No>().is_some());
    }

    #[test]
    fn negative_device_answer_is_found_under_any_context() {
        for (kind, wanted) in [
            (ErrorKind::KeyNotFound, true),
            (ErrorKind::KeyExists, true),
            (ErrorKind::Mismatch, true),
            (ErrorKind::NotFound, false),
            (ErrorKind::InvalidArgument, false),
        ] {
            let error = anyhow::Error::new(byway::Error::device(kind, "no")).context("put").context("import");
            assert_eq!(is_no(&error), wanted, "{kind:?}");
        }
    }

    #[test]
    fn broken_pipe_is_no_error() {
        let gone = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::from(gone).context("list")));
    }
}
