//! The telemetry log, into a file: `telemetry-log` (Base 2.1, sections 5.1.12.1.8 and 5.1.12.1.9).

use std::fmt;
use std::io::Write;

use anyhow::{Context, Result};
use byway::spec::Command as Entry;
use byway::spec::base::admin::AdminOpcode;
use byway::spec::base::command::NSID_ALL;
use byway::spec::base::log::LogPage;
use byway::{AdminCommand, Backend, Device, RawData};
use byway_console::size;
use byway_console::terminal::print_done;
use serde::Serialize;

use crate::args::TelemetryLog;
use crate::command::answer;

/// Bytes of a block of the log, and of its header.
const BLOCK_BYTES: usize = 512;
/// Bytes that one command reads.
const PIECE_BYTES: usize = 4096;
/// Log specific parameter of the host's log: have the controller make it anew. It is bit 8 of dword 10.
const CREATE: u32 = 1 << 8;

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
    let is_created = !args.controller_init && args.host_generate == 1;
    let mut log = read(&device, page, 0, BLOCK_BYTES, if is_created { CREATE } else { 0 })?;
    let end = (last_block(&log, args.data_area)? + 1) * BLOCK_BYTES;
    while log.len() < end {
        let len = PIECE_BYTES.min(end - log.len());
        log.extend(read(&device, page, log.len(), len, 0)?);
    }
    answer::write_file(&args.output_file, &log)?;
    let file = args.output_file.display().to_string();
    Ok(print_done(out, args.json, &Done { file, bytes: log.len() as u64 })?)
}

/// The last block of a data area, by the header: of areas 1 to 3 a word each from byte 8 on, of area 4 four bytes at byte 16.
fn last_block(header: &[u8], data_area: u8) -> Result<usize> {
    let short = "the header of the log is too short";
    let last = match data_area {
        4 => u32::from_le_bytes(*header.get(16..).and_then(<[u8]>::first_chunk).context(short)?),
        area => {
            let at = 6 + 2 * usize::from(area);
            u16::from_le_bytes(*header.get(at..).and_then(<[u8]>::first_chunk).context(short)?).into()
        }
    };
    Ok(usize::try_from(last)?)
}

fn read(device: &Device, page: LogPage, offset_bytes: usize, len: usize, parameter: u32) -> Result<Vec<u8>> {
    let mut entry = Entry::new(AdminOpcode::GET_LOG_PAGE.0, 0, NSID_ALL);
    entry.cdw10 = u32::from(page.0) | parameter | ((len / 4 - 1) as u32) << 16;
    let offset = offset_bytes as u64;
    (entry.cdw12, entry.cdw13) = (offset as u32, (offset >> 32) as u32);
    let what = || answer::named("log page", page.0, page);
    let command = AdminCommand::raw(entry, RawData::FromDevice(device.buffer(len)?));
    let answered = device.admin(command).map_err(|error| answer::unless_missing(what(), error))?;
    Ok(answered.buffer.context("the device gave no page back")?.as_slice().to_vec())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn last_block_of_each_area_stands_in_the_header() {
        let mut header = [0; BLOCK_BYTES];
        header[8..14].copy_from_slice(&[1, 0, 2, 0, 3, 1]);
        header[16..20].copy_from_slice(&[0, 0, 1, 0]);
        let last = [1, 2, 3, 4].map(|area| last_block(&header, area).unwrap());
        assert_eq!(last, [1, 2, 0x103, 0x1_0000]);
        assert!(last_block(&header[..8], 1).is_err());
    }
}
