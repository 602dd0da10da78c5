//! Terms of a recovery, and its outcome for each file.

use std::path::PathBuf;

use serde::Serialize;

use crate::table::BootId;

/// Result for one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// Programs still write it: it stays absorbed.
    Adopted,
    /// Really synced; its log is empty.
    Synced,
    /// Its records were written back.
    Replayed {
        /// Number of records.
        records: u64,
        /// Bytes of data.
        data_bytes: u64,
    },
    /// It was DAX-resident: all of it was written back.
    Returned {
        /// Its size.
        data_bytes: u64,
    },
    /// Records up to a broken one were written back; later acknowledged ones are lost. The log is kept.
    Damaged {
        /// Number of whole records.
        records: u64,
    },
    /// A slot is damaged: the owner of its log is unknown.
    DamagedSlot {
        /// Number of the slot.
        slot: u32,
        /// The slot was freed, as a user ordered.
        is_freed: bool,
    },
    /// The file was not found. The log is kept.
    Missing,
    /// The file was not found or the log is broken, and the log was freed, as a user ordered.
    Forgotten,
    /// The file was written since the boot, so its records may be older. The log is kept.
    WrittenSince,
    /// The log cannot be read or the file not written. The log is kept.
    Failed {
        /// The error.
        why: String,
    },
}

/// One file and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecoveredFile {
    /// Its path, or former path.
    pub path: PathBuf,
    /// Its owner.
    pub uid: u32,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Outcome {
    /// The result once its log is freed by order.
    pub(crate) fn forgotten(self) -> Self {
        match self {
            Self::Missing | Self::Damaged { .. } => Self::Forgotten,
            other => other,
        }
    }

    /// Whether the slot and ring are free again.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(
            self,
            Self::Synced
                | Self::Replayed { .. }
                | Self::Returned { .. }
                | Self::Forgotten
                | Self::DamagedSlot { is_freed: true, .. }
        )
    }
}

/// Purpose of opening a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Serving: refused if a slot is damaged.
    Serve,
    /// Recovery only.
    Recover {
        /// Also overwrite files written since the boot.
        is_forced: bool,
        /// Also free logs that cannot be written back.
        forgets: bool,
    },
}

/// How records are written back after a reboot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) boot: BootId,
    /// Overwrite files written since the boot.
    pub(crate) is_forced: bool,
    /// Free logs that are broken or whose files are gone.
    pub(crate) forgets: bool,
}
