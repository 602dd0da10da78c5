//! What the server says its PCI function is, and what of it can be mapped.

use std::fs::File;
use std::sync::Arc;

use byway_driver::BusError;
use byway_spec::base::register::DOORBELL_BASE;
use byway_sys::map::{Mapping, PAGE_BYTES, Sharing};
use byway_sys::memfd;
use byway_vfio_user_wire::{Area, DeviceInfo, IrqIndex, IrqInfo, RegionIndex, RegionInfo, Reply, Request};

use super::connection::Fault;
use super::memory::{DeviceMemoryBar, Link, MessageBar};
use crate::mapped::{MAPPED_BYTES_MAX, MappedBar};

/// How long a region's description may be: areas by the dozen.
const REGION_BYTES_MAX: u32 = 4096;

/// Offset of the command register in configuration space, and its bits for memory accesses and for DMA (PCI 3.0, 6.2.2).
const COMMAND: u64 = 4;
const MEMORY_AND_MASTER: u16 = 0b110;

/// A function that was looked at.
#[derive(Debug)]
pub(crate) struct Function {
    /// Registers and doorbells.
    pub registers: RegionInfo,
    /// The doorbells, where they are shared, and the offset in BAR 0 that the mapping begins with.
    pub doorbells: Option<(Mapping, u64)>,
    /// Device memory.
    pub device_memory: Option<(u64, Option<Mapping>)>,
    /// Interrupts.
    pub vectors: u16,
}

impl Function {
    /// Asks what there is, resets it, and lets it touch memory.
    ///
    /// # Errors
    /// When it is no PCI function with registers, or the server is gone.
    pub(crate) fn open(link: &Link) -> Result<Self, BusError> {
        let info = device(link)?;
        if !info.is_pci || info.regions <= RegionIndex::CONFIG.0 || info.irqs <= IrqIndex::MSIX.0 {
            return Err(BusError::Protocol(format!("{info:?} is no PCI device")));
        }
        if info.has_reset {
            reset(link)?;
        }
        enable(link)?;
        let (registers, file) = region(link, RegionIndex::BAR0)?;
        if registers.bytes <= u64::from(DOORBELL_BASE) {
            return Err(BusError::Protocol(format!("BAR 0 has {} bytes and no doorbells", registers.bytes)));
        }
        let doorbells = file.and_then(|file| map_doorbells(&registers, &file));
        Ok(Self { registers, doorbells, device_memory: device_memory(link)?, vectors: vectors(link)? })
    }
}

fn ask<T>(
    link: &Link,
    request: &Request<'_>,
    take: impl FnOnce(Reply<'_>) -> Option<T>,
) -> Result<T, BusError> {
    let asked = link.connection.ask(request, &[], &link.host, |reply, _| {
        let shown = format!("{reply:?}");
        take(reply).ok_or(shown)
    });
    asked.map_err(|fault| in_words(request, fault))
}

fn in_words(request: &Request<'_>, fault: Fault) -> BusError {
    error_of(fault, &request.command())
}

/// A fault about `what`, which says so where the server is there and answers.
fn error_of(fault: Fault, what: &dyn std::fmt::Display) -> BusError {
    match fault {
        Fault::Lie(_) | Fault::Refused(_) => match fault.into() {
            BusError::Protocol(why) => BusError::Protocol(format!("{what}: {why}")),
            other => other,
        },
        other => other.into(),
    }
}

fn device(link: &Link) -> Result<DeviceInfo, BusError> {
    ask(link, &Request::DeviceGetInfo, |reply| match reply {
        Reply::DeviceInfo(info) => Some(info),
        _ => None,
    })
}

fn reset(link: &Link) -> Result<(), BusError> {
    ask(link, &Request::DeviceReset, |reply| (reply == Reply::Done).then_some(()))
}

/// Lets the function answer to memory accesses, and make its own.
fn enable(link: &Link) -> Result<(), BusError> {
    let mut command = [0; 2];
    let wrong = |fault| error_of(fault, &"configuration space");
    link.read_region(RegionIndex::CONFIG, COMMAND, &mut command).map_err(wrong)?;
    let command = u16::from_le_bytes(command) | MEMORY_AND_MASTER;
    link.write_region(RegionIndex::CONFIG, COMMAND, &command.to_le_bytes()).map_err(wrong)
}

/// A region, and its file if it can be mapped.
fn region(link: &Link, index: RegionIndex) -> Result<(RegionInfo, Option<File>), BusError> {
    let request = Request::RegionGetInfo { index, argsz: REGION_BYTES_MAX };
    let asked = link.connection.ask(&request, &[], &link.host, |reply, fds| match reply {
        Reply::RegionInfo(info) if info.index == index => {
            let file = fds.into_iter().next().map(File::from).filter(|_| info.flags.mappable);
            Ok((info, file))
        }
        other => Err(format!("{other:?}")),
    });
    asked.map_err(|fault| in_words(&request, fault))
}

fn vectors(link: &Link) -> Result<u16, BusError> {
    let info = ask(link, &Request::IrqGetInfo { index: IrqIndex::MSIX }, |reply| match reply {
        Reply::IrqInfo(info) => Some(info),
        _ => None,
    })?;
    match info {
        IrqInfo { index: IrqIndex::MSIX, count: 2..=2048, flags } if flags.eventfd => Ok(info.count as u16),
        _ => Err(BusError::Protocol(format!("{info:?} is not 2 to 2048 MSI-X interrupts"))),
    }
}

/// Whole pages of an area that are in the region, and in the file for good.
fn map(region: &RegionInfo, area: Area, file: &File) -> Option<Mapping> {
    let page = PAGE_BYTES as u64;
    let inside = area.offset.checked_add(area.bytes).is_some_and(|end| end <= region.bytes);
    let at = region.file_offset.checked_add(area.offset)?;
    let in_pages =
        at.is_multiple_of(page) && area.offset.is_multiple_of(page) && area.bytes.is_multiple_of(page);
    if !inside || !in_pages || area.bytes > MAPPED_BYTES_MAX || !memfd::stays(file, at, area.bytes) {
        return None;
    }
    Mapping::file(file, at, usize::try_from(area.bytes).ok()?, Sharing::Shared).ok()
}

/// The areas of a region that can be mapped: all of it where none is named.
fn areas(region: &RegionInfo) -> Vec<Area> {
    match region.areas.is_empty() {
        true => vec![Area { offset: 0, bytes: region.bytes }],
        false => region.areas.clone(),
    }
}

fn map_doorbells(region: &RegionInfo, file: &File) -> Option<(Mapping, u64)> {
    let first = u64::from(DOORBELL_BASE);
    let area =
        areas(region).into_iter().find(|area| area.offset <= first && first - area.offset < area.bytes)?;
    Some((map(region, area, file)?, area.offset))
}

/// Device memory is BAR 2, if the device has it. It is mapped if one mappable area covers it.
fn device_memory(link: &Link) -> Result<Option<(u64, Option<Mapping>)>, BusError> {
    let (region, file) = region(link, RegionIndex::BAR2)?;
    if region.bytes == 0 || !region.flags.readable || !region.flags.writable {
        return Ok(None);
    }
    let whole = Area { offset: 0, bytes: region.bytes };
    let mapping = file.filter(|_| areas(&region) == [whole]).and_then(|file| map(&region, whole, &file));
    Ok(Some((region.bytes, mapping)))
}

impl Function {
    /// The device memory behind `link`.
    pub(crate) fn take_device_memory(&mut self, link: &Arc<Link>) -> Option<DeviceMemoryBar> {
        let (bytes, mapping) = self.device_memory.take()?;
        let by_messages = || {
            let link = Arc::clone(link);
            DeviceMemoryBar::Messages(MessageBar { link, region: RegionIndex::BAR2, bytes })
        };
        Some(mapping.map_or_else(by_messages, |mapping| DeviceMemoryBar::Mapped(MappedBar::new(mapping))))
    }
}
