//! Copies of memory that its owner reuses meanwhile, validated by the word that names them.
//!
//! The owner stores a place's bytes before the word that names the place (Release), and stores another word before it reuses the place
//! (a Release fence between them). A reader that finds the same word before and after its copy has copied what the word names, however
//! often it met the owner. Readers store nothing, and neither waits for the other.

use crate::sync::{Ordering, fence};

/// Copies what a word names until the word is the same before and after, at most `attempts` times. `load` loads with Acquire. `None` for a
/// word that changed each time; what was copied is then to be thrown away.
#[inline]
pub fn validated<W: PartialEq, R>(
    attempts: u32,
    load: impl Fn() -> W,
    mut copy: impl FnMut(&W) -> R,
) -> Option<R> {
    let mut word = load();
    for _ in 0..attempts {
        let copied = copy(&word);
        // The loads of the copy come before the load of the word.
        fence(Ordering::Acquire);
        let now = load();
        if now == word {
            return Some(copied);
        }
        word = now;
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_word_that_changes_is_copied_again_and_given_up_after_the_last_attempt() {
        let changes = Cell::new(2_u32);
        let load = || changes.replace(changes.get().saturating_sub(1));
        assert_eq!(validated(3, load, |word| *word), Some(0));
        changes.set(9);
        assert_eq!(validated(3, load, |word| *word), None);
    }
}
