//! Lookup hints of namespaces, for a host in the same machine.

use std::sync::Arc;

use byway_kv::{Key, Outlook};

/// The lookup hints of each namespace of a subsystem. Any thread may use them at any time.
#[derive(Clone, Debug)]
pub struct Outlooks(Arc<[Outlook]>);

impl Outlooks {
    /// For namespaces 1 to `namespaces`.
    pub(crate) fn new(namespaces: u32) -> Self {
        Self((0..namespaces).map(|_| Outlook::default()).collect())
    }

    /// The hints of one namespace.
    pub(crate) fn of(&self, nsid: u32) -> Option<Outlook> {
        self.0.get((nsid as usize).checked_sub(1)?).cloned()
    }

    /// Prefetches the memory that a lookup of `key` in namespace `nsid` reads first.
    #[inline]
    pub fn expect(&self, nsid: u32, key: &Key) {
        if let Some(outlook) = self.0.get((nsid as usize).wrapping_sub(1)) {
            outlook.expect(key);
        }
    }
}
