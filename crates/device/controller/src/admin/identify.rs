//! Identify (Base 2.1, section 5.1.13): which structure is asked for, lists, and the controller itself.

use byway_link::cost::inline_read_max_bytes;
use byway_spec::base::ana::CMIC_ANA;
use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::completion::COMPLETION_BYTES;
use byway_spec::base::feature::AsyncEvents;
use byway_spec::base::identify::{
    self as wire, Cns, CommandSets, ControllerList, Csi, IdentifyCdw10, IdentifyCdw11, NamespaceList, Oacs,
    Oncs, Sgls, ascii_field,
};
use byway_spec::base::register::Vs;
use byway_spec::kv::KvController;
use byway_spec::nvm::NvmController;
use byway_spec::vendor::{MAGIC, VERSION, VendorArea};
use byway_spec::{Command, Status};
use zerocopy::FromZeros;

use super::context::Context;
use super::feature::EVENTS;
use super::identify_namespace as of_namespace;
use super::page::{Page, UNKNOWN_COMMAND_SET, page_of, supported};
use super::transfers::{ANNOUNCED, FABRIC_METHODS};
use super::{error_log, event, health, keep_alive, sanitize};
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::limits::{
    ABORT_LIMIT_Z, ACWU_Z, BULK_MAX_BYTES, CAPSULE_DATA_BYTES, CAPSULE_QUEUE_ENTRIES, COMMAND_SETS,
    EXEC_MAX_BYTES, FIRMWARE, FUSES, MAX_NAMESPACES, PAGE_BYTES, RESULT_MAX_BYTES, RETRIEVE_MANY_MAX,
};
use crate::namespace::VALUE_MAX_BYTES;
use crate::outcome::Outcome;
use crate::subsystem::{Subsystem, WARNING_K};
use crate::transfer::payloads;

/// A parsed Identify command.
struct Request {
    cns: Cns,
    controller: u16,
    csi: Csi,
    format: u16,
    nsid: u32,
}

pub(super) fn identify(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    let cdw10 = IdentifyCdw10::from_bits(command.cdw10);
    let cdw11 = IdentifyCdw11::from_bits(command.cdw11);
    let request = Request {
        cns: cdw10.cns(),
        controller: cdw10.cntid(),
        csi: cdw11.csi(),
        format: cdw11.specific(),
        nsid: command.nsid,
    };
    let page = identify_page(cx, &request)?;
    cx.send(command, &page[..])
}

fn identify_page(cx: &mut Context<'_, '_>, request: &Request) -> Result<Page, CommandError> {
    let Request { controller, csi, nsid, .. } = *request;
    match request.cns {
        Cns::NAMESPACE => of_namespace::identify_nvm(cx, nsid),
        Cns::CONTROLLER => Ok(page_of(&*identify_controller(cx))),
        Cns::ACTIVE_NAMESPACES => active_namespaces(cx, nsid, None),
        Cns::NAMESPACE_DESCRIPTORS => of_namespace::identify_descriptors(cx, nsid),
        Cns::SET_NAMESPACE => of_namespace::identify_set_namespace(cx, nsid, csi),
        Cns::SET_CONTROLLER => identify_set_controller(csi),
        Cns::SET_ACTIVE_NAMESPACES => active_namespaces(cx, nsid, Some(supported(csi)?)),
        Cns::INDEPENDENT_NAMESPACE => of_namespace::identify_independent(cx, nsid),
        Cns::SET_FORMAT_NAMESPACE => of_namespace::identify_format(csi, request.format),
        Cns::ALLOCATED_NAMESPACES => allocated_namespaces(cx.subsystem, nsid, None),
        Cns::ALLOCATED_NAMESPACE => of_namespace::identify_allocated(cx, nsid),
        Cns::SET_ALLOCATED_NAMESPACES => allocated_namespaces(cx.subsystem, nsid, Some(supported(csi)?)),
        Cns::SET_ALLOCATED_NAMESPACE => of_namespace::identify_set_allocated(cx, nsid, csi),
        Cns::ATTACHED_CONTROLLERS => attached_controllers(cx.subsystem, nsid, controller),
        Cns::CONTROLLERS => Ok(controller_list(cx.subsystem.controllers().filter(|id| id.0 >= controller))),
        Cns::COMMAND_SETS => command_sets(cx, controller),
        _ => Err(CommandError::invalid_field("no such identify structure").at_byte(40)),
    }
}

fn command_sets(cx: &Context<'_, '_>, controller: u16) -> Result<Page, CommandError> {
    const THIS: u16 = 0xffff;
    if controller != THIS && !cx.subsystem.has_controller(ControllerId(controller)) {
        return Err(CommandError::new(Status::INVALID_CONTROLLER_ID, "no such controller").at_byte(42));
    }
    let mut sets = CommandSets::new_zeroed();
    sets.vectors[0] = COMMAND_SETS;
    Ok(page_of(&sets))
}

fn active_namespaces(cx: &Context<'_, '_>, after: u32, csi: Option<Csi>) -> Result<Page, CommandError> {
    let mine = cx
        .subsystem
        .namespaces()
        .filter(|(nsid, namespace)| cx.is_active(*nsid) && csi.is_none_or(|csi| namespace.csi() == csi));
    namespace_list(mine.map(|(nsid, _)| nsid), after)
}

fn identify_controller(cx: &Context<'_, '_>) -> Box<wire::Controller> {
    let mut data = Box::new(wire::Controller::new_zeroed());
    let identity = cx.subsystem.identity();
    data.sn = ascii_field(&identity.serial);
    data.mn = ascii_field(&identity.model);
    data.fr = ascii_field(FIRMWARE);
    for (to, from) in data.subnqn[..255].iter_mut().zip(identity.nqn.bytes()) {
        *to = from;
    }
    data.cntlid = cx.id.0;
    data.ver = Vs::V2_1.into_bits();
    data.cntrltype = 1;
    // Host identifiers of 128 bits (HIDS).
    data.ctratt = 1;
    // Several controllers may share the subsystem: one for each front the image is served on.
    data.cmic = 1 << 1 | u8::from(cx.subsystem.paths.are_several());
    data.mdts = (cx.subsystem.transfer_max_bytes() / PAGE_BYTES).ilog2() as u8;
    data.oaes = AsyncEvents::new().with_namespace_changed(EVENTS.namespace_changed()).into_bits();
    let in_capsules = cx.is_fabric;
    identify_admin(&mut data, cx.subsystem, !in_capsules);
    identify_io(&mut data, cx.subsystem);
    // Acknowledged data is in power-protected state, but the image lies in the operating system's cache until it is
    // synced: saying so makes a guest's fsync reach the disk. Flush of all namespaces is supported (bits 2:1).
    data.vwc = cx.subsystem.volatile_cache();
    let (total, free) = cx.subsystem.capacity_bytes();
    data.tnvmcap_bytes = u128::from(total).into();
    data.unvmcap_bytes = u128::from(free).into();
    data.vendor = vendor_area(cx.subsystem, cx.registers.cmb_bytes());
    if in_capsules {
        identify_fabric(&mut data);
    }
    if cx.subsystem.paths.are_reported(cx.id) {
        identify_ana(&mut data);
    }
    data
}

/// Fields of the admin commands.
fn identify_admin(data: &mut wire::Controller, subsystem: &Subsystem, in_rings: bool) {
    let manages = subsystem.options().namespace_management;
    let oacs = Oacs::new().with_format(manages).with_namespace_management(manages);
    data.oacs = oacs.with_doorbell_buffer(subsystem.options().doorbell_buffers && in_rings);
    data.acl_z = ABORT_LIMIT_Z;
    data.aerl_z = (event::MAX_REQUESTS - 1) as u8;
    // One read-only firmware slot.
    data.frmw = 1 | 1 << 1;
    // Effects log, extended data for Get Log Page, telemetry; pages 00h, 12h and 13h, and the scope of each command.
    data.lpa = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5;
    data.elpe_z = (error_log::ENTRIES - 1) as u8;
    data.wctemp_k = WARNING_K;
    data.cctemp_k = health::CRITICAL_K;
    data.kas = keep_alive::GRANULARITY_100MS;
    // Format of the broadcast namespace is not supported; each namespace is formatted alone.
    data.fna = 1 << 3;
    data.sanicap = if subsystem.has_engines() || !manages { 0 } else { sanitize::SANICAP };
}

/// Fields of the I/O commands.
fn identify_io(data: &mut wire::Controller, subsystem: &Subsystem) {
    let can = subsystem.engine_commands();
    data.sqes = 0x66;
    data.cqes = 0x44;
    data.nn = MAX_NAMESPACES;
    data.mnan = MAX_NAMESPACES;
    data.oncs = Oncs::new()
        .with_compare(can.compare)
        .with_dataset_management(can.deallocate)
        .with_write_zeroes(can.write_zeroes)
        .with_save_select(true)
        .with_reservations(true)
        .with_timestamp(true)
        .with_verify(can.verify)
        .with_copy(can.copy);
    // Only if every namespace can.
    if subsystem.fuses() {
        data.fuses = FUSES;
        data.acwu_z = ACWU_Z;
    }
    data.cdfs = 1;
    if subsystem.options().sgls {
        data.sgls = Sgls::new().with_supported(1).with_bit_bucket(true);
    }
}

/// Asymmetric namespace access. Each namespace is a group of its own, whose number does not change (ANACAP bit 6).
fn identify_ana(data: &mut wire::Controller) {
    const EVERY_STATE: u8 = 0x1f;
    const TRANSITION_S: u8 = 10;
    data.cmic |= CMIC_ANA;
    data.oaes |= AsyncEvents::new().with_ana(true).into_bits();
    data.anacap = EVERY_STATE | 1 << 6;
    data.anatt = TRANSITION_S;
    data.anagrpmax = MAX_NAMESPACES;
    data.nanagrpid = MAX_NAMESPACES;
}

/// Time that commands of a controller may still run after the loss of its host was noticed (CQT). None, but 0 means not
/// reported. A controller with commands in an external engine exists until they are done.
const QUIESCE_MS: u16 = 1;

/// Fields that differ over a fabric.
fn identify_fabric(data: &mut wire::Controller) {
    const UNIT_BYTES: u32 = 16;
    // Any command is a sign of life (TBKAS).
    data.ctratt |= 1 << 6;
    data.cqt = QUIESCE_MS;
    data.sgls = Sgls::new().with_supported(1).with_offset(true).with_transport(true);
    data.maxcmd = CAPSULE_QUEUE_ENTRIES;
    data.ioccsz = (COMMAND_BYTES as u32 + CAPSULE_DATA_BYTES) / UNIT_BYTES;
    data.iorcsz = COMPLETION_BYTES as u32 / UNIT_BYTES;
    data.msdbd = 1;
    // Disconnect.
    data.ofcs = 1;
    data.vendor.methods = FABRIC_METHODS;
    data.vendor.inline_read_max_bytes = 0;
    data.vendor.cxl_windows = 0;
    data.vendor.device_memory_bytes = 0;
}

fn vendor_area(subsystem: &Subsystem, byte_region_bytes: u64) -> VendorArea {
    let limits = subsystem.profile().limits;
    let windows = subsystem.window_shape();
    VendorArea {
        magic: MAGIC,
        version: VERSION,
        methods: ANNOUNCED.with_byte_store(byte_region_bytes > 0),
        byte_region_bytes,
        inline_max_bytes: limits.inline_max_bytes,
        piggyback_max_bytes: limits.piggyback_max_bytes,
        pt_payloads_max: payloads::MAX_UNFINISHED as u32,
        value_max_bytes: VALUE_MAX_BYTES,
        bulk_max_bytes: BULK_MAX_BYTES as u32,
        result_max_bytes: RESULT_MAX_BYTES as u32,
        retrieve_many_max: RETRIEVE_MANY_MAX as u32,
        store_many_max_bytes: subsystem.store_many_max_bytes(),
        query_text_max_bytes: subsystem.query_text_max_bytes(),
        inline_read_max_bytes: inline_read_max_bytes(subsystem.profile()),
        exec_max_bytes: if subsystem.has_exec() { EXEC_MAX_BYTES as u32 } else { 0 },
        device_memory_bytes: windows.window_bytes * u64::from(windows.count),
        cxl_window_bytes: windows.window_bytes,
        cxl_windows: windows.count,
        cxl_segment_bytes: windows.segment_bytes,
        cxl_header_bytes: windows.header_bytes,
        cxl_align_bytes: windows.align_bytes,
        cxl_page_bytes: windows.page_bytes,
        ..VendorArea::new_zeroed()
    }
}

fn identify_set_controller(csi: Csi) -> Result<Page, CommandError> {
    match csi {
        // Zeroes: no command is bounded closer than by MDTS, and Dataset Management not at all.
        Csi::NVM => Ok(page_of(&NvmController::new_zeroed())),
        Csi::KV => {
            let mut data = KvController::new_zeroed();
            data.mjr = 1;
            Ok(page_of(&data))
        }
        // No limits beside those of the namespaces.
        Csi::SLM | Csi::CP => Ok(page_of(&[0; 0][..])),
        _ => Err(UNKNOWN_COMMAND_SET),
    }
}

fn allocated_namespaces(subsystem: &Subsystem, after: u32, csi: Option<Csi>) -> Result<Page, CommandError> {
    let all = subsystem.namespaces().filter(|(_, namespace)| csi.is_none_or(|csi| namespace.csi() == csi));
    namespace_list(all.map(|(nsid, _)| nsid), after)
}

fn namespace_list(nsids: impl Iterator<Item = u32>, after: u32) -> Result<Page, CommandError> {
    if after >= 0xffff_fffe {
        return Err(CommandError::new(Status::INVALID_NAMESPACE, "no namespace follows").at_byte(4));
    }
    let mut list = NamespaceList::new_zeroed();
    for (entry, nsid) in list.nsids.iter_mut().zip(nsids.filter(|nsid| *nsid > after)) {
        *entry = nsid;
    }
    Ok(page_of(&list))
}

fn attached_controllers(subsystem: &Subsystem, nsid: u32, from: u16) -> Result<Page, CommandError> {
    if subsystem.namespace(nsid).is_none() {
        return Err(CommandError::new(Status::INVALID_NAMESPACE, "no such namespace").at_byte(4));
    }
    let attached = subsystem.controllers().filter(|id| id.0 >= from && subsystem.is_attached(nsid, *id));
    Ok(controller_list(attached))
}

fn controller_list(ids: impl Iterator<Item = ControllerId>) -> Page {
    let mut list = ControllerList::new_zeroed();
    for (entry, id) in list.cntlids.iter_mut().zip(ids) {
        *entry = id.0;
        list.count += 1;
    }
    page_of(&list)
}
