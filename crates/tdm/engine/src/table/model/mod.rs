//! What the model checker proves of the words that programs and the daemon share.
//!
//! The kernel's part is under a lock of its own, as it is in the kernel: what it has of a file, and who has which file open.

mod attributes;
mod file;
#[path = "resident_state.rs"]
mod housed;
mod marks;
mod served;
mod unlisted;
#[path = "owner.rs"]
mod whose;

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::key::FileKey;

const KEY: FileKey = FileKey { device: 7, inode: 5, born_ns: 1 };

/// Has the checker know that what is in these words was stored before anybody else looks: it has loads by SeqCst see the last store by SeqCst, if none was of
/// another kind since.
fn settle<'a>(words: impl IntoIterator<Item = &'a AtomicU64>) {
    words.into_iter().for_each(|word| word.store(word.load(Ordering::Relaxed), Ordering::SeqCst));
}

/// All interleavings of some parties with at most so many switches that no thread asked for, and what must hold once all are done.
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
