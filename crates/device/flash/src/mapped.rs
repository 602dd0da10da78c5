//! How many entries of each extent are mapped, once that was counted.

use crate::image::namespaces::ExtentId;

/// Mapped entries by extent. An extent that was not counted since the device was opened has none.
#[derive(Debug, Default)]
pub(crate) struct MappedCounts(Vec<Option<u64>>);

impl MappedCounts {
    pub(crate) fn get(&self, extent: ExtentId) -> Option<u64> {
        self.0.get(usize::from(extent.0)).copied().flatten()
    }

    pub(crate) fn set(&mut self, extent: ExtentId, mapped: u64) {
        let slot = usize::from(extent.0);
        if self.0.len() <= slot {
            self.0.resize(slot + 1, None);
        }
        self.0[slot] = Some(mapped);
    }

    /// Counts entries that are mapped now and were not before.
    #[inline]
    pub(crate) fn add(&mut self, extent: ExtentId, newly: u64) {
        if let Some(Some(mapped)) = self.0.get_mut(usize::from(extent.0)) {
            *mapped += newly;
        }
    }

    /// Takes entries off that were trimmed.
    pub(crate) fn remove(&mut self, extent: ExtentId, gone: u64) {
        if let Some(Some(mapped)) = self.0.get_mut(usize::from(extent.0)) {
            *mapped -= gone.min(*mapped);
        }
    }
}
