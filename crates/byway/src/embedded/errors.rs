//! Errors of the device as errors of the library.

use byway_controller::SubsystemError;
use byway_core::{Error, ErrorKind};
use byway_flash::{FileError, FlashError, ImageError};
use byway_local::StartError;

/// The flash's own sentence, and the kind of failure it is.
pub(crate) fn from_flash(error: FlashError) -> Error {
    let kind = match &error {
        FlashError::Full | FlashError::NoCapacity { .. } => ErrorKind::CapacityExceeded,
        FlashError::TooSmall { .. } => ErrorKind::InvalidArgument,
        FlashError::Ended => ErrorKind::Cancelled,
        FlashError::Media { .. } | FlashError::Lost { .. } | FlashError::CutShort => ErrorKind::Media,
        FlashError::ReadOnly
        | FlashError::Unsynced
        | FlashError::Stopped { .. }
        | FlashError::Image(ImageError::ReadOnlyFile { .. } | ImageError::ReadableOnly { .. }) => {
            ErrorKind::Denied
        }
        FlashError::Image(ImageError::InUse { .. }) | FlashError::Overtaken => ErrorKind::Busy,
        FlashError::Image(ImageError::TooSmall { .. } | ImageError::TooLarge { .. }) => {
            ErrorKind::InvalidArgument
        }
        FlashError::Image(ImageError::File(error)) | FlashError::File(error) => kind_of(error),
        FlashError::Image(_) => ErrorKind::System,
        _ => ErrorKind::Device,
    };
    Error::host(kind, error.to_string()).with_source(error).covering_source()
}

pub(crate) fn from_file(error: FileError) -> Error {
    from_flash(ImageError::from(error).into())
}

fn kind_of(error: &FileError) -> ErrorKind {
    match error {
        FileError::Missing { .. } => ErrorKind::NotFound,
        FileError::DiskFull { .. } => ErrorKind::CapacityExceeded,
        FileError::ReadOnly { .. }
        | FileError::Denied { .. }
        | FileError::OwnerNotKept { .. }
        | FileError::OtherProcess { .. }
        | FileError::Stopped { .. } => ErrorKind::Denied,
        FileError::HardLinked { .. } => ErrorKind::InvalidArgument,
        FileError::InUse { .. } => ErrorKind::Busy,
        FileError::CutShort { .. } => ErrorKind::Media,
        _ => ErrorKind::System,
    }
}

pub(crate) fn from_subsystem(error: SubsystemError) -> Error {
    match error {
        SubsystemError::Flash(error) => from_flash(error),
        other => Error::host(ErrorKind::Media, other.to_string()),
    }
}

pub(crate) fn from_start(error: StartError) -> Error {
    Error::host(ErrorKind::Unsupported, error.to_string())
}
