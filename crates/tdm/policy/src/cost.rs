//! What calls cost by each level before any was timed, and what a second of them takes.

use crate::averages::Rates;
use crate::level::Level;
use crate::sample::Call;
use crate::scales::Scaled;

/// A call, and each of its bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// The call itself.
    pub call_ns: f64,
    /// Each byte.
    pub byte_ns: f64,
}

impl Cost {
    /// A call that takes `call_ns`, and `byte_ns` for each byte.
    #[must_use]
    pub const fn new(call_ns: f64, byte_ns: f64) -> Self {
        Self { call_ns, byte_ns }
    }

    pub(crate) fn of(&self, calls: f64, bytes: f64) -> f64 {
        calls * self.call_ns + bytes * self.byte_ns
    }
}

/// Calls of one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallCosts {
    /// A read.
    pub read: Cost,
    /// A write.
    pub write: Cost,
    /// A sync; what it costs by length is learnt from each file.
    pub sync: Cost,
}

impl CallCosts {
    pub(crate) const fn call(&self, call: Call) -> Cost {
        match call {
            Call::Read => self.read,
            Call::Write => self.write,
            Call::Sync => self.sync,
        }
    }
}

/// What is taken for true until it was measured. Wrong ones cost time at the beginning and nothing later.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// The kernel's.
    pub lower: CallCosts,
    /// What absorbing adds to a write (and nothing to a read), and a sync of records.
    pub absorb: CallCosts,
    /// Device memory's.
    pub dax: CallCosts,
}

impl Default for Costs {
    /// Floors that the study measured: sections 2 and 3. Reads of device memory are taken for slower than the page cache, so no
    /// file moves for its reads before somebody measured otherwise.
    fn default() -> Self {
        let lower = Cost::new(243.0, 0.3);
        Self {
            lower: CallCosts { read: lower, write: lower, sync: Cost::new(200_000.0, 0.0) },
            absorb: CallCosts {
                read: Cost::new(0.0, 0.0),
                write: Cost::new(110.0, 0.25),
                sync: Cost::new(150.0, 0.0),
            },
            dax: CallCosts {
                read: Cost::new(500.0, 0.35),
                write: Cost::new(30.0, 0.13),
                sync: Cost::new(345.0, 0.0),
            },
        }
    }
}

impl Costs {
    pub(crate) const fn level(&self, level: Level) -> &CallCosts {
        match level {
            Level::Pass => &self.lower,
            Level::Absorb => &self.absorb,
            Level::Dax => &self.dax,
        }
    }
}

/// How many nanoseconds of each second these calls take at a level.
pub(crate) fn time(costs: &Scaled<'_>, level: Level, rates: &Rates) -> f64 {
    let part = |level, call, calls, bytes| costs.of(level, call, calls, bytes);
    let all = |level| {
        part(level, Call::Read, rates.reads, rates.read_bytes)
            + part(level, Call::Write, rates.writes, rates.written_bytes)
            + part(level, Call::Sync, rates.syncs, 0.0)
    };
    match level {
        Level::Pass | Level::Dax => all(level),
        Level::Absorb => {
            part(Level::Pass, Call::Read, rates.reads, rates.read_bytes)
                + part(Level::Pass, Call::Write, rates.writes, rates.written_bytes)
                + part(level, Call::Write, rates.writes, rates.written_bytes)
                + part(level, Call::Sync, rates.syncs, 0.0)
        }
    }
}
