//! `byway enum`: what devices there are.

use std::io::Write;

use anyhow::Result;
use byway::Found;
use byway_console::size;
use byway_console::table::Table;
use byway_console::terminal::print_json;
use serde::Serialize;

use crate::args::Enumerate;

#[derive(Debug, Serialize)]
struct Device {
    uri: String,
    kind: &'static str,
    size_bytes: Option<u64>,
    model: Option<String>,
    read_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

/// Prints the devices that the kernel knows. None is opened for it.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn run(args: &Enumerate, out: &mut impl Write) -> Result<()> {
    let found = byway::scan()?;
    if args.json {
        return Ok(print_json(out, &found.into_iter().map(Device::from).collect::<Vec<_>>())?);
    }
    if found.is_empty() {
        note!("the kernel lists no block device and no NVMe controller");
        return Ok(());
    }
    let mut table = Table::new(&["uri", "kind", "size", "model"]);
    for device in &found {
        let kind = if device.read_only { "read-only " } else { "" }.to_owned() + device.kind.name();
        let size = device.size_bytes.map_or_else(|| "-".into(), size::human);
        table.push(vec![device.uri.clone(), kind, size, device.model.clone().unwrap_or_default()]);
    }
    put!(out, "{table}")?;
    for Found { uri, missing, .. } in &found {
        if let Some(missing) = missing {
            put!(out, "{uri} cannot be opened yet: {missing}\n")?;
        }
    }
    Ok(())
}

impl From<Found> for Device {
    fn from(found: Found) -> Self {
        let Found { uri, kind, size_bytes, model, read_only, missing } = found;
        Self { uri, kind: kind.name(), size_bytes, model, read_only, missing }
    }
}
