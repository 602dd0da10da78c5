//! Lookup hints of namespaces, for a host in the same machine.

use std::sync::Arc;

use byway_kv::{Key, LookupHints};

/// The lookup hints of each namespace of a subsystem. Any thread may use them at any time.
#[derive(Clone, Debug)]
pub struct NamespaceHints(Arc<[LookupHints]>);

impl NamespaceHints {
    /// For namespaces 1 to `namespaces`.
    pub(crate) fn new(namespaces: u32) -> Self {
        Self((0..namespaces).map(|_| LookupHints::default()).collect())
    }

    /// The hints of one namespace.
    pub(crate) fn of(&self, nsid: u32) -> Option<LookupHints> {
        self.0.get((nsid as usize).checked_sub(1)?).cloned()
    }

    /// Prefetches the memory that a lookup of `key` in namespace `nsid` reads first.
    #[inline]
    pub fn prefetch(&self, nsid: u32, key: &Key) {
        if let Some(lookup_hints) = self.0.get((nsid as usize).wrapping_sub(1)) {
            lookup_hints.prefetch(key);
        }
    }
}
