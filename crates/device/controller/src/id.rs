//! Identifiers of controllers.

/// A controller's identifier within its subsystem (CNTLID).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControllerId(pub u16);
