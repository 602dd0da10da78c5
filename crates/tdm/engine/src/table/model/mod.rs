//! Loom models of the words shared by programs and the daemon
//! ([decision 56](../../../../../../docs/decisions/0056-loom-models-of-the-shared-file-table.md)).
//!
//! The kernel's state is under a lock, as in the kernel.

mod attributes;
mod file;
mod marks;
mod owner;
mod resident_state;
mod served;
mod unlisted;

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::key::FileKey;

const KEY: FileKey = FileKey { device: 7, inode: 5, born_ns: 1 };

/// Makes earlier stores visible to all: loom's SeqCst loads see the last SeqCst store if no other store followed.
fn settle<'a>(words: impl IntoIterator<Item = &'a AtomicU64>) {
    words.into_iter().for_each(|word| word.store(word.load(Ordering::Relaxed), Ordering::SeqCst));
}

/// Runs all interleavings of some threads with a bounded number of preemptions, then `check`.
fn parties<T: Send + Sync + 'static, const PARTIES: usize>(
    switches: usize,
    begin: fn() -> T,
    parties: [fn(&T); PARTIES],
    check: fn(&T),
) {
    let mut model = Builder::new();
    model.preemption_bound = Some(switches);
    model.check(move || {
        let shared = Arc::new(begin());
        let [first, others @ ..] = &parties[..] else { return };
        let spawn = |party: &fn(&T)| {
            let (shared, party) = (shared.clone(), *party);
            thread::spawn(move || party(&shared))
        };
        let others: Vec<_> = others.iter().map(spawn).collect();
        first(&shared);
        others.into_iter().for_each(|other| other.join().expect("a party that ends"));
        check(&shared);
    });
}
