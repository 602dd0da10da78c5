//! Identifiers in PDUs.

use core::fmt;

/// A command, as the queue pair's host numbers it (CID, CCCID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandId(pub u16);

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {}", self.0)
    }
}

/// An R2T, as the controller numbers it (TTAG). A host repeats it and assumes nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferTag(pub u16);

impl fmt::Display for TransferTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
