//! Namespaces of local memory and of programs: created, attached, opened and deleted.

use byway_core::{AdminCommand, Backend, Error, ErrorKind, Nsid, Payload, RawData, Result};
use byway_spec::Command as Entry;
use byway_spec::base::admin::{AdminOpcode, NamespaceCdw11, SelectCdw10};
use byway_spec::base::identify::{ControllerList, Csi, IDENTIFY_BYTES};
use zerocopy::{FromZeros, IntoBytes};

use crate::compute::{LocalMemory, Programs};
use crate::device::Device;

impl Device {
    /// Makes a namespace of local memory, all zeroes, and attaches it to this controller. `size_bytes` is a multiple of 4.
    ///
    /// # Errors
    /// A device without local memory or namespace management, or with less of it left; a size that no memory has.
    pub fn create_memory(&self, size_bytes: u64) -> Result<Nsid> {
        create(self, Csi::SLM, size_bytes).map_err(|error| error.doing("create a namespace of local memory"))
    }

    /// Makes a namespace of programs, and attaches it to this controller.
    ///
    /// # Errors
    /// A device that runs no programs, or has no namespace management.
    pub fn create_programs(&self) -> Result<Nsid> {
        create(self, Csi::CP, 0).map_err(|error| error.doing("create a namespace of programs"))
    }

    /// Deletes a namespace of any kind with everything in it: for every host at once.
    ///
    /// # Errors
    /// When there is no such namespace, and what the device says.
    pub fn delete_namespace(&self, nsid: Nsid) -> Result<()> {
        let entry = managing(AdminOpcode::NAMESPACE_MANAGEMENT, SelectCdw10::DELETE, nsid.get());
        self.admin(AdminCommand::raw(entry, RawData::None)).map(drop)
    }

    /// Synchronous calls to a namespace of local memory.
    ///
    /// # Errors
    /// When there is no such namespace, it is of another kind, or the device has no queue left.
    pub fn memory(&self, nsid: Nsid) -> Result<LocalMemory> {
        LocalMemory::open(self, nsid)
    }

    /// Synchronous calls to a namespace of programs.
    ///
    /// # Errors
    /// As [`Device::memory`].
    pub fn programs(&self, nsid: Nsid) -> Result<Programs> {
        Programs::open(self, nsid)
    }
}

/// Refuses a namespace that is not of a command set.
pub(super) fn check_set(device: &Device, nsid: Nsid, set: Csi, what: &str) -> Result<()> {
    let kind = device.namespace(nsid)?.kind;
    if kind == byway_core::NamespaceKind::Other(set.0) {
        return Ok(());
    }
    let said = format!("namespace {nsid} is no namespace of {what}, it is {}", kind.name());
    Err(Error::host(ErrorKind::InvalidArgument, said))
}

fn create(device: &Device, set: Csi, size_bytes: u64) -> Result<Nsid> {
    let mut entry = managing(AdminOpcode::NAMESPACE_MANAGEMENT, SelectCdw10::CREATE, 0);
    entry.cdw11 = NamespaceCdw11::new().with_csi(set.0).into_bits();
    // The size leads the structure of each set.
    let mut data = vec![0; IDENTIFY_BYTES];
    data[..8].copy_from_slice(&size_bytes.to_le_bytes());
    let nsid = Nsid::new(send(device, entry, &data)?)?;
    attach(device, nsid).inspect_err(|_| {
        // The error of attaching is reported, not one of deleting.
        let _ = device.delete_namespace(nsid);
    })?;
    Ok(nsid)
}

fn attach(device: &Device, nsid: Nsid) -> Result<()> {
    let mut list = ControllerList::new_zeroed();
    (list.count, list.cntlids[0]) = (1, device.identity().controller);
    let entry = managing(AdminOpcode::NAMESPACE_ATTACHMENT, SelectCdw10::ATTACH, nsid.get());
    send(device, entry, list.as_bytes()).map(drop)
}

fn managing(opcode: AdminOpcode, select: u8, nsid: u32) -> Entry {
    let mut entry = Entry::new(opcode.0, 0, nsid);
    entry.cdw10 = SelectCdw10::new().with_sel(select).into_bits();
    entry
}

/// Sends an admin command with data; dword 0 of its completion.
fn send(device: &Device, entry: Entry, data: &[u8]) -> Result<u32> {
    let data = RawData::ToDevice(Payload::copy_of(data)?);
    Ok(device.admin(AdminCommand::raw(entry, data))?.dw0())
}
