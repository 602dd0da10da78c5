//! Options of opening a region.

use std::path::PathBuf;

use crate::domain::Domain;

/// Options of opening, beside the description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Emulated memory counts as persistent.
    pub emulate_persistence: bool,
    /// Persistence domain, overriding what the system says. The description precedes it.
    pub domain: Option<Domain>,
    /// Trusted user of a device node. The description precedes it; by default this process's user.
    pub user: Option<u32>,
    /// Mount point of sysfs.
    pub sysfs: PathBuf,
}

impl Default for Opening {
    fn default() -> Self {
        Self { emulate_persistence: false, domain: None, user: None, sysfs: "/sys".into() }
    }
}
