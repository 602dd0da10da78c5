//! Reservations of a namespace, typed: the same commands for blocks and for keys and values (Base 2.1, sections 7.5 to 7.8).
//!
//! They travel as commands passed through, so every interface that passes commands through carries them. What a device did not
//! announce is refused before that; a [`RawCommand`] that a program made itself is sent as it is.

use byway_spec::Command as Entry;
use byway_spec::base::reservation::{
    AcquireAction, AcquireCdw10, EXTENDED_HEAD_BYTES, HOLDS, NO_CONTROLLER, PersistChange, RegisterAction,
    RegisterCdw10, RegisteredControllerExtended, ReleaseAction, ReleaseCdw10, ReportCdw11, Rescap,
    ReservationOpcode, ReservationStatus, ReservationType,
};
use zerocopy::FromBytes;

use crate::admin::AdminCommand;
use crate::backend::Backend;
use crate::buffer::Buffer;
use crate::capability::not_announced;
use crate::command::{Command, Outcome, RawCommand, RawData};
use crate::error::{Error, ErrorKind, Result};
use crate::identify::{self, Identifies};
use crate::identity::Nsid;
use crate::payload::Payload;

/// What becomes of registrations when the device loses power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Persist {
    /// What was decided before.
    #[default]
    AsBefore,
    /// They end with it.
    End,
    /// They persist.
    Keep,
}

/// A command about who may use a namespace, to be made a command of a device by [`ReservationCommand::for_device`]. `key` is the key that the host is registered by; a key is not 0.
#[derive(Debug)]
#[expect(
    missing_docs,
    reason = "fields are described where their command is; nsid and key are what they are everywhere"
)]
#[non_exhaustive]
pub enum ReservationCommand {
    /// Registers the host by `key`.
    Register { nsid: Nsid, key: u64, persist: Persist },
    /// Ends the registration; of whatever key, if none is given.
    Unregister { nsid: Nsid, key: Option<u64> },
    /// Registers the host by `new` in place of its key, whatever that is if none is given.
    Replace { nsid: Nsid, key: Option<u64>, new: u64, persist: Persist },
    /// Reserves the namespace.
    Acquire { nsid: Nsid, key: u64, kind: ReservationType },
    /// Ends the registrations by `other`, and takes the reservation if it is held by that key; 0 takes it from all registrants
    /// who hold it. `abort` ends commands of theirs that are under way.
    Preempt { nsid: Nsid, key: u64, other: u64, kind: ReservationType, abort: bool },
    /// Ends a reservation of this type.
    Release { nsid: Nsid, key: u64, kind: ReservationType },
    /// Ends every registration and the reservation.
    Clear { nsid: Nsid, key: u64 },
    /// Reads the registrants, for [`ReservationReport::parse`]; as much as `into` holds, in dwords. The device's host has an
    /// identifier of 128 bits.
    Report { nsid: Nsid, into: Buffer },
}

impl ReservationCommand {
    /// The command to submit to a queue of `device`, whose controller and namespace are asked first: not every device refuses a
    /// reservation command that it did not announce.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the controller did not announce reservations (ONCS bit 5), or the namespace not that
    /// [`Persist::Keep`] is possible (RESCAP bit 0); [`ErrorKind::InvalidArgument`] for a buffer that no report goes into;
    /// what the device answers.
    pub fn for_device(self, device: &impl Backend) -> Result<Command> {
        let asks = Asks(device);
        if !identify::controller(&asks)?.oncs.reservations() {
            return Err(not_announced("reservations", "ONCS bit 5"));
        }
        if let Some(nsid) = self.persisting()
            && !Rescap::from_bits(identify::rescap(&asks, nsid.get())?).ptpl()
        {
            return Err(not_announced("reservations that persist through power loss", "RESCAP bit 0"));
        }
        self.encode()
    }

    /// The namespace of a command by which registrations are to persist.
    const fn persisting(&self) -> Option<Nsid> {
        match self {
            Self::Register { nsid, persist: Persist::Keep, .. }
            | Self::Replace { nsid, persist: Persist::Keep, .. } => Some(*nsid),
            _ => None,
        }
    }

    fn encode(self) -> Result<Command> {
        let (nsid, cdw10, data) = match self {
            ReservationCommand::Register { nsid, key, persist } => {
                return register(nsid, RegisterAction::REGISTER, persist, (Some(0), key));
            }
            ReservationCommand::Unregister { nsid, key } => {
                return register(nsid, RegisterAction::UNREGISTER, Persist::AsBefore, (key, 0));
            }
            ReservationCommand::Replace { nsid, key, new, persist } => {
                return register(nsid, RegisterAction::REPLACE, persist, (key, new));
            }
            ReservationCommand::Report { nsid, into } => return report(nsid, into),
            ReservationCommand::Release { nsid, key, kind } => (
                nsid,
                ReleaseCdw10::new().with_rrela(ReleaseAction::RELEASE).with_rtype(kind).into_bits(),
                (key, None),
            ),
            ReservationCommand::Clear { nsid, key } => {
                (nsid, ReleaseCdw10::new().with_rrela(ReleaseAction::CLEAR).into_bits(), (key, None))
            }
            ReservationCommand::Acquire { nsid, key, kind } => {
                (nsid, acquire(AcquireAction::ACQUIRE, kind), (key, Some(0)))
            }
            ReservationCommand::Preempt { nsid, key, other, kind, abort } => {
                let action = if abort { AcquireAction::PREEMPT_AND_ABORT } else { AcquireAction::PREEMPT };
                (nsid, acquire(action, kind), (key, Some(other)))
            }
        };
        match data {
            (key, None) => send(ReservationOpcode::RELEASE, nsid, cdw10, &key.to_le_bytes()),
            (key, Some(other)) => send(ReservationOpcode::ACQUIRE, nsid, cdw10, &pair(key, other)),
        }
    }
}

/// A device, as one that is asked by Identify.
struct Asks<'a, D>(&'a D);

impl<D: Backend> Identifies for Asks<'_, D> {
    fn identify(&self, command: AdminCommand) -> Result<Outcome> {
        self.0.admin(command)
    }

    fn identify_buffer(&self, len: usize) -> Result<Buffer> {
        self.0.buffer(len)
    }

    fn reports_command_sets(&self) -> bool {
        true
    }
}

fn register(
    nsid: Nsid,
    action: RegisterAction,
    persist: Persist,
    keys: (Option<u64>, u64),
) -> Result<Command> {
    let (current, new) = keys;
    let cptpl = match persist {
        Persist::AsBefore => PersistChange::NONE,
        Persist::End => PersistChange::LOSE,
        Persist::Keep => PersistChange::KEEP,
    };
    let cdw10 = RegisterCdw10::new().with_rrega(action).with_iekey(current.is_none()).with_cptpl(cptpl);
    send(ReservationOpcode::REGISTER, nsid, cdw10.into_bits(), &pair(current.unwrap_or(0), new))
}

fn acquire(action: AcquireAction, kind: ReservationType) -> u32 {
    AcquireCdw10::new().with_racqa(action).with_rtype(kind).into_bits()
}

fn pair(first: u64, second: u64) -> [u8; 16] {
    (u128::from(first) | u128::from(second) << 64).to_le_bytes()
}

fn send(opcode: ReservationOpcode, nsid: Nsid, cdw10: u32, data: &[u8]) -> Result<Command> {
    let mut entry = Entry::new(opcode.0, 0, nsid.get());
    entry.cdw10 = cdw10;
    Ok(RawCommand { entry, data: RawData::ToDevice(Payload::copy_of(data)?) }.into())
}

fn report(nsid: Nsid, into: Buffer) -> Result<Command> {
    if into.len() < EXTENDED_HEAD_BYTES || !into.len().is_multiple_of(4) {
        let said =
            format!("a report takes {EXTENDED_HEAD_BYTES} bytes and more, in dwords, not {}", into.len());
        return Err(Error::host(ErrorKind::InvalidArgument, said));
    }
    let mut entry = Entry::new(ReservationOpcode::REPORT.0, 0, nsid.get());
    entry.cdw10 = (into.len() / 4 - 1) as u32;
    entry.cdw11 = ReportCdw11::new().with_eds(true).into_bits();
    Ok(RawCommand { entry, data: RawData::FromDevice(into) }.into())
}

/// A registrant, over one of the controllers that its host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// Host identifier.
    pub host: [u8; 16],
    /// Its key.
    pub key: u64,
    /// Controller (CNTLID), if its host has one now.
    pub controller: Option<u16>,
    /// Whether it holds the reservation.
    pub is_holder: bool,
}

/// Registrants of a namespace, and the reservation holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationReport {
    /// Counts changes of registrations.
    pub generation: u32,
    /// Type of the reservation, if one is held.
    pub kind: Option<ReservationType>,
    /// Registrations persist through a loss of power.
    pub persists: bool,
    /// Registrants there are, listed or not: one for each controller of each host.
    pub total: u16,
    /// Those that the buffer had room for.
    pub registrants: Vec<Registrant>,
}

impl ReservationReport {
    /// Reads the data of a report in its extended form.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] where it is too short for its head.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let short = || Error::host(ErrorKind::Protocol, "a reservation report without its head");
        let (head, _) = ReservationStatus::read_from_prefix(bytes).map_err(|_| short())?;
        let entries = bytes.get(EXTENDED_HEAD_BYTES..).ok_or_else(short)?;
        let total = u16::from_le_bytes(head.regctl);
        let entries =
            entries.chunks_exact(size_of::<RegisteredControllerExtended>()).take(usize::from(total));
        let entries = entries.filter_map(|entry| RegisteredControllerExtended::read_from_bytes(entry).ok());
        let registrants = entries.map(|entry| Registrant {
            host: entry.hostid,
            key: entry.rkey,
            controller: (entry.cntlid != NO_CONTROLLER).then_some(entry.cntlid),
            is_holder: entry.rcsts & HOLDS != 0,
        });
        Ok(Self {
            generation: u32::from_le_bytes(head.gen_count),
            kind: (head.rtype.0 != 0).then_some(head.rtype),
            persists: head.ptpls & 1 != 0,
            total,
            registrants: registrants.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::encode::{Data, encode};

    fn sent(command: ReservationCommand) -> (u8, u32, Vec<u8>) {
        let command = command.encode().unwrap();
        let encoded = encode(&command);
        let Data::Out(payload) = encoded.data else { panic!("no data is sent") };
        (encoded.entry.opcode(), encoded.entry.cdw10, payload.contiguous().unwrap().to_vec())
    }

    #[test]
    fn commands_are_those_of_the_specification() {
        let (nsid, kind) = (Nsid::FIRST, ReservationType::EXCLUSIVE_ACCESS);
        let register = ReservationCommand::Register { nsid, key: 7, persist: Persist::Keep };
        assert_eq!(sent(register), (0x0d, 0xc000_0000, pair(0, 7).to_vec()));
        let replace = ReservationCommand::Replace { nsid, key: None, new: 8, persist: Persist::AsBefore };
        assert_eq!(sent(replace), (0x0d, 0b1010, pair(0, 8).to_vec()));
        let preempt = ReservationCommand::Preempt { nsid, key: 8, other: 9, kind, abort: true };
        assert_eq!(sent(preempt), (0x11, 0x0202, pair(8, 9).to_vec()));
        let release = ReservationCommand::Release { nsid, key: 8, kind };
        assert_eq!(sent(release), (0x15, 0x0200, 8_u64.to_le_bytes().to_vec()));
        let clear = ReservationCommand::Clear { nsid, key: 8 };
        assert_eq!(sent(clear), (0x15, 1, 8_u64.to_le_bytes().to_vec()));
    }

    #[test]
    fn a_report_is_asked_for_by_dwords_and_read_as_far_as_it_goes() {
        let into = Buffer::zeroed(4096).unwrap();
        let command = ReservationCommand::Report { nsid: Nsid::FIRST, into }.encode().unwrap();
        let entry = encode(&command).entry;
        assert_eq!((entry.opcode(), entry.cdw10, entry.cdw11), (0x0e, 1023, 1));
        let mut bytes = [0; 64 + 64 + 10];
        (bytes[0], bytes[4], bytes[5], bytes[9]) = (3, 2, 2, 1);
        bytes[64..67].copy_from_slice(&[0xff, 0xff, 1]);
        (bytes[72], bytes[80]) = (5, 6);
        let report = ReservationReport::parse(&bytes).unwrap();
        assert_eq!(
            (report.generation, report.kind, report.persists, report.total),
            (3, Some(ReservationType(2)), true, 2)
        );
        let [only] = report.registrants[..] else { panic!("{report:?}") };
        assert_eq!((only.key, only.host[0], only.controller, only.is_holder), (5, 6, None, true));
        assert!(ReservationReport::parse(&bytes[..40]).is_err());
        let into = Buffer::zeroed(32).unwrap();
        assert!(ReservationCommand::Report { nsid: Nsid::FIRST, into }.encode().is_err());
    }
}
