//! Access rights to device memory.

/// What a process may do with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loads alone.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}
