//! Loom models of the words shared by writers of an absorbed file.
//!
//! The file is one value; each write stores the next. After power loss and replay no value may be older than the acknowledged one.

mod below;
mod bypass;
mod prefix;

use loom::model::Builder;
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

use byway_tdm_region::Interleaved;

use crate::log::atomic::{AtomicU64, Ordering};
use crate::log::cursor::{CURSOR_WORDS, Cursor};
use crate::log::{Absorber, Entry, Position, Ring, RingError, RingPlace, SyncStep};

/// Room for two records.
const PLACE: RingPlace = RingPlace { at: 0, len_bytes: 192, identity: 3 };

/// The kernel's state of the file, under a lock.
#[derive(Debug, Default)]
struct Below {
    /// The last write.
    now: u64,
    /// The write on disk.
    kept: u64,
    /// Offset of the next write, if not the file's start.
    position: u64,
    /// The last acknowledged write.
    acknowledged: u64,
}

/// An absorbed file.
struct File {
    words: [AtomicU64; CURSOR_WORDS],
    memory: Interleaved,
    lock: Mutex<()>,
    below: Mutex<Below>,
}

impl File {
    /// A file whose log has just begun, suspended.
    fn begin() -> Self {
        let file = Self {
            words: Default::default(),
            memory: Interleaved::new(PLACE.len_bytes),
            lock: Mutex::new(()),
            below: Mutex::default(),
        };
        file.ring().format(Position(0)).expect("a ring");
        file.cursor().begin(Position(0));
        settle(&file.words);
        file
    }

    /// A file with a running log and one acknowledged write.
    fn begin_logged() -> Self {
        let file = Self::begin();
        file.sync();
        file.write();
        file.sync();
        file
    }

    fn ring(&self) -> Ring<'_, Interleaved> {
        Ring::new(&self.memory, PLACE).expect("a ring")
    }

    fn cursor(&self) -> Cursor<'_> {
        Cursor::new(&self.words)
    }

    fn absorber(&self) -> Absorber<'_, Interleaved> {
        Absorber::new(self.ring(), self.cursor())
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().expect("a lock")
    }

    fn below(&self) -> MutexGuard<'_, Below> {
        self.below.lock().expect("a lock")
    }

    /// The kernel's write; returns its number.
    fn write_below(&self) -> u64 {
        let mut below = self.below();
        below.now += 1;
        below.now
    }

    /// The kernel's sync.
    fn sync_below(&self) {
        let mut below = self.below();
        below.kept = below.now;
    }

    /// A write of an absorbed file.
    fn write(&self) -> u64 {
        let _guard = self.lock();
        let write = self.write_below();
        let at = self.below().position;
        self.absorber().wrote(at, 8, &mut &write.to_le_bytes()[..]);
        write
    }

    /// A sync of an absorbed file.
    fn sync(&self) {
        let step = {
            let _guard = self.lock();
            self.absorber().sync()
        };
        match step {
            SyncStep::Done => {}
            SyncStep::Below(begun) => {
                self.sync_below();
                let _guard = self.lock();
                self.absorber().synced_below(begun, Ok(())).expect("a sync");
            }
            SyncStep::Failed(error) => panic!("nothing failed before: {error}"),
        }
    }

    /// Acknowledges this write and all before.
    fn acknowledge(&self, write: u64) {
        let mut below = self.below();
        below.acknowledged = below.acknowledged.max(write);
    }

    /// A write and a sync.
    fn write_and_sync(&self) {
        let write = self.write();
        self.sync();
        self.acknowledge(write);
    }

    /// The value after power loss and replay.
    fn recovered(&self) -> u64 {
        let mut value = self.below().kept;
        let each = |entry: Entry<'_>| match entry {
            Entry::Write { at, data } => {
                assert_eq!(at, 0, "a record of a write that went elsewhere");
                value = u64::from_le_bytes(data.try_into().expect("eight bytes"));
                Ok::<(), RingError>(())
            }
            Entry::Truncate { .. } => unreachable!("no truncation"),
        };
        self.ring().replay(each).expect("a log");
        value
    }

    fn check(&self) {
        let (recovered, acknowledged) = (self.recovered(), self.below().acknowledged);
        assert!(recovered >= acknowledged, "write {acknowledged} was acknowledged, and {recovered} is there");
    }
}

/// Makes earlier stores visible to all: loom's SeqCst loads see the last SeqCst store if no other store followed.
fn settle(words: &[AtomicU64]) {
    words.iter().for_each(|word| word.store(word.load(Ordering::Relaxed), Ordering::SeqCst));
}

/// Runs all interleavings of some threads with a bounded number of preemptions.
fn parties<const PARTIES: usize>(switches: usize, begin: fn() -> File, parties: [fn(&File); PARTIES]) {
    let mut model = Builder::new();
    model.preemption_bound = Some(switches);
    model.check(move || {
        let file = Arc::new(begin());
        let [first, others @ ..] = &parties[..] else { return };
        let spawn = |party: &fn(&File)| {
            let (file, party) = (file.clone(), *party);
            thread::spawn(move || party(&file))
        };
        let others: Vec<_> = others.iter().map(spawn).collect();
        first(&file);
        others.into_iter().for_each(|other| other.join().expect("a party that ends"));
        file.check();
    });
}
