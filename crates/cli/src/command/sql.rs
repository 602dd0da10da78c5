//! `byway sql`: queries that a device executes over an object of its own.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use byway::embedded::EmbeddedDevice;
use byway::{Address, Class, Device, ErrorKind, Kv, Ledger, Nvm, SqlOptions, SqlResult};
use byway_console::files;
use byway_console::terminal::Interrupt;
use byway_measure::blocks::Blocks;

use super::kv_device::{key_of, no_key};
use super::sql_in_host;
use crate::args;
use crate::opened;

/// Executes the query, and writes its result.
///
/// # Errors
/// What the device refuses, a file that cannot be written, an interruption.
pub fn run(args: &args::Sql, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let Some(path) = &args.file else { return query(args, out, interrupt) };
    query(args, &mut files::create_new(path)?, interrupt)
}

fn query(args: &args::Sql, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let uri = args.device.uri();
    if !args.cost {
        return Opened::Device(&opened::open_to_read(&uri)?).query(args, out, interrupt);
    }
    if !matches!(uri.parse()?, Address::Embedded(_)) {
        bail!("what a query costs is counted by devices of this process alone (embedded:): leave --cost out");
    }
    let device = byway::embedded::open(&uri)?;
    Opened::Embedded(&device).query(args, out, interrupt)
}

/// A device, or one of this process with its ledger.
enum Opened<'a> {
    Device(&'a Device),
    Embedded(&'a EmbeddedDevice),
}

impl Opened<'_> {
    fn kv(&self) -> byway::Result<Kv> {
        match self {
            Self::Device(device) => device.kv(None),
            Self::Embedded(device) => device.kv(None),
        }
    }

    fn nvm(&self) -> byway::Result<Nvm> {
        match self {
            Self::Device(device) => device.nvm(None),
            Self::Embedded(device) => device.nvm(None),
        }
    }

    fn query(&self, args: &args::Sql, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
        if args.in_host {
            return self.query_in_host(args, out, interrupt);
        }
        let options =
            SqlOptions::default().format(args.format()).header(!args.no_header).explain(args.explain);
        if args.blocks {
            let mut nvm = self.nvm()?;
            let (slba, len_bytes) = blocks_of(&args.object, nvm.lba_bytes())?;
            return self.counted(|| write(nvm.query(slba, len_bytes, &args.sql, options)?, out, interrupt));
        }
        let (mut kv, key) = (self.kv()?, key_of(&args.object, args.hex)?);
        self.counted(|| {
            let result = kv.query(&key, &args.sql, options).map_err(|error| match error.kind() {
                ErrorKind::KeyNotFound => no_key(&args.object),
                _ => error,
            });
            write(result?, out, interrupt)
        })
    }

    /// The same by this process.
    fn query_in_host(&self, args: &args::Sql, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
        if args.blocks {
            let nvm = self.nvm()?;
            let (slba, len_bytes) = blocks_of(&args.object, nvm.lba_bytes())?;
            let object = Blocks::new(nvm, slba, len_bytes)?;
            return self.counted(|| sql_in_host::query(Arc::new(object), args, out, interrupt));
        }
        let (mut kv, key) = (self.kv()?, key_of(&args.object, args.hex)?);
        self.counted(|| {
            let value = kv.get(&key)?.ok_or_else(|| no_key(&args.object))?;
            sql_in_host::query(Arc::new(Bytes::from(value)), args, out, interrupt)
        })
    }

    /// Does the query, and says what crossed the link by it where there is a ledger.
    fn counted(&self, query: impl FnOnce() -> Result<()>) -> Result<()> {
        let Self::Embedded(device) = self else { return query() };
        let (before, begun_ns) = (device.ledger(), device.now_ns());
        query()?;
        note_cost(&device.ledger().since(&before));
        note!("{:16} {:23} µs", "time", (device.now_ns() - begun_ns) / 1000);
        Ok(())
    }
}

fn write(mut result: SqlResult<'_>, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    while let Some(part) = result.next_part()? {
        interrupt.checked("the result has not come to its end")?;
        out.write_all(part)?;
    }
    Ok(())
}

/// First block and length in bytes of an object in a namespace of blocks.
fn blocks_of(object: &str, lba_bytes: u32) -> Result<(u64, u64)> {
    let (offset, length) = object.split_once(':').with_context(|| {
        format!("{object:?} is not the place of a file: with --blocks it is OFFSET:LENGTH, such as 0:1407574")
    })?;
    let size = |text: &str| byway_console::size::parse(text).map_err(anyhow::Error::msg);
    let (offset, length) = (size(offset)?, size(length)?);
    if !offset.is_multiple_of(lba_bytes.into()) {
        bail!("byte {offset} is not the first of a block: they have {lba_bytes} bytes");
    }
    Ok((offset / u64::from(lba_bytes), length))
}

/// Says what crossed the link.
fn note_cost(ledger: &Ledger) {
    for class in Class::ALL {
        let row = ledger.row(class);
        if row.count > 0 {
            note!("{:16} {:8} times {:12} bytes on the wire", class.name(), row.count, row.cost.wire_bytes());
        }
    }
    note!("{:16} {:23} bytes on the wire", "in all", ledger.wire_bytes());
}
