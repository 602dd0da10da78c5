//! What the model checker proves of the words that all who write an absorbed file share.
//!
//! The file is one value, and each write has the next one. Power goes once all are done: what was acknowledged is there then, and nothing older.

mod below;
mod front;
#[path = "bypass.rs"]
mod past;

use loom::model::Builder;
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

use byway_tdm_region::Interleaved;

use crate::log::atomic::{AtomicU64, Ordering};
use crate::log::cursor::{CURSOR_WORDS, Cursor};
use crate::log::{Absorber, Entry, Position, Ring, RingError, RingPlace, SyncStep};

/// Room for two records of a write.
const PLACE: RingPlace = RingPlace { at: 0, len_bytes: 192, identity: 3 };

/// What the kernel has of a file, under a lock of its own.
#[derive(Debug, Default)]
struct Below {
    /// The write that was last.
    now: u64,
    /// The one that the disk has.
    kept: u64,
    /// Where the next one goes, if that is not the file's beginning.
    position: u64,
    /// The last one that somebody was told is kept.
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
    /// One whose log has begun just now, and is suspended.
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

    /// One whose log goes on, with a write that is acknowledged.
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

    /// The kernel's write; which one it is.
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
        let _held = self.lock();
        let write = self.write_below();
        let at = self.below().position;
        self.absorber().wrote(at, 8, &mut &write.to_le_bytes()[..]);
        write
    }

    /// A sync of an absorbed file.
    fn sync(&self) {
        let step = {
            let _held = self.lock();
            self.absorber().sync()
        };
        match step {
            SyncStep::Done => {}
            SyncStep::Below(begun) => {
                self.sync_below();
                let _held = self.lock();
                self.absorber().synced_below(begun, Ok(())).expect("a sync");
            }
            SyncStep::Failed(error) => panic!("nothing failed before: {error}"),
        }
    }

    /// Somebody is told that this write is kept, and those before.
    fn acknowledge(&self, write: u64) {
        let mut below = self.below();
        below.acknowledged = below.acknowledged.max(write);
    }

    /// A write of an absorbed file, and a sync.
    fn write_and_sync(&self) {
        let write = self.write();
        self.sync();
        self.acknowledge(write);
    }

    /// What is there once power has gone and the log was written back.
    fn recovered(&self) -> u64 {
        let mut value = self.below().kept;
        let each = |entry: Entry<'_>| match entry {
            Entry::Write { at, data } => {
                assert_eq!(at, 0, "a record tells of a write that went elsewhere");
                value = u64::from_le_bytes(data.try_into().expect("eight bytes"));
                Ok::<(), RingError>(())
            }
            Entry::Truncate { .. } => unreachable!("nobody cuts the file"),
        };
        self.ring().replay(each).expect("a log");
        value
    }

    fn check(&self) {
        let (recovered, acknowledged) = (self.recovered(), self.below().acknowledged);
        assert!(recovered >= acknowledged, "write {acknowledged} was acknowledged, and {recovered} is there");
    }
}

/// Has the checker know that what is in these words was stored before anybody else looks: it has loads by SeqCst see the last store by SeqCst, if none was of
/// another kind since.
fn settle(words: &[AtomicU64]) {
    words.iter().for_each(|word| word.store(word.load(Ordering::Relaxed), Ordering::SeqCst));
}

/// All interleavings of some parties with at most so many switches that no thread asked for.
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
