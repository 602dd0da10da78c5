//! The Sanitize command, its log page, and what may be asked for meanwhile (Base 2.1, section 5.1.22).

use byway_flash::SanitizeState;
use byway_spec::base::admin::{AdminOpcode, SanitizeCdw10};
use byway_spec::base::log::{LogPage, SanitizeLog};
use byway_spec::{Command, Status};
use zerocopy::{FromZeros, IntoBytes};

use super::context::Context;
use crate::error::CommandError;
use crate::outcome::Outcome;
use crate::reservation::Access;
use crate::subsystem::{IN_PROGRESS, Subsystem};

/// Sanitize capabilities: block erase and overwrite. Nothing is encrypted, so there is no key to throw away.
pub(super) const SANICAP: u32 = 1 << 1 | 1 << 2;

/// No estimate.
const UNKNOWN_TIME: u32 = u32::MAX;

pub(super) fn sanitize(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    cx.subsystem.check_access_to_all(cx.id, Access::Write)?;
    let cdw10 = SanitizeCdw10::from_bits(command.cdw10);
    match cdw10.sanact() {
        // No operation fails for good: there is no failure mode to leave.
        SanitizeCdw10::EXIT_FAILURE => Ok(Outcome::OK),
        SanitizeCdw10::BLOCK_ERASE | SanitizeCdw10::OVERWRITE if cx.subsystem.flash().is_read_only() => {
            Err(CommandError::new(Status::ACCESS_DENIED, "the image is open read-only"))
        }
        SanitizeCdw10::BLOCK_ERASE | SanitizeCdw10::OVERWRITE => {
            cx.subsystem.begin_sanitize(cdw10, command.cdw11)?;
            Ok(Outcome::OK)
        }
        _ => Err(CommandError::invalid_field("that sanitize action is not supported").at_byte(40)),
    }
}

/// Refuses what has to wait for the end of a sanitize operation.
pub(super) fn refuse(command: &Command) -> Result<(), CommandError> {
    let allowed = match AdminOpcode(command.opcode()) {
        AdminOpcode::DELETE_SQ
        | AdminOpcode::CREATE_SQ
        | AdminOpcode::DELETE_CQ
        | AdminOpcode::CREATE_CQ
        | AdminOpcode::IDENTIFY
        | AdminOpcode::ABORT
        | AdminOpcode::GET_FEATURES
        | AdminOpcode::SET_FEATURES
        | AdminOpcode::ASYNC_EVENT_REQUEST
        | AdminOpcode::KEEP_ALIVE
        | AdminOpcode::DOORBELL_BUFFER_CONFIG => true,
        AdminOpcode::GET_LOG_PAGE => matches!(
            LogPage(command.cdw10 as u8),
            LogPage::ERROR
                | LogPage::SMART
                | LogPage::CHANGED_NAMESPACES
                | LogPage::RESERVATION
                | LogPage::SANITIZE
        ),
        _ => false,
    };
    if allowed { Ok(()) } else { Err(IN_PROGRESS) }
}

/// The page of log 81h.
pub(super) fn page(subsystem: &Subsystem) -> Vec<u8> {
    let sanitize = subsystem.flash().sanitize();
    let status: u16 = match sanitize.state {
        SanitizeState::Never => 0,
        SanitizeState::Done => 1,
        SanitizeState::Running => 2,
    };
    let erased = u16::from(subsystem.flash().is_all_erased());
    let mut log = SanitizeLog::new_zeroed();
    log.progress = subsystem.sanitize_progress().into();
    log.status = (status | u16::from(sanitize.passes & 0x1f) << 3 | erased << 8).into();
    log.cdw10 = u32::from(sanitize.cdw10).into();
    for estimate in &mut log.estimates_s {
        *estimate = UNKNOWN_TIME.into();
    }
    log.as_bytes().to_vec()
}
