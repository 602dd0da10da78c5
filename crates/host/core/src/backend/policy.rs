//! Policies of the `adaptive` transfer method.

use byway_link::Method;

/// By what the `adaptive` transfer method chooses for a store. Not `non_exhaustive`: the driver has to know every policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AdaptivePolicy {
    /// BandSlim's: `below` for values shorter than τ·α bytes, `prp` from there on.
    Threshold {
        /// Value length, in bytes, from which `prp` is as quick as `below`: from calibration.
        tau_bytes: u32,
        /// The program's preference: above 1 for less traffic, below 1 for less latency.
        alpha: f32,
        /// The fine-grained method: `piggyback` or `cxl`.
        below: Method,
    },
    /// The fewest bytes on the wire.
    Bytes,
    /// The shortest modelled time.
    Time,
}

impl Default for AdaptivePolicy {
    /// By bytes: it needs no calibration.
    fn default() -> Self {
        Self::Bytes
    }
}
