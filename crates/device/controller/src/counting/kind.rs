//! Types of commands that are counted separately.

use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::command::Direction;
use byway_spec::base::identify::Csi;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::VendorOpcode;

use super::Typed;
use crate::limits::MAX_NAMESPACES;

/// The kind of queue that a command came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum QueueKind {
    /// The admin queue.
    #[default]
    Admin,
    /// An I/O queue.
    Io,
}

impl QueueKind {
    /// The kind of queue `qid`.
    #[inline]
    pub(crate) const fn of(qid: u16) -> Self {
        if qid == 0 { Self::Admin } else { Self::Io }
    }

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Io => "io",
        }
    }
}

/// A type of command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub queue: QueueKind,
    pub nsid: Option<u32>,
    pub name: Option<&'static str>,
    pub direction: Direction,
}

impl Default for Kind {
    fn default() -> Self {
        Self { queue: QueueKind::Admin, nsid: None, name: None, direction: Direction::None }
    }
}

const OPCODES: usize = 256;

impl Kind {
    /// Most types: admin commands, those of each namespace, and those of none. Most never occur.
    pub const PLACES: usize = (MAX_NAMESPACES as usize + 2) * OPCODES;

    /// The places of a namespace's types. Admin commands have those of namespace 0, commands of no namespace the last.
    #[inline]
    pub const fn places_of(nsid: u32) -> std::ops::Range<usize> {
        let at = if nsid == 0 || nsid > MAX_NAMESPACES { MAX_NAMESPACES + 1 } else { nsid } as usize;
        at * OPCODES..(at + 1) * OPCODES
    }

    /// The place of a command's type.
    #[inline]
    pub const fn place(Typed { queue, nsid, opcode }: Typed) -> usize {
        let start = match queue {
            QueueKind::Admin => 0,
            QueueKind::Io => Self::places_of(nsid).start,
        };
        start + opcode as usize
    }

    /// The type of a command to a namespace of set `csi`; `None` for a namespace that does not exist.
    pub fn of(Typed { queue, nsid, opcode }: Typed, csi: Option<Csi>) -> Self {
        let nsid = csi.map(|_| nsid).filter(|_| queue == QueueKind::Io);
        let of_set = match csi {
            Some(Csi::KV) => KvOpcode(opcode).name(),
            _ => NvmOpcode(opcode).name(),
        };
        let name = match queue {
            QueueKind::Admin => AdminOpcode(opcode).name(),
            QueueKind::Io => of_set.or_else(|| VendorOpcode(opcode).name()),
        };
        let direction = if name.is_some() { Direction::of(opcode) } else { Direction::None };
        Self { queue, nsid, name, direction }
    }
}
