//! What all threads of a run share: the device, pairs that no thread holds, and how far the run is.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use byway_executor::Embedded;
use byway_kit::Random;

use crate::host::Host;
use crate::pair::{Life, Owner, Pair};

/// How long a wait may last before the run counts as hung.
const HANG: Duration = Duration::from_secs(60);

/// A number that all threads count up.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it.
    pub fn note(&self, more: u64) {
        self.0.fetch_add(more, SeqCst);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

/// What a run has met.
#[derive(Debug, Default)]
pub struct Seen {
    /// Commands that were answered.
    pub answers: Count,
    /// Commands of deleted and reset queues that were not.
    pub unanswered: Count,
    /// Pairs that a thread handed on with commands under way.
    pub handed_on: Count,
    /// Times when more commands were rung than the completion queue has room for.
    pub full_rings: Count,
}

/// What all threads of a run share.
pub struct Stage {
    pub embedded: Embedded,
    pub host: Host,
    /// Pairs that no thread holds, some with commands under way.
    pool: Mutex<Vec<Pair>>,
    /// Pairs whose life has ended.
    ended: Mutex<Vec<(Owner, Arc<Life>)>>,
    pub seen: Seen,
    /// The controller is being reset.
    pub is_resetting: AtomicBool,
    is_over: AtomicBool,
    has_failed: AtomicBool,
}

impl Stage {
    /// A device without queues.
    pub fn new((embedded, host): (Embedded, Host)) -> Self {
        Self {
            embedded,
            host,
            pool: Mutex::default(),
            ended: Mutex::default(),
            seen: Seen::default(),
            is_resetting: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Gives a pair to whichever thread takes it next; one that is dead, to the operator.
    pub fn give(&self, pair: Pair) {
        if pair.is_dead() {
            let ended = pair.end(self);
            self.ended.lock().unwrap().push(ended);
        } else {
            self.seen.handed_on.note(u64::from(pair.is_busy()));
            self.pool.lock().unwrap().push(pair);
        }
    }

    /// Takes a pair that no thread holds.
    pub fn take(&self, random: &mut Random) -> Option<Pair> {
        let mut pool = self.pool.lock().unwrap();
        let at = random.index(pool.len());
        (!pool.is_empty()).then(|| pool.swap_remove(at))
    }

    /// Takes a pair whose life has ended.
    pub fn take_ended(&self) -> Option<(Owner, Arc<Life>)> {
        self.ended.lock().unwrap().pop()
    }

    /// Waits until `count` more commands were answered, or the run is over.
    pub fn wait_for_answers(&self, count: u64) {
        let answers = &self.seen.answers;
        let (end, mut watchdog) = (answers.get() + count, Watchdog::new(self));
        while answers.get() < end && !self.is_over() {
            watchdog.wait(|| "no command is answered".to_owned());
        }
    }

    /// Whether the threads are to end.
    pub fn is_over(&self) -> bool {
        self.is_over.load(SeqCst) || self.has_failed.load(SeqCst)
    }

    /// Has the threads end.
    pub fn end(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// Runs `work` in a thread of the run; a panic ends the other threads too.
    pub fn guarded<R>(&self, work: impl FnOnce() -> R) -> R {
        let alarm = Alarm(self);
        let result = work();
        drop(alarm);
        result
    }
}

struct Alarm<'a>(&'a Stage);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.has_failed.store(true, SeqCst);
        }
    }
}

/// Waits for a state, and fails if the run hangs or another thread has failed.
pub struct Watchdog<'a> {
    stage: &'a Stage,
    since: Instant,
}

impl<'a> Watchdog<'a> {
    /// A wait that begins now.
    pub fn new(stage: &'a Stage) -> Self {
        Self { stage, since: Instant::now() }
    }

    /// Lets other threads run.
    pub fn wait(&mut self, what: impl FnOnce() -> String) {
        assert!(!self.stage.has_failed.load(SeqCst), "another thread failed");
        assert!(self.since.elapsed() < HANG, "hung: {}", what());
        std::thread::yield_now();
    }
}
