//! A file, its log, and what programs and the daemon do with it, in the order in which they do.

use loom::sync::{Mutex, MutexGuard};

use crate::log::{
    Absorber, Begun, CURSOR_WORDS, Cursor, Entry, Position, Ring, RingError, RingPlace, SyncStep,
};
use byway_tdm_policy::Level;
use byway_tdm_region::Interleaved;

use super::settle;
use crate::table::atomic::AtomicU64;
use crate::table::attributes::{ATTRIBUTE_WORDS, Attributes};
use crate::table::level::Why;
use crate::table::served::Served;

/// What the kernel and the daemon's table have of it. The file is one value, and each write has the next one.
#[derive(Debug, Default)]
struct Below {
    /// The write that was last.
    now: u64,
    /// The one that the disk has.
    kept: u64,
    /// The last one that somebody was told is kept.
    acknowledged: u64,
    /// Where its log is, by the table.
    log: Option<RingPlace>,
}

/// One file.
#[derive(Debug)]
pub(super) struct File {
    standing: AtomicU64,
    ring: [AtomicU64; 3],
    cursor: [AtomicU64; CURSOR_WORDS],
    attributes: [AtomicU64; ATTRIBUTE_WORDS],
    memory: Interleaved,
    lock: Mutex<()>,
    below: Mutex<Below>,
}

/// Of a log, in its first use or a later one. Room for two records of a write.
const fn place(identity: u64) -> RingPlace {
    RingPlace { at: 0, len_bytes: 192, identity }
}

impl File {
    /// One that the kernel alone serves.
    pub(super) fn begin() -> Self {
        let file = Self {
            standing: AtomicU64::default(),
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

    /// One whose log goes on.
    pub(super) fn begin_absorbed() -> Self {
        let file = Self::begin();
        file.absorb(1);
        file.sync();
        file.settle();
        file
    }

    fn settle(&self) {
        settle([&self.standing].into_iter().chain(&self.ring).chain(&self.cursor));
    }

    pub(super) fn served(&self) -> Served<'_> {
        let (cursor, attributes) = (Cursor::new(&self.cursor), Attributes(&self.attributes));
        Served { standing: &self.standing, ring: &self.ring, cursor, attributes }
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

    /// The kernel's write; which one it is.
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

    /// Somebody is told that this write is kept, and those before.
    pub(super) fn acknowledge(&self, write: u64) {
        let mut below = self.below();
        below.acknowledged = below.acknowledged.max(write);
    }

    /// A program writes.
    pub(super) fn write(&self) -> u64 {
        if self.served().standing().level == Level::Pass {
            let write = self.write_below();
            self.served().look_again();
            return write;
        }
        let _held = self.lock();
        let standing = self.served().standing();
        let write = self.write_below();
        match standing.level {
            Level::Absorb if !standing.is_barred => {
                self.absorber(self.served().ring()).wrote(0, 8, &mut &write.to_le_bytes()[..]);
            }
            _ => self.served().cursor.suspend(),
        }
        write
    }

    /// A program syncs.
    pub(super) fn sync(&self) {
        if self.served().standing().level == Level::Pass {
            return self.sync_below();
        }
        let (step, ring) = {
            let _held = self.lock();
            (self.step(), self.served().ring())
        };
        match step {
            None => self.sync_below(),
            Some(SyncStep::Done) => {}
            Some(SyncStep::Below(begun)) => {
                self.sync_below();
                let _held = self.lock();
                if self.served().ring() == ring {
                    self.absorber(ring).synced_below(begun, Ok(())).expect("a sync");
                }
            }
            Some(SyncStep::Failed(error)) => panic!("nothing failed before: {error}"),
        }
    }

    fn step(&self) -> Option<SyncStep> {
        let standing = self.served().standing();
        if standing.level != Level::Absorb {
            return None;
        }
        if standing.is_barred {
            self.served().cursor.suspend();
        }
        Some(self.absorber(self.served().ring()).sync())
    }

    pub(super) fn write_and_sync(&self) {
        let write = self.write();
        self.sync();
        self.acknowledge(write);
    }

    /// A program syncs past the lock.
    pub(super) fn sync_past(&self) {
        let ring = self.served().ring();
        if !self.served().is_logged_in(ring) {
            return self.sync_below();
        }
        let begun = self.absorber(ring).begin_past();
        self.sync_below();
        self.synced_past(begun, ring);
    }

    fn synced_past(&self, begun: Begun, ring: RingPlace) {
        let is_its = || self.served().is_logged_in(ring);
        if is_its() {
            self.absorber(ring).synced_past(begun, Ok(()), is_its).expect("a sync");
        }
    }

    /// The daemon absorbs it.
    pub(super) fn absorb(&self, identity: u64) -> bool {
        let ring = place(identity);
        Ring::new(&self.memory, ring).expect("a ring").format(Position(0)).expect("a ring");
        self.below().log = Some(ring);
        let _held = self.lock();
        self.served().begin_log(ring, Why::Earned)
    }

    /// The daemon lets it go.
    pub(super) fn let_go(&self) {
        let absorber = self.absorber(self.served().ring());
        loop {
            self.served().cursor.suspend();
            let begun = {
                let _held = self.lock();
                absorber.begin_below()
            };
            self.sync_below();
            let _held = self.lock();
            absorber.synced_below(begun, Ok(())).expect("a sync");
            if self.served().cursor.kept_bytes() == 0 {
                self.served().cursor.suspend();
                self.served().move_to(Level::Pass, Why::TooFewSyncs);
                break;
            }
        }
        self.below().log = None;
    }

    /// What is there once power has gone and the log was written back.
    fn recovered(&self) -> u64 {
        let Below { kept: mut value, log, .. } = *self.below();
        let each = |entry: Entry<'_>| match entry {
            Entry::Write { data, .. } => {
                value = u64::from_le_bytes(data.try_into().expect("eight bytes"));
                Ok::<(), RingError>(())
            }
            Entry::Truncate { .. } => unreachable!("nobody cuts the file"),
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
