//! Transactions that the host starts: doorbells, registers, stores into and loads from device memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::class::Class;
use crate::cost::Cost;
use crate::cxl::CxlLink;
use crate::ledger::Ledger;
use crate::pcie::PcieLink;
use crate::profile::Profile;

/// The host's part of the ledger, recorded by a Bus from any thread.
///
/// Counters are relaxed: a ledger read while other threads count may show one row a transaction ahead of another. It
/// is exact after those threads are joined or otherwise ordered before. When off, each call is one branch.
#[derive(Debug)]
pub struct HostMeter {
    on: AtomicBool,
    link: PcieLink,
    cxl: CxlLink,
    /// Writes of each doorbell, by its index in the register array.
    doorbells: Box<[Pair]>,
    /// Writes of all other doorbells.
    other_doorbells: AtomicU64,
    registers: Sum,
    byte_stores: Sum,
    cxl_stores: Sum,
    cxl_loads: Sum,
}

/// Writes of one queue's tail and head doorbell, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Pair([AtomicU64; 2]);

/// One row that several threads add to.
#[derive(Debug, Default)]
struct Sum {
    count: AtomicU64,
    payload_bytes: AtomicU64,
    down_bytes: AtomicU64,
    up_bytes: AtomicU64,
}

impl Sum {
    fn add(&self, cost: Cost) {
        self.count.fetch_add(1, Relaxed);
        self.payload_bytes.fetch_add(cost.payload_bytes, Relaxed);
        self.down_bytes.fetch_add(cost.down_bytes, Relaxed);
        self.up_bytes.fetch_add(cost.up_bytes, Relaxed);
    }

    fn record_in(&self, ledger: &mut Ledger, class: Class) {
        let cost = Cost {
            payload_bytes: self.payload_bytes.load(Relaxed),
            down_bytes: self.down_bytes.load(Relaxed),
            up_bytes: self.up_bytes.load(Relaxed),
        };
        ledger.record_many(class, self.count.load(Relaxed), cost);
    }
}

impl HostMeter {
    /// A meter with all counts at 0, turned off.
    pub fn new(profile: &Profile) -> Self {
        Self {
            on: AtomicBool::new(false),
            link: profile.link,
            cxl: profile.cxl,
            doorbells: Box::default(),
            other_doorbells: AtomicU64::new(0),
            registers: Sum::default(),
            byte_stores: Sum::default(),
            cxl_stores: Sum::default(),
            cxl_loads: Sum::default(),
        }
    }

    /// A meter that stays off: for a device outside this process, which counts its transactions itself.
    pub fn off() -> Self {
        Self::new(&crate::profiles::ALL[0]())
    }

    /// Adds a separate counter for each of the first `doorbells` doorbells. A queue is used by one thread at a time,
    /// so counting its doorbell takes no atomic read-modify-write. Two threads that ring the same doorbell at once
    /// may lose a count.
    #[must_use]
    pub fn with_doorbells(mut self, doorbells: usize) -> Self {
        self.doorbells = (0..doorbells.div_ceil(2)).map(|_| Pair::default()).collect();
        self
    }

    /// Turns counting on or off.
    pub fn set_on(&self, on: bool) {
        self.on.store(on, Relaxed);
    }

    /// Whether transactions are counted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// The host writes the doorbell at an index of the register array. All cost the same, so only a count is kept.
    #[inline]
    pub fn doorbell(&self, place: u32) {
        if !self.is_on() {
            return;
        }
        match self.doorbells.get(place as usize / 2).map(|pair| &pair.0[place as usize % 2]) {
            Some(count) => count.store(count.load(Relaxed) + 1, Relaxed),
            None => _ = self.other_doorbells.fetch_add(1, Relaxed),
        }
    }

    /// The host writes a register of `n` bytes.
    #[inline]
    pub fn register_write(&self, n: u64) {
        if self.is_on() {
            self.registers.add(self.link.mmio_write(n));
        }
    }

    /// The host reads a register of `n` bytes.
    #[inline]
    pub fn register_read(&self, n: u64) {
        if self.is_on() {
            self.registers.add(self.link.mmio_read(n));
        }
    }

    /// The host stores `n` bytes into a controller memory buffer.
    #[inline]
    pub fn byte_store(&self, n: u64) {
        if self.is_on() {
            self.byte_stores.add(self.link.mmio_write(n));
        }
    }

    /// The host stores cache lines over CXL.mem and fences; `partial_lines` of them were read for ownership.
    #[inline]
    pub fn cxl_store(&self, lines: u64, partial_lines: u64) {
        if self.is_on() {
            self.cxl_stores.add(self.cxl.store(lines, partial_lines));
        }
    }

    /// The host loads cache lines over CXL.mem.
    #[inline]
    pub fn cxl_load(&self, lines: u64) {
        if self.is_on() {
            self.cxl_loads.add(self.cxl.load(lines));
        }
    }

    /// Everything counted so far.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        let counts = self.doorbells.iter().flat_map(|pair| &pair.0).chain([&self.other_doorbells]);
        let doorbells: u64 = counts.map(|count| count.load(Relaxed)).sum();
        ledger.record_many(Class::Doorbell, doorbells, self.link.doorbell() * doorbells);
        self.registers.record_in(&mut ledger, Class::Register);
        self.byte_stores.record_in(&mut ledger, Class::ByteStore);
        self.cxl_stores.record_in(&mut ledger, Class::CxlStore);
        self.cxl_loads.record_in(&mut ledger, Class::CxlLoad);
        ledger
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn meter() -> HostMeter {
        HostMeter::new(&Profile::by_name("gen5x8-cxl").unwrap())
    }

    #[test]
    fn a_meter_that_is_off_counts_nothing() {
        let meter = meter();
        meter.doorbell(3);
        meter.register_read(8);
        assert_eq!(meter.ledger(), Ledger::default());
    }

    #[test]
    fn doorbells_from_several_threads_are_all_counted() {
        let meter = meter().with_doorbells(2);
        meter.set_on(true);
        std::thread::scope(|scope| {
            // Two threads with a doorbell of their own, and two that share one of the others.
            for place in [0, 1, 2, 2] {
                let meter = &meter;
                scope.spawn(move || (0..1000).for_each(|_| meter.doorbell(place)));
            }
        });
        let row = meter.ledger().row(Class::Doorbell);
        assert_eq!((row.count, row.cost.payload_bytes, row.cost.down_bytes), (4000, 16_000, 112_000));
    }

    #[test]
    fn each_kind_of_access_has_its_own_row() {
        let meter = meter();
        meter.set_on(true);
        meter.register_write(4);
        meter.register_read(8);
        meter.byte_store(100);
        meter.cxl_store(2, 1);
        meter.cxl_load(1);
        let ledger = meter.ledger();
        assert_eq!(ledger.row(Class::Register).count, 2);
        assert_eq!(ledger.row(Class::Register).cost.wire_bytes(), 28 + 24 + 28);
        assert_eq!(ledger.row(Class::ByteStore).cost.down_bytes, 2 * 24 + 100);
        assert_eq!(ledger.row(Class::CxlStore).cost, CxlLink { flit: crate::Flit::Bytes68 }.store(2, 1));
        assert_eq!(ledger.row(Class::CxlLoad).cost.payload_bytes, 68);
    }
}
