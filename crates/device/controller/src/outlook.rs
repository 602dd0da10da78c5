//! Where namespaces look first, for a host in the same machine.

use std::sync::Arc;

use byway_kv::{Key, Outlook};

/// The [`Outlook`] of each namespace of a subsystem, whichever engine serves it. Anybody may ask at any time.
#[derive(Clone, Debug)]
pub struct Outlooks(Arc<[Outlook]>);

impl Outlooks {
    /// For namespaces 1 to `namespaces`.
    pub(crate) fn new(namespaces: u32) -> Self {
        Self((0..namespaces).map(|_| Outlook::default()).collect())
    }

    /// That of one namespace.
    pub(crate) fn of(&self, nsid: u32) -> Option<Outlook> {
        self.0.get((nsid as usize).checked_sub(1)?).cloned()
    }

    /// Says that a command will look for `key` in namespace `nsid`: the memory that it looks at first is asked for.
    #[inline]
    pub fn expect(&self, nsid: u32, key: &Key) {
        if let Some(outlook) = self.0.get((nsid as usize).wrapping_sub(1)) {
            outlook.expect(key);
        }
    }
}
