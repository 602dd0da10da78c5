//! Records the transactions of a device.

use crate::class::Class;
use crate::cxl::{CxlLink, Lines};
use crate::ledger::Ledger;
use crate::pcie::PcieLink;
use crate::profile::{Profile, Work};
use crate::timeline::Timeline;

const LEDGER: u8 = 1;
const TIMING: u8 = 2;

/// The device's part of the ledger, and its timeline.
///
/// Used by the thread that runs the device, one at a time. With ledger and timing off, each call is one branch. Bus
/// accessors call it once per transfer, so a transfer that the command did not need is counted too.
#[derive(Clone, Debug)]
pub struct Meter {
    on: u8,
    link: PcieLink,
    cxl: CxlLink,
    ledger: Ledger,
    timeline: Timeline,
}

impl Meter {
    /// A meter with ledger and timing off.
    pub fn new(profile: &Profile) -> Self {
        Self {
            on: 0,
            link: profile.link,
            cxl: profile.cxl,
            ledger: Ledger::default(),
            timeline: Timeline::new(profile),
        }
    }

    /// Whether transactions are counted.
    pub fn set_ledger(&mut self, on: bool) {
        self.set(LEDGER, on);
    }

    /// Whether transactions take modelled time.
    pub fn set_timing(&mut self, on: bool) {
        self.set(TIMING, on);
    }

    fn set(&mut self, bit: u8, on: bool) {
        self.on = if on { self.on | bit } else { self.on & !bit };
    }

    /// Whether transactions are counted.
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.on & LEDGER != 0
    }

    /// Whether transactions take modelled time.
    #[inline]
    pub fn is_timing(&self) -> bool {
        // The exception is for benches/clock.sh alone, which measures what a clock that is off costs.
        cfg!(not(byway_without_clock)) && self.on & TIMING != 0
    }

    /// What was counted so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Adds the counts of another meter of the same device, and zeroes that one.
    pub fn absorb(&mut self, other: &mut Self) {
        self.ledger.merge(&std::mem::take(&mut other.ledger));
    }

    /// The link that costs are computed for.
    pub fn link(&self) -> &PcieLink {
        &self.link
    }

    /// Starts work on a command that became known to the device at `at_ps`.
    #[inline]
    pub fn begin(&mut self, at_ps: u64) {
        if self.is_timing() {
            self.timeline.begin(at_ps);
        }
    }

    /// End of the work so far, in picoseconds; 0 with timing off.
    #[inline]
    pub fn cursor_ps(&self) -> u64 {
        if self.is_timing() { self.timeline.cursor_ps() } else { 0 }
    }

    /// Time at which the last write to the host took effect, in picoseconds; 0 with timing off.
    #[inline]
    pub fn arrived_ps(&self) -> u64 {
        if self.is_timing() { self.timeline.arrived_ps() } else { 0 }
    }

    /// Moves the cursor on to `at_ps`, such as the end of a flash operation. Never moves it back.
    #[inline]
    pub fn advance_to(&mut self, at_ps: u64) {
        if self.is_timing() {
            self.timeline.advance_to(at_ps);
        }
    }

    /// The device reads `n` bytes of host memory by one transfer and waits for them.
    ///
    /// For [`Class::CommandFetch`] and [`Class::ChunkFetch`] the profile may have fetched them ahead.
    #[inline]
    pub fn device_read(&mut self, class: Class, n: u64) {
        if self.on != 0 {
            self.note_read(class, n);
        }
    }

    /// The device writes `n` bytes to host memory by one transfer and waits until they have left.
    #[inline]
    pub fn device_write(&mut self, class: Class, n: u64) {
        if self.on != 0 {
            self.note_write(class, n);
        }
    }

    /// The device writes `n` bytes to host memory and goes on, as for a completion.
    #[inline]
    pub fn posted_write(&mut self, class: Class, n: u64) {
        if self.on != 0 {
            self.note_posted_write(class, n);
        }
    }

    /// The host wrote a doorbell; called by a Bus whose thread holds the run lock of this device.
    ///
    /// Goes into the same ledger as [`crate::HostMeter::doorbell`], without its atomic addition. Call only one of the
    /// two for each doorbell.
    #[inline]
    pub fn doorbell(&mut self) {
        if self.is_counting() {
            self.ledger.record(Class::Doorbell, self.link.doorbell());
        }
    }

    /// Records cache lines that a host stored over CXL.mem, and the read-back of one, for a host whose stores the
    /// device cannot see.
    ///
    /// If the host's Bus counts them itself, it calls [`crate::HostMeter::cxl_store`] and
    /// [`crate::HostMeter::cxl_load`] instead.
    pub fn cxl_stored(&mut self, lines: Lines) {
        if self.is_counting() && lines.count > 0 {
            self.ledger.record(Class::CxlStore, self.cxl.store(lines.count, lines.partial));
            self.ledger.record(Class::CxlLoad, self.cxl.load(1));
        }
    }

    /// The device raises an interrupt.
    #[inline]
    pub fn interrupt(&mut self) {
        if self.on != 0 {
            self.note_interrupt();
        }
    }

    /// The firmware takes a step.
    #[inline]
    pub fn work(&mut self, work: Work) {
        if self.is_timing() {
            self.timeline.work(work);
        }
    }

    /// The firmware takes the same step `times` times.
    #[inline]
    pub fn work_times(&mut self, work: Work, times: u32) {
        if self.is_timing() {
            (0..times).for_each(|_| self.timeline.work(work));
        }
    }

    fn note_read(&mut self, class: Class, n: u64) {
        let cost = self.link.read(n);
        if self.is_counting() {
            self.ledger.record(class, cost);
        }
        if self.is_timing() {
            match class {
                Class::CommandFetch => self.timeline.fetch(cost),
                Class::ChunkFetch => self.timeline.fetch_chunks(cost),
                Class::DataRead => self.timeline.read_data(cost),
                _ => self.timeline.read(cost),
            }
        }
    }

    #[inline]
    fn note_write(&mut self, class: Class, n: u64) {
        let cost = self.link.write(n);
        if self.is_counting() {
            self.ledger.record(class, cost);
        }
        if self.is_timing() {
            self.timeline.write(cost);
        }
    }

    fn note_posted_write(&mut self, class: Class, n: u64) {
        let cost = self.link.write(n);
        if self.is_counting() {
            self.ledger.record(class, cost);
        }
        if self.is_timing() {
            self.timeline.posted_write(cost);
        }
    }

    fn note_interrupt(&mut self) {
        let cost = self.link.interrupt();
        if self.is_counting() {
            self.ledger.record(Class::Interrupt, cost);
        }
        if self.is_timing() {
            self.timeline.posted_write(cost);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record_all(meter: &mut Meter) {
        meter.begin(1_000);
        meter.device_read(Class::CommandFetch, 64);
        meter.work(Work::Command);
        meter.device_read(Class::DataRead, 4096);
        meter.device_write(Class::DataWrite, 100);
        meter.posted_write(Class::Completion, 16);
        meter.interrupt();
        meter.doorbell();
    }

    fn meter(ledger: bool, timing: bool) -> Meter {
        let mut meter = Meter::new(&Profile::by_name("cosmos").unwrap());
        meter.set_ledger(ledger);
        meter.set_timing(timing);
        record_all(&mut meter);
        meter
    }

    #[test]
    fn meter_that_is_off_records_nothing() {
        let off = meter(false, false);
        assert_eq!(*off.ledger(), Ledger::default());
        assert_eq!((off.cursor_ps(), off.arrived_ps()), (0, 0));
        assert_eq!(meter(true, false).cursor_ps(), 0);
        assert_eq!(*meter(false, true).ledger(), Ledger::default());
    }

    #[test]
    fn counting_and_timing_do_not_touch_each_other() {
        let both = meter(true, true);
        assert_eq!(both.ledger(), meter(true, false).ledger());
        assert_eq!(both.cursor_ps(), meter(false, true).cursor_ps());
        assert!(both.arrived_ps() > both.cursor_ps());
    }

    #[test]
    fn each_transfer_is_one_transaction_of_its_class() {
        let meter = meter(true, false);
        for class in [
            Class::CommandFetch,
            Class::DataRead,
            Class::DataWrite,
            Class::Completion,
            Class::Interrupt,
            Class::Doorbell,
        ] {
            assert_eq!(meter.ledger().row(class).count, 1, "{}", class.name());
        }
        assert_eq!(meter.ledger().row(Class::DataRead).cost.wire_bytes(), 4608);
    }
}
