//! The model of a hybrid SSD, applied to each touch: residency and latency.

use std::fmt;
use std::sync::Arc;

use byway_link::ClockMode;
use byway_sys::time::monotonic_ns;

use crate::cache::Cache;
use crate::latency::LatencyModel;
use crate::page_table::PageTable;

/// Remaining wait from which the processor is yielded, in ps.
const YIELD_FROM_PS: u64 = 20_000_000;

/// Remaining wait from which the processor pauses, in ps.
const PAUSE_FROM_PS: u64 = 500_000;

/// Parameters of a modelled device for every process that touches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelTerms {
    /// Mode of modelled time.
    pub clock: ClockMode,
    /// Latencies.
    pub latency: LatencyModel,
    /// Bytes of a cache page.
    pub page_bytes: u32,
    /// Assumed time of a miss in a process that does not own the device.
    pub miss_ns: u32,
    /// Offset of the window in the device.
    pub device_at: u64,
}

/// The model behind a window.
pub(crate) struct Model {
    pub(crate) terms: ModelTerms,
    page_table: Arc<PageTable>,
    /// Present in the process that owns the device.
    cache: Option<Arc<Cache>>,
    epoch_ns: u64,
    /// Overshoot of a wait on the machine's clock, in ps.
    overshoot_ps: u64,
}

/// Clock reads timed together.
const LOOKS: u64 = 16;

/// Overshoot of a wait: half a clock read before it, half on average at its end, half after it. The median of some trials.
fn overshoot_ps() -> u64 {
    let mut trials = [0; LOOKS as usize];
    trials.fill_with(|| {
        let begun_ns = monotonic_ns();
        let last_ns = (0..LOOKS).fold(begun_ns, |_, _| monotonic_ns());
        (last_ns - begun_ns) * 1000 / LOOKS * 3 / 2
    });
    trials.sort_unstable();
    trials[trials.len() / 2]
}

impl Model {
    pub(crate) fn new(terms: ModelTerms, page_table: Arc<PageTable>, cache: Option<Arc<Cache>>) -> Self {
        let epoch_ns = page_table.epoch_ns();
        let overshoot_ps = if terms.clock == ClockMode::Paced { overshoot_ps() } else { 0 };
        Self { terms, page_table, cache, epoch_ns, overshoot_ps }
    }

    /// Modelled time in ps; 0 with the clock off.
    #[inline]
    pub(crate) fn now_ps(&self) -> u64 {
        match self.terms.clock {
            ClockMode::Off => 0,
            ClockMode::Virtual => self.page_table.now_ps(),
            ClockMode::Paced => monotonic_ns().saturating_sub(self.epoch_ns).saturating_mul(1000),
        }
    }

    /// Records a touch of a range and waits for absent pages.
    #[inline]
    pub(crate) fn touch(&self, at: u64, len_bytes: u64, writes: bool) {
        let page_bytes = u64::from(self.terms.page_bytes);
        let first = self.terms.device_at.saturating_add(at);
        let last = first.saturating_add(len_bytes.saturating_sub(1));
        for page in first / page_bytes..=last / page_bytes {
            if !self.page_table.touch(page, writes) {
                self.wait_for_page(page, writes);
            }
        }
    }

    #[cold]
    fn wait_for_page(&self, page: u64, writes: bool) {
        self.page_table.note_blocking();
        let now_ps = self.now_ps();
        match &self.cache {
            Some(cache) => {
                self.wait_until(cache.bring_now(page, now_ps));
                self.page_table.touch(page, writes);
            }
            None => {
                self.page_table.bring_without_owner(page, writes);
                self.pay(now_ps, u64::from(self.terms.miss_ns) * 1000);
            }
        }
    }

    /// Charges the time since `since_ps`.
    #[inline]
    pub(crate) fn pay(&self, since_ps: u64, cost_ps: u64) {
        match self.terms.clock {
            ClockMode::Off => {}
            ClockMode::Virtual => self.page_table.add_ps(cost_ps),
            ClockMode::Paced => {
                self.wait_paced(since_ps.saturating_add(cost_ps.saturating_sub(self.overshoot_ps)))
            }
        }
    }

    /// Advances modelled time.
    pub(crate) fn wait_until(&self, at_ps: u64) {
        match self.terms.clock {
            ClockMode::Off => {}
            ClockMode::Virtual => self.page_table.advance_to(at_ps),
            ClockMode::Paced => self.wait_paced(at_ps),
        }
    }

    fn wait_paced(&self, at_ps: u64) {
        loop {
            let now_ps = self.now_ps();
            match at_ps.saturating_sub(now_ps) {
                0 => return,
                YIELD_FROM_PS.. => std::thread::yield_now(),
                PAUSE_FROM_PS.. => std::hint::spin_loop(),
                _ => {}
            }
        }
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("terms", &self.terms).finish_non_exhaustive()
    }
}
