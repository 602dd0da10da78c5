//! Admin commands: typed, and passed through.

use std::ffi::{c_int, c_void};

use byway::spec::Command as Entry;
use byway::{AdminCommand, Backend, Buffer, Device, Nsid, Outcome, Payload, RawCommand, Result, Wipe};
use byway_core::{gather, scatter};

use crate::arg::{bytes, bytes_mut, invalid, put};
use crate::buffer::byway_buffer;
use crate::command::{direction, entry, handles, raw_data};
use crate::device::byway_device;
use crate::error::border;
use crate::image::{Progress, byway_progress_callback};
use crate::places::Places;

/// Bytes of every structure that Identify gives.
const IDENTIFY_BYTES: usize = 4096;

/// Identify: structure `cns` of command set `csi`, 4096 bytes into `into`. `nsid` is 0 where the structure is of no
/// namespace, `selector` for most.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_identify(
    device: *const byway_device,
    cns: u8,
    csi: u8,
    nsid: u32,
    selector: u16,
    into: *mut c_void,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (device, at) =
            unsafe { (byway_device::shared(device)?, bytes_mut(into, IDENTIFY_BYTES, "into")?) };
        let (nsid, into) = (Nsid::new(nsid).ok(), device.buffer(IDENTIFY_BYTES)?);
        receive(device, AdminCommand::Identify { cns, csi, nsid, selector, into }, at)?;
        Ok(0)
    })
}

/// Reads a log page from byte `offset` on, a multiple of 4, as does its length. `nsid` is 0 where the log is of no
/// namespace; not 0 in `retain_event` leaves the event that announced it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_get_log(
    device: *const byway_device,
    log: u8,
    csi: u8,
    nsid: u32,
    retain_event: c_int,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (device, at) = unsafe { (byway_device::shared(device)?, bytes_mut(into, bytes, "into")?) };
        if bytes == 0 || !bytes.is_multiple_of(4) {
            return Err(invalid(format!("a log is read in dwords, not by {bytes} bytes")));
        }
        let (nsid, into) = (Nsid::new(nsid).ok(), device.buffer(bytes)?);
        let (retain_event, offset_bytes) = (retain_event != 0, offset);
        receive(device, AdminCommand::GetLog { log, csi, nsid, retain_event, offset_bytes, into }, at)?;
        Ok(0)
    })
}

/// Reads a feature: its value into `value`, its data, where it has some, into `into`. `select` is 0 for the current value,
/// 1 for the default, 2 for the saved one, 3 for what can be done with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_get_feature(
    device: *const byway_device,
    feature: u8,
    select: u8,
    nsid: u32,
    cdw11: u32,
    value: *mut u32,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (device, at) = unsafe { (byway_device::shared(device)?, bytes_mut(into, bytes, "into")?) };
        let nsid = Nsid::new(nsid).ok();
        let into = if bytes == 0 { None } else { Some(device.buffer(bytes)?) };
        let dw0 = receive(device, AdminCommand::GetFeature { feature, select, nsid, cdw11, into }, at)?;
        // SAFETY: by the contract.
        unsafe { put(value, dw0, "value") }?;
        Ok(0)
    })
}

/// Sets a feature to `cdw11` (and `cdw12`, where it has a second part), with its data, where it has some. Not 0 in `save`
/// keeps it over power cycles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_set_feature(
    device: *const byway_device,
    feature: u8,
    save: c_int,
    nsid: u32,
    cdw11: u32,
    cdw12: u32,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (device, data) = unsafe { (byway_device::shared(device)?, self::bytes(data, bytes, "data")?) };
        let (nsid, save) = (Nsid::new(nsid).ok(), save != 0);
        let data = sent(device, [data].into_iter(), data.len())?;
        device.admin(AdminCommand::SetFeature { feature, save, nsid, cdw11, cdw12, data })?;
        Ok(0)
    })
}

/// Formats a namespace: all it holds is gone. Not 0 in `erase` leaves no byte of user data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_format(
    device: *const byway_device,
    nsid: u32,
    format: u8,
    erase: c_int,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let device = unsafe { byway_device::shared(device) }?;
        device.admin(AdminCommand::Format { nsid: Nsid::new(nsid)?, format, erase: erase != 0 })?;
        Ok(0)
    })
}

/// How a device is sanitized.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byway_wipe {
    /// Every block is erased and its disk room given back.
    BlockErase = 0,
    /// The key that everything is encrypted with is thrown away. Only for devices that encrypt.
    CryptoErase = 1,
    /// The same as BYWAY_WIPE_BLOCK_ERASE after everything was written over.
    Overwrite = 2,
}

/// Sanitizes a device: no byte of what was ever stored is left in it. Of BYWAY_WIPE_OVERWRITE, `passes` from 1 to 16 say how
/// often `pattern` is written, inverted in every second; else both are 0. `progress`, which may be NULL, is called with the
/// progress. Where it returns anything but 0 the call fails and the device goes on by itself, one in this process when it is used
/// or opened again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_sanitize(
    device: *const byway_device,
    wipe: u32,
    passes: u8,
    pattern: u32,
    progress: byway_progress_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let device = unsafe { byway_device::shared(device) }?;
        let progress = Progress { on: progress, context };
        let watch = |done: u16| progress.report("sanitize", done.into(), 1 << 16);
        device.sanitize(wipe_of(wipe, passes, pattern)?, watch).map(|()| 0)
    })
}

fn wipe_of(wipe: u32, passes: u8, pattern: u32) -> Result<Wipe> {
    let is_plain = passes == 0 && pattern == 0;
    if wipe == byway_wipe::Overwrite as u32 && (1..=16).contains(&passes) {
        Ok(Wipe::Overwrite { passes, pattern })
    } else if wipe == byway_wipe::Overwrite as u32 {
        Err(invalid(format!("everything is written over 1 to 16 times, not {passes}")))
    } else if wipe == byway_wipe::BlockErase as u32 && is_plain {
        Ok(Wipe::BlockErase)
    } else if wipe == byway_wipe::CryptoErase as u32 && is_plain {
        Ok(Wipe::CryptoErase)
    } else if wipe > byway_wipe::Overwrite as u32 {
        Err(invalid(format!("there is no wipe {wipe}")))
    } else {
        Err(invalid("passes and pattern are of BYWAY_WIPE_OVERWRITE"))
    }
}

/// Passes an admin command through, a submission queue entry of 64 bytes, and waits for it. Bits 1:0 of its opcode say
/// which way the data goes: 01b to the device, 10b from it. `dw0`, completion dword 0, may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_admin(
    device: *const byway_device,
    entry: *const c_void,
    data: *mut c_void,
    bytes: usize,
    dw0: *mut u32,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (device, entry) = unsafe { (byway_device::shared(device)?, self::entry(entry)?) };
        // SAFETY: by the contract.
        let data = unsafe { bytes_mut(data, bytes, "data") }?;
        check_way(&entry, !data.is_empty())?;
        let copy = sent(device, [&*data].into_iter(), data.len())?;
        let command = AdminCommand::Raw(RawCommand { entry, data: raw_data(&entry, copy) });
        let to_device = direction(&entry) != Some(false);
        let answer = receive(device, command, if to_device { &mut [] } else { data })?;
        // SAFETY: by the contract.
        unsafe { put_dw0(dw0, answer) }
    })
}

/// As byway_device_admin(), with several buffers, one behind the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_adminv(
    device: *const byway_device,
    entry: *const c_void,
    data: *const *mut byway_buffer,
    buffers: u32,
    dw0: *mut u32,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (device, entry) = unsafe { (byway_device::shared(device)?, self::entry(entry)?) };
        // SAFETY: by the contract.
        let from = unsafe { handles(data, buffers) }?;
        check_way(&entry, true)?;
        let mut places = Places::new(1);
        let place = places.take(0)?;
        // SAFETY: by the contract.
        let mut memory = Payload::Vectored(unsafe { places.gather(place, from) }?);
        let answer = pass(device, entry, &mut memory);
        let (_, several) = memory.into_buffers();
        places.settle(place, None, several);
        // SAFETY: by the contract.
        unsafe { put_dw0(dw0, answer?) }
    })
}

/// Refuses data of an opcode that has none.
pub(crate) fn check_way(entry: &Entry, has_data: bool) -> Result<()> {
    if !has_data || direction(entry).is_some() {
        return Ok(());
    }
    Err(invalid(format!("opcode {:#04x} says which way no data goes", entry.opcode())))
}

/// Passes a command through with a copy of `memory`, into which goes what it receives; its dword 0.
fn pass(device: &Device, entry: Entry, memory: &mut Payload) -> Result<u32> {
    let copy = sent(device, memory.parts(), memory.len())?;
    let command = AdminCommand::Raw(RawCommand { entry, data: raw_data(&entry, copy) });
    let Outcome { answer, buffer, .. } = device.admin(command)?;
    if let Some(received) = buffer.filter(|_| direction(&entry) == Some(false)) {
        scatter(received.as_slice(), memory.buffers_mut());
    }
    Ok(answer.dw0)
}

/// Writes a completion's dword 0 where the program asks for it.
///
/// # Safety
/// `dw0` is NULL or points to room for it.
unsafe fn put_dw0(dw0: *mut u32, answer: u32) -> Result<c_int> {
    if !dw0.is_null() {
        // SAFETY: the caller's word.
        unsafe { put(dw0, answer, "dw0") }?;
    }
    Ok(0)
}

/// A copy of the `len` bytes that a command sends, in memory that the device can use.
pub(crate) fn sent<'a>(device: &Device, data: impl Iterator<Item = &'a [u8]>, len: usize) -> Result<Payload> {
    if len == 0 {
        return Ok(Payload::Empty);
    }
    let mut copy = device.buffer(len)?;
    gather(data, copy.as_mut_slice());
    Ok(Payload::Buffer(copy))
}

/// Sends a command, and copies what it received; its dword 0.
fn receive(device: &Device, command: AdminCommand, into: &mut [u8]) -> Result<u32> {
    let Outcome { answer, buffer, .. } = device.admin(command)?;
    let received = buffer.as_ref().map_or(&[][..], Buffer::as_slice);
    let len = received.len().min(into.len());
    if let (Some(at), Some(from)) = (into.get_mut(..len), received.get(..len)) {
        at.copy_from_slice(from);
    }
    Ok(answer.dw0)
}
