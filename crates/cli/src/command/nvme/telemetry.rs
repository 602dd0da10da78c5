//! The telemetry log, into a file: `telemetry-log` (Base 2.1, sections 5.1.12.1.8 and 5.1.12.1.9).

use std::fmt;
use std::io::Write;

use anyhow::{Context, Result};
use byway::spec::Command as Entry;
use byway::spec::base::admin::AdminOpcode;
use byway::spec::base::command::NSID_ALL;
use byway::spec::base::log::{LogCdw10, LogPage};
use byway::spec::base::telemetry::{TELEMETRY_BLOCK_BYTES, TelemetryHeader, TelemetryLsp};
use byway::{AdminCommand, Backend, Device, RawData};
use byway_console::size;
use byway_console::terminal::print_done;
use serde::Serialize;
use zerocopy::FromBytes;

use crate::args::TelemetryLog;
use crate::command::answer;

/// Bytes that one command reads.
const PIECE_BYTES: usize = 4096;

/// What was read, to print.
#[derive(Serialize)]
struct Done {
    file: String,
    bytes: u64,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of telemetry in {}", size::human(self.bytes), self.file)
    }
}

/// Reads the log.
///
/// # Errors
/// A device without the log, and a file that is there.
pub fn run(args: &TelemetryLog, out: &mut impl Write) -> Result<()> {
    let device = byway::open_to_read(args.device.uri())?;
    let page = if args.controller_init { LogPage::TELEMETRY_CONTROLLER } else { LogPage::TELEMETRY_HOST };
    let creates = !args.controller_init && args.host_generate == 1;
    // A read that does not retain its event releases what the controller captured: the last alone is one.
    let first = LogCdw10::new().with_lid(page).with_rae(args.controller_init);
    let parameter = TelemetryLsp::new().with_create(creates).into_bits();
    let mut log = read(&device, first.with_lsp(parameter), 0, TELEMETRY_BLOCK_BYTES)?;
    let end = (last_block(&log, args.data_area)? + 1) * TELEMETRY_BLOCK_BYTES;
    while log.len() < end {
        let len = PIECE_BYTES.min(end - log.len());
        let is_last = log.len() + len == end;
        log.extend(read(&device, first.with_rae(args.controller_init && !is_last), log.len(), len)?);
    }
    answer::write_file(&args.output_file, &log)?;
    let file = args.output_file.display().to_string();
    Ok(print_done(out, args.json, &Done { file, bytes: log.len() as u64 })?)
}

/// The last block of data areas 1 to `data_area`, by the header.
fn last_block(header: &[u8], data_area: u8) -> Result<usize> {
    let header =
        TelemetryHeader::read_from_prefix(header).ok().context("the header of the log is too short")?;
    Ok(usize::try_from(header.0.last_block(data_area))?)
}

fn read(device: &Device, cdw10: LogCdw10, offset_bytes: usize, len: usize) -> Result<Vec<u8>> {
    let page = cdw10.lid();
    let mut entry = Entry::new(AdminOpcode::GET_LOG_PAGE.0, 0, NSID_ALL);
    entry.cdw10 = cdw10.with_numdl_z((len / 4 - 1) as u16).into_bits();
    let offset = offset_bytes as u64;
    (entry.cdw12, entry.cdw13) = (offset as u32, (offset >> 32) as u32);
    let what = || answer::named("log page", page.0, page);
    let command = AdminCommand::raw(entry, RawData::FromDevice(device.buffer(len)?));
    let answered = device.admin(command).map_err(|error| answer::unless_missing(what(), error))?;
    Ok(answered.buffer.context("the device gave no page back")?.as_slice().to_vec())
}
