//! `adaptive`: a method for each payload, by BandSlim's threshold or by the link's cost model.
//!
//! The cost model is reckoned once for each length and remembered: choosing is a table look-up. Lengths beyond the
//! table cost the same in whole pages by every method, so only what is left of them decides.

use byway_core::{AdaptivePolicy, StoreOptions};
use byway_link::cost::{self, Goal};
use byway_link::{Method, Profile};

use crate::announced::Announced;
use crate::bus::{Bus, LinkModel};
use crate::queue_pair::Queue;

/// Lengths up to here have a choice of their own.
const EXACT_BYTES: usize = 16 * 1024;
/// Beyond, lengths differ by what they have beyond whole pages.
const PAGE_BYTES: usize = 4096;

/// Methods that carry a store without options. `piggyback-pt` is for hosts behind a kernel, and never cheaper.
const FOR_STORES: [Method; 7] = [
    Method::Prp,
    Method::Sgl,
    Method::Inline,
    Method::Piggyback,
    Method::PrpTail,
    Method::Cxl,
    Method::CxlPiggyback,
];
/// Methods that carry any command.
const FOR_ALL: [Method; 3] = [Method::Prp, Method::Sgl, Method::Inline];

/// What `adaptive` remembers.
#[derive(Debug)]
pub(crate) struct Chooser {
    policy: AdaptivePolicy,
    stores: Memo,
    others: Memo,
    /// No window of device memory was to be had.
    windowless: bool,
}

/// The choice for each length, once it was made.
#[derive(Debug, Default)]
struct Memo(Vec<Option<Method>>);

impl Chooser {
    pub(crate) fn new(policy: AdaptivePolicy) -> Self {
        Self { policy, stores: Memo::default(), others: Memo::default(), windowless: false }
    }

    /// Chooses no method that needs a window of device memory from now on.
    pub(crate) fn do_without_windows(&mut self) {
        self.windowless = true;
        self.stores = Memo::default();
    }
}

impl Memo {
    #[inline]
    fn get(&self, len: usize) -> Option<Method> {
        *self.0.get(class(len))?
    }

    fn set(&mut self, len: usize, method: Method) {
        if self.0.is_empty() {
            self.0 = vec![None; EXACT_BYTES + PAGE_BYTES];
        }
        if let Some(place) = self.0.get_mut(class(len)) {
            *place = Some(method);
        }
    }
}

/// The length in whose place another is chosen for: itself, or one in the first pages beyond the exact ones.
#[inline]
fn class(len: usize) -> usize {
    if len < EXACT_BYTES { len } else { EXACT_BYTES + len % PAGE_BYTES }
}

/// The method for a store of `len` bytes.
#[inline]
pub(crate) fn choose<B: Bus>(queue: &mut Queue<B>, len: usize, options: StoreOptions) -> Method {
    if options.any() {
        return choose_for_any(queue, len);
    }
    match queue.chooser.policy {
        AdaptivePolicy::Threshold { tau_bytes, alpha, below } => {
            if is_below(len, tau_bytes, alpha) && is_usable(queue, below, len as u64) {
                below
            } else {
                Method::Prp
            }
        }
        AdaptivePolicy::Bytes => remembered(queue, len, Goal::Bytes),
        AdaptivePolicy::Time => remembered(queue, len, Goal::Time),
    }
}

/// The method for the payload of any other command.
pub(crate) fn choose_for_any<B: Bus>(queue: &mut Queue<B>, len: usize) -> Method {
    let goal = match queue.chooser.policy {
        AdaptivePolicy::Threshold { .. } => return Method::Prp,
        AdaptivePolicy::Bytes => Goal::Bytes,
        AdaptivePolicy::Time => Goal::Time,
    };
    if let Some(method) = queue.chooser.others.get(len) {
        return method;
    }
    let method = cheapest(queue, len, goal, &FOR_ALL);
    queue.chooser.others.set(len, method);
    method
}

/// Whether a value is fine-grained: shorter than τ·α (BandSlim, IEEE Micro 2025: τ_α = α·τ).
fn is_below(len: usize, tau_bytes: u32, alpha: f32) -> bool {
    (len as f64) < f64::from(tau_bytes) * f64::from(alpha)
}

#[inline]
fn remembered<B: Bus>(queue: &mut Queue<B>, len: usize, goal: Goal) -> Method {
    if let Some(method) = queue.chooser.stores.get(len) {
        return method;
    }
    let method = cheapest(queue, len, goal, &FOR_STORES);
    queue.chooser.stores.set(len, method);
    method
}

/// The longest of the lengths that a choice for `len` is for: what is chosen has to carry it.
#[inline]
fn reach(len: usize) -> u64 {
    if len < EXACT_BYTES { len as u64 } else { u64::from(u32::MAX) }
}

fn cheapest<B: Bus>(queue: &Queue<B>, len: usize, goal: Goal, among: &[Method]) -> Method {
    let usable: Vec<Method> =
        among.iter().copied().filter(|&method| is_usable(queue, method, reach(len))).collect();
    let len = class(len) as u64;
    with_profile(queue, |profile| cost::cheapest(len, profile, goal, &usable)).unwrap_or(Method::Prp)
}

/// The profile of the bus; for a device without a model, that of a usual drive.
fn with_profile<B: Bus, T>(queue: &Queue<B>, ask: impl FnOnce(&Profile) -> Option<T>) -> Option<T> {
    match queue.bus().model() {
        Some(model) => ask(model.profile()),
        None => ask(&Profile::by_name("gen4x4")?),
    }
}

/// Whether the queue has a method, and the device carries a payload of that length by it.
fn is_usable<B: Bus>(queue: &Queue<B>, method: Method, len: u64) -> bool {
    let announced = queue.limits();
    let is_there = announced.methods.contains(method);
    is_there && admits(announced, method, len) && !(queue.chooser.windowless && method.needs_device_memory())
}

/// Whether a payload is within the announced limits of a method.
fn admits(announced: &Announced, method: Method, len: u64) -> bool {
    match method {
        Method::Inline | Method::Hybrid => len <= announced.inline_max_bytes,
        Method::Piggyback | Method::PiggybackPt => len <= announced.piggyback_max_bytes,
        Method::Cxl | Method::CxlPiggyback => announced.windows.is_some_and(|windows| windows.admits(len)),
        Method::Prp | Method::Sgl | Method::PrpTail | Method::Adaptive => true,
    }
}

impl<B: Bus> Queue<B> {
    /// Says which method a store of `value_bytes` goes by on this queue, and why.
    pub fn explain(&mut self, value_bytes: usize) -> String {
        if self.method() != Method::Adaptive {
            return format!("{value_bytes} bytes go by {}: the queue was opened so", self.method());
        }
        let method = choose(self, value_bytes, StoreOptions::NONE);
        let why = match self.chooser.policy {
            AdaptivePolicy::Threshold { tau_bytes, alpha, below } => {
                let side = if is_below(value_bytes, tau_bytes, alpha) { "below" } else { "not below" };
                format!("{side} the threshold of {tau_bytes} bytes · {alpha} that {below} is chosen under")
            }
            AdaptivePolicy::Bytes => {
                self.explain_cost(value_bytes, "bytes on the wire", |cost| cost.ledger.wire_bytes())
            }
            AdaptivePolicy::Time => {
                self.explain_cost(value_bytes, "ns of modelled time", |cost| cost.ps / 1000)
            }
        };
        format!("{value_bytes} bytes go by {method}: {why}")
    }

    fn explain_cost(&self, value_bytes: usize, unit: &str, price: impl Fn(&cost::PutCost) -> u64) -> String {
        let usable = FOR_STORES.into_iter().filter(|&method| is_usable(self, method, reach(value_bytes)));
        let choices = with_profile(self, |profile| {
            let choice_of =
                |method| format!("{method} {}", price(&cost::of_put(method, value_bytes as u64, profile)));
            Some(usable.map(choice_of).collect::<Vec<_>>().join(", "))
        });
        format!("{unit}: {}", choices.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_fine_grained_below_tau_times_alpha() {
        assert!(is_below(127, 128, 1.0));
        assert!(!is_below(128, 128, 1.0));
        assert!(is_below(128, 128, 1.5));
        assert!(!is_below(64, 128, 0.5));
    }

    #[test]
    fn long_values_are_distinguished_by_their_tail_beyond_whole_pages() {
        assert_eq!(class(EXACT_BYTES - 1), EXACT_BYTES - 1);
        assert_eq!(class(EXACT_BYTES), EXACT_BYTES);
        assert_eq!(class(1 << 20), EXACT_BYTES);
        assert_eq!(class((1 << 20) + 100), EXACT_BYTES + 100);
    }
}
