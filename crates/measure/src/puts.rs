//! Puts, one at a time, and what they cost.

use std::time::Instant;

use anyhow::Result;
use byway::{Class, Ledger};

use crate::rows::{TransferRow, percentiles};

/// Bytes of one submission queue slot.
pub const SLOT_BYTES: u64 = 64;

/// What is measured: it takes puts, and counts what they cost.
pub trait Target {
    /// Stores one value, and returns once it is acknowledged.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Acknowledges what was held back; only targets that gather puts do.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// Everything that crossed the link so far.
    fn ledger(&self) -> Ledger;

    /// Modelled time, in nanoseconds; nothing with the clock off.
    fn now_ns(&self) -> Option<u64>;
}

/// What some puts cost together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Puts.
    pub count: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// What crossed the link.
    pub ledger: Ledger,
    /// Modelled time of each, in nanoseconds.
    pub model_ns: Vec<f64>,
    /// Real time of all.
    pub wall_ns: f64,
}

/// One put that shall be made.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// Makes `count` puts, one after another, and says what they cost. `next` gives each put; `tick` runs after each
/// and may end the work.
///
/// # Errors
/// Those of the target and of `tick`.
pub fn puts<T: Target>(
    target: &mut T,
    count: usize,
    mut next: impl FnMut(usize, &mut dyn FnMut(Put) -> Result<()>) -> Result<()>,
    mut tick: impl FnMut(usize) -> Result<()>,
) -> Result<Tally> {
    let before = target.ledger();
    let mut tally = Tally { count: count as u64, ..Tally::default() };
    if target.now_ns().is_some() {
        tally.model_ns.reserve_exact(count);
    }
    let began = Instant::now();
    for index in 0..count {
        let from_ns = target.now_ns();
        next(index, &mut |put| {
            tally.value_bytes += put.value.len() as u64;
            target.put(put.key, put.value)
        })?;
        if index + 1 == count {
            target.finish()?;
        }
        if let (Some(from_ns), Some(to_ns)) = (from_ns, target.now_ns()) {
            tally.model_ns.push((to_ns - from_ns) as f64);
        }
        tick(index)?;
    }
    tally.wall_ns = began.elapsed().as_nanos() as f64;
    tally.ledger = target.ledger().since(&before);
    Ok(tally)
}

/// The setting of a measurement, as rows name it.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Profile.
    pub profile: &'a str,
    /// Method, as it was asked for.
    pub method: &'a str,
    /// Maximum payload size.
    pub mps: u32,
    /// Maximum read request size.
    pub mrrs: u32,
}

impl Tally {
    /// The tally as means a put.
    pub fn row(mut self, named: Named) -> TransferRow {
        let puts = self.count.max(1) as f64;
        let model_ns_mean = (!self.model_ns.is_empty())
            .then(|| self.model_ns.iter().sum::<f64>() / self.model_ns.len() as f64);
        let ranks = percentiles(&mut self.model_ns);
        let commands = self.ledger.row(Class::CommandFetch).count;
        let chunks = self.ledger.row(Class::ChunkFetch).cost.payload_bytes / SLOT_BYTES;
        TransferRow {
            profile: named.profile.to_owned(),
            method: named.method.to_owned(),
            size: self.value_bytes as f64 / puts,
            count: self.count,
            mps: named.mps,
            mrrs: named.mrrs,
            payload_bytes: self.ledger.payload_bytes() as f64 / puts,
            wire_bytes: self.ledger.wire_bytes() as f64 / puts,
            interrupt_bytes: self.ledger.interrupt_bytes() as f64 / puts,
            commands: commands as f64 / puts,
            slots: (commands + chunks) as f64 / puts,
            model_ns_mean,
            model_ns_p50: ranks.map(|(p50, _)| p50),
            model_ns_p99: ranks.map(|(_, p99)| p99),
            wall_ns_mean: self.wall_ns / puts,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use byway_link::{Method, Profile, cost};

    /// Costs what the closed form says, and keeps nothing.
    struct Reckoned {
        profile: Profile,
        method: Method,
        ledger: Ledger,
        now_ns: Option<u64>,
    }

    impl Target for Reckoned {
        fn put(&mut self, _key: &[u8], value: &[u8]) -> Result<()> {
            let put = cost::of_put(self.method, value.len() as u64, &self.profile);
            self.ledger.merge(&put.ledger);
            self.now_ns = self.now_ns.map(|ns| ns + put.ps / 1000);
            Ok(())
        }

        fn ledger(&self) -> Ledger {
            self.ledger
        }

        fn now_ns(&self) -> Option<u64> {
            self.now_ns
        }
    }

    fn measured(method: Method, size: usize, now_ns: Option<u64>) -> TransferRow {
        let profile = Profile::by_name("cosmos").unwrap();
        let mut target = Reckoned { profile, method, ledger: Ledger::default(), now_ns };
        let value = vec![7; size];
        let next = |_: usize, put: &mut dyn FnMut(Put) -> Result<()>| put(Put { key: b"key", value: &value });
        let tally = puts(&mut target, 10, next, |_| Ok(())).unwrap();
        tally.row(Named { profile: "cosmos", method: method.name(), mps: 256, mrrs: 512 })
    }

    #[test]
    fn means_are_exact_and_slots_count_commands_and_chunks() {
        let row = measured(Method::Inline, 100, Some(5));
        assert_eq!((row.payload_bytes, row.commands, row.slots), (216.0, 1.0, 3.0));
        assert_eq!(row.model_ns_p50, row.model_ns_p99);
        let row = measured(Method::Piggyback, 128, Some(0));
        assert_eq!((row.payload_bytes, row.wire_bytes, row.commands), (264.0, 684.0, 3.0));
    }

    #[test]
    fn rows_have_no_model_time_with_the_clock_off() {
        let row = measured(Method::Prp, 32, None);
        assert!(row.model_ns_mean.is_none() && row.model_ns_p99.is_none());
    }

    #[test]
    fn the_work_ends_when_it_is_asked_to() {
        let profile = Profile::by_name("cosmos").unwrap();
        let mut target = Reckoned { profile, method: Method::Prp, ledger: Ledger::default(), now_ns: None };
        let next = |_: usize, put: &mut dyn FnMut(Put) -> Result<()>| put(Put { key: b"k", value: b"v" });
        assert!(puts(&mut target, 10, next, |_| anyhow::bail!("enough")).is_err());
        assert_eq!(target.ledger.row(Class::CommandFetch).count, 1);
    }
}
