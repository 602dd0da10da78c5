//! `byway uri`: how devices are named, and what a name is taken for.

use std::io::Write;

use anyhow::Result;
use byway_console::table::Table;
use byway_console::terminal::print_json;
use serde::Serialize;

use crate::args::{self, Names};
use crate::target::Target;

/// A name, and what it is taken for.
#[derive(Serialize)]
struct Taken<'a> {
    name: &'a str,
    uri: &'a str,
    taken_as: &'static str,
}

impl<'a> Taken<'a> {
    /// A name that is no device is refused as opening it would.
    fn of(target: &'a Target) -> Result<Self> {
        target.uri().parse::<byway::Address>()?;
        Ok(Self { name: target.given(), uri: target.uri(), taken_as: target.kind().unwrap_or_default() })
    }
}

/// Prints what names are taken for; without one, how devices are named.
///
/// # Errors
/// A name that is no device.
pub fn run(args: &Names, out: &mut impl Write) -> Result<()> {
    if args.devices.is_empty() {
        return Ok(put!(out, "{}\n", args::names_of_devices())?);
    }
    let taken = args.devices.iter().map(Taken::of).collect::<Result<Vec<_>>>()?;
    if args.json {
        return Ok(print_json(out, &taken)?);
    }
    let mut table = Table::new(&["name", "uri", "taken as"]);
    for Taken { name, uri, taken_as } in taken {
        table.push(vec![name.to_owned(), uri.to_owned(), taken_as.to_owned()]);
    }
    Ok(put!(out, "{table}")?)
}
