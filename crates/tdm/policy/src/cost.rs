//! Assumed costs of calls by level, and the time that a second of calls takes.

use crate::averages::Rates;
use crate::level::Level;
use crate::sample::Call;
use crate::scales::Scaled;

/// Cost of a call: fixed, and for each byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Of the call.
    pub call_ns: f64,
    /// Of each byte.
    pub byte_ns: f64,
}

impl Cost {
    /// A call of `call_ns`, and `byte_ns` for each byte.
    #[must_use]
    pub const fn new(call_ns: f64, byte_ns: f64) -> Self {
        Self { call_ns, byte_ns }
    }

    pub(crate) fn of(&self, calls: f64, bytes: f64) -> f64 {
        calls * self.call_ns + bytes * self.byte_ns
    }
}

/// Costs of a level's calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallCosts {
    /// A read.
    pub read: Cost,
    /// A write.
    pub write: Cost,
    /// A sync. Its cost by length is learnt from each file.
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

/// Costs assumed until measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// By the kernel.
    pub lower: CallCosts,
    /// What ABSORB adds to a write, and a sync of records. Reads cost nothing more.
    pub absorb: CallCosts,
    /// From device memory.
    pub dax: CallCosts,
}

impl Default for Costs {
    /// Lower bounds measured by the study, sections 2 and 3. Reads of device memory count as slower than the page cache's, so that no file moves
    /// for its reads before it was measured otherwise.
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

/// Nanoseconds of each second that these calls take at a level.
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
