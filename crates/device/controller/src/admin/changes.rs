//! Which namespaces changed, for each controller to tell its host (log page 04h).

use byway_spec::base::log::ChangedNamespaces;

use crate::controller::ControllerId;
use crate::subsystem::MAX_CONTROLLERS;

/// Changes not yet read, by controller.
#[derive(Debug)]
pub struct Changes {
    of: Vec<Changed>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Changed {
    /// Bit n stands for namespace n + 1.
    namespaces: u64,
    /// No event was raised for the newest of them.
    news: bool,
}

impl Default for Changes {
    fn default() -> Self {
        Self { of: vec![Changed::default(); usize::from(MAX_CONTROLLERS)] }
    }
}

impl Changes {
    /// Namespace `nsid` changed for the controllers of the bit set `controllers`.
    pub fn note(&mut self, nsid: u32, controllers: u64) {
        for (id, changed) in self.of.iter_mut().enumerate() {
            if controllers >> id & 1 != 0 {
                changed.namespaces |= 1 << (nsid.wrapping_sub(1) & 63);
                changed.news = true;
            }
        }
    }

    /// Whether something changed for controller `id` since this was last asked.
    #[inline]
    pub fn take_news(&mut self, id: ControllerId) -> bool {
        self.of.get_mut(usize::from(id.0)).is_some_and(|changed| std::mem::take(&mut changed.news))
    }

    /// The log page of controller `id`.
    pub fn page(&self, id: ControllerId) -> ChangedNamespaces {
        let bits = self.of.get(usize::from(id.0)).map_or(0, |changed| changed.namespaces);
        let mut page = ChangedNamespaces { nsids: [0; 1024] };
        let changed = (0..64).filter(|n| bits >> n & 1 != 0);
        for (entry, n) in page.nsids.iter_mut().zip(changed) {
            *entry = n + 1;
        }
        page
    }

    /// The host has read the page.
    pub fn clear(&mut self, id: ControllerId) {
        if let Some(changed) = self.of.get_mut(usize::from(id.0)) {
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
        changes.note(64, 0b11);
        changes.note(2, 0b10);
        assert_eq!(changes.page(ControllerId(0)).nsids[..2], [64, 0]);
        assert_eq!(changes.page(ControllerId(1)).nsids[..3], [2, 64, 0]);
        assert!(changes.take_news(ControllerId(1)) && !changes.take_news(ControllerId(1)));
        changes.clear(ControllerId(1));
        assert_eq!(changes.page(ControllerId(1)).nsids[0], 0);
        assert_eq!(changes.page(ControllerId(0)).nsids[0], 64);
    }
}
