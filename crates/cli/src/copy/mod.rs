//! Copies between any two places: devices of blocks, files, standard input and output.
//!
//! Blocks travel in pieces, many at a time: a piece is read by a queue of the one side into a buffer, which then goes to
//! a queue of the other side as it is. Files are devices of blocks here, and what is left behind their last block is
//! copied by plain calls, so that every byte arrives and none is added.

mod blocks;
mod place;
mod plan;
mod reader;
mod side;
mod stream;
mod verify;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use byway_console::terminal::{Interrupt, Progress};

use blocks::Ended;
use place::Place;
pub use plan::{Asked, Plan};

/// How long a thread that waits for commands goes without looking whether it shall end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How much a copy moved, to print.
#[derive(Debug, Default)]
pub struct Copied {
    /// Bytes.
    pub bytes: u64,
    /// Of these, zeroes that were not sent as data.
    pub zero_bytes: u64,
    /// Bytes from the first on that are there without a gap.
    pub whole_bytes: u64,
    /// Whether everything was read back.
    pub verified: bool,
    /// Whether it was interrupted.
    pub was_interrupted: bool,
}

/// What all threads of a copy share. The counters and flags guard no other memory, so their order does not matter.
struct Shared<'a> {
    bytes: AtomicU64,
    zero_bytes: AtomicU64,
    is_over: AtomicBool,
    interrupt: &'a Interrupt,
    progress: &'a Progress,
}

impl<'a> Shared<'a> {
    fn new(interrupt: &'a Interrupt, progress: &'a Progress) -> Self {
        let (bytes, zero_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { bytes, zero_bytes, is_over: AtomicBool::new(false), interrupt, progress }
    }

    /// Whether nothing more shall be begun.
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.interrupt.check().is_err()
    }

    /// Has every thread end what it does.
    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.progress.advance(bytes);
    }

    fn add_zeroes(&self, bytes: u64) {
        self.zero_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Copies as the plan says.
///
/// # Errors
/// What either side says, with the byte where it was; a difference, where what was written is read back.
pub fn copy(plan: Plan, interrupt: &Interrupt, progress: &Progress) -> Result<Copied> {
    let Plan { how, from, mut to, total, .. } = plan;
    let shared = Shared::new(interrupt, progress);
    let sums = how.sums(total);
    let ended = match (from, &mut to) {
        (Place::Blocks(mut from), Place::Blocks(to)) => {
            blocks::copy(&how, &mut from, to, total.unwrap_or(0), &sums, &shared)?
        }
        (Place::Blocks(mut from), Place::To(to)) => {
            stream::from_blocks(&how, &mut from, to, total.unwrap_or(0), &shared).map(Ended::well)?
        }
        (Place::From(mut from), Place::Blocks(to)) => {
            stream::to_blocks(&how, &mut from, to, &sums, &shared).map(Ended::well)?
        }
        (Place::From(mut from), Place::To(to)) => {
            stream::plain(&how, &mut from, to, &shared).map(Ended::well)?
        }
        (Place::To(_), _) | (_, Place::From(_)) => Ended::well(0),
    };
    let Ended { whole_bytes, failed } = ended;
    let mut copied = Copied {
        bytes: shared.bytes.load(Ordering::Relaxed),
        zero_bytes: shared.zero_bytes.load(Ordering::Relaxed),
        whole_bytes,
        verified: false,
        was_interrupted: interrupt.check().is_err(),
    };
    let Place::Blocks(mut to) = to else { return Ok(copied) };
    if copied.was_interrupted || failed.is_some() {
        to.cut(whole_bytes)?;
    }
    if let Some(error) = failed {
        return Err(error.context(format!("the first {whole_bytes} bytes were copied, then")));
    }
    to.flush()?;
    if how.verify && !copied.was_interrupted {
        progress.set("verify", 0, whole_bytes);
        verify::read_back(&how, &mut to, whole_bytes, &sums, &Shared::new(interrupt, progress))?;
        copied.was_interrupted = interrupt.check().is_err();
        copied.verified = !copied.was_interrupted;
    }
    to.close()?;
    Ok(copied)
}
