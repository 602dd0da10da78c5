//! Concurrent and delayed raises of the words in front of a ring.

use loom::sync::Arc;
use loom::thread;

use byway_tdm_region::Interleaved;

use super::PLACE;
use crate::log::atomic::{AtomicU64, Ordering};
use crate::log::prefix::lock_held;
use crate::log::{Position, Ring, RingPlace};

struct Medium {
    memory: Interleaved,
    /// Identity of the ring's current use.
    identity: AtomicU64,
}

impl Medium {
    fn new() -> Arc<Self> {
        let medium = Self { memory: Interleaved::new(PLACE.len_bytes), identity: AtomicU64::new(0) };
        medium.give_to(PLACE.identity);
        Arc::new(medium)
    }

    fn ring(&self, identity: u64) -> Ring<'_, Interleaved> {
        Ring::new(&self.memory, RingPlace { identity, ..PLACE }).expect("a ring")
    }

    fn give_to(&self, identity: u64) {
        self.identity.store(identity, Ordering::SeqCst);
        self.ring(identity).format(Position(0)).expect("a ring");
    }

    fn is_of(&self, identity: u64) -> bool {
        self.identity.load(Ordering::SeqCst) == identity
    }
}

#[test]
fn head_raised_by_two_threads_is_the_larger() {
    loom::model(|| {
        let medium = Medium::new();
        let other = medium.clone();
        let raise = |medium: &Medium, to: u64| {
            let ring = medium.ring(PLACE.identity);
            ring.retire(Position(to), lock_held).expect("a word");
            assert!(ring.head().expect("a word") >= Position(to));
        };
        let raising = thread::spawn(move || raise(&other, 64));
        raise(&medium, 128);
        raising.join().expect("a party that ends");
        assert_eq!(medium.ring(PLACE.identity).head().expect("a word"), Position(128));
    });
}

#[test]
fn late_thread_raises_no_head_of_a_reused_ring() {
    loom::model(|| {
        let medium = Medium::new();
        let other = medium.clone();
        let raising = thread::spawn(move || {
            let is_ours = || other.is_of(PLACE.identity);
            other.ring(PLACE.identity).retire(Position(64), is_ours).expect("a word");
        });
        medium.give_to(PLACE.identity + 1);
        raising.join().expect("a party that ends");
        assert_eq!(medium.ring(PLACE.identity + 1).head().expect("a word"), Position(0));
    });
}
