//! `byway top`: a device at work.

use std::io::Write;

use anyhow::Result;
use byway_console::terminal::{Interrupt, print_json};

use crate::args::Top;
use crate::watch::{Reading, Report, Screen, Source, wait};

/// Shows what a device does, until it is interrupted.
///
/// # Errors
/// A device that cannot be opened, or a server or device that does not answer. On a terminal a server that does not answer is asked
/// again.
pub fn run(args: &Top, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let source = Source::open(args.device.uri())?;
    let first = source.read()?;
    let screen = if args.json || args.once { None } else { Screen::take() };
    match screen {
        Some(screen) => show(args, &source, first, &screen, interrupt),
        None => print(args, &source, first, out, interrupt),
    }
}

/// A report behind the other.
fn print(
    args: &Top,
    source: &Source,
    mut last: Reading,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut is_first = true;
    while wait(args.interval, interrupt, None) {
        let reading = source.read()?;
        let report = Report::between(&last, &reading);
        last = reading;
        if args.json {
            print_json(out, &report)?;
        } else {
            let gap = if is_first { "" } else { "\n" };
            put!(out, "{gap}{}{report}", heading(args, &report))?;
        }
        out.flush()?;
        is_first = false;
        if args.once {
            break;
        }
    }
    Ok(())
}

/// Reports in place of each other.
fn show(
    args: &Top,
    source: &Source,
    mut last: Reading,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<()> {
    screen.show(&format!("byway top {}\n\nq to end", args.device))?;
    while wait(args.interval, interrupt, Some(screen)) {
        match source.read() {
            Ok(reading) => {
                let report = Report::between(&last, &reading);
                screen.show(&format!("{}{report}", heading(args, &report)))?;
                last = reading;
            }
            Err(error) => screen.show(&format!("byway top {}\n\n{error:#}\n\nq to end", args.device))?,
        }
    }
    Ok(())
}

fn heading(args: &Top, report: &Report) -> String {
    let subsystem = report.subsystem.as_ref().map(|name| format!("  {name}")).unwrap_or_default();
    format!("byway top {}{subsystem}  {:.1} s\n", args.device, report.interval_s)
}
