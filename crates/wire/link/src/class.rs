//! Classes of transactions: the rows of a ledger.

use serde::Serialize;

/// What a transaction on the link was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
#[non_exhaustive]
pub enum Class {
    /// A host write to a submission or completion queue doorbell.
    Doorbell,
    /// Any other register access by the host.
    Register,
    /// The device reads one 64-byte submission queue entry that is a command.
    CommandFetch,
    /// The device reads submission queue slots that carry an inline payload.
    ChunkFetch,
    /// The device reads PRP list entries or an SGL segment.
    ListFetch,
    /// The device reads a command's payload from host memory.
    DataRead,
    /// The device writes a command's payload to host memory.
    DataWrite,
    /// The device writes a 16-byte completion queue entry.
    Completion,
    /// A message-signalled interrupt.
    Interrupt,
    /// Host stores into a controller memory buffer.
    ByteStore,
    /// Host stores into device memory over CXL.mem.
    CxlStore,
    /// Host loads from device memory over CXL.mem.
    CxlLoad,
    /// Device reads and writes of shadow doorbells and event indexes.
    Shadow,
}

impl Class {
    /// Every class, in the order of ledger rows.
    pub const ALL: [Self; 13] = [
        Self::Doorbell,
        Self::Register,
        Self::CommandFetch,
        Self::ChunkFetch,
        Self::ListFetch,
        Self::DataRead,
        Self::DataWrite,
        Self::Completion,
        Self::Interrupt,
        Self::ByteStore,
        Self::CxlStore,
        Self::CxlLoad,
        Self::Shadow,
    ];

    /// How many classes there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The name used in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Doorbell => "doorbell",
            Self::Register => "register",
            Self::CommandFetch => "command_fetch",
            Self::ChunkFetch => "chunk_fetch",
            Self::ListFetch => "list_fetch",
            Self::DataRead => "data_read",
            Self::DataWrite => "data_write",
            Self::Completion => "completion",
            Self::Interrupt => "interrupt",
            Self::ByteStore => "byte_store",
            Self::CxlStore => "cxl_store",
            Self::CxlLoad => "cxl_load",
            Self::Shadow => "shadow",
        }
    }

    /// The row of this class in [`Class::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_own_row() {
        for (row, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), row, "{}", class.name());
        }
    }
}
