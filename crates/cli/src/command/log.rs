//! `byway log`: log pages.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use byway::spec::base::identify::{Cns, Controller, IDENTIFY_BYTES};
use byway::spec::base::log::{ErrorEntry, LogPage};
use byway::spec::fabrics::DiscoveryHeader;
use byway::spec::vendor::{ErrorText, LedgerLog, StallLog};
use byway::{AdminCommand, Backend, Buffer, Device, Nsid};
use zerocopy::FromBytes;

use super::answer;
use crate::args::Log;
use crate::decode;

/// Prints a log page.
///
/// # Errors
/// A device without a controller, a page that it does not have.
pub fn run(args: &Log, out: &mut impl Write) -> Result<()> {
    ensure!(args.offset.is_multiple_of(4), "an offset is a multiple of 4, not {} bytes", args.offset);
    let device = byway::open_to_read(args.device.uri())?;
    let len = match args.length {
        Some(len) => len as usize,
        None => bytes_of(&device, args)?,
    };
    ensure!(len > 0 && len.is_multiple_of(4), "a length is a multiple of 4, and not 0: {len} bytes");
    let page = read(&device, args, args.offset, len)?;
    let is_whole =
        args.length.is_none() || args.page.0 == LogPage::ERROR && len.is_multiple_of(size_of::<ErrorEntry>());
    let decoded =
        decode::log(args.page.0, args.csi.0, page.as_slice()).filter(|_| is_whole && args.offset == 0);
    answer::write(&args.form, page.as_slice(), decoded.as_ref(), out)
}

/// Reads a part of the page, by as many commands as the device's longest transfer asks for.
fn read(device: &Device, args: &Log, offset_bytes: u64, len: usize) -> Result<Buffer> {
    let most = usize::try_from(device.capabilities().limits.transfer_bytes).unwrap_or(usize::MAX) / 4 * 4;
    if most == 0 || len <= most {
        return read_once(device, args, (offset_bytes, args.retain_event), len);
    }
    let mut whole = Buffer::zeroed(len)?;
    for at in (0..len).step_by(most) {
        let bytes = most.min(len - at);
        // The event that announced the log is over with its last part.
        let retain_event = args.retain_event || at + bytes < len;
        let part = read_once(device, args, (offset_bytes + at as u64, retain_event), bytes)?;
        whole.as_mut_slice()[at..at + bytes].copy_from_slice(part.as_slice());
    }
    Ok(whole)
}

fn read_once(
    device: &Device,
    args: &Log,
    (offset_bytes, retain_event): (u64, bool),
    len: usize,
) -> Result<Buffer> {
    let page = args.page.0;
    let command = AdminCommand::GetLog {
        log: page.0,
        csi: args.csi.0.0,
        nsid: args.ns.map(Nsid::new).transpose()?,
        retain_event,
        offset_bytes,
        into: device.buffer(len)?,
    };
    let what = || answer::named("log page", page.0, page);
    let answered = device.admin(command).map_err(|error| answer::unless_missing(what(), error))?;
    answered.buffer.context("the device gave no page back")
}

/// Bytes of the whole page.
fn bytes_of(device: &Device, args: &Log) -> Result<usize> {
    let page = args.page.0;
    if let Some(bytes) = decode::log_bytes(page) {
        return Ok(bytes);
    }
    match page {
        LogPage::ERROR => Ok(error_entries(device)? * size_of::<ErrorEntry>()),
        LogPage::ERROR_TEXTS => Ok(error_entries(device)? * size_of::<ErrorText>()),
        LogPage::ANA => {
            let controller = controller(device)?;
            Ok(decode::ana_bytes(controller.nanagrpid, controller.mnan.max(controller.nn)))
        }
        LogPage::DISCOVERY => {
            let head = read(device, args, 0, size_of::<DiscoveryHeader>())?;
            Ok(decode::discovery_bytes(head.as_slice()))
        }
        LogPage::STALLS => {
            let head = read(device, args, 0, size_of::<StallLog>())?;
            Ok(decode::stall_bytes(head.as_slice()))
        }
        _ => {
            let head = read(device, args, 0, size_of::<LedgerLog>())?;
            Ok(decode::ledger_bytes(head.as_slice()))
        }
    }
}

/// Entries of the error log, by Identify Controller (ELPE).
fn error_entries(device: &Device) -> Result<usize> {
    Ok(usize::from(controller(device)?.elpe_z) + 1)
}

/// What the controller says of itself.
fn controller(device: &Device) -> Result<Controller> {
    let into = device.buffer(IDENTIFY_BYTES)?;
    let cns = Cns::CONTROLLER.0;
    let answered = device.admin(AdminCommand::Identify { cns, csi: 0, nsid: None, selector: 0, into })?;
    let buffer = answered.buffer.context("the device gave no structure back")?;
    let read = Controller::read_from_prefix(buffer.as_slice());
    let (controller, _) = read.ok().context("the device's structure is too short")?;
    Ok(controller)
}
