//! What Identify says, in the words of the API: for every interface to an NVMe controller.

use byway_spec::base::identify::{
    Cns, Controller, Csi, IDENTIFY_BYTES, IndependentNamespace, NamespaceDescriptor, NamespaceIdType,
    NamespaceList,
};
use byway_spec::base::register::Vs;
use byway_spec::kv::KvNamespace;
use byway_spec::memory::MemoryNamespace;
use byway_spec::nvm::{LbaFormat, NvmController, NvmNamespace};
use zerocopy::FromBytes;

use crate::admin::AdminCommand;
use crate::buffer::Buffer;
use crate::capability::{AdminOptions, NvmCommands, NvmLimits};
use crate::command::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Identity, Namespace, NamespaceKind, Nsid};
use crate::moves::{BlockOptions, Layout};

/// Most namespaces of a device. Larger lists are refused: they would take memory, and a command for each namespace.
pub const NAMESPACES_MAX: usize = 1 << 16;

/// A controller that answers Identify.
pub trait Identifies {
    /// Sends an Identify, and waits for it.
    ///
    /// # Errors
    /// When the device refuses it or does not answer.
    fn identify(&self, command: AdminCommand) -> Result<Outcome>;

    /// A buffer for what it answers.
    ///
    /// # Errors
    /// When there is no memory.
    fn identify_buffer(&self, len: usize) -> Result<Buffer>;

    /// Whether namespaces report their command set; else all take the NVM command set.
    fn reports_command_sets(&self) -> bool;
}

/// What a controller says of itself.
///
/// # Errors
/// When it does not answer.
pub fn controller(device: &impl Identifies) -> Result<Controller> {
    let page = ask(device, Cns::CONTROLLER, Csi::NVM, 0)?;
    Controller::read_from_bytes(page.as_slice()).map_err(|_| short("Identify Controller"))
}

/// Identity of a controller.
#[must_use]
pub fn identity(controller: &Controller) -> Identity {
    let version = Vs::from_bits(controller.ver);
    Identity {
        model: text(&controller.mn),
        serial: text(&controller.sn),
        firmware: text(&controller.fr),
        subsystem: text(&controller.subnqn),
        controller: controller.cntlid,
        vendor: controller.vid,
        version: (version.mjr(), version.mnr(), version.ter()),
        byway: controller.vendor.is_known(),
    }
}

/// A text field without its padding.
fn text(field: &[u8]) -> String {
    let padding = |byte: &u8| *byte == 0 || *byte == b' ';
    let len = field.iter().rposition(|byte| !padding(byte)).map_or(0, |last| last + 1);
    String::from_utf8_lossy(field.get(..len).unwrap_or(field)).into_owned()
}

/// Optional commands of the NVM command set (ONCS, FUSES); Flush is every device's.
#[must_use]
pub fn nvm_commands(controller: &Controller) -> NvmCommands {
    let oncs = controller.oncs;
    NvmCommands {
        flush: true,
        write_zeroes: oncs.write_zeroes(),
        deallocate: oncs.dataset_management(),
        compare: oncs.compare(),
        verify: oncs.verify(),
        copy: oncs.copy() && controller.cdfs & 1 != 0,
        compare_and_write: controller.fuses & Controller::FUSES_COMPARE_AND_WRITE != 0,
    }
}

/// Reads the limits of commands that move no data (CNS 06h, CSI 0), in pages of 2^(12 + `mpsmin`) bytes. A controller before
/// NVMe 2.0, or without the structure, has none.
///
/// # Errors
/// When the device does not answer.
pub fn nvm_limits(device: &impl Identifies, controller: &Controller, mpsmin: u8) -> Result<NvmLimits> {
    if Vs::from_bits(controller.ver).mjr() < 2 {
        return Ok(NvmLimits::default());
    }
    let page = match ask(device, Cns::SET_CONTROLLER, Csi::NVM, 0) {
        Err(error) if error.nvme_status().is_some() => return Ok(NvmLimits::default()),
        page => page?,
    };
    let reported =
        NvmController::read_from_bytes(page.as_slice()).map_err(|_| short("Identify Controller"))?;
    let bytes = |exponent: u8| match transfer_max_bytes(exponent, mpsmin) {
        u64::MAX => 0,
        bytes => bytes,
    };
    Ok(NvmLimits {
        verify_bytes: bytes(reported.vsl),
        write_zeroes_bytes: bytes(reported.wzsl),
        deallocate_ranges: reported.dmrl,
        deallocate_range_blocks: reported.dmrsl,
        deallocate_blocks: reported.dmsl,
    })
}

/// Reservation capabilities of a namespace (RESCAP), from the structure of all command sets; a controller before NVMe 2.0, or without
/// that structure, has them in that of blocks.
pub(crate) fn rescap(device: &impl Identifies, nsid: u32) -> Result<u8> {
    match ask(device, Cns::INDEPENDENT_NAMESPACE, Csi::NVM, nsid) {
        Ok(page) => match IndependentNamespace::read_from_bytes(page.as_slice()) {
            Ok(namespace) => Ok(namespace.rescap),
            Err(_) => Err(short("Identify Namespace")),
        },
        Err(error) if error.nvme_status().is_some() => Ok(identify_nvm(device, nsid)?.rescap),
        Err(error) => Err(error),
    }
}

/// What admin commands may ask for (OACS, ONCS, LPA).
#[must_use]
pub fn admin_options(controller: &Controller) -> AdminOptions {
    AdminOptions {
        format: controller.oacs.format(),
        save_and_select: controller.oncs.save_select(),
        timestamp: controller.oncs.timestamp(),
        extended_logs: controller.lpa & Controller::LPA_EXTENDED_DATA != 0,
    }
}

/// Most bytes of one command's data: 2^`mdts` smallest memory pages of 2^(12 + `mpsmin`) bytes, 0 for no limit (MDTS).
#[must_use]
pub fn transfer_max_bytes(mdts: u8, mpsmin: u8) -> u64 {
    match (mdts, 12 + u32::from(mpsmin) + u32::from(mdts)) {
        (0, _) | (_, 64..) => u64::MAX,
        (_, shift) => 1 << shift,
    }
}

/// Numbers of the namespaces that are attached, ascending.
///
/// # Errors
/// When the device does not answer, or lists more than [`NAMESPACES_MAX`].
pub fn active_namespaces(device: &impl Identifies) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    let mut after = 0;
    loop {
        let page = ask(device, Cns::ACTIVE_NAMESPACES, Csi::NVM, after)?;
        let list = NamespaceList::read_from_bytes(page.as_slice())
            .map_err(|_| short("Identify Active Namespaces"))?;
        for nsid in list.nsids.into_iter().take_while(|nsid| *nsid != 0) {
            // A list that does not ascend would never end.
            if nsid <= after {
                return Ok(found);
            }
            if found.len() == NAMESPACES_MAX {
                return Err(too_many());
            }
            after = nsid;
            found.push(nsid);
        }
        if list.nsids.contains(&0) {
            return Ok(found);
        }
    }
}

/// A namespace, and what its commands mean.
///
/// # Errors
/// When the device does not answer.
pub fn namespace(device: &impl Identifies, nsid: u32) -> Result<(Namespace, Layout)> {
    match command_set(device, nsid)? {
        Csi::NVM => {
            let identified = identify_nvm(device, nsid)?;
            Ok((nvm(&identified, nsid)?, layout_of(&identified)))
        }
        Csi::KV => Ok((kv(device, nsid)?, Layout::Keys)),
        Csi::SLM => Ok((memory(device, nsid)?, Layout::Other)),
        Csi(other) => {
            let kind = NamespaceKind::Other(other);
            let nsid = Nsid::new(nsid)?;
            Ok((Namespace { nsid, kind, size_bytes: 0, used_bytes: 0, nguid: [0; 16] }, Layout::Other))
        }
    }
}

/// The namespaces that are attached.
///
/// # Errors
/// When the device does not answer.
pub fn namespaces(device: &impl Identifies) -> Result<Vec<Namespace>> {
    let all = active_namespaces(device)?;
    all.into_iter().map(|nsid| Ok(namespace(device, nsid)?.0)).collect()
}

/// What the commands of a namespace mean.
///
/// # Errors
/// [`ErrorKind::NotFound`] where the device knows no such namespace; when it does not answer.
pub fn layout(device: &impl Identifies, nsid: u32) -> Result<Layout> {
    let unknown = || Error::host(ErrorKind::NotFound, format!("the device has no namespace {nsid}"));
    let csi = command_set(device, nsid).map_err(|error| match error.nvme_status() {
        Some(_) => unknown().with_source(error),
        None => error,
    })?;
    match csi {
        Csi::NVM => {
            let identified = identify_nvm(device, nsid)?;
            if identified.nsze == 0 {
                return Err(unknown());
            }
            Ok(layout_of(&identified))
        }
        Csi::KV => Ok(Layout::Keys),
        _ => Ok(Layout::Other),
    }
}

fn layout_of(identified: &NvmNamespace) -> Layout {
    let format = format_in_use(identified);
    let metadata = if identified.flbas.extended() { u32::from(format.ms()) } else { 0 };
    Layout::Blocks { bytes: lba_bytes(format) + metadata, options: BlockOptions::of(identified) }
}

/// The command set in the namespace's descriptors; NVM if there is none.
fn command_set(device: &impl Identifies, nsid: u32) -> Result<Csi> {
    if !device.reports_command_sets() {
        return Ok(Csi::NVM);
    }
    let page = ask(device, Cns::NAMESPACE_DESCRIPTORS, Csi::NVM, nsid)?;
    Ok(find_command_set(page.as_slice()))
}

fn find_command_set(mut descriptors: &[u8]) -> Csi {
    while let Ok((head, rest)) = NamespaceDescriptor::read_from_prefix(descriptors) {
        match (head.nidt, rest.first()) {
            _ if head.nidl_bytes == 0 => break,
            (NamespaceIdType::CSI, Some(csi)) => return Csi(*csi),
            _ => descriptors = rest.get(usize::from(head.nidl_bytes)..).unwrap_or_default(),
        }
    }
    Csi::NVM
}

fn identify_nvm(device: &impl Identifies, nsid: u32) -> Result<NvmNamespace> {
    let page = ask(device, Cns::NAMESPACE, Csi::NVM, nsid)?;
    NvmNamespace::read_from_bytes(page.as_slice()).map_err(|_| short("Identify Namespace"))
}

fn nvm(identified: &NvmNamespace, nsid: u32) -> Result<Namespace> {
    let lba_bytes = lba_bytes(format_in_use(identified));
    Ok(Namespace {
        nsid: Nsid::new(nsid)?,
        kind: NamespaceKind::Nvm { lba_bytes, blocks: identified.nsze },
        size_bytes: identified.nsze.saturating_mul(lba_bytes.into()),
        used_bytes: identified.nuse.saturating_mul(lba_bytes.into()),
        nguid: identified.nguid,
    })
}

fn format_in_use(namespace: &NvmNamespace) -> LbaFormat {
    let flbas = namespace.flbas;
    // FLBAS bits 6:5 are the high part of the index where there are more than 16 formats.
    let index = usize::from(flbas.index_low()) | usize::from(flbas.index_high()) << 4;
    namespace.lbaf.get(index).copied().unwrap_or_default()
}

/// Size of a block, without its metadata; 512 bytes where the format has none that can be.
fn lba_bytes(format: LbaFormat) -> u32 {
    match format.lbads() {
        shift @ 9..=31 => 1 << shift,
        _ => 512,
    }
}

fn memory(device: &impl Identifies, nsid: u32) -> Result<Namespace> {
    let page = ask(device, Cns::SET_NAMESPACE, Csi::SLM, nsid)?;
    let identified =
        MemoryNamespace::read_from_bytes(page.as_slice()).map_err(|_| short("Identify Memory Namespace"))?;
    Ok(Namespace {
        nsid: Nsid::new(nsid)?,
        kind: NamespaceKind::Other(Csi::SLM.0),
        size_bytes: identified.nsze_bytes,
        used_bytes: identified.nsze_bytes,
        nguid: identified.nguid,
    })
}

fn kv(device: &impl Identifies, nsid: u32) -> Result<Namespace> {
    let page = ask(device, Cns::SET_NAMESPACE, Csi::KV, nsid)?;
    let identified =
        KvNamespace::read_from_bytes(page.as_slice()).map_err(|_| short("Identify KV Namespace"))?;
    let format = identified.kvf.get(usize::from(identified.kvfc & 0xf)).copied().unwrap_or_default();
    Ok(Namespace {
        nsid: Nsid::new(nsid)?,
        kind: NamespaceKind::Kv {
            key_max_bytes: format.key_max_bytes,
            value_max_bytes: format.value_max_bytes,
            keys_max: format.keys_max,
        },
        size_bytes: identified.nsze_bytes,
        used_bytes: identified.nuse_bytes,
        nguid: identified.nguid,
    })
}

fn ask(device: &impl Identifies, cns: Cns, csi: Csi, nsid: u32) -> Result<Buffer> {
    let into = device.identify_buffer(IDENTIFY_BYTES)?;
    let nsid = Nsid::new(nsid).ok();
    let command = AdminCommand::Identify { cns: cns.0, csi: csi.0, nsid, selector: 0, into };
    let outcome = device.identify(command).map_err(|error| error.doing(format!("identify {cns}")))?;
    outcome.buffer.ok_or_else(|| short("Identify"))
}

#[cold]
fn too_many() -> Error {
    Error::host(ErrorKind::Device, format!("the device lists more than {NAMESPACES_MAX} namespaces"))
}

#[cold]
fn short(what: &str) -> Error {
    Error::device(ErrorKind::Protocol, format!("{what} gave fewer bytes than its structure has"))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use byway_kit::Random;

    use super::*;

    /// A controller that answers Identify with any bytes, too few, or an error.
    struct Hostile(RefCell<Random>);

    impl Identifies for Hostile {
        fn identify(&self, command: AdminCommand) -> Result<Outcome> {
            let mut random = self.0.borrow_mut();
            let AdminCommand::Identify { mut into, .. } = command else { return Ok(Outcome::default()) };
            match random.below(32) {
                0 => return Err(short("Identify")),
                1 => return Ok(Outcome::default()),
                _ => {}
            }
            for byte in into.as_mut_slice() {
                *byte = [0, 0xff, random.below(16) as u8, random.next() as u8][random.index(4)];
            }
            Ok(Outcome { buffer: Some(into), ..Outcome::default() })
        }

        fn identify_buffer(&self, len: usize) -> Result<Buffer> {
            let is_short = self.0.borrow_mut().one_in(32);
            Buffer::zeroed(if is_short { len / 2 } else { len })
        }

        fn reports_command_sets(&self) -> bool {
            self.0.borrow_mut().one_in(2)
        }
    }

    /// A controller that lists every namespace number there is.
    struct Endless;

    impl Identifies for Endless {
        fn identify(&self, command: AdminCommand) -> Result<Outcome> {
            let AdminCommand::Identify { mut into, nsid, .. } = command else {
                return Ok(Outcome::default());
            };
            let (entries, _) = into.as_mut_slice().as_chunks_mut();
            for (number, bytes) in (nsid.map_or(0, Nsid::get) + 1..).zip(entries) {
                *bytes = u32::to_le_bytes(number);
            }
            Ok(Outcome { buffer: Some(into), ..Outcome::default() })
        }

        fn identify_buffer(&self, len: usize) -> Result<Buffer> {
            Buffer::zeroed(len)
        }

        fn reports_command_sets(&self) -> bool {
            false
        }
    }

    #[test]
    fn endless_list_of_namespaces_is_refused() {
        let error = active_namespaces(&Endless).expect_err("no end");
        assert!(error.to_string().contains("more than 65536 namespaces"), "{error}");
    }

    fn check_namespace(device: &Hostile, nsid: u32) {
        if let Ok((namespace, layout)) = namespace(device, nsid) {
            assert_eq!(namespace.nsid.get(), nsid);
            if let NamespaceKind::Nvm { lba_bytes, .. } = namespace.kind {
                assert!(lba_bytes.is_power_of_two() && lba_bytes >= 512, "{lba_bytes}");
                assert!(matches!(layout, Layout::Blocks { bytes, .. } if bytes >= lba_bytes));
            }
        }
        let _ = (layout(device, nsid), rescap(device, nsid));
    }

    #[test]
    fn identify_data_of_any_bytes_is_an_error_or_yields_bounded_values() {
        for seed in 0..200 {
            let device = Hostile(RefCell::new(Random::new(seed)));
            if let Ok(controller) = controller(&device) {
                assert!(identity(&controller).model.chars().count() <= 40);
                let _ = (nvm_commands(&controller), admin_options(&controller));
                let _ = (nvm_limits(&device, &controller, seed as u8), namespaces(&device));
            }
            let listed = active_namespaces(&device).unwrap_or_default();
            assert!(listed.is_sorted_by(|one, next| one < next) && !listed.contains(&0));
            (1..20).for_each(|nsid| check_namespace(&device, nsid));
        }
    }

    #[test]
    fn text_fields_lose_their_padding_and_keep_their_inner_spaces() {
        assert_eq!(text(b"Byway SSD  \0\0"), "Byway SSD");
        assert_eq!(text(b"    "), "");
    }

    #[test]
    fn the_command_set_is_found_among_other_descriptors_and_lies_do_not_hang() {
        let mut page = vec![3, 16, 0, 0];
        page.extend([7; 16]);
        page.extend([4, 1, 0, 0, 1, 0, 0, 0]);
        assert_eq!(find_command_set(&page), Csi::KV);
        assert_eq!(find_command_set(&[3, 255, 0, 0, 1]), Csi::NVM);
        assert_eq!(find_command_set(&[0; 64]), Csi::NVM);
    }

    #[test]
    fn mdts_counts_in_smallest_pages_and_zero_is_no_limit() {
        assert_eq!(transfer_max_bytes(12, 0), 16 << 20);
        assert_eq!(transfer_max_bytes(0, 0), u64::MAX);
        assert_eq!(transfer_max_bytes(255, 15), u64::MAX);
    }
}
