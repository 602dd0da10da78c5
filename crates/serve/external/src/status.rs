//! Errors of the host library as statuses of commands.

use byway_controller::CommandError;
use byway_core::{Error, ErrorKind};
use byway_spec::Status;

use crate::slots::Doing;

/// The status of a command that failed with `error`. A device's own status is passed through.
pub fn of_error(error: &Error, doing: Doing) -> CommandError {
    match error.nvme_status() {
        Some(status) => CommandError::new(status, "the exported device answered with this status"),
        None => of_kind(error.kind(), doing),
    }
}

fn of_kind(kind: ErrorKind, doing: Doing) -> CommandError {
    let (status, cause) = match kind {
        ErrorKind::Mismatch => (Status::COMPARE_FAILURE, "the blocks differ from the host's"),
        ErrorKind::OutOfRange => (Status::LBA_OUT_OF_RANGE, "what is exported ends before these blocks"),
        ErrorKind::CapacityExceeded => (Status::CAPACITY_EXCEEDED, "what is exported has no room left"),
        ErrorKind::Denied => (Status::NAMESPACE_WRITE_PROTECTED, "what is exported may not be written"),
        ErrorKind::Unsupported => (Status::INVALID_OPCODE, "what is exported has no such command"),
        ErrorKind::InvalidArgument | ErrorKind::TooLarge => {
            (Status::INVALID_FIELD, "what is exported does not take this command")
        }
        ErrorKind::Cancelled => (Status::ABORT_REQUESTED, "what is exported took the command back"),
        ErrorKind::DeviceLost | ErrorKind::NotFound | ErrorKind::TimedOut | ErrorKind::Busy => {
            (Status::NAMESPACE_NOT_READY, "what is exported does not answer")
        }
        _ if doing == Doing::Writing => (Status::WRITE_FAULT, "what is exported failed to write"),
        _ => (Status::UNRECOVERED_READ_ERROR, "what is exported failed to read"),
    };
    CommandError::new(status, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_the_device_is_quoted_and_a_failure_of_the_system_is_one_of_the_medium() {
        let quoted = of_error(&Error::status(Status::UNRECOVERED_READ_ERROR), Doing::Reading);
        assert_eq!(quoted.status, Status::UNRECOVERED_READ_ERROR);
        let failed = Error::kernel("read", std::io::Error::from_raw_os_error(5));
        assert_eq!(of_error(&failed, Doing::Reading).status, Status::UNRECOVERED_READ_ERROR);
        assert_eq!(of_error(&failed, Doing::Writing).status, Status::WRITE_FAULT);
        let lost = Error::device(ErrorKind::DeviceLost, "gone");
        assert_eq!(of_error(&lost, Doing::Writing).status, Status::NAMESPACE_NOT_READY);
        let aborted = Error::host(ErrorKind::Cancelled, "taken back");
        assert_eq!(of_error(&aborted, Doing::Writing).status, Status::ABORT_REQUESTED);
    }
}
