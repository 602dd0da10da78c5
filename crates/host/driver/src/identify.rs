//! What Identify says, in the words of the API.

use byway_core::moves::Layout;
use byway_core::{AdminCommand, Buffer, Error, ErrorKind, Identity, Namespace, NamespaceKind, Nsid, Result};
use byway_spec::base::identify::{
    Cns, Controller, Csi, IDENTIFY_BYTES, NamespaceDescriptor, NamespaceIdType, NamespaceList,
};
use byway_spec::base::register::Vs;
use byway_spec::kv::KvNamespace;
use byway_spec::nvm::{LbaFormat, NvmNamespace};
use zerocopy::FromBytes;

use crate::attach::short;
use crate::bus::Bus;
use crate::device::Shared;

/// Who a controller says it is.
pub(crate) fn identity(controller: &Controller, byway: bool) -> Identity {
    let version = Vs::from_bits(controller.ver);
    Identity {
        model: text(&controller.mn),
        serial: text(&controller.sn),
        firmware: text(&controller.fr),
        subsystem: text(&controller.subnqn),
        controller: controller.cntlid,
        vendor: controller.vid,
        version: (version.mjr(), version.mnr(), version.ter()),
        byway,
    }
}

/// A text field without its padding.
fn text(field: &[u8]) -> String {
    let padding = |byte: &u8| *byte == 0 || *byte == b' ';
    let len = field.iter().rposition(|byte| !padding(byte)).map_or(0, |last| last + 1);
    String::from_utf8_lossy(field.get(..len).unwrap_or(field)).into_owned()
}

/// The namespaces that are attached.
///
/// # Errors
/// When the device does not answer.
pub(crate) fn namespaces<B: Bus>(device: &Shared<B>) -> Result<Vec<Namespace>> {
    let mut found = Vec::new();
    let mut after = 0;
    loop {
        let page = ask(device, Cns::ACTIVE_NAMESPACES, 0, after)?;
        let list = NamespaceList::read_from_bytes(page.as_slice())
            .map_err(|_| short("Identify Active Namespaces"))?;
        for nsid in list.nsids.into_iter().take_while(|nsid| *nsid != 0) {
            // A list that does not ascend would never end.
            if nsid <= after {
                return Ok(found);
            }
            after = nsid;
            found.push(namespace(device, nsid)?);
        }
        if list.nsids.contains(&0) {
            return Ok(found);
        }
    }
}

fn namespace<B: Bus>(device: &Shared<B>, nsid: u32) -> Result<Namespace> {
    let epoch = device.layouts.epoch();
    let csi = if device.command_sets { command_set(device, nsid)? } else { Csi::NVM };
    match csi {
        Csi::NVM => nvm(device, nsid, epoch),
        Csi::KV => {
            device.layouts.note(epoch, nsid, Layout::Keys);
            kv(device, nsid)
        }
        Csi(other) => Ok(Namespace {
            nsid: Nsid::new(nsid)?,
            kind: NamespaceKind::Other(other),
            size_bytes: 0,
            used_bytes: 0,
            nguid: [0; 16],
        }),
    }
}

/// What the commands of a namespace mean.
///
/// # Errors
/// [`ErrorKind::NotFound`] where the device knows no such namespace; when it does not answer.
pub(crate) fn layout<B: Bus>(device: &Shared<B>, nsid: u32) -> Result<Layout> {
    let unknown = || Error::host(ErrorKind::NotFound, format!("the device has no namespace {nsid}"));
    let csi = match device.command_sets {
        true => command_set(device, nsid).map_err(|error| match error.nvme_status() {
            Some(_) => unknown().with_source(error),
            None => error,
        })?,
        false => Csi::NVM,
    };
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
    Layout::Blocks { bytes: lba_bytes(format) + metadata }
}

/// The command set that the namespace's descriptors tell; NVM if they tell none.
fn command_set<B: Bus>(device: &Shared<B>, nsid: u32) -> Result<Csi> {
    let page = ask(device, Cns::NAMESPACE_DESCRIPTORS, 0, nsid)?;
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

fn nvm<B: Bus>(device: &Shared<B>, nsid: u32, epoch: u64) -> Result<Namespace> {
    let identified = identify_nvm(device, nsid)?;
    device.layouts.note(epoch, nsid, layout_of(&identified));
    let lba_bytes = lba_bytes(format_in_use(&identified));
    Ok(Namespace {
        nsid: Nsid::new(nsid)?,
        kind: NamespaceKind::Nvm { lba_bytes, blocks: identified.nsze },
        size_bytes: identified.nsze.saturating_mul(lba_bytes.into()),
        used_bytes: identified.nuse.saturating_mul(lba_bytes.into()),
        nguid: identified.nguid,
    })
}

fn identify_nvm<B: Bus>(device: &Shared<B>, nsid: u32) -> Result<NvmNamespace> {
    let page = ask(device, Cns::NAMESPACE, 0, nsid)?;
    NvmNamespace::read_from_bytes(page.as_slice()).map_err(|_| short("Identify Namespace"))
}

fn format_in_use(namespace: &NvmNamespace) -> LbaFormat {
    let flbas = namespace.flbas;
    // FLBAS bits 6:5 are the high part of the index where there are more than 16 formats.
    let index = usize::from(flbas.index_low()) | usize::from(flbas.index_high()) << 4;
    namespace.lbaf.get(index).copied().unwrap_or_default()
}

/// Size of a block, without its metadata; 512 bytes where the format tells none that can be.
fn lba_bytes(format: LbaFormat) -> u32 {
    match format.lbads() {
        shift @ 9..=31 => 1 << shift,
        _ => 512,
    }
}

fn kv<B: Bus>(device: &Shared<B>, nsid: u32) -> Result<Namespace> {
    let page = ask(device, Cns::SET_NAMESPACE, Csi::KV.0, nsid)?;
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

fn ask<B: Bus>(device: &Shared<B>, cns: Cns, csi: u8, nsid: u32) -> Result<Buffer> {
    let into = device.pool.take(IDENTIFY_BYTES)?;
    let command = AdminCommand::Identify { cns: cns.0, csi, nsid: Nsid::new(nsid).ok(), selector: 0, into };
    let outcome = device.admin(command).map_err(|error| error.doing(format!("identify {cns}")))?;
    outcome.buffer.ok_or_else(|| short("Identify"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
