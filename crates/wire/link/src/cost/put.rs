//! The cost of one put by each transfer method: every transaction, on an idle device.
//!
//! The computation follows docs/reference/link-model.md and the profile's habits. It
//! assumes a page-aligned buffer, a ring that does not wrap within the put, a value that starts on a cache line of
//! device memory, and an idle device. It leaves out costs that all methods share: index, packing and flash.

use crate::class::Class;
use crate::cxl::Lines;
use crate::host_meter::HostMeter;
use crate::ledger::Ledger;
use crate::meter::Meter;
use crate::method::Method;
use crate::profile::{HostStep, Profile, Work};

/// Bytes of one slot, one chunk and one command.
const SLOT_BYTES: u64 = 64;
/// Bytes of one PRP page.
const PAGE_BYTES: u64 = 4096;
/// Bytes of one PRP list entry.
const PRP_BYTES: u64 = 8;
/// PRP entries in a full list page that ends in a pointer to the next: 511 pages of data.
const LIST_ENTRIES: u64 = 512;
/// Value bytes in a piggyback write command, and in each transfer command after it.
const PIGGYBACK_BYTES: (u64, u64) = (35, 56);
/// The same in the pass-through form.
const PASS_THROUGH_BYTES: (u64, u64) = (11, 28);

/// The cost of one put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutCost {
    /// Every transaction, the host's and the device's.
    pub ledger: Ledger,
    /// Commands submitted.
    pub commands: u32,
    /// Submission queue slots taken: commands and chunks.
    pub slots: u32,
    /// From the first instruction of the host to the end of its work on the last completion, in picoseconds.
    pub ps: u64,
}

/// What to minimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Bytes on the wire.
    Bytes,
    /// Modelled time.
    Time,
}

/// The cost of a put of `value_bytes` by `method` under a profile. The key is in the command.
///
/// [`Method::Adaptive`] costs as much as the fastest of the methods that the modelled device has and whose limits
/// admit the value.
pub fn of_put(method: Method, value_bytes: u64, profile: &Profile) -> PutCost {
    let method = match method {
        Method::Adaptive => {
            let there = |method: &Method| profile.cxl_native || !method.needs_device_memory();
            let among: Vec<Method> = Method::CONCRETE.into_iter().filter(there).collect();
            cheapest(value_bytes, profile, Goal::Time, &among).unwrap_or(Method::Prp)
        }
        concrete => concrete,
    };
    let mut put = Put::new(profile);
    put.transfer(method, value_bytes);
    put.finish()
}

/// The cheapest method in `among` whose limits admit the value; the first of equals.
///
/// `None` if no method admits it. [`Method::Adaptive`] itself is skipped.
pub fn cheapest(value_bytes: u64, profile: &Profile, goal: Goal, among: &[Method]) -> Option<Method> {
    let price = |method: Method| {
        let cost = of_put(method, value_bytes, profile);
        match goal {
            Goal::Bytes => cost.ledger.wire_bytes(),
            Goal::Time => cost.ps,
        }
    };
    among
        .iter()
        .copied()
        .filter(|&method| method != Method::Adaptive && admits(method, value_bytes, profile))
        .min_by_key(|&method| price(method))
}

/// Whether a profile's limits admit a value of that size by a method.
pub fn admits(method: Method, value_bytes: u64, profile: &Profile) -> bool {
    let limits = &profile.limits;
    match method {
        Method::Prp | Method::Sgl | Method::PrpTail | Method::Adaptive => true,
        Method::Piggyback | Method::PiggybackPt => value_bytes <= limits.piggyback_max_bytes.into(),
        Method::Inline | Method::Hybrid => value_bytes <= limits.inline_max_bytes.into(),
        // A record and its header share a segment; the largest header is well under one cache line.
        Method::Cxl | Method::CxlPiggyback => value_bytes + SLOT_BYTES <= limits.cxl_segment_bytes.into(),
    }
}

/// The payload of one command of a put.
#[derive(Clone, Copy)]
enum Load {
    /// Nothing beside the command, or bytes within it.
    InCommand(u64),
    /// A PRP list for this many bytes.
    Prp(u64),
    /// One SGL data block.
    Sgl(u64),
    /// Chunks behind the command.
    Chunks(u64),
}

/// One put in progress.
struct Put<'a> {
    profile: &'a Profile,
    device: Meter,
    host: HostMeter,
    host_ps: u64,
    commands: u32,
    slots: u32,
}

impl<'a> Put<'a> {
    fn new(profile: &'a Profile) -> Self {
        let mut device = Meter::new(profile);
        device.set_ledger(true);
        device.set_timing(true);
        let host = HostMeter::new(profile);
        host.set_on(true);
        Self { profile, device, host, host_ps: 0, commands: 0, slots: 0 }
    }

    fn finish(self) -> PutCost {
        let mut ledger = *self.device.ledger();
        ledger.merge(&self.host.ledger());
        PutCost { ledger, commands: self.commands, slots: self.slots, ps: self.host_ps }
    }

    fn transfer(&mut self, method: Method, n: u64) {
        match method {
            Method::Prp => self.one(Load::Prp(n)),
            Method::Sgl => self.one(Load::Sgl(n)),
            Method::Inline => self.one(Load::Chunks(n)),
            Method::Hybrid if n <= PIGGYBACK_BYTES.0 => self.one(Load::InCommand(n)),
            Method::Hybrid => self.one(Load::Chunks(n)),
            Method::Piggyback => {
                self.fragments(Load::InCommand(n.min(PIGGYBACK_BYTES.0)), n, PIGGYBACK_BYTES)
            }
            Method::PiggybackPt => self.pass_through(n),
            Method::PrpTail => self.prp_tail(n),
            Method::Cxl => self.cxl(n, 0),
            Method::CxlPiggyback => self.cxl(n, PIGGYBACK_BYTES.0.min(n)),
            // Resolved to another before.
            Method::Adaptive => {}
        }
    }

    /// One command.
    fn one(&mut self, load: Load) {
        self.burst(std::iter::once(load));
    }

    /// A first command, then transfer commands for the bytes beyond its share.
    fn fragments(&mut self, first: Load, n: u64, (share, fragment): (u64, u64)) {
        let rest = pieces(n.saturating_sub(share), fragment);
        let loads = std::iter::once(first).chain(rest);
        if self.profile.habits.fragments_one_by_one {
            loads.for_each(|load| self.one(load));
        } else {
            self.burst(loads);
        }
    }

    /// The first command's completion names the payload, so it is always waited for.
    fn pass_through(&mut self, n: u64) {
        let (share, fragment) = PASS_THROUGH_BYTES;
        self.one(Load::InCommand(n.min(share)));
        let rest = pieces(n.saturating_sub(share), fragment);
        if self.profile.habits.fragments_one_by_one {
            rest.for_each(|load| self.one(load));
        } else if n > share {
            self.burst(rest);
        }
    }

    /// Whole pages by PRP and the tail in transfer commands; without a whole page it is a plain piggyback.
    fn prp_tail(&mut self, n: u64) {
        let tail = n % PAGE_BYTES;
        if n < PAGE_BYTES {
            self.transfer(Method::Piggyback, n);
        } else {
            self.fragments(Load::Prp(n - tail), tail, (0, PIGGYBACK_BYTES.1));
        }
    }

    /// Stores, fence and read-back of what does not go in the command, then the command.
    fn cxl(&mut self, n: u64, in_command: u64) {
        let lines = Lines::of(0, n - in_command);
        if lines.count > 0 {
            self.host.cxl_store(lines.count, lines.partial);
            self.host.cxl_load(1);
            self.spend(HostStep::CxlStore { lines: lines.count });
            self.spend(HostStep::CxlReadBack);
        }
        self.one(Load::InCommand(in_command));
    }

    /// Commands under one doorbell: submitted, run in turn, completed, and their completions taken together.
    fn burst(&mut self, loads: impl Iterator<Item = Load>) {
        let loads: Vec<Load> = loads.collect();
        loads.iter().for_each(|&load| self.submit(load));
        self.spend(HostStep::Doorbell);
        self.host.doorbell(0);
        let known_ps = self.profile.doorbell_arrival_ps(self.host_ps);
        self.device.begin(known_ps);
        let habits = self.profile.habits;
        let mut arrived_ps = Vec::with_capacity(loads.len());
        for (left, &load) in (0..loads.len()).rev().zip(&loads) {
            self.run(load);
            arrived_ps.push(self.device.arrived_ps());
            if left == 0 || !habits.coalesce_interrupts {
                self.device.interrupt();
            }
        }
        match habits.host_sleeps {
            true => self.wake_and_reap(loads.len() as u64),
            false => arrived_ps.into_iter().for_each(|at_ps| self.reap(at_ps)),
        }
        self.spend(HostStep::Doorbell);
        self.host.doorbell(0);
    }

    /// The host builds one command and what goes with it into the ring.
    fn submit(&mut self, load: Load) {
        self.spend(HostStep::Submit);
        let maps_inline = self.profile.habits.inline_maps_pages;
        let (chunks, pages) = match load {
            Load::InCommand(_) => (0, 0),
            Load::Prp(n) | Load::Sgl(n) => (0, n.div_ceil(PAGE_BYTES)),
            Load::Chunks(n) => (n.div_ceil(SLOT_BYTES), if maps_inline { n.div_ceil(PAGE_BYTES) } else { 0 }),
        };
        self.host_ps += chunks * self.profile.host.ps(HostStep::Chunk);
        self.host_ps += pages * self.profile.host.ps(HostStep::MapPage);
        self.commands += 1;
        self.slots += 1 + chunks as u32;
    }

    /// The device runs one command up to its completion.
    fn run(&mut self, load: Load) {
        self.device.device_read(Class::CommandFetch, SLOT_BYTES);
        self.device.work(Work::Command);
        match load {
            Load::InCommand(n) => self.device.work(Work::MemCopy { bytes: n as u32 }),
            Load::Prp(n) => self.read_prp(n),
            Load::Sgl(n) => self.read_sgl(n),
            Load::Chunks(n) => self.fetch_chunks(n),
        }
        self.device.work(Work::Completion);
        self.device.posted_write(Class::Completion, 16);
    }

    fn read_prp(&mut self, n: u64) {
        let pages = n.div_ceil(PAGE_BYTES);
        self.read_prp_list(pages);
        if !self.profile.habits.whole_page_prp {
            (0..pages).for_each(|_| self.device.work(Work::PrpPage));
            return self.read_pages(n);
        }
        for _ in 0..pages {
            self.device.device_read(Class::DataRead, PAGE_BYTES);
            self.device.work(Work::PrpPage);
        }
    }

    /// Reads of at most a page each, one behind the other.
    fn read_pages(&mut self, n: u64) {
        for page in 0..n.div_ceil(PAGE_BYTES) {
            self.device.device_read(Class::DataRead, (n - page * PAGE_BYTES).min(PAGE_BYTES));
        }
    }

    /// Two pages need no list; a list page that is not the last ends in a pointer to the next.
    fn read_prp_list(&mut self, pages: u64) {
        let mut entries = if pages > 2 { pages - 1 } else { 0 };
        while entries > LIST_ENTRIES {
            self.device.device_read(Class::ListFetch, LIST_ENTRIES * PRP_BYTES);
            entries -= LIST_ENTRIES - 1;
        }
        if entries > 0 {
            self.device.device_read(Class::ListFetch, entries * PRP_BYTES);
        }
    }

    fn read_sgl(&mut self, n: u64) {
        if n > 0 {
            self.device.work(Work::SglDescriptor);
            self.read_pages(n);
        }
    }

    /// All chunks by one read, of as many requests as it takes, or each by a read of its own.
    fn fetch_chunks(&mut self, n: u64) {
        let chunks = n.div_ceil(SLOT_BYTES);
        let (reads, slots) =
            if self.profile.habits.chunk_burst { (chunks.min(1), chunks) } else { (chunks, 1) };
        for _ in 0..reads {
            self.device.device_read(Class::ChunkFetch, slots * SLOT_BYTES);
            (0..slots).for_each(|_| self.device.work(Work::Chunk));
        }
    }

    /// The host is woken by the last interrupt and takes all completions of a burst.
    fn wake_and_reap(&mut self, completions: u64) {
        self.host_ps = self.host_ps.max(self.device.arrived_ps());
        self.spend(HostStep::Wake);
        self.host_ps += completions * self.profile.host.ps(HostStep::Completion);
    }

    /// The polling host takes a completion that arrived at `at_ps`, before the next one comes.
    fn reap(&mut self, at_ps: u64) {
        self.host_ps = self.host_ps.max(at_ps);
        self.spend(HostStep::Completion);
    }

    fn spend(&mut self, step: HostStep) {
        self.host_ps += self.profile.host.ps(step);
    }
}

/// Transfer commands of at most `fragment` bytes that carry `n` bytes.
fn pieces(n: u64, fragment: u64) -> impl Iterator<Item = Load> {
    (0..n.div_ceil(fragment)).map(move |piece| Load::InCommand((n - piece * fragment).min(fragment)))
}
