//! State of a DAX-resident file beside its size: position, flags, terms; also requests to promote it and counted calls.
//!
//! The file has one open file in the system, so position and flags are shared words, and `read`, `write` and `lseek` make no system call.

use byway_tdm_policy::Reason;

use crate::table::atomic::{AtomicU64, Ordering};

/// Words beside [`ResidentWords`](crate::resident::ResidentWords).
pub(super) const RESIDENT_STATE_WORDS: usize = 4;

const POSITION: usize = 0;
const COUNTED: usize = 1;
const REQUEST: usize = 2;
const TERMS: usize = 3;

const REQUESTED: u64 = 1;

/// Flag of a position that the demoter has taken: it no longer moves here. Larger than any position.
const TAKEN: u64 = 1 << 63;

/// A file's words.
///
/// The demoter and the calls that move the position meet at that word; each changes it in one step. The demoter takes it after closing the
/// size, and a write moves it before it stores bytes: a write that ended moved the position before it was taken.
#[derive(Debug, Clone, Copy)]
pub struct ResidentState<'b>(pub(super) &'b [AtomicU64; RESIDENT_STATE_WORDS]);

/// Terms of a promotion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Flags of the open file (O_APPEND, O_WRONLY).
    pub flags: u32,
    /// Epoch of the daemon that watches the lease, not zero.
    pub daemon_epoch: u32,
}

impl ResidentState<'_> {
    /// Clears the words.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::SeqCst));
    }

    /// The position.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u64 {
        self.0[POSITION].load(Ordering::Acquire) & !TAKEN
    }

    /// Sets the position.
    #[inline]
    pub fn set_position(&self, position: u64) {
        self.0[POSITION].store(position, Ordering::Release);
    }

    /// Advances the position; returns the old one. `None` if it is taken.
    #[inline]
    #[must_use]
    pub fn advance(&self, len_bytes: u64) -> Option<u64> {
        let on = |was: u64| (was & TAKEN == 0).then(|| was.wrapping_add(len_bytes) & !TAKEN);
        self.0[POSITION].fetch_update(Ordering::AcqRel, Ordering::Acquire, on).ok()
    }

    /// Moves the position back. `false` if it is taken.
    #[must_use]
    pub fn retreat(&self, len_bytes: u64) -> bool {
        let back = |was: u64| (was & TAKEN == 0).then(|| was.wrapping_sub(len_bytes) & !TAKEN);
        self.0[POSITION].fetch_update(Ordering::AcqRel, Ordering::Acquire, back).is_ok()
    }

    /// Moves the position to `to(position)`; returns the new one. `None` if it is taken.
    ///
    /// # Errors
    /// The error of `to`: the position stays.
    pub fn seek<E>(&self, to: impl Fn(u64) -> Result<u64, E>) -> Result<Option<u64>, E> {
        loop {
            let was = self.0[POSITION].load(Ordering::Acquire);
            if was & TAKEN != 0 {
                return Ok(None);
            }
            let to = to(was)?;
            if self.0[POSITION].compare_exchange(was, to, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Ok(Some(to));
            }
        }
    }

    /// Takes the position for the demoter; returns it.
    pub fn take_position(&self) -> u64 {
        self.0[POSITION].fetch_or(TAKEN, Ordering::AcqRel) & !TAKEN
    }

    /// Gives the position back: the file stays DAX-resident.
    pub fn give_position_back(&self) {
        self.0[POSITION].fetch_and(!TAKEN, Ordering::AcqRel);
    }

    /// Counts a system call that writes the file or uses its position, for threads without a [`Mark`](crate::table::Mark): the file is not promoted
    /// meanwhile. The caller loads the level afterwards. A killed thread's count stays until [`ResidentState::forget_calls`].
    #[inline]
    pub fn begin(&self) {
        self.0[COUNTED].fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a counted call.
    #[inline]
    pub fn end(&self) {
        self.0[COUNTED].fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether calls are counted.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.0[COUNTED].load(Ordering::SeqCst) != 0
    }

    /// Clears the count, of a file that no other process has open.
    pub fn forget_calls(&self) {
        self.0[COUNTED].store(0, Ordering::SeqCst);
    }

    /// Requests the promotion, or withdraws the request: the file's next sync asks the daemon.
    pub fn request_promotion(&self, is_requested: bool) {
        match is_requested {
            true => self.0[REQUEST].fetch_or(REQUESTED, Ordering::SeqCst),
            false => self.0[REQUEST].fetch_and(!REQUESTED, Ordering::SeqCst),
        };
    }

    /// Whether the promotion is requested.
    #[inline]
    #[must_use]
    pub fn is_promotion_requested(&self) -> bool {
        self.0[REQUEST].load(Ordering::Relaxed) & REQUESTED != 0
    }

    /// Excludes the file from promotion: a program reads the file below in a way that the library cannot follow.
    pub fn exclude(&self, why: Reason) {
        // The first reason stays.
        let with_reason = |word: u64| (word >> 8 == 0).then_some(word | u64::from(why.number()) << 8);
        let _ = self.0[REQUEST].fetch_update(Ordering::SeqCst, Ordering::SeqCst, with_reason);
    }

    /// Why the file is excluded.
    #[must_use]
    pub fn excluded(&self) -> Option<Reason> {
        let why = (self.0[REQUEST].load(Ordering::SeqCst) >> 8) as u8;
        (why != 0).then(|| Reason::from_number(why))
    }

    /// Terms of the promotion. `None` while the file below is complete, whatever the level: before the promotion's end, and from the demotion's end.
    #[inline]
    #[must_use]
    pub fn terms(&self) -> Option<Terms> {
        let word = self.0[TERMS].load(Ordering::Acquire);
        (word != 0).then_some(Terms { flags: word as u32, daemon_epoch: (word >> 32) as u32 })
    }

    /// Ends a promotion (`Some`) or a demotion (`None`).
    pub fn set_terms(&self, terms: Option<Terms>) {
        let word = terms.map_or(0, |terms| u64::from(terms.flags) | u64::from(terms.daemon_epoch) << 32);
        self.0[TERMS].store(word, Ordering::Release);
    }
}
