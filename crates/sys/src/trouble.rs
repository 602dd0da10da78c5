//! What stays of an operation that failed: whether the file takes writes.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::file_error::{ALLOCATING, FileError, SYNCING, WRITING};

/// Why a file takes no writes, or took none the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Its disk had no room. Writes are tried all the same: there may be room again.
    DiskFull,
    /// Another program truncated or overwrote it while it was open. What is left of it is read, and nothing is written any more.
    CutShort,
    /// A write, or taking room, or a sync failed otherwise. What the system dropped then is not known, so nothing more
    /// is written until the file is opened again.
    Failed {
        /// What was being done.
        doing: &'static str,
    },
}

/// What leaves a file in trouble when it fails. Index 0 is none, so that one byte holds it.
const DOINGS: [&str; 4] = ["", WRITING, ALLOCATING, SYNCING];

/// Value of the byte for a full disk.
const IS_FULL: u8 = 0xff;

/// Value of the byte for a file that was cut short.
const IS_CUT: u8 = 0xfe;

/// The trouble that a file is in: nothing (0), an index of [`DOINGS`], [`IS_FULL`] or [`IS_CUT`].
///
/// Relaxed: the thread that writes the file learns of a failure by its own error first.
#[derive(Debug, Default)]
pub(crate) struct TroubleByte(AtomicU8);

impl TroubleByte {
    #[inline]
    pub(crate) fn get(&self) -> Option<Trouble> {
        match self.0.load(Relaxed) {
            0 => None,
            IS_FULL => Some(Trouble::DiskFull),
            IS_CUT => Some(Trouble::CutShort),
            doing => Some(Trouble::Failed { doing: DOINGS.get(usize::from(doing)).unwrap_or(&WRITING) }),
        }
    }

    /// Keeps in mind how an operation failed.
    pub(crate) fn note(&self, doing: &'static str, error: &FileError) {
        if matches!(error, FileError::CutShort { .. }) {
            return self.note_cut();
        }
        if self.get() == Some(Trouble::CutShort) {
            return;
        }
        let failed = DOINGS.iter().position(|known| *known == doing).unwrap_or(1) as u8;
        // A sync that finds no room has dropped what it was to write.
        let can_go_on = matches!(error, FileError::DiskFull { .. }) && doing != SYNCING;
        self.0.store(if can_go_on { IS_FULL } else { failed }, Relaxed);
    }

    /// Whether the file was cut short.
    #[inline]
    pub(crate) fn is_cut(&self) -> bool {
        self.0.load(Relaxed) == IS_CUT
    }

    /// Keeps in mind that the file was cut short: nothing else is worth telling then.
    pub(crate) fn note_cut(&self) {
        self.0.store(IS_CUT, Relaxed);
    }

    /// There was room again.
    pub(crate) fn clear_full(&self) {
        if self.get() == Some(Trouble::DiskFull) {
            self.0.store(0, Relaxed);
        }
    }
}
