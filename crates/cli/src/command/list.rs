//! `byway list`: devices with their namespaces.

use std::io::Write;

use anyhow::{Result, bail};
use byway::{Backend, Device};
use byway_console::size;
use byway_console::table::Table;
use byway_console::terminal::print_json;
use serde::Serialize;

use super::info::DescribedNamespace;
use crate::args::List;

/// A device as it was opened, or why it was not.
#[derive(Serialize)]
struct Listed {
    uri: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What {
    Opened(Opened),
    Refused { error: String },
}

#[derive(Serialize)]
struct Opened {
    backend: &'static str,
    model: String,
    serial: String,
    firmware: String,
    namespaces: Vec<DescribedNamespace>,
}

/// Prints devices with their namespaces.
///
/// # Errors
/// When the kernel's list cannot be read, or a device that was asked for cannot be opened: its line says why.
pub fn run(args: &List, out: &mut impl Write) -> Result<()> {
    let uris: Vec<String> = match args.devices.as_slice() {
        [] => byway::scan()?.into_iter().map(|found| found.uri).collect(),
        given => given.iter().map(ToString::to_string).collect(),
    };
    let listed: Vec<Listed> = uris.into_iter().map(Listed::open).collect();
    print(&listed, args.json, out)?;
    let refused = listed.iter().filter(|device| matches!(device.what, What::Refused { .. })).count();
    // This user may not open every device that the kernel lists.
    if refused > 0 && !args.devices.is_empty() {
        bail!("{refused} of {} devices could not be opened", listed.len());
    }
    Ok(())
}

fn print(listed: &[Listed], json: bool, out: &mut impl Write) -> Result<()> {
    if json {
        return Ok(print_json(out, &listed)?);
    }
    if listed.is_empty() {
        note!("the kernel lists no block device and no NVMe controller");
        return Ok(());
    }
    let mut table = Table::new(&["uri", "backend", "ns", "kind", "size", "used", "block", "model"]);
    listed.iter().for_each(|device| device.push_to(&mut table));
    write!(out, "{table}")?;
    Ok(())
}

impl Listed {
    fn open(uri: String) -> Self {
        let opened = byway::open_to_read(&uri).and_then(|device| Opened::of(&device));
        let what = match opened {
            Ok(opened) => What::Opened(opened),
            Err(error) => What::Refused { error: error.to_string() },
        };
        Self { uri, what }
    }

    fn push_to(&self, table: &mut Table) {
        let blank = || "-".to_owned();
        let opened = match &self.what {
            What::Opened(opened) => opened,
            What::Refused { error } => {
                let mut row = vec![self.uri.clone()];
                row.extend(std::iter::repeat_with(blank).take(6));
                row.push(error.clone());
                return table.push(row);
            }
        };
        for namespace in &opened.namespaces {
            let block = namespace.block_bytes.map_or_else(blank, |bytes| size::human(bytes.into()));
            table.push(vec![
                self.uri.clone(),
                opened.backend.to_owned(),
                namespace.nsid.to_string(),
                namespace.kind.to_owned(),
                size::human(namespace.size_bytes),
                size::human(namespace.used_bytes),
                block,
                opened.model.clone(),
            ]);
        }
    }
}

impl Opened {
    fn of(device: &Device) -> byway::Result<Self> {
        let identity = device.identity();
        Ok(Self {
            backend: device.name(),
            model: identity.model.clone(),
            serial: identity.serial.clone(),
            firmware: identity.firmware.clone(),
            namespaces: device.namespaces()?.into_iter().map(DescribedNamespace::from).collect(),
        })
    }
}
