//! Features of reservations, and the page of their notices (Base 2.1, sections 5.1.25.2.28 to 30 and 5.1.12.1.29).

use byway_spec::Command;
use byway_spec::base::command::NSID_ALL;
use byway_spec::base::reservation::{HostIdentifierCdw11, NotificationMask, Persistence};
use zerocopy::IntoBytes;

use super::context::Context;
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::outcome::Outcome;
use crate::reservation::{Host, OTHER_SIZE};
use crate::subsystem::Subsystem;

/// Notices that can be masked.
const MASKS: NotificationMask = NotificationMask::new().with_regpre(true).with_resrel(true).with_respre(true);

/// Reads feature 81h.
pub(super) fn get_host_identifier(
    cx: &mut Context<'_, '_>,
    command: &Command,
) -> Result<Outcome, CommandError> {
    let host = cx.subsystem.host(cx.id);
    let asked_bytes = identifier_bytes(command);
    let (identifier, extended) = host.identifier();
    if host.is_named() && extended != (asked_bytes == 16) {
        return Err(OTHER_SIZE.at_byte(44));
    }
    cx.send(command, &identifier[..asked_bytes])
}

/// Sets feature 81h. An identifier of zeroes is none.
pub(super) fn set_host_identifier(cx: &mut Context<'_, '_>, command: &Command) -> Result<(), CommandError> {
    let mut identifier = [0; 16];
    let identifier = &mut identifier[..identifier_bytes(command)];
    cx.receive(command, identifier)?;
    let host = Host::named(identifier).unwrap_or(Host::Unnamed(cx.id));
    cx.subsystem.set_host(cx.id, host).map_err(|error| error.at_byte(44))
}

/// Sets feature 82h.
pub(super) fn set_notice_mask(cx: &mut Context<'_, '_>, command: &Command) -> Result<(), CommandError> {
    let mask = NotificationMask::from_bits(command.cdw11 & MASKS.into_bits());
    if command.nsid != NSID_ALL {
        cx.subsystem.attached(command.nsid, cx.id)?;
    }
    cx.subsystem.set_notice_mask(cx.id, (command.nsid != NSID_ALL).then_some(command.nsid), mask);
    Ok(())
}

/// Sets feature 83h, of one namespace or of all that are attached.
pub(super) fn set_persistence(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    let persists = Persistence::from_bits(command.cdw11).ptpl();
    let nsids = if command.nsid == NSID_ALL {
        let nsids = cx.subsystem.namespaces().map(|(nsid, _)| nsid);
        nsids.filter(|nsid| cx.subsystem.is_attached(*nsid, cx.id)).collect()
    } else {
        cx.subsystem.attached(command.nsid, cx.id)?;
        vec![command.nsid]
    };
    nsids.into_iter().try_for_each(|nsid| cx.subsystem.set_persists(nsid, persists))?;
    Ok(if cx.subsystem.syncs_completions() { Outcome::OnceSynced } else { Outcome::OK })
}

/// The page of log 80h.
pub(super) fn page(id: ControllerId, subsystem: &Subsystem) -> Vec<u8> {
    subsystem.notices.page(id).as_bytes().to_vec()
}

/// Bytes of the identifier that a command asks for or brings.
pub(super) fn identifier_bytes(command: &Command) -> usize {
    if HostIdentifierCdw11::from_bits(command.cdw11).exhid() { 16 } else { 8 }
}
