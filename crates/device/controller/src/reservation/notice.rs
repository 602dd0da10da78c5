//! Notices that a host's registration or reservation was changed by another (Base 2.1, log page 80h), by controller.

use std::collections::VecDeque;

use byway_spec::base::reservation::{Notice, NotificationMask, ReservationLog};
use zerocopy::FromZeros;

use crate::id::ControllerId;
use crate::limits::MAX_NAMESPACES;
use crate::subsystem::PerController;

/// Most notices kept for a controller that its host does not read. Older ones are lost, which shows in the count of the
/// next.
const KEPT: usize = 64;

/// Notices waiting to be read, by controller.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    of: PerController<OfController>,
}

#[derive(Debug, Clone)]
struct OfController {
    masks: [NotificationMask; MAX_NAMESPACES as usize],
    waiting: VecDeque<ReservationLog>,
    count: u64,
    /// No event was raised for the newest of them.
    news: bool,
}

impl Default for OfController {
    fn default() -> Self {
        let masks = [NotificationMask::new(); MAX_NAMESPACES as usize];
        Self { masks, waiting: VecDeque::new(), count: 0, news: false }
    }
}

impl OfController {
    fn add(&mut self, nsid: u32, kind: Notice) {
        // 0 means none.
        self.count = self.count.wrapping_add(1).max(1);
        if self.waiting.len() == KEPT {
            self.waiting.pop_front();
        }
        self.waiting.push_back(ReservationLog {
            count: self.count,
            kind,
            nsid,
            ..ReservationLog::new_zeroed()
        });
        self.news = true;
    }
}

impl Notices {
    /// Notifies the host of controller `id` of a change in namespace `nsid`, unless it masked such notices.
    pub fn notify(&mut self, id: ControllerId, nsid: u32, notice: Notice) {
        if !self.mask(id, nsid).hides(notice)
            && let Some(of) = self.of.entry(id)
        {
            of.add(nsid, notice);
        }
    }

    /// Notices of namespace `nsid` that controller `id` masks.
    pub fn mask(&self, id: ControllerId, nsid: u32) -> NotificationMask {
        let of = self.of.get(id);
        of.and_then(|of| of.masks.get(nsid.wrapping_sub(1) as usize)).copied().unwrap_or_default()
    }

    /// Sets the notices of namespace `nsid` that controller `id` masks.
    pub fn set_mask(&mut self, id: ControllerId, nsid: u32, mask: NotificationMask) {
        let of = self.of.entry(id);
        if let Some(place) = of.and_then(|of| of.masks.get_mut(nsid.wrapping_sub(1) as usize)) {
            *place = mask;
        }
    }

    /// Takes whether a notice waits that no event was raised for.
    #[inline]
    pub fn take_news(&mut self, id: ControllerId) -> bool {
        self.of.get_mut(id).is_some_and(|of| std::mem::take(&mut of.news))
    }

    /// The log page of controller `id`: the oldest notice that waits, zeroes for none.
    pub fn page(&self, id: ControllerId) -> ReservationLog {
        let waiting = self.of.get(id).map(|of| &of.waiting);
        let oldest = waiting.and_then(|waiting| Some((waiting.front()?, waiting.len() - 1)));
        oldest.map_or_else(ReservationLog::new_zeroed, |(oldest, more)| ReservationLog {
            more: more as u8,
            ..*oldest
        })
    }

    /// The host has read the page. The next notice raises an event.
    pub fn clear(&mut self, id: ControllerId) {
        if let Some(of) = self.of.get_mut(id) {
            of.waiting.pop_front();
            of.news = !of.waiting.is_empty();
        }
    }

    /// Controller `id` was reset.
    pub fn reset(&mut self, id: ControllerId) {
        if let Some(of) = self.of.get_mut(id) {
            *of = OfController::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_read_one_by_one_and_the_count_shows_lost_ones() {
        let (mut notices, id) = (Notices::default(), ControllerId(5));
        assert_eq!(notices.page(id).count, 0);
        (0..KEPT as u32 + 3).for_each(|_| notices.notify(id, 2, Notice::RESERVATION_RELEASED));
        assert!(notices.take_news(id) && !notices.take_news(id));
        let first = notices.page(id);
        assert_eq!((first.count, first.more, first.nsid), (4, KEPT as u8 - 1, 2));
        notices.clear(id);
        assert!(notices.take_news(id), "the next raises an event");
        assert_eq!(notices.page(id).count, 5);
        assert_eq!(notices.page(ControllerId(4)).count, 0);
    }

    #[test]
    fn a_masked_notice_is_not_sent() {
        let (mut notices, id) = (Notices::default(), ControllerId(0));
        notices.set_mask(id, 2, NotificationMask::new().with_respre(true));
        notices.notify(id, 2, Notice::RESERVATION_PREEMPTED);
        assert_eq!(notices.page(id).count, 0);
        notices.notify(id, 1, Notice::RESERVATION_PREEMPTED);
        assert_eq!(notices.page(id).count, 1);
    }
}
