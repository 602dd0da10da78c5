//! Changed namespaces, by controller (log page 04h).

use byway_spec::base::log::ChangedNamespaces;

use super::PerController;
use crate::id::ControllerId;

/// Changes not yet read, by controller.
#[derive(Debug, Default)]
pub struct Changes {
    of: PerController<Changed>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Changed {
    /// Bit n is namespace n + 1.
    namespaces: u64,
    /// No event was raised for the newest of them.
    news: bool,
}

impl Changes {
    /// Controller `id` was made: changes from here on are noted for it.
    pub(crate) fn begin(&mut self, id: ControllerId) {
        self.of.entry(id);
    }

    /// Namespace `nsid` changed for those controllers that are `concerned`.
    pub(crate) fn note(&mut self, nsid: u32, concerned: impl Fn(ControllerId) -> bool) {
        for (_, changed) in self.of.iter_mut().filter(|(id, _)| concerned(*id)) {
            changed.namespaces |= 1 << (nsid.wrapping_sub(1) & 63);
            changed.news = true;
        }
    }

    /// Whether something changed for controller `id` since this was last asked.
    #[inline]
    pub fn take_news(&mut self, id: ControllerId) -> bool {
        self.of.get_mut(id).is_some_and(|changed| std::mem::take(&mut changed.news))
    }

    /// The log page of controller `id`.
    pub fn page(&self, id: ControllerId) -> ChangedNamespaces {
        let bits = self.of.get(id).map_or(0, |changed| changed.namespaces);
        let mut page = ChangedNamespaces { nsids: [0; 1024] };
        let changed = (0..64).filter(|n| bits >> n & 1 != 0);
        for (entry, n) in page.nsids.iter_mut().zip(changed) {
            *entry = n + 1;
        }
        page
    }

    /// The host has read the page.
    pub fn clear(&mut self, id: ControllerId) {
        if let Some(changed) = self.of.get_mut(id) {
            *changed = Changed::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_controller_reads_its_own_changes_in_rising_order() {
        let mut changes = Changes::default();
        changes.begin(ControllerId(1));
        changes.note(64, |_| true);
        changes.note(2, |id| id.0 == 1);
        assert_eq!(changes.page(ControllerId(0)).nsids[..2], [64, 0]);
        assert_eq!(changes.page(ControllerId(1)).nsids[..3], [2, 64, 0]);
        assert!(changes.take_news(ControllerId(1)) && !changes.take_news(ControllerId(1)));
        changes.clear(ControllerId(1));
        assert_eq!(changes.page(ControllerId(1)).nsids[0], 0);
        assert_eq!(changes.page(ControllerId(0)).nsids[0], 64);
    }
}
