//! What the operating system said of a failure: for languages whose own exceptions have its numbers.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use byway_core::Error;
#[cfg(feature = "embedded")]
use byway_flash::{FlashError, ImageError};
use byway_sys::FileError;
use rustix::io::Errno;

/// The system's part in a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemCause {
    /// Its error number, as in errno(3).
    pub errno: i32,
    /// The file that it is about, where that is known.
    pub path: Option<PathBuf>,
}

impl SystemCause {
    /// What the system said of `error`, if it was asked.
    #[must_use]
    pub fn of(error: &Error) -> Option<Self> {
        let mut cause = error.source();
        while let Some(one) = cause {
            if let Some(found) = Self::of_cause(one) {
                return Some(found);
            }
            cause = one.source();
        }
        None
    }

    fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Self> {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return Some(Self { errno: error.raw_os_error()?, path: None });
        }
        if let Some(error) = cause.downcast_ref::<FileError>() {
            return Self::of_file(error);
        }
        #[cfg(feature = "embedded")]
        if let Some(error) = cause.downcast_ref::<FlashError>() {
            return Self::of_flash(error);
        }
        None
    }

    #[cfg(feature = "embedded")]
    fn of_flash(error: &FlashError) -> Option<Self> {
        match error {
            FlashError::File(error) | FlashError::Image(ImageError::File(error)) => Self::of_file(error),
            FlashError::Image(ImageError::ReadOnlyFile { path }) => Some(Self::new(Errno::ROFS, path)),
            FlashError::Image(ImageError::InUse { path }) => Some(Self::new(Errno::AGAIN, path)),
            _ => None,
        }
    }

    fn of_file(error: &FileError) -> Option<Self> {
        Some(match error {
            FileError::Missing { path } => Self::new(Errno::NOENT, path),
            FileError::Exists { path } => Self::new(Errno::EXIST, path),
            FileError::InUse { path } => Self::new(Errno::AGAIN, path),
            FileError::ReadOnly { path } => Self::new(Errno::ROFS, path),
            FileError::Denied { path, .. } => Self::new(Errno::ACCESS, path),
            FileError::DiskFull { path, .. } => Self::new(Errno::NOSPC, path),
            FileError::Io { path, source, .. } | FileError::NameNotSynced { path, source } => {
                Self { errno: source.raw_os_error()?, path: Some(path.clone()) }
            }
            _ => return None,
        })
    }

    fn new(errno: Errno, path: &std::path::Path) -> Self {
        Self { errno: errno.raw_os_error(), path: Some(path.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::CreateOptions;

    fn cause(error: &Error) -> SystemCause {
        SystemCause::of(error).unwrap_or_else(|| panic!("{error}"))
    }

    #[test]
    fn failure_of_the_system_has_its_number_and_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("a.img");
        let uri = crate::uri::of_image(&image);
        let missing = crate::open(&uri).unwrap_err();
        assert_eq!(cause(&missing), SystemCause::new(Errno::NOENT, &image));
        crate::create(&image, &CreateOptions::new(64 << 20)).unwrap();
        let exists = crate::create(&image, &CreateOptions::new(64 << 20)).unwrap_err();
        assert_eq!(cause(&exists), SystemCause::new(Errno::EXIST, &image));
        let copied = crate::snapshot(&image, &image).unwrap_err();
        assert_eq!((copied.kind(), cause(&copied)), (exists.kind(), cause(&exists)));
        let blocks = crate::open(dir.path().join("none").to_str().unwrap()).unwrap_err();
        assert_eq!(cause(&blocks).errno, Errno::NOENT.raw_os_error());
    }

    #[test]
    fn failure_that_the_system_has_no_part_in_has_no_number() {
        assert_eq!(SystemCause::of(&crate::open("ram:64M?depth=0").unwrap_err()), None);
        let device = crate::open("ram:64M").unwrap();
        let none = device.kv(Some(crate::Nsid::new(7).unwrap())).err().unwrap();
        assert_eq!(SystemCause::of(&none), None);
    }
}
