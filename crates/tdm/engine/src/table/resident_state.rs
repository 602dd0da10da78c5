//! What is known of a file that has device memory as its home, or may get it there.
//!
//! A file is at home only while there is one open file of it in the whole system: so its position and its flags are words here too, and a read
//! or a write at the position calls nobody.

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::level::Why;

/// Words beside those of the home itself.
pub(super) const HOUSED_WORDS: usize = 4;

const POSITION: usize = 0;
const COUNTED: usize = 1;
const WISH: usize = 2;
const TERMS: usize = 3;

const WISHED: u64 = 1;

/// In a position: whoever brings the file below has set it there, and it is moved there alone. No position is as large.
const TAKEN: u64 = 1 << 63;

/// A file's words.
///
/// Who brings the file below meets those who move its position at that word alone: each changes it in one step, and takes or is told that it is taken. It is taken
/// behind the size, and moved before it is written there: a write that is over has moved it before it was taken.
#[derive(Debug, Clone, Copy)]
pub struct Housed<'b>(pub(super) &'b [AtomicU64; HOUSED_WORDS]);

/// Under which terms a file came home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Its open file's flags (O_APPEND, O_WRONLY).
    pub flags: u32,
    /// Which daemon looks who else opens it: not zero.
    pub reign: u32,
}

impl Housed<'_> {
    /// A file of which nothing is known.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::SeqCst));
    }

    /// Where its open file stands, while it is at home.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u64 {
        self.0[POSITION].load(Ordering::Acquire) & !TAKEN
    }

    /// Moves its open file's position.
    #[inline]
    pub fn set_position(&self, position: u64) {
        self.0[POSITION].store(position, Ordering::Release);
    }

    /// Moves it on; says where it was. `None` where it was taken before.
    #[inline]
    #[must_use]
    pub fn advance(&self, len_bytes: u64) -> Option<u64> {
        let on = |was: u64| (was & TAKEN == 0).then(|| was.wrapping_add(len_bytes) & !TAKEN);
        self.0[POSITION].fetch_update(Ordering::AcqRel, Ordering::Acquire, on).ok()
    }

    /// Takes that back; whether it did, as it was not taken before.
    #[must_use]
    pub fn retreat(&self, len_bytes: u64) -> bool {
        let back = |was: u64| (was & TAKEN == 0).then(|| was.wrapping_sub(len_bytes) & !TAKEN);
        self.0[POSITION].fetch_update(Ordering::AcqRel, Ordering::Acquire, back).is_ok()
    }

    /// Moves it to where `to` says, by where it is; says where that is. `None` where it was taken before.
    ///
    /// # Errors
    /// What `to` says: it stays.
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

    /// Takes it, for who brings the file below: nobody moves it here any more. Where it is.
    pub fn take_position(&self) -> u64 {
        self.0[POSITION].fetch_or(TAKEN, Ordering::AcqRel) & !TAKEN
    }

    /// It is moved here again: the file stays.
    pub fn give_position_back(&self) {
        self.0[POSITION].fetch_and(!TAKEN, Ordering::AcqRel);
    }

    /// A call of the kernel begins that writes the file, or moves or asks for its position: it does not come home meanwhile. Whoever begins
    /// looks at the level behind this. For threads that have no [`Mark`](crate::table::Mark) to set. Who is killed inside of it keeps the file from home until
    /// it is opened by nobody else ([`Housed::forget_calls`]).
    #[inline]
    pub fn begin(&self) {
        self.0[COUNTED].fetch_add(1, Ordering::SeqCst);
    }

    /// It ends.
    #[inline]
    pub fn end(&self) {
        self.0[COUNTED].fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether there are such calls, beside those of threads that mark theirs.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.0[COUNTED].load(Ordering::SeqCst) != 0
    }

    /// There are none: nobody has it open who could be in one.
    pub fn forget_calls(&self) {
        self.0[COUNTED].store(0, Ordering::SeqCst);
    }

    /// Somebody wants it at home, or does not any more: whoever syncs it next asks the daemon.
    pub fn wish(&self, is_wished: bool) {
        match is_wished {
            true => self.0[WISH].fetch_or(WISHED, Ordering::SeqCst),
            false => self.0[WISH].fetch_and(!WISHED, Ordering::SeqCst),
        };
    }

    /// Whether somebody wants it at home.
    #[inline]
    #[must_use]
    pub fn is_wished(&self) -> bool {
        self.0[WISH].load(Ordering::Relaxed) & WISHED != 0
    }

    /// It never comes home from here on: somebody sees the file below in a way that nobody follows.
    pub fn exclude(&self, why: Why) {
        // The first reason stays.
        let with_reason = |word: u64| (word >> 8 == 0).then_some(word | (why as u64) << 8);
        let _ = self.0[WISH].fetch_update(Ordering::SeqCst, Ordering::SeqCst, with_reason);
    }

    /// Why it never comes home.
    #[must_use]
    pub fn excluded(&self) -> Option<Why> {
        let why = (self.0[WISH].load(Ordering::SeqCst) >> 8) as u8;
        (why != 0).then(|| Why::from_number(why))
    }

    /// Under which terms it came home. `None` while the file below has every byte of it, whatever its level says: before all of it is at
    /// home, and once all of it is below again.
    #[inline]
    #[must_use]
    pub fn terms(&self) -> Option<Terms> {
        let word = self.0[TERMS].load(Ordering::Acquire);
        (word != 0).then_some(Terms { flags: word as u32, reign: (word >> 32) as u32 })
    }

    /// From here on it is at home, or is below.
    pub fn set_terms(&self, terms: Option<Terms>) {
        let word = terms.map_or(0, |terms| u64::from(terms.flags) | u64::from(terms.reign) << 32);
        self.0[TERMS].store(word, Ordering::Release);
    }
}
