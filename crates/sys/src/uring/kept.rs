//! Entries of the submission ring that the kernel may read again after it has taken them.
//!
//! An entry is the kernel's copy once it is taken, so that its place may have the next one. Not so with commands passed through
//! on Linux 6.10 to 6.13 (5eff57fa9f3a "io_uring/uring_cmd: defer SQE copying until it's needed", fixed by e663da62ba86 in 6.14
//! and in some of 6.13, not in 6.12): one that a driver has no room for is begun later by a thread of the kernel's, from
//! the place in the ring. If another entry stands there by then, that one is done twice, and the first never, under
//! the first one's name. So there no place has another entry before its command is done.

use std::fs;

/// The file with the kernel's release.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// A ring has so many times the places of its operations, so that one that takes longer than others seldom holds a place that is
/// wanted.
pub(super) const PLACES: u32 = 4;

/// No operation.
const NONE: u32 = u32::MAX;

/// Which places of the submission ring have entries of commands that are not done.
#[derive(Debug)]
pub(super) struct Kept {
    /// The place of the next entry.
    next: usize,
    /// The operation of each place.
    operations: Box<[u32]>,
    /// The place of each operation.
    places: Box<[u32]>,
}

impl Kept {
    /// An empty ring of `entries` places for `depth` operations.
    pub(super) fn new(entries: usize, depth: usize) -> Self {
        Self { next: 0, operations: vec![NONE; entries].into(), places: vec![NONE; depth].into() }
    }

    /// Whether the next `entries` places may be written.
    pub(super) fn has_room(&self, entries: usize) -> bool {
        let free = |ahead| self.operations.get((self.next + ahead) % self.operations.len()) == Some(&NONE);
        (0..entries).all(free)
    }

    /// The operation's entry was put in the next place.
    pub(super) fn keep(&mut self, operation: u32) {
        let (at, mine) = (self.operations.get_mut(self.next), self.places.get_mut(operation as usize));
        if let (Some(at), Some(mine)) = (at, mine) {
            (*at, *mine) = (operation, self.next as u32);
        }
        self.pass();
    }

    /// An entry was put in the next place that the kernel reads once.
    pub(super) fn pass(&mut self) {
        self.next = (self.next + 1) % self.operations.len();
    }

    /// The kernel has completed the operation.
    pub(super) fn give_back(&mut self, operation: u32) {
        let Some(mine) = self.places.get_mut(operation as usize) else { return };
        let place = std::mem::replace(mine, NONE);
        if let Some(at) = self.operations.get_mut(place as usize) {
            *at = NONE;
        }
    }
}

/// Whether the kernel that runs may read an entry of a command again.
/// One of an unknown release may.
pub(super) fn is_needed() -> bool {
    fs::read_to_string(RELEASE).map_or(true, |release| reads_again(&release))
}

fn reads_again(release: &str) -> bool {
    let mut numbers = release.split(|sign: char| !sign.is_ascii_digit()).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(6)), Some(Ok(10..=13))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_command_is_done_and_no_sooner() {
        let mut kept = Kept::new(4, 8);
        for operation in [5, 6, 7] {
            assert!(kept.has_room(1));
            kept.keep(operation);
        }
        kept.pass();
        // The ring has come round to the place of 5.
        assert!(!kept.has_room(1));
        kept.give_back(6);
        assert!(!kept.has_room(1));
        kept.give_back(5);
        assert!(kept.has_room(2) && !kept.has_room(3));
        kept.keep(5);
        kept.give_back(5);
        kept.give_back(5);
        assert!(kept.has_room(1), "the place of 6");
    }

    #[test]
    fn kernels_that_read_an_entry_again_are_known_by_their_release() {
        for release in ["6.10.0\n", "6.12.107+deb13-amd64", "6.13.2-rc1", "6.11"] {
            assert!(reads_again(release), "{release}");
        }
        for release in
            ["6.9.12", "6.1.0-43-amd64", "6.14.0", "7.2.12+deb13-amd64", "5.10.0", "7.12.0", "odd", ""]
        {
            assert!(!reads_again(release), "{release}");
        }
    }
}
