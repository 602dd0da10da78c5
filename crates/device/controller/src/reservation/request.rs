//! Reservation commands, parsed: what follows here never sees a command dword (Base 2.1, sections 7.5 to 7.8).

use byway_spec::base::reservation::{
    AcquireAction, AcquireCdw10, AcquireData, PersistChange, RegisterAction, RegisterCdw10, RegisterData,
    ReleaseAction, ReleaseCdw10, ReleaseData, ReservationOpcode, ReservationType,
};
use byway_spec::{Command, Status};
use zerocopy::FromBytes;

use super::kind::Kind;
use crate::error::CommandError;

/// Byte of a command where CDW10 begins.
const CDW10_BYTE: u16 = 40;

/// Bytes of data that a request brings at most.
pub(crate) const DATA_MAX_BYTES: usize = 16;

/// A change that a host asks for. `key` is the host's current key; none where the key is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// Become a registrant.
    Register { new: u64, persist: Option<bool> },
    /// End the registration.
    Unregister { key: Option<u64>, persist: Option<bool> },
    /// Replace the key.
    Replace { key: Option<u64>, new: u64, persist: Option<bool> },
    /// Reserve the namespace.
    Acquire { key: u64, kind: Kind },
    /// Take the reservation from the hosts registered by the key `other`.
    Preempt { key: u64, other: u64, kind: Kind },
    /// End the reservation.
    Release { key: u64, kind: Kind },
    /// End the reservation and every registration.
    Clear { key: u64 },
}

impl Request {
    /// Bytes of data that a command brings.
    pub fn data_bytes(command: &Command) -> usize {
        match ReservationOpcode(command.opcode()) {
            ReservationOpcode::RELEASE => size_of::<ReleaseData>(),
            _ => DATA_MAX_BYTES,
        }
    }

    /// Reads a command and its data.
    pub fn parse(command: &Command, data: &[u8]) -> Result<Self, CommandError> {
        match ReservationOpcode(command.opcode()) {
            ReservationOpcode::REGISTER => register(command, data),
            ReservationOpcode::ACQUIRE => acquire(command, data),
            ReservationOpcode::RELEASE => release(command, data),
            _ => Err(CommandError::new(Status::INVALID_OPCODE, "not a reservation command")),
        }
    }
}

fn register(command: &Command, data: &[u8]) -> Result<Request, CommandError> {
    let cdw10 = RegisterCdw10::from_bits(command.cdw10);
    let persist = match cdw10.cptpl() {
        PersistChange::NONE => None,
        PersistChange::LOSE => Some(false),
        PersistChange::KEEP => Some(true),
        _ => {
            return Err(
                CommandError::invalid_field("a reserved change of persistence").at_byte(CDW10_BYTE + 3)
            );
        }
    };
    let RegisterData { crkey, nrkey: new } = read(data)?;
    let key = (!cdw10.iekey()).then_some(crkey);
    // In Preempt, a key of 0 means all registrants.
    let new_or_refused = if new == 0 { Err(NO_KEY) } else { Ok(new) };
    match cdw10.rrega() {
        RegisterAction::REGISTER => Ok(Request::Register { new: new_or_refused?, persist }),
        RegisterAction::UNREGISTER => Ok(Request::Unregister { key, persist }),
        RegisterAction::REPLACE => Ok(Request::Replace { key, new: new_or_refused?, persist }),
        _ => Err(NO_ACTION),
    }
}

fn acquire(command: &Command, data: &[u8]) -> Result<Request, CommandError> {
    let cdw10 = AcquireCdw10::from_bits(command.cdw10);
    check_key_is_asked_for(cdw10.iekey())?;
    let kind = kind_of(cdw10.rtype())?;
    let AcquireData { crkey: key, prkey: other } = read(data)?;
    match cdw10.racqa() {
        AcquireAction::ACQUIRE => Ok(Request::Acquire { key, kind }),
        // Commands run to their end one by one: none is under way that could be aborted.
        AcquireAction::PREEMPT | AcquireAction::PREEMPT_AND_ABORT => {
            Ok(Request::Preempt { key, other, kind })
        }
        _ => Err(NO_ACTION),
    }
}

fn release(command: &Command, data: &[u8]) -> Result<Request, CommandError> {
    let cdw10 = ReleaseCdw10::from_bits(command.cdw10);
    check_key_is_asked_for(cdw10.iekey())?;
    let ReleaseData { crkey: key } = read(data)?;
    match cdw10.rrela() {
        ReleaseAction::RELEASE => Ok(Request::Release { key, kind: kind_of(cdw10.rtype())? }),
        ReleaseAction::CLEAR => Ok(Request::Clear { key }),
        _ => Err(NO_ACTION),
    }
}

fn read<T: FromBytes>(data: &[u8]) -> Result<T, CommandError> {
    T::read_from_prefix(data).map(|(read, _)| read).map_err(|_| CommandError::data_length("too little data"))
}

fn kind_of(rtype: ReservationType) -> Result<Kind, CommandError> {
    Kind::of(rtype).ok_or(CommandError::invalid_field("no such type of reservation").at_byte(CDW10_BYTE + 1))
}

fn check_key_is_asked_for(ignores: bool) -> Result<(), CommandError> {
    let refused = CommandError::invalid_field("only a registration may ignore the existing key");
    if ignores { Err(refused.at_byte(CDW10_BYTE)) } else { Ok(()) }
}

const NO_ACTION: CommandError = CommandError::invalid_field("no such action").at_byte(CDW10_BYTE);
const NO_KEY: CommandError = CommandError::invalid_field("a reservation key is not 0");
