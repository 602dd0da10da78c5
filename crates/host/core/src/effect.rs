//! What a command changes, and which commands conflict: for callers that may send one twice, or late.

use byway_spec::Key;

use crate::command::{Command, KvCommand, NvmCommand, StoreOptions};

/// What becomes of a device by a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it may be done twice, and late.
    #[default]
    None,
    /// Makes earlier writes durable. Sent again to a restarted device, it would report success for writes that the restart lost.
    Flush,
    /// This comes to be as the command says, however often it is done.
    Sets(Extent),
    /// This changes, or the answer depends on what was there: done twice it is another command.
    Changes(Extent),
}

/// A part of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A range of blocks of a namespace.
    Blocks {
        /// The namespace.
        nsid: u32,
        /// Its first block.
        first: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// What is stored by a key.
    Key {
        /// The namespace.
        nsid: u32,
        /// The key.
        key: Key,
    },
    /// All of a namespace.
    Namespace(u32),
    /// All that there is.
    Everything,
}

impl Effect {
    /// Of a command.
    #[must_use]
    pub fn of(command: &Command) -> Self {
        match command {
            Command::Nvm(command) => Self::of_nvm(command),
            Command::Kv(command) => Self::of_kv(command),
            // It is not parsed.
            Command::Raw(_) => Self::Changes(Extent::Everything),
        }
    }

    fn of_nvm(command: &NvmCommand) -> Self {
        match command {
            NvmCommand::Read { .. }
            | NvmCommand::ReadVectored { .. }
            | NvmCommand::Compare { .. }
            | NvmCommand::Verify { .. } => Self::None,
            NvmCommand::Flush { .. } => Self::Flush,
            NvmCommand::Write { nsid, slba, blocks, .. }
            | NvmCommand::WriteZeroes { nsid, slba, blocks, .. } => {
                Self::Sets(Extent::Blocks { nsid: nsid.get(), first: *slba, blocks: *blocks })
            }
            NvmCommand::CompareAndWrite { nsid, slba, blocks, .. } => {
                Self::Changes(Extent::Blocks { nsid: nsid.get(), first: *slba, blocks: *blocks })
            }
            NvmCommand::Deallocate { nsid, .. } => Self::Sets(Extent::Namespace(nsid.get())),
            NvmCommand::Copy { nsid, .. } => Self::Changes(Extent::Namespace(nsid.get())),
        }
    }

    fn of_kv(command: &KvCommand) -> Self {
        match command {
            KvCommand::Retrieve { .. }
            | KvCommand::Exist { .. }
            | KvCommand::List { .. }
            | KvCommand::Scan { .. }
            | KvCommand::RetrieveMany { .. } => Self::None,
            KvCommand::Store { nsid, key, options, .. } => {
                let extent = Extent::Key { nsid: nsid.get(), key: *key };
                let has_condition = StoreOptions { uncompressed: false, ..*options }.any();
                if has_condition { Self::Changes(extent) } else { Self::Sets(extent) }
            }
            KvCommand::Delete { nsid, key } => Self::Changes(Extent::Key { nsid: nsid.get(), key: *key }),
            KvCommand::BulkStore { nsid, .. } | KvCommand::DeleteRange { nsid, .. } => {
                Self::Changes(Extent::Namespace(nsid.get()))
            }
        }
    }

    /// The part of the device that it changes; `None` if it changes nothing.
    #[must_use]
    pub fn extent(&self) -> Option<Extent> {
        match self {
            Self::None | Self::Flush => None,
            Self::Sets(extent) | Self::Changes(extent) => Some(*extent),
        }
    }

    /// Whether two commands change the same.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let both = self.extent().zip(other.extent());
        both.is_some_and(|(this, other)| this.meets(&other))
    }
}

impl Extent {
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Blocks { nsid, first, blocks },
                Self::Blocks { nsid: of, first: other, blocks: others },
            ) => {
                let (end, other_end) =
                    (first.saturating_add((*blocks).into()), other.saturating_add((*others).into()));
                nsid == of && first < &other_end && other < &end
            }
            (Self::Key { nsid, key }, Self::Key { nsid: of, key: other }) => nsid == of && key == other,
            _ => match (self.nsid(), other.nsid()) {
                (Some(this), Some(other)) => this == other,
                _ => true,
            },
        }
    }

    fn nsid(&self) -> Option<u32> {
        match self {
            Self::Blocks { nsid, .. } | Self::Key { nsid, .. } | Self::Namespace(nsid) => Some(*nsid),
            Self::Everything => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Nsid, Payload};

    fn blocks(first: u64, blocks: u32) -> Effect {
        let data = Payload::Empty;
        Effect::of(&NvmCommand::Write { nsid: Nsid::FIRST, slba: first, blocks, data }.into())
    }

    fn store(key: &[u8], options: StoreOptions) -> Effect {
        let (key, value) = (Key::new(key).unwrap(), Payload::Empty);
        Effect::of(&KvCommand::Store { nsid: Nsid::FIRST, key, value, options }.into())
    }

    #[test]
    fn writes_conflict_if_they_share_a_block() {
        for (other, meets) in [((0, 8), false), ((0, 9), true), ((15, 1), true), ((16, 8), false)] {
            assert_eq!(blocks(8, 8).meets(&blocks(other.0, other.1)), meets, "{other:?}");
        }
        let elsewhere = Effect::Sets(Extent::Blocks { nsid: 2, first: 8, blocks: 8 });
        assert!(!blocks(8, 8).meets(&elsewhere));
        assert!(blocks(u64::MAX - 4, 8).meets(&blocks(u64::MAX - 2, 1)));
    }

    #[test]
    fn unparsed_command_conflicts_with_every_change() {
        let all = Effect::Changes(Extent::Everything);
        let namespace = Effect::Sets(Extent::Namespace(1));
        let keyed = store(b"key", StoreOptions::NONE);
        for (one, other) in [(all, blocks(0, 1)), (all, keyed), (namespace, keyed), (keyed, all)] {
            assert!(one.meets(&other), "{one:?} {other:?}");
        }
        assert!(!Effect::Flush.meets(&all) && !all.meets(&Effect::None));
        assert!(keyed.meets(&keyed) && !keyed.meets(&store(b"kez", StoreOptions::NONE)));
    }

    #[test]
    fn a_store_with_a_condition_is_another_command_the_second_time() {
        let only_new = StoreOptions { must_not_exist: true, ..StoreOptions::NONE };
        assert!(matches!(store(b"key", only_new), Effect::Changes(_)));
        let as_it_is = StoreOptions { uncompressed: true, ..StoreOptions::NONE };
        assert!(matches!(store(b"key", as_it_is), Effect::Sets(_)));
    }
}
