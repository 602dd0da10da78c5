//! Whether a file takes writes after an operation failed.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::file_error::{ALLOCATING, FileError, SYNCING, WRITING};

/// Why a file takes no writes, or took none the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFault {
    /// Its disk was full. Writes are tried again: there may be room by then.
    DiskFull,
    /// Another program truncated or overwrote it while it was open. The rest of it can be read, and nothing is written any more.
    CutShort,
    /// A write, an allocation or a sync failed otherwise. The kernel may have dropped dirty pages, so nothing is written until
    /// the file is opened again.
    Failed {
        /// The failed operation: "writing", "taking room in" or "syncing".
        doing: &'static str,
    },
}

/// Operations whose failure is recorded. Index 0 is none, so that one byte holds the state.
const DOINGS: [&str; 4] = ["", WRITING, ALLOCATING, SYNCING];

/// Value of the byte for a full disk.
const IS_FULL: u8 = 0xff;

/// Value of the byte for a file that was cut short.
const IS_CUT: u8 = 0xfe;

/// The write fault of a file: none (0), an index of [`DOINGS`], [`IS_FULL`] or [`IS_CUT`].
///
/// Relaxed: the thread that writes the file learns of a failure by its own error first.
#[derive(Debug, Default)]
pub(crate) struct WriteFaultByte(AtomicU8);

impl WriteFaultByte {
    #[inline]
    pub(crate) fn get(&self) -> Option<WriteFault> {
        match self.0.load(Relaxed) {
            0 => None,
            IS_FULL => Some(WriteFault::DiskFull),
            IS_CUT => Some(WriteFault::CutShort),
            doing => Some(WriteFault::Failed { doing: DOINGS.get(usize::from(doing)).unwrap_or(&WRITING) }),
        }
    }

    /// Records the failure of an operation.
    pub(crate) fn note(&self, doing: &'static str, error: &FileError) {
        if matches!(error, FileError::CutShort { .. }) {
            return self.note_truncation();
        }
        if self.get() == Some(WriteFault::CutShort) {
            return;
        }
        let failed = DOINGS.iter().position(|known| *known == doing).unwrap_or(1) as u8;
        // A sync that fails for lack of space has dropped dirty pages.
        let can_go_on = matches!(error, FileError::DiskFull { .. }) && doing != SYNCING;
        self.0.store(if can_go_on { IS_FULL } else { failed }, Relaxed);
    }

    /// Whether the file was cut short.
    #[inline]
    pub(crate) fn is_truncated(&self) -> bool {
        self.0.load(Relaxed) == IS_CUT
    }

    /// Records that the file was cut short, which overrides every other fault.
    pub(crate) fn note_truncation(&self) {
        self.0.store(IS_CUT, Relaxed);
    }

    /// Clears the fault of a full disk, after a write succeeded.
    pub(crate) fn clear_full(&self) {
        if self.get() == Some(WriteFault::DiskFull) {
            self.0.store(0, Relaxed);
        }
    }
}
