//! What controllers hold together of what is bounded, counted as it changes.

use super::controller_queue::ControllerQueue;
use crate::limits::{
    RUN_SLOTS_PER_CONTROLLER, RUN_SLOTS_SHARED, RUN_SLOTS_TOTAL, WAITING_BYTES_MAX_PER_CONTROLLER,
    WAITING_BYTES_RESERVED_PER_CONTROLLER, WAITING_BYTES_SHARED,
};

/// What controllers hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub run_slots: usize,
    /// Run slots beside the first one of each controller.
    pub shared_slots: usize,
    /// Bytes of waiting programs beside those reserved for each controller.
    pub shared_waiting_bytes: usize,
    /// Bytes of values and inputs.
    pub value_bytes: usize,
}

impl Totals {
    /// What a controller holds.
    fn of(queue: &ControllerQueue) -> Self {
        let run_slots = queue.run_slots();
        Self {
            run_slots,
            shared_slots: run_slots.saturating_sub(1),
            shared_waiting_bytes: shared_waiting_bytes(queue.waiting_bytes()),
            value_bytes: queue.value_bytes(),
        }
    }

    /// With what another controller holds.
    pub fn with(&self, queue: &ControllerQueue) -> Self {
        let own = Self::of(queue);
        Self {
            run_slots: self.run_slots + own.run_slots,
            shared_slots: self.shared_slots + own.shared_slots,
            shared_waiting_bytes: self.shared_waiting_bytes + own.shared_waiting_bytes,
            value_bytes: self.value_bytes + own.value_bytes,
        }
    }

    /// Without what one of the controllers holds.
    pub fn without(&self, queue: &ControllerQueue) -> Self {
        let own = Self::of(queue);
        Self {
            run_slots: self.run_slots - own.run_slots,
            shared_slots: self.shared_slots - own.shared_slots,
            shared_waiting_bytes: self.shared_waiting_bytes - own.shared_waiting_bytes,
            value_bytes: self.value_bytes - own.value_bytes,
        }
    }

    /// Whether a run slot is free for a controller that holds `own` beside these: its first one, or one of those that controllers share.
    pub const fn has_slot_for(&self, own: usize) -> bool {
        let is_free = match own {
            0 => true,
            1..RUN_SLOTS_PER_CONTROLLER => self.shared_slots + own - 1 < RUN_SLOTS_SHARED,
            _ => false,
        };
        is_free && self.run_slots + own < RUN_SLOTS_TOTAL
    }

    /// Whether a controller may have programs of `own_bytes` that wait, beside these: they fit into what is reserved for it, and the rest into what
    /// controllers share.
    pub const fn fits_waiting_quota(&self, own_bytes: usize) -> bool {
        let shared_bytes = shared_waiting_bytes(own_bytes);
        let fits_shared =
            shared_bytes == 0 || self.shared_waiting_bytes + shared_bytes <= WAITING_BYTES_SHARED;
        own_bytes <= WAITING_BYTES_MAX_PER_CONTROLLER && fits_shared
    }
}

/// How many of a controller's bytes of waiting programs are not reserved for it.
const fn shared_waiting_bytes(own_bytes: usize) -> usize {
    own_bytes.saturating_sub(WAITING_BYTES_RESERVED_PER_CONTROLLER)
}
