//! Queries that this process executes, over an object that it reads from a device.

use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use byway::spec::vendor::QueryFormat;
use byway_compute::{Cancellation, Format, Limits, Object, Query};
use byway_console::terminal::Interrupt;

use crate::args;

/// Executes a query over an object, and writes its result.
///
/// # Errors
/// A query that is refused or fails, what cannot be read or written, an interruption.
pub fn query(
    object: Arc<dyn Object>,
    args: &args::Sql,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    let limits = Limits::default();
    let query = Query::parse(&args.sql, &limits)?;
    if args.explain {
        let explanation = query.explain(&object, &limits)?;
        let is_json = args.format() == QueryFormat::JSON_LINES;
        let text = if is_json { explanation.to_json() } else { explanation.to_string() };
        return Ok(out.write_all(text.as_bytes())?);
    }
    let mut written: Result<()> = Ok(());
    let mut give = |part: &[u8]| {
        written = interrupt
            .checked("the result has not come to its end")
            .map_err(Into::into)
            .and_then(|()| Ok(out.write_all(part)?));
        written.is_ok()
    };
    let ended = query.run_into(&object, format_of(args), &limits, &Cancellation::default(), &mut give);
    written?;
    Ok(ended.map(drop)?)
}

fn format_of(args: &args::Sql) -> Format {
    match args.format() {
        QueryFormat::JSON_LINES => Format::JsonLines,
        QueryFormat::ARROW_STREAM => Format::ArrowStream,
        _ => Format::Csv { header: !args.no_header },
    }
}
