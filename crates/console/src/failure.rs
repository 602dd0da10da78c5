//! How a command that did not succeed ends: what it says, and its exit code.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use byway::spec::Status;
use byway::{ErrorKind, SystemCause};
use serde::Serialize;

use crate::terminal::{INTERRUPTED, Interrupted, print_json};
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

/// Whether failures are reported as JSON: set once, when the arguments are known.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Has failures of this process be reported as one JSON object on a line of standard error.
pub fn report_as_json() {
    // Relaxed: the flag guards no other memory.
    AS_JSON.store(true, Ordering::Relaxed);
}

/// Why a command ended, for JSON.
#[derive(Debug, Serialize)]
struct Reported<'a> {
    error: &'a str,
    kind: &'a str,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ReportedStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
}

/// The NVMe status of a command.
#[derive(Debug, Serialize)]
struct ReportedStatus {
    sct: u8,
    sc: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    do_not_retry: bool,
}

impl From<Status> for ReportedStatus {
    fn from(status: Status) -> Self {
        Self { sct: status.sct(), sc: status.sc(), name: status.name(), do_not_retry: status.dnr() }
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
    let (exit_code, kind) = verdict(error);
    let device = error.downcast_ref::<byway::Error>();
    let status = device.and_then(byway::Error::nvme_status).map(ReportedStatus::from);
    let origin = device.map(|device| in_snake_case(&format!("{:?}", device.origin())));
    report(
        program,
        &Reported { error: &sentence(error), kind: &kind, exit_code, origin, status, errno: errno(error) },
    );
    ExitCode::from(exit_code)
}

/// Says on standard error that a signal ended the work of `program`.
pub(crate) fn report_interrupted(program: &str, why: &Interrupted) {
    let (error, kind, exit_code) = (why.to_string(), "interrupted", INTERRUPTED);
    report(program, &Reported { error: &error, kind, exit_code, origin: None, status: None, errno: None });
}

fn report(program: &str, reported: &Reported<'_>) {
    if !AS_JSON.load(Ordering::Relaxed) {
        return note!("{program}: {}", reported.error);
    }
    // Without anyone to read it there is nothing to be done: the exit code says the rest.
    let _ = print_json(&mut io::stderr(), reported);
}

/// The exit code of an error, and its kind for JSON.
fn verdict(error: &anyhow::Error) -> (u8, Cow<'static, str>) {
    if is_interrupted(error) {
        return (INTERRUPTED, "interrupted".into());
    }
    if let Some(not_started) = error.downcast_ref::<NotStarted>() {
        return (not_started.code, "not_started".into());
    }
    let exit_code = if is_no(error) { NO } else { ERROR };
    let kind = match error.downcast_ref::<byway::Error>() {
        Some(device) => in_snake_case(&format!("{:?}", device.kind())).into(),
        None if exit_code == NO => "no".into(),
        None if error.downcast_ref::<Unusable>().is_some() => "unusable".into(),
        None if errno(error).is_some() => "system".into(),
        None => "error".into(),
    };
    (exit_code, kind)
}

/// The name of a variant as JSON has it: `KeyNotFound` is `key_not_found`.
fn in_snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Number of the system's error under an error, if there is one.
fn errno(error: &anyhow::Error) -> Option<i32> {
    match error.downcast_ref::<byway::Error>() {
        Some(device) => SystemCause::of(device).map(|cause| cause.errno),
        None => error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error()),
    }
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
pub fn is_no(error: &anyhow::Error) -> bool {
    let of_device = |error: &byway::Error| {
        matches!(error.kind(), ErrorKind::KeyNotFound | ErrorKind::KeyExists | ErrorKind::Mismatch)
    };
    error.downcast_ref::<No>().is_some() || error.downcast_ref::<byway::Error>().is_some_and(of_device)
}

/// Says what is wrong with the arguments of `program`, or the help that was asked for, and gives the exit code.
pub fn end_of_usage(program: &str, error: &clap::Error) -> ExitCode {
    let plain = error.render().to_string();
    let exit_code = u8::try_from(error.exit_code()).unwrap_or(ERROR);
    if error.use_stderr() && AS_JSON.load(Ordering::Relaxed) {
        let said = first_paragraph(&plain);
        report(
            program,
            &Reported { error: &said, kind: "usage", exit_code, origin: None, status: None, errno: None },
        );
        return ExitCode::from(exit_code);
    }
    // Without anyone to read it there is nothing to be done: the exit code says the rest.
    let _ = match visible::lines(&plain) {
        // Colours and all, as the parser has it.
        Cow::Borrowed(_) => error.print(),
        Cow::Owned(shown) if error.use_stderr() => io::stderr().write_all(shown.as_bytes()),
        Cow::Owned(shown) => io::stdout().write_all(shown.as_bytes()),
    };
    ExitCode::from(exit_code)
}

/// What is wrong with arguments, in one line, without the usage that follows it.
pub fn first_paragraph(plain: &str) -> String {
    let lines: Vec<&str> = plain.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let said = lines.join(" ");
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}

/// The error and its causes in one line. A cause that its error names already is not said twice.
pub fn sentence(error: &anyhow::Error) -> String {
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
    fn error_of_the_library_is_reported_with_its_kind_under_any_context() {
        let kind = |error: anyhow::Error| verdict(&error.context("put"));
        let full = byway::Error::device(ErrorKind::CapacityExceeded, "no room");
        assert_eq!(kind(full.into()), (ERROR, "capacity_exceeded".into()));
        let missing = byway::Error::device(ErrorKind::KeyNotFound, "no");
        assert_eq!(kind(missing.into()), (NO, "key_not_found".into()));
        assert_eq!(kind(No("it differs".to_owned()).into()), (NO, "no".into()));
        assert_eq!(kind(io::Error::from_raw_os_error(2).into()), (ERROR, "system".into()));
        assert_eq!(kind(Interrupted("all is well".into()).into()), (INTERRUPTED, "interrupted".into()));
        assert_eq!(kind(anyhow::anyhow!("0 jobs move nothing")), (ERROR, "error".into()));
    }

    #[test]
    fn usage_in_json_is_what_is_wrong_without_the_usage() {
        let plain =
            "error: the following required arguments were not provided:\n  <DEVICE>\n\nUsage: byway kv get\n";
        assert_eq!(first_paragraph(plain), "the following required arguments were not provided: <DEVICE>");
    }

    #[test]
    fn broken_pipe_is_no_error() {
        let gone = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::from(gone).context("list")));
    }
}
