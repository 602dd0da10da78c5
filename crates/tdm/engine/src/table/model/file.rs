//! A file, its log, and the steps of programs and the daemon, in the product's order.

use loom::sync::{Mutex, MutexGuard};

use crate::log::{
    Absorber, Begun, CURSOR_WORDS, Cursor, Entry, Position, Ring, RingError, RingPlace, SyncStep,
};
use byway_tdm_policy::{Level, Reason};
use byway_tdm_region::Interleaved;

use super::settle;
use crate::table::atomic::AtomicU64;
use crate::table::attributes::{ATTRIBUTE_WORDS, Attributes};
use crate::table::served::Served;

/// State of the kernel and the daemon's table. The file is one value; each write stores the next.
#[derive(Debug, Default)]
struct Below {
    /// The last write.
    now: u64,
    /// The write on disk.
    kept: u64,
    /// The last acknowledged write.
    acknowledged: u64,
    /// The log, by the daemon's table.
    log: Option<RingPlace>,
}

/// One file.
#[derive(Debug)]
pub(super) struct File {
    level_state: AtomicU64,
    ring: [AtomicU64; 3],
    cursor: [AtomicU64; CURSOR_WORDS],
    attributes: [AtomicU64; ATTRIBUTE_WORDS],
    memory: Interleaved,
    lock: Mutex<()>,
    below: Mutex<Below>,
}

/// A log with room for two records.
const fn place(identity: u64) -> RingPlace {
    RingPlace { at: 0, len_bytes: 192, identity }
}

impl File {
    /// A file at PASS.
    pub(super) fn begin() -> Self {
        let file = Self {
            level_state: AtomicU64::default(),
            ring: Default::default(),
            cursor: Default::default(),
            attributes: Default::default(),
            memory: Interleaved::new(192),
            lock: Mutex::default(),
            below: Mutex::default(),
        };
        file.served().cursor.begin(Position(0));
        file.settle();
        file
    }

    /// An absorbed file with a running log.
    pub(super) fn begin_absorbed() -> Self {
        let file = Self::begin();
        file.absorb(1);
        file.sync();
        file.settle();
        file
    }

    fn settle(&self) {
        settle([&self.level_state].into_iter().chain(&self.ring).chain(&self.cursor));
    }

    pub(super) fn served(&self) -> Served<'_> {
        let (cursor, attributes) = (Cursor::new(&self.cursor), Attributes(&self.attributes));
        Served { level_state: &self.level_state, ring: &self.ring, cursor, attributes }
    }

    fn absorber(&self, ring: RingPlace) -> Absorber<'_, Interleaved> {
        Absorber::new(Ring::new(&self.memory, ring).expect("a ring"), self.served().cursor)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().expect("a lock")
    }

    fn below(&self) -> MutexGuard<'_, Below> {
        self.below.lock().expect("a lock")
    }

    /// The kernel's write; returns its number.
    pub(super) fn write_below(&self) -> u64 {
        let mut below = self.below();
        below.now += 1;
        below.now
    }

    /// The kernel's sync.
    fn sync_below(&self) {
        let mut below = self.below();
        below.kept = below.now;
    }

    /// Acknowledges this write and all before.
    pub(super) fn acknowledge(&self, write: u64) {
        let mut below = self.below();
        below.acknowledged = below.acknowledged.max(write);
    }

    /// A program writes.
    pub(super) fn write(&self) -> u64 {
        if self.served().level() == Level::Pass {
            let write = self.write_below();
            self.served().look_again();
            return write;
        }
        let _guard = self.lock();
        let level_state = self.served().level_state();
        let write = self.write_below();
        match level_state.level {
            Level::Absorb if !level_state.is_barred => {
                self.absorber(self.served().ring()).wrote(0, 8, &mut &write.to_le_bytes()[..]);
            }
            _ => self.served().cursor.suspend(),
        }
        write
    }

    /// A program syncs.
    pub(super) fn sync(&self) {
        if self.served().level() == Level::Pass {
            return self.sync_below();
        }
        let (step, ring) = {
            let _guard = self.lock();
            (self.step(), self.served().ring())
        };
        match step {
            None => self.sync_below(),
            Some(SyncStep::Done) => {}
            Some(SyncStep::Below(begun)) => {
                self.sync_below();
                let _guard = self.lock();
                if self.served().ring() == ring {
                    self.absorber(ring).synced_below(begun, Ok(())).expect("a sync");
                }
            }
            Some(SyncStep::Failed(error)) => panic!("nothing failed before: {error}"),
        }
    }

    fn step(&self) -> Option<SyncStep> {
        let level_state = self.served().level_state();
        if level_state.level != Level::Absorb {
            return None;
        }
        if level_state.is_barred {
            self.served().cursor.suspend();
        }
        Some(self.absorber(self.served().ring()).sync())
    }

    pub(super) fn write_and_sync(&self) {
        let write = self.write();
        self.sync();
        self.acknowledge(write);
    }

    /// A program syncs bypassing the lock.
    pub(super) fn sync_in_bypass(&self) {
        let ring = self.served().ring();
        if !self.served().is_logged_in(ring) {
            return self.sync_below();
        }
        let begun = self.absorber(ring).begin_bypass();
        self.sync_below();
        self.synced_in_bypass(begun, ring);
    }

    fn synced_in_bypass(&self, begun: Begun, ring: RingPlace) {
        let is_its = || self.served().is_logged_in(ring);
        if is_its() {
            self.absorber(ring).synced_in_bypass(begun, Ok(()), is_its).expect("a sync");
        }
    }

    /// The daemon absorbs it.
    pub(super) fn absorb(&self, identity: u64) -> bool {
        let ring = place(identity);
        Ring::new(&self.memory, ring).expect("a ring").format(Position(0)).expect("a ring");
        self.below().log = Some(ring);
        let _guard = self.lock();
        self.served().begin_log(ring, Reason::Earned)
    }

    /// The daemon demotes it.
    pub(super) fn release(&self) {
        let absorber = self.absorber(self.served().ring());
        loop {
            self.served().cursor.suspend();
            let begun = {
                let _guard = self.lock();
                absorber.begin_below()
            };
            self.sync_below();
            let _guard = self.lock();
            absorber.synced_below(begun, Ok(())).expect("a sync");
            if self.served().cursor.kept_bytes() == 0 {
                self.served().cursor.suspend();
                self.served().move_to(Level::Pass, Reason::TooFewSyncs);
                break;
            }
        }
        self.below().log = None;
    }

    /// The value after power loss and replay.
    fn recovered(&self) -> u64 {
        let Below { kept: mut value, log, .. } = *self.below();
        let each = |entry: Entry<'_>| match entry {
            Entry::Write { data, .. } => {
                value = u64::from_le_bytes(data.try_into().expect("eight bytes"));
                Ok::<(), RingError>(())
            }
            Entry::Truncate { .. } => unreachable!("no truncation"),
        };
        if let Some(log) = log {
            Ring::new(&self.memory, log).expect("a ring").replay(each).expect("a log");
        }
        value
    }

    pub(super) fn check(&self) {
        let (recovered, acknowledged) = (self.recovered(), self.below().acknowledged);
        assert!(recovered >= acknowledged, "write {acknowledged} was acknowledged, and {recovered} is there");
    }
}
