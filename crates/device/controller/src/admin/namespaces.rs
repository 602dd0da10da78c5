//! Namespace Management and Namespace Attachment (Base 2.1, sections 5.1.20 and 5.1.21).

use byway_flash::NamespaceKind;
use byway_spec::base::admin::{NamespaceCdw11, SelectCdw10};
use byway_spec::base::command::NSID_ALL;
use byway_spec::base::identify::{ControllerList, Csi, IDENTIFY_BYTES};
use byway_spec::kv::KvNamespace as KvData;
use byway_spec::memory::MemoryNamespace as MemoryData;
use byway_spec::nvm::NvmNamespace as NvmData;
use byway_spec::{Command, Status};
use zerocopy::FromBytes;

use super::context::Context;
use super::format::lba_format;
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::namespace::VolatileKind;
use crate::outcome::Outcome;
use crate::reservation::Access;
use crate::subsystem::Subsystem;

/// A namespace as the host asks for it.
enum Wanted {
    /// In the image.
    Kept { kind: NamespaceKind, size_bytes: u64 },
    /// Beside it.
    Volatile(VolatileKind),
}

impl Wanted {
    fn parse(csi: Csi, data: &[u8; IDENTIFY_BYTES]) -> Result<Self, CommandError> {
        match csi {
            Csi::NVM => Self::nvm(&NvmData::read_from_bytes(data).map_err(|_| NOT_A_NAMESPACE)?),
            Csi::KV => Self::kv(&KvData::read_from_bytes(data).map_err(|_| NOT_A_NAMESPACE)?),
            Csi::SLM => {
                let data = MemoryData::read_from_bytes(data).map_err(|_| NOT_A_NAMESPACE)?;
                Ok(Self::Volatile(VolatileKind::Memory { size_bytes: data.nsze_bytes }))
            }
            Csi::CP => Ok(Self::Volatile(VolatileKind::Programs)),
            _ => Err(CommandError::new(Status::COMMAND_SET_NOT_SUPPORTED, "no such command set").at_byte(47)),
        }
    }

    fn nvm(data: &NvmData) -> Result<Self, CommandError> {
        let lba_bytes = lba_format(data.flbas.index_low() | data.flbas.index_high() << 4)?;
        if data.flbas.extended() || data.dps != 0 {
            return Err(CommandError::new(
                Status::INVALID_FORMAT,
                "blocks carry no metadata and no protection",
            ));
        }
        if data.ncap != data.nsze {
            let cause = "capacity and size of a namespace are equal";
            return Err(CommandError::new(Status::THIN_PROVISIONING_NOT_SUPPORTED, cause));
        }
        let size_bytes = data.nsze.checked_mul(u64::from(lba_bytes)).filter(|bytes| *bytes > 0);
        Ok(Self::Kept { kind: NamespaceKind::Nvm { lba_bytes }, size_bytes: size_bytes.ok_or(NO_ROOM)? })
    }

    fn kv(data: &KvData) -> Result<Self, CommandError> {
        if data.kvfc & 0xf != 0 {
            return Err(CommandError::new(Status::INVALID_FORMAT, "there is one key-value format"));
        }
        if data.nsze_bytes == 0 {
            return Err(CommandError::invalid_field("a namespace has a size"));
        }
        Ok(Self::Kept { kind: NamespaceKind::Kv, size_bytes: data.nsze_bytes })
    }
}

pub(super) fn manage_namespace(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    match SelectCdw10::from_bits(command.cdw10).sel() {
        SelectCdw10::CREATE => create_namespace(cx, command),
        SelectCdw10::DELETE => delete_namespaces(cx, command.nsid),
        _ => Err(CommandError::invalid_field("neither create nor delete").at_byte(40)),
    }
}

fn create_namespace(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    if command.nsid != 0 {
        return Err(CommandError::invalid_field("the controller chooses the identifier").at_byte(4));
    }
    let csi = Csi(NamespaceCdw11::from_bits(command.cdw11).csi());
    let mut data = [0; IDENTIFY_BYTES];
    cx.receive(command, &mut data)?;
    let nsid = match Wanted::parse(csi, &data)? {
        Wanted::Kept { kind, size_bytes } => cx.subsystem.create_namespace(kind, size_bytes)?,
        Wanted::Volatile(kind) => cx.subsystem.create_volatile(kind)?,
    };
    Ok(Outcome::with(nsid))
}

fn delete_namespaces(cx: &mut Context<'_, '_>, nsid: u32) -> Result<Outcome, CommandError> {
    let nsids: Vec<u32> = match nsid {
        NSID_ALL => cx.subsystem.namespaces().map(|(nsid, _)| nsid).collect(),
        _ if cx.subsystem.namespace(nsid).is_some() => vec![nsid],
        _ => return Err(NO_NAMESPACE),
    };
    // All or none: one that is reserved by another host keeps all.
    nsids.iter().try_for_each(|nsid| cx.subsystem.check_access(*nsid, cx.id, Access::Write))?;
    for nsid in nsids {
        cx.subsystem.delete_namespace(nsid)?;
    }
    Ok(Outcome::OK)
}

pub(super) fn attach_namespace(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    let attach = match SelectCdw10::from_bits(command.cdw10).sel() {
        SelectCdw10::ATTACH => true,
        SelectCdw10::DETACH => false,
        _ => return Err(CommandError::invalid_field("neither attach nor detach").at_byte(40)),
    };
    if cx.subsystem.namespace(command.nsid).is_none() {
        return Err(NO_NAMESPACE);
    }
    cx.subsystem.check_access(command.nsid, cx.id, Access::Write)?;
    let mut data = [0; size_of::<ControllerList>()];
    cx.receive(command, &mut data)?;
    let list = ControllerList::read_from_bytes(&data).map_err(|_| BAD_LIST)?;
    let controllers = listed(cx.subsystem, &list)?;
    check_attachment(cx.subsystem, command.nsid, &controllers, attach)?;
    for id in &controllers {
        if attach {
            cx.subsystem.attach(command.nsid, *id)?;
        } else {
            cx.subsystem.detach(command.nsid, *id)?;
        }
    }
    Ok(Outcome::OK)
}

/// The controllers of a list: rising, and each of them in the subsystem.
fn listed(subsystem: &Subsystem, list: &ControllerList) -> Result<Vec<ControllerId>, CommandError> {
    let ids = list.cntlids.get(..usize::from(list.count)).filter(|ids| !ids.is_empty()).ok_or(BAD_LIST)?;
    let exists = |id: &u16| subsystem.has_controller(ControllerId(*id));
    if !ids.is_sorted_by(|a, b| a < b) || !ids.iter().all(exists) {
        return Err(BAD_LIST);
    }
    Ok(ids.iter().map(|id| ControllerId(*id)).collect())
}

/// All or none: one controller that cannot be attached (or detached) refuses the command.
fn check_attachment(
    subsystem: &Subsystem,
    nsid: u32,
    controllers: &[ControllerId],
    attach: bool,
) -> Result<(), CommandError> {
    let wrong = controllers.iter().any(|id| subsystem.is_attached(nsid, *id) == attach);
    match (wrong, attach) {
        (false, _) => Ok(()),
        (true, true) => {
            Err(CommandError::new(Status::NAMESPACE_ALREADY_ATTACHED, "attached to a controller already"))
        }
        (true, false) => {
            Err(CommandError::new(Status::NAMESPACE_NOT_ATTACHED, "not attached to a controller"))
        }
    }
}

const NOT_A_NAMESPACE: CommandError = CommandError::invalid_field("not a namespace structure");
const NO_ROOM: CommandError =
    CommandError::new(Status::NAMESPACE_INSUFFICIENT_CAPACITY, "no namespace has so many blocks");
const NO_NAMESPACE: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "no such namespace").at_byte(4);
const BAD_LIST: CommandError = CommandError::new(
    Status::CONTROLLER_LIST_INVALID,
    "the controller list is empty, not rising, or names no controller",
);
