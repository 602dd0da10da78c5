//! What every asynchronous interface of the kernel can be asked of a file.

/// Bytes moved between a file and an operation's memory, or a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// Reads into the operation's memory.
    Read {
        /// First byte.
        at: u64,
    },
    /// Writes the operation's memory.
    Write {
        /// First byte.
        at: u64,
        /// Only durable data completes it.
        durable: bool,
    },
    /// Makes completed writes durable, with what is needed to find them again.
    Sync,
}
