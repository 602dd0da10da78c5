//! Identify of one namespace: block and key-value structures, descriptors, and what is independent of command sets.

use byway_flash::Flash;
use byway_spec::base::command::NSID_ALL;
use byway_spec::base::identify::{Csi, IndependentNamespace, NamespaceDescriptor, NamespaceIdType};
use byway_spec::base::reservation::Rescap;
use byway_spec::kv::{KvFormat, KvNamespace as KvData};
use byway_spec::memory::{MEMORY_COPY_RANGES_MAX, MemoryNamespace as MemoryData};
use byway_spec::nvm::{Flbas, LbaFormat, NvmNamespace as NvmData, NvmNamespaceExtended};
use byway_spec::programs::ProgramNamespace as ProgramData;
use byway_spec::{Status, kv};
use zerocopy::{FromZeros, IntoBytes};

use super::context::Context;
use super::page::{Page, page_of, supported};
use crate::error::CommandError;
use crate::limits::MAX_NAMESPACES;
use crate::namespace::nvm::COPY_RANGES_MAX;
use crate::namespace::{
    ExportedNamespace, KvNamespace, LBA_FORMATS, MemoryNamespace, Namespace, NvmNamespace, ProgramsNamespace,
    VALUE_MAX_BYTES, write_error,
};

/// Several controllers may have the namespace at once (NMIC bit 0).
const SHARED: u8 = 1;

/// Every type of reservation, persistence through power loss, and Ignore Existing Key as since NVMe 1.3.
const RESCAP: Rescap = Rescap::from_bits(!0);

/// The same without persistence (PTPLS): what is exported has no place for it.
const EXPORTED_RESCAP: Rescap = Rescap::from_bits(!1);

/// Ready (NSTAT bit 0, NRDY): namespaces are opened with the cx.subsystem.
const READY: u8 = 1;

/// Deallocated blocks read zeroes, and Write Zeroes may deallocate (DLFEAT).
const READS_ZEROES: u8 = 1 | 1 << 3;

/// NUSE of a key-value namespace that is empty or inaccessible: hosts expect more than 0.
const NONE_USED: u64 = 1;

/// A controller's path to a namespace.
#[derive(Clone, Copy)]
struct Path {
    /// Its ANA group; 0 where the controller reports none.
    group: u32,
    /// Inaccessible: fields that other controllers may change meanwhile, as the bytes in use, are not reported.
    is_closed: bool,
}

/// CNS 00h.
pub(super) fn identify_nvm(cx: &mut Context<'_, '_>, nsid: u32) -> Result<Page, CommandError> {
    if nsid == NSID_ALL {
        return Ok(page_of(&*nvm_common()));
    }
    let path = path(cx, nsid);
    match active(cx, nsid)? {
        Some((namespace, flash)) => nvm_page(namespace, flash, path),
        None => Ok(empty()),
    }
}

/// CNS 11h.
pub(super) fn identify_allocated(cx: &mut Context<'_, '_>, nsid: u32) -> Result<Page, CommandError> {
    check_nsid(nsid)?;
    let path = path(cx, nsid);
    match cx.subsystem.namespace_mut(nsid) {
        Some((namespace, flash)) => nvm_page(namespace, flash, path),
        None => Ok(empty()),
    }
}

/// CNS 05h.
pub(super) fn identify_set_namespace(
    cx: &mut Context<'_, '_>,
    nsid: u32,
    csi: Csi,
) -> Result<Page, CommandError> {
    if nsid == NSID_ALL {
        return format_page(supported(csi)?);
    }
    let path = path(cx, nsid);
    match active(cx, nsid)? {
        Some((namespace, flash)) => set_page(namespace, flash, path, csi),
        None => Ok(empty()),
    }
}

/// CNS 1Bh.
pub(super) fn identify_set_allocated(
    cx: &mut Context<'_, '_>,
    nsid: u32,
    csi: Csi,
) -> Result<Page, CommandError> {
    check_nsid(nsid)?;
    let path = path(cx, nsid);
    match cx.subsystem.namespace_mut(nsid) {
        Some((namespace, flash)) => set_page(namespace, flash, path, csi),
        None => Ok(empty()),
    }
}

/// CNS 0Ah.
pub(super) fn identify_format(csi: Csi, format: u16) -> Result<Page, CommandError> {
    let formats = if supported(csi)? == Csi::NVM { LBA_FORMATS.len() } else { 1 };
    if usize::from(format) >= formats {
        return Err(CommandError::invalid_field("no such format").at_byte(44));
    }
    format_page(csi)
}

/// CNS 08h.
pub(super) fn identify_independent(cx: &mut Context<'_, '_>, nsid: u32) -> Result<Page, CommandError> {
    let path = path(cx, nsid);
    let Some((namespace, flash)) = active(cx, nsid)? else { return Ok(empty()) };
    let mut data = IndependentNamespace::new_zeroed();
    data.nmic = SHARED;
    data.anagrpid = path.group;
    data.rescap = rescap(namespace).into_bits();
    data.nstat = READY;
    data.nsattr = u8::from(is_read_only(namespace, flash));
    Ok(page_of(&data))
}

/// CNS 03h: NGUID, UUID and, as namespaces of several command sets may be attached, always the command set.
pub(super) fn identify_descriptors(cx: &mut Context<'_, '_>, nsid: u32) -> Result<Page, CommandError> {
    let (namespace, _) = active(cx, nsid)?.ok_or(NO_NAMESPACE)?;
    let record = namespace.record();
    let csi = [namespace.csi().0];
    let mut list = Vec::new();
    for (nidt, identifier) in [
        (NamespaceIdType::NGUID, &record.nguid[..]),
        (NamespaceIdType::UUID, &record.uuid[..]),
        (NamespaceIdType::CSI, &csi[..]),
    ] {
        let head = NamespaceDescriptor { nidt, nidl_bytes: identifier.len() as u8, ..Default::default() };
        list.extend_from_slice(head.as_bytes());
        list.extend_from_slice(identifier);
    }
    Ok(page_of(&list[..]))
}

fn path(cx: &Context<'_, '_>, nsid: u32) -> Path {
    let group = if cx.subsystem.paths.are_reported(cx.id) { nsid } else { 0 };
    Path { group, is_closed: cx.subsystem.paths.check(cx.id, nsid).is_err() }
}

/// Namespace `nsid`, if it is attached to this controller; an identifier that no namespace can have is an error.
fn active<'a>(
    cx: &'a mut Context<'_, '_>,
    nsid: u32,
) -> Result<Option<(&'a mut Namespace, &'a mut Flash)>, CommandError> {
    check_nsid(nsid)?;
    let is_active = cx.is_active(nsid);
    Ok(cx.subsystem.namespace_mut(nsid).filter(|_| is_active))
}

fn check_nsid(nsid: u32) -> Result<(), CommandError> {
    if (1..=MAX_NAMESPACES).contains(&nsid) { Ok(()) } else { Err(NO_NAMESPACE) }
}

fn empty() -> Page {
    Box::new([0; byway_spec::base::identify::IDENTIFY_BYTES])
}

fn nvm_page(namespace: &Namespace, flash: &mut Flash, path: Path) -> Result<Page, CommandError> {
    let mut data = match namespace {
        Namespace::Nvm(nvm) => nvm_data(nvm, flash)?,
        Namespace::Exported(exported) => exported_data(exported),
        Namespace::Kv(kv) => kv_as_blocks(kv, flash),
        Namespace::Memory(_) | Namespace::Programs(_) => volatile_as_blocks(namespace),
    };
    data.anagrpid = path.group;
    data.nuse = match namespace {
        _ if !path.is_closed => data.nuse,
        Namespace::Kv(_) => NONE_USED,
        Namespace::Nvm(_) | Namespace::Exported(_) => 0,
        Namespace::Memory(_) | Namespace::Programs(_) => data.nuse,
    };
    Ok(page_of(&*data))
}

/// The page of CNS 05h and 1Bh for a namespace.
fn set_page(namespace: &Namespace, flash: &Flash, path: Path, csi: Csi) -> Result<Page, CommandError> {
    if namespace.csi() != supported(csi)? {
        return Err(OTHER_COMMAND_SET);
    }
    match namespace {
        Namespace::Nvm(_) | Namespace::Exported(_) => Ok(page_of(&NvmNamespaceExtended::new_zeroed())),
        Namespace::Kv(kv) => Ok(page_of(&*kv_data(kv, flash, path))),
        Namespace::Memory(memory) => Ok(page_of(&*memory_data(memory, path))),
        Namespace::Programs(_) => Ok(page_of(&*program_common())),
    }
}

/// The structure of a command set with what all its namespaces share.
fn format_page(csi: Csi) -> Result<Page, CommandError> {
    match csi {
        Csi::KV => Ok(page_of(&*kv_common())),
        Csi::SLM => Ok(page_of(&*memory_common())),
        Csi::CP => Ok(page_of(&*program_common())),
        _ => Ok(page_of(&NvmNamespaceExtended::new_zeroed())),
    }
}

fn nvm_common() -> Box<NvmData> {
    let mut data = Box::new(NvmData::new_zeroed());
    data.nlbaf_z = (LBA_FORMATS.len() - 1) as u8;
    for (format, lbads) in data.lbaf.iter_mut().zip(LBA_FORMATS) {
        *format = LbaFormat::new().with_lbads(lbads);
    }
    data.nmic = SHARED;
    data.rescap = RESCAP.into_bits();
    data.dlfeat = READS_ZEROES;
    data
}

fn nvm_data(namespace: &NvmNamespace, flash: &mut Flash) -> Result<Box<NvmData>, CommandError> {
    let mut data = nvm_common();
    let record = namespace.record();
    let limits = namespace.copy_limits();
    data.nsze = namespace.blocks();
    data.ncap = namespace.blocks();
    data.nuse = namespace.used_blocks(flash).map_err(write_error)?;
    data.flbas = Flbas::new().with_index_low(namespace.format_index());
    data.mssrl = limits.range_blocks;
    data.mcl = limits.copy_blocks;
    data.msrc_z = limits.ranges_z;
    data.nvmcap_bytes = u128::from(record.size_bytes).into();
    data.nguid = record.nguid;
    data.nsattr = u8::from(flash.is_read_only());
    Ok(data)
}

/// A key-value namespace as CNS 00h has it. SPDK's host asks that of every namespace, and takes one of no capacity, or an
/// error, for the end of the controller. Its size is given in blocks of 512 bytes; the descriptors of CNS 03h name its command
/// set.
fn kv_as_blocks(namespace: &KvNamespace, flash: &Flash) -> Box<NvmData> {
    const LBA_SHIFT: u8 = 9;
    let mut data = Box::new(NvmData::new_zeroed());
    let record = namespace.record();
    data.lbaf[0] = LbaFormat::new().with_lbads(LBA_SHIFT);
    data.nsze = (record.size_bytes >> LBA_SHIFT).max(1);
    data.ncap = data.nsze;
    data.nuse = (namespace.used_bytes() >> LBA_SHIFT).clamp(NONE_USED, data.ncap);
    data.nmic = SHARED;
    data.rescap = RESCAP.into_bits();
    data.nvmcap_bytes = u128::from(record.size_bytes).into();
    data.nguid = record.nguid;
    data.nsattr = u8::from(flash.is_read_only());
    data
}

/// One LBA format: the engine's own.
fn exported_data(namespace: &ExportedNamespace) -> Box<NvmData> {
    let mut data = nvm_common();
    let (shape, limit) = (namespace.shape(), namespace.copy_limit_blocks());
    data.nlbaf_z = 0;
    data.lbaf.fill(LbaFormat::new());
    data.lbaf[0] = LbaFormat::new().with_lbads(shape.lba_shift);
    (data.nsze, data.ncap, data.nuse) = (shape.blocks, shape.blocks, shape.blocks);
    data.rescap = EXPORTED_RESCAP.into_bits();
    // Not reported: what deallocated blocks read as depends on the engine. Write Zeroes may deallocate.
    data.dlfeat = NvmData::DLFEAT_ZEROES_DEALLOCATE;
    (data.mssrl, data.mcl) = (limit.min(u16::MAX.into()) as u16, limit);
    data.msrc_z = (COPY_RANGES_MAX - 1) as u8;
    data.nvmcap_bytes = u128::from(namespace.record().size_bytes).into();
    data.nguid = shape.nguid;
    data.nsattr = u8::from(shape.is_read_only);
    data
}

fn rescap(namespace: &Namespace) -> Rescap {
    match namespace {
        Namespace::Exported(_) => EXPORTED_RESCAP,
        Namespace::Nvm(_) | Namespace::Kv(_) => RESCAP,
        Namespace::Memory(_) | Namespace::Programs(_) => Rescap::new(),
    }
}

fn is_read_only(namespace: &Namespace, flash: &Flash) -> bool {
    match namespace {
        Namespace::Exported(exported) => exported.shape().is_read_only,
        Namespace::Nvm(_) | Namespace::Kv(_) => flash.is_read_only(),
        Namespace::Memory(_) | Namespace::Programs(_) => false,
    }
}

/// Memory or programs as CNS 00h has it, as [`kv_as_blocks`].
fn volatile_as_blocks(namespace: &Namespace) -> Box<NvmData> {
    const LBA_SHIFT: u8 = 9;
    let mut data = Box::new(NvmData::new_zeroed());
    let record = namespace.record();
    data.lbaf[0] = LbaFormat::new().with_lbads(LBA_SHIFT);
    data.nsze = (record.size_bytes >> LBA_SHIFT).max(1);
    (data.ncap, data.nuse) = (data.nsze, data.nsze);
    data.nmic = SHARED;
    data.nguid = record.nguid;
    data
}

fn memory_common() -> Box<MemoryData> {
    let mut data = Box::new(MemoryData::new_zeroed());
    data.nmic = SHARED;
    data.msrc_z = (MEMORY_COPY_RANGES_MAX - 1) as u8;
    data
}

fn memory_data(namespace: &MemoryNamespace, path: Path) -> Box<MemoryData> {
    let mut data = memory_common();
    data.nsze_bytes = namespace.record().size_bytes;
    data.anagrpid = path.group;
    data.nguid = namespace.record().nguid;
    data
}

fn program_common() -> Box<ProgramData> {
    const MIB_SHIFT: u32 = 20;
    let (slots, ranges) = (ProgramsNamespace::slot_limits(), ProgramsNamespace::range_limits());
    let mut data = Box::new(ProgramData::new_zeroed());
    data.maxact = slots.activated_max;
    data.maxmemrs = ranges.sets_max;
    data.mrsg_bytes = 1;
    data.maxmemr = ranges.ranges_max;
    data.maxpb_mib = slots.programs_max_bytes >> MIB_SHIFT;
    data
}

fn kv_common() -> Box<KvData> {
    let mut data = Box::new(KvData::new_zeroed());
    data.nmic = SHARED;
    data.rescap = RESCAP.into_bits();
    data.kvf[0] = KvFormat {
        key_max_bytes: kv::KEY_MAX_BYTES as u16,
        value_max_bytes: VALUE_MAX_BYTES,
        ..KvFormat::default()
    };
    data
}

fn kv_data(namespace: &KvNamespace, flash: &Flash, path: Path) -> Box<KvData> {
    let mut data = kv_common();
    data.kvf[0].value_max_bytes = namespace.value_max_bytes();
    let record = namespace.record();
    data.nsze_bytes = record.size_bytes;
    data.nuse_bytes = if path.is_closed { 0 } else { namespace.used_bytes() };
    data.anagrpid = path.group;
    data.nguid = record.nguid;
    data.nsattr = u8::from(flash.is_read_only());
    data
}

const NO_NAMESPACE: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "no such namespace").at_byte(4);
const OTHER_COMMAND_SET: CommandError =
    CommandError::new(Status::INVALID_COMMAND_SET, "the namespace is of another command set").at_byte(47);
