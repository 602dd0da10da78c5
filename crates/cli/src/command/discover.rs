//! `byway discover`: what a discovery service knows.

use std::io::Write;

use anyhow::Result;
use byway::spec::fabrics::{SubsystemType, TransportType};
use byway::tcp::{Entry, SecureChannel};
use byway_console::table::Table;
use byway_console::terminal::print_json;
use serde::Serialize;

use crate::args::Discover;

/// A way to a subsystem, or to another discovery service.
#[derive(Debug, Serialize)]
struct Found {
    /// What `byway` opens it by, where it can.
    uri: Option<String>,
    kind: String,
    transport: String,
    family: String,
    address: String,
    service: String,
    subsystem: String,
    port_id: u16,
    controller: u16,
    security: String,
    secure_channel: &'static str,
}

/// Asks a discovery service, and prints what it knows.
///
/// # Errors
/// When it cannot be reached, or its log cannot be read.
pub fn run(args: &Discover, out: &mut impl Write) -> Result<()> {
    let found = byway::discover(&args.address)?;
    for skipped in &found.skipped {
        note!("an entry is left out: {skipped}");
    }
    let entries: Vec<Found> = found.entries.iter().map(Found::from).collect();
    if args.json {
        return Ok(print_json(out, &entries)?);
    }
    if entries.is_empty() {
        note!("{} knows of no subsystem", args.address);
        return Ok(());
    }
    let mut table = Table::new(&["kind", "transport", "address", "service", "security", "subsystem"]);
    for Found { kind, transport, address, service, security, subsystem, .. } in &entries {
        let cells = [kind, transport, address, service, security, subsystem];
        table.push(cells.into_iter().cloned().collect());
    }
    put!(out, "{table}")?;
    for uri in entries.iter().filter_map(|found| found.uri.as_deref()) {
        put!(out, "{uri}\n")?;
    }
    Ok(())
}

impl From<&Entry> for Found {
    fn from(entry: &Entry) -> Self {
        Self {
            uri: uri_of(entry),
            kind: entry.kind.to_string(),
            transport: entry.transport.to_string(),
            family: entry.family.to_string(),
            address: entry.address.clone(),
            service: entry.service.clone(),
            subsystem: entry.subsystem.to_string(),
            port_id: entry.port_id,
            controller: entry.cntlid,
            security: entry.tcp_security.to_string(),
            secure_channel: match entry.secure_channel {
                SecureChannel::Unspecified => "unspecified",
                SecureChannel::Required => "required",
                SecureChannel::NotRequired => "not required",
            },
        }
    }
}

/// What opens it: a subsystem over TCP.
fn uri_of(entry: &Entry) -> Option<String> {
    if entry.transport != TransportType::TCP || entry.kind != SubsystemType::NVM {
        return None;
    }
    let Entry { address, service, subsystem, .. } = entry;
    Some(match address.contains(':') {
        true => format!("tcp://[{address}]:{service}/{subsystem}"),
        false => format!("tcp://{address}:{service}/{subsystem}"),
    })
}
