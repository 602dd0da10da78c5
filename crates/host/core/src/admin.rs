//! Admin commands: those that a program asks for by name, and any other passed through.

use byway_spec::Command as Entry;
use byway_spec::base::admin::{AdminOpcode, FormatCdw10};
use byway_spec::base::command::NSID_ALL;
use byway_spec::base::feature::{FeatureCdw10, FeatureId, FeatureSelect};
use byway_spec::base::identify::{Cns, Csi, IdentifyCdw10, IdentifyCdw11};
use byway_spec::base::log::{LogCdw10, LogCdw11, LogCdw14, LogPage};

use crate::buffer::{Buffer, PAGE_BYTES};
use crate::command::{RawCommand, RawData};
use crate::encode::{Data, Encoded};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Nsid;
use crate::moves::{admin_bytes, check_length};
use crate::payload::Payload;

/// One admin command.
#[derive(Debug)]
#[non_exhaustive]
pub enum AdminCommand {
    /// Identify: the structure `cns` of command set `csi`, 4096 bytes into `into`.
    Identify {
        /// Which structure (CNS).
        cns: u8,
        /// Command set that it is asked for (CSI).
        csi: u8,
        /// Namespace, where the structure is of one.
        nsid: Option<Nsid>,
        /// CNS-specific selector (CDW11, low 16 bits), 0 for most.
        selector: u16,
        /// Where it goes; at least 4096 bytes.
        into: Buffer,
    },
    /// Reads a feature; its value is the answer's dword 0.
    GetFeature {
        /// Feature identifier.
        feature: u8,
        /// Which value: 0 current, 1 default, 2 saved, 3 capabilities.
        select: u8,
        /// Namespace, where the feature is of one.
        nsid: Option<Nsid>,
        /// The feature's own selector (CDW11).
        cdw11: u32,
        /// Data of the feature, where it has some.
        into: Option<Buffer>,
    },
    /// Sets a feature.
    SetFeature {
        /// Feature identifier.
        feature: u8,
        /// Keep it over power cycles.
        save: bool,
        /// Namespace, where the feature is of one.
        nsid: Option<Nsid>,
        /// Value (CDW11).
        cdw11: u32,
        /// Second part of the value (CDW12).
        cdw12: u32,
        /// Data of the feature, where it has some.
        data: Payload,
    },
    /// Reads a log page from a byte offset on, as much as `into` holds (in dwords).
    GetLog {
        /// Log identifier.
        log: u8,
        /// Command set that it is asked for (CSI).
        csi: u8,
        /// Namespace, where the log is of one; none for the whole controller.
        nsid: Option<Nsid>,
        /// Do not clear the event that announced the log.
        retain_event: bool,
        /// First byte, a multiple of 4.
        offset_bytes: u64,
        /// Buffer for the data.
        into: Buffer,
    },
    /// Formats a namespace: all it holds is gone.
    Format {
        /// Namespace.
        nsid: Nsid,
        /// Index of the format.
        format: u8,
        /// Erase user data: no byte of it is left.
        erase: bool,
    },
    /// Any admin command, passed through.
    Raw(RawCommand),
}

impl AdminCommand {
    /// An admin command passed through.
    #[must_use]
    pub fn raw(entry: Entry, data: RawData) -> Self {
        Self::Raw(RawCommand { entry, data })
    }

    /// Number of buffers of its data; 1 for a command without data.
    #[must_use]
    pub fn pieces(&self) -> usize {
        match encode_admin(self).data {
            Data::Out(Payload::Vectored(parts)) => parts.len(),
            Data::InVectored(parts) => parts.len(),
            Data::None | Data::Out(_) | Data::In(_) | Data::Both { .. } => 1,
        }
    }

    /// What the command sends or receives into.
    #[must_use]
    pub fn into_payload(self) -> Payload {
        match self {
            Self::Identify { into, .. } | Self::GetLog { into, .. } => Payload::Buffer(into),
            Self::GetFeature { into, .. } => into.map_or(Payload::Empty, Payload::Buffer),
            Self::SetFeature { data, .. } => data,
            Self::Format { .. } => Payload::Empty,
            Self::Raw(command) => command.data.into_payload(),
        }
    }

    /// The buffer that the command holds.
    #[must_use]
    pub fn into_buffer(self) -> Option<Buffer> {
        self.into_payload().into_buffer()
    }
}

/// An admin command that was not taken, given back.
#[derive(Debug)]
pub struct RefusedAdmin {
    /// The command as it was.
    pub command: AdminCommand,
    /// Why. [`crate::ErrorKind::QueueFull`]: take what has finished, then submit it again.
    pub error: Error,
}

impl From<RefusedAdmin> for Error {
    fn from(refused: RefusedAdmin) -> Self {
        refused.error
    }
}

/// Encodes an admin command: every field but the command identifier and the data pointer.
#[must_use]
pub fn encode_admin(command: &AdminCommand) -> Encoded<'_> {
    match command {
        AdminCommand::Identify { cns, csi, nsid, selector, into } => {
            let mut entry = entry_of(AdminOpcode::IDENTIFY, *nsid);
            entry.cdw10 = IdentifyCdw10::new().with_cns(Cns(*cns)).into_bits();
            entry.cdw11 = IdentifyCdw11::new().with_csi(Csi(*csi)).with_specific(*selector).into_bits();
            Encoded { entry, data: Data::In(into) }
        }
        AdminCommand::GetFeature { feature, select, nsid, cdw11, into } => {
            let mut entry = entry_of(AdminOpcode::GET_FEATURES, *nsid);
            let cdw10 = FeatureCdw10::new().with_fid(FeatureId(*feature));
            entry.cdw10 = cdw10.with_sel(FeatureSelect(select & 7)).into_bits();
            entry.cdw11 = *cdw11;
            Encoded { entry, data: into.as_ref().map_or(Data::None, Data::In) }
        }
        AdminCommand::SetFeature { feature, save, nsid, cdw11, cdw12, data } => {
            let mut entry = entry_of(AdminOpcode::SET_FEATURES, *nsid);
            entry.cdw10 = FeatureCdw10::new().with_fid(FeatureId(*feature)).with_sv(*save).into_bits();
            (entry.cdw11, entry.cdw12) = (*cdw11, *cdw12);
            Encoded { entry, data: Data::Out(data) }
        }
        AdminCommand::GetLog { log, csi, nsid, retain_event, offset_bytes, into } => {
            let dwords_z = (into.len() / 4).saturating_sub(1) as u32;
            // NSID FFFFFFFFh means the controller since NVMe 1.0; NSID 0 does so only later, and not for every device.
            let nsid = nsid.map_or(NSID_ALL, Nsid::get);
            let mut entry = Entry::new(AdminOpcode::GET_LOG_PAGE.0, 0, nsid);
            let cdw10 = LogCdw10::new().with_lid(LogPage(*log)).with_rae(*retain_event);
            entry.cdw10 = cdw10.with_numdl_z(dwords_z as u16).into_bits();
            entry.cdw11 = LogCdw11::new().with_numdu((dwords_z >> 16) as u16).into_bits();
            (entry.cdw12, entry.cdw13) = (*offset_bytes as u32, (*offset_bytes >> 32) as u32);
            entry.cdw14 = LogCdw14::new().with_csi(*csi).into_bits();
            Encoded { entry, data: Data::In(into) }
        }
        AdminCommand::Format { nsid, format, erase } => {
            let mut entry = entry_of(AdminOpcode::FORMAT_NVM, Some(*nsid));
            let cdw10 = FormatCdw10::new().with_lbafl(format & 0xf).with_lbafu(format >> 4 & 3);
            entry.cdw10 = cdw10.with_ses(u8::from(*erase)).into_bits();
            Encoded { entry, data: Data::None }
        }
        AdminCommand::Raw(RawCommand { entry, data }) => Encoded { entry: *entry, data: Data::of_raw(data) },
    }
}

/// Refuses a command that gives a device addresses that its driver does not know, or less memory than it moves.
///
/// # Errors
/// [`ErrorKind::Unsupported`], [`ErrorKind::InvalidArgument`].
pub fn check_admin(command: &AdminCommand) -> Result<()> {
    let Encoded { entry, data } = encode_admin(command);
    let opcode = AdminOpcode(entry.opcode());
    let names_memory = [
        AdminOpcode::CREATE_CQ,
        AdminOpcode::CREATE_SQ,
        AdminOpcode::DELETE_CQ,
        AdminOpcode::DELETE_SQ,
        AdminOpcode::DOORBELL_BUFFER_CONFIG,
    ];
    let is_set = opcode == AdminOpcode::SET_FEATURES;
    let feature = FeatureCdw10::from_bits(entry.cdw10).fid();
    if names_memory.contains(&opcode) || (is_set && feature == FeatureId::HOST_MEMORY_BUFFER) {
        let said = format!("{opcode} is the driver's own: it names memory that the device keeps using");
        return Err(Error::host(ErrorKind::Unsupported, said));
    }
    // What fits a page is followed by no second one, and features have no more.
    let is_typed_page = !matches!(command, AdminCommand::Raw(_)) && data.len() <= PAGE_BYTES;
    let moved = admin_bytes(&entry).filter(|_| !is_typed_page);
    check_length(data.len() as u64, moved)
}

fn entry_of(opcode: AdminOpcode, nsid: Option<Nsid>) -> Entry {
    Entry::new(opcode.0, 0, nsid.map_or(0, Nsid::get))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_log_is_asked_for_by_dwords_counted_from_zero() {
        let into = Buffer::zeroed(1 << 20).unwrap();
        let offset_bytes = 5 << 32 | 8;
        let command =
            AdminCommand::GetLog { log: 0xc0, csi: 1, nsid: None, retain_event: true, offset_bytes, into };
        let entry = encode_admin(&command).entry;
        assert_eq!((entry.opcode(), entry.nsid), (2, 0xffff_ffff), "a log of the whole controller");
        assert_eq!((entry.cdw10, entry.cdw11), (0xffff_80c0, 3));
        assert_eq!((entry.cdw12, entry.cdw13, entry.cdw14), (8, 5, 1 << 24));
        assert_eq!(command.into_buffer().unwrap().len(), 1 << 20);
    }

    #[test]
    fn a_feature_is_set_with_its_value_and_its_data() {
        let command = AdminCommand::SetFeature {
            feature: 0x20,
            save: true,
            nsid: Some(Nsid::FIRST),
            cdw11: 1,
            cdw12: 2,
            data: Payload::Empty,
        };
        let Encoded { entry, data } = encode_admin(&command);
        assert_eq!((entry.cdw10, entry.cdw11, entry.cdw12, entry.nsid), (0x8000_0020, 1, 2, 1));
        assert!(matches!(data, Data::Out(payload) if payload.is_empty()));
    }
}
