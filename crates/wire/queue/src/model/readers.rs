//! Threads read what the run lock guards while another thread acquires it (decision 0065).

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::bounded;
use crate::RunLock;

/// Two words that are equal whenever the lock is free.
struct Guarded {
    lock: RunLock,
    words: [AtomicU32; 2],
}

impl Guarded {
    fn write(&self) {
        let [first, second] = &self.words;
        first.store(first.load(Relaxed) + 1, Relaxed);
        second.store(second.load(Relaxed) + 1, Relaxed);
    }

    fn read(&self, reader: usize) {
        if let Some(reading) = self.lock.read(reader) {
            let [first, second] = &self.words;
            assert_eq!(first.load(Relaxed), second.load(Relaxed), "a reader sees half of a write");
            drop(reading);
        }
    }
}

/// Two readers, one of which is added late, beside a thread that writes twice, by `acquire`.
fn read_beside(acquire: fn(&RunLock) -> bool) {
    bounded(3).check(move || {
        let words = [AtomicU32::new(0), AtomicU32::new(0)];
        let guarded = Arc::new(Guarded { lock: RunLock::with_readers(2), words });
        assert!(guarded.lock.try_acquire());
        guarded.lock.add_reader(0);
        assert!(guarded.lock.release());
        let readers = [0, 1].map(|reader| {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.read(reader))
        });
        for _ in 0..2 {
            assert!(acquire(&guarded.lock));
            guarded.lock.add_reader(1);
            guarded.write();
            assert!(guarded.lock.release());
        }
        readers.into_iter().for_each(|reader| reader.join().expect("a thread that ends"));
        assert!(guarded.words.iter().all(|word| word.load(Relaxed) == 2));
    });
}

#[test]
fn reader_sees_no_half_of_a_write_by_a_thread_that_tries_the_lock() {
    read_beside(RunLock::try_acquire);
}

#[test]
fn reader_sees_no_half_of_a_write_by_a_thread_that_waits_for_the_lock() {
    read_beside(RunLock::acquire_or_set_pending);
}
