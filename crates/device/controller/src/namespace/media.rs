//! Errors of the flash and of the key-value engine as statuses.

use byway_flash::{FileError, Flash, FlashError};
use byway_kv::KvError;
use byway_spec::Status;

use crate::error::CommandError;
use crate::port::Port;
use crate::reservation::Access;
use crate::subsystem::OVERTAKEN;

/// Runs flash `work` at the modelled time of the command at hand, and moves that on to where the work ends.
#[inline]
pub fn timed<T>(port: &mut Port<'_>, work: impl FnOnce(&mut u64) -> T) -> T {
    let mut at_ps = port.meter.cursor_ps();
    let result = work(&mut at_ps);
    port.meter.advance_to(at_ps);
    result
}

/// Runs link `work` in the midst of flash work that has come to `at_ps`, and moves that on to where the link is done.
#[inline]
pub fn midway<T>(port: &mut Port<'_>, at_ps: &mut u64, work: impl FnOnce(&mut Port<'_>) -> T) -> T {
    port.meter.advance_to(*at_ps);
    let result = work(port);
    *at_ps = port.meter.cursor_ps().max(*at_ps);
    result
}

/// The status for a failed read of the flash.
#[cold]
pub fn read_error(error: FlashError) -> CommandError {
    match error {
        FlashError::Media { .. } => {
            CommandError::new(Status::UNRECOVERED_READ_ERROR, "a flash page does not match its checksum")
        }
        FlashError::Lost { .. } => {
            CommandError::new(Status::UNRECOVERED_READ_ERROR, "the data was lost before")
        }
        FlashError::CutShort | FlashError::File(FileError::CutShort { .. }) => CUT_READ,
        FlashError::Overtaken => OVERTAKEN,
        FlashError::File(_) => {
            CommandError::new(Status::UNRECOVERED_READ_ERROR, "the image's file could not be read")
        }
        FlashError::OutOfRange { .. } => {
            CommandError::new(Status::LBA_OUT_OF_RANGE, "past the end of the namespace")
        }
        _ => CommandError::new(Status::INTERNAL_ERROR, "the image could not be read"),
    }
}

/// The status for a failed write to the flash.
#[cold]
pub fn write_error(error: FlashError) -> CommandError {
    match error {
        FlashError::Full => CommandError::new(Status::CAPACITY_EXCEEDED, "the flash is full"),
        FlashError::ReadOnly => {
            CommandError::new(Status::NAMESPACE_WRITE_PROTECTED, "the image can only be read")
        }
        FlashError::WornOut => {
            CommandError::new(Status::NAMESPACE_WRITE_PROTECTED, "no spare blocks are left")
        }
        FlashError::OutOfRange { .. } => {
            CommandError::new(Status::LBA_OUT_OF_RANGE, "past the end of the namespace")
        }
        // A part of a unit was to be changed and the rest of it cannot be read.
        FlashError::Media { .. } | FlashError::Lost { .. } => {
            CommandError::new(Status::WRITE_FAULT, "the rest of the unit written to is unreadable")
        }
        FlashError::CutShort | FlashError::File(FileError::CutShort { .. }) => CUT_WRITE,
        FlashError::Stopped { .. } | FlashError::Unsynced | FlashError::File(FileError::Stopped { .. }) => {
            STOPPED
        }
        FlashError::File(FileError::DiskFull { .. }) => {
            CommandError::new(Status::CAPACITY_EXCEEDED, "the disk that holds the image is full")
        }
        FlashError::File(error) if error.is_of_reading() => {
            CommandError::new(Status::WRITE_FAULT, "what the write changes in part could not be read")
        }
        FlashError::File(_) => {
            CommandError::new(Status::WRITE_FAULT, "the image's file could not be written")
        }
        _ => CommandError::new(Status::INTERNAL_ERROR, "the image could not be written"),
    }
}

impl From<KvError> for CommandError {
    #[cold]
    fn from(error: KvError) -> Self {
        of_engine(error)
    }
}

fn of_engine(error: KvError) -> CommandError {
    match error {
        KvError::Key(_) => CommandError::new(Status::INVALID_KEY_SIZE, "keys are 1 to 16 bytes"),
        KvError::ValueTooLong { .. } => {
            CommandError::new(Status::INVALID_VALUE_SIZE, "the value is too long")
        }
        KvError::BatchTooLong { .. } => {
            CommandError::invalid_field("the pairs are more than the namespace stores atomically").at_byte(40)
        }
        KvError::NotFound => CommandError::new(Status::KEY_DOES_NOT_EXIST, "the key does not exist"),
        KvError::Exists => CommandError::new(Status::KEY_EXISTS, "the key exists"),
        KvError::Full => CommandError::new(Status::CAPACITY_EXCEEDED, "the namespace is full"),
        KvError::NoWindow(_) => CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "the window is not open"),
        KvError::WindowBehind => CommandError::new(
            Status::COMMAND_SEQUENCE_ERROR,
            "the window's write pointer is past this record",
        ),
        KvError::DamagedRecord { .. } | KvError::DamagedIndex { .. } => {
            CommandError::new(Status::UNRECOVERED_ERROR, "the record or its index entry is damaged")
        }
        KvError::Flash(error) => of_engine_flash(error),
        _ => CommandError::new(Status::INTERNAL_ERROR, "the key-value engine cannot go on"),
    }
}

/// Key-value commands say Unrecovered Error (88h) where blocks have media statuses.
fn of_engine_flash(error: FlashError) -> CommandError {
    match error {
        FlashError::Media { .. } | FlashError::Lost { .. } => {
            CommandError::new(Status::UNRECOVERED_ERROR, "a flash page could not be read")
        }
        FlashError::Overtaken => OVERTAKEN,
        FlashError::File(error) if error.is_of_reading() && !matches!(error, FileError::CutShort { .. }) => {
            CommandError::new(Status::UNRECOVERED_ERROR, "the image's file could not be read")
        }
        other => write_error(other),
    }
}

/// Checks that another program has not truncated or overwritten the image. Called before a command and again before it completes: a
/// truncated part reads as zeroes, and stores to it are lost.
///
/// # Errors
/// By `access`, what a command answers that reads or writes.
#[inline]
pub fn check_whole(flash: &Flash, access: Access) -> Result<(), CommandError> {
    match access {
        Access::Read => flash.check_whole().map_err(|_| CUT_READ),
        Access::Write => flash.check_not_truncated().map_err(|_| CUT_WRITE),
        Access::Neither => flash.check_whole().map_err(|_| CUT_WRITE),
    }
}

/// Statuses of reads and of writes once the image's file was truncated or overwritten.
const CUT_READ: CommandError = CommandError::new(
    Status::UNRECOVERED_READ_ERROR,
    "the image was cut short or overwritten by another program",
);
const CUT_WRITE: CommandError = CommandError::new(
    Status::NAMESPACE_WRITE_PROTECTED,
    "the image was cut short or overwritten by another program: nothing more is kept",
);

/// Status of writes once the device is read-only, as after its last spare block.
const STOPPED: CommandError = CommandError::new(
    Status::NAMESPACE_WRITE_PROTECTED,
    "the device is read-only since its image could not be written",
);
