//! Models of the guarded value: what its threads do, in every interleaving.

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// Two words that are equal whenever the lock is free.
type Words = [u32; 2];

impl Acquire for Words {}

// SAFETY: the part is the value, and `part` only returns it.
#[expect(unsafe_code, reason = "`part` reaches nothing but the part")]
unsafe impl Readable for Words {
    type Part = Self;

    fn part(&self) -> &Self {
        self
    }
}

fn increment(words: &mut Words) {
    words.iter_mut().for_each(|word| *word += 1);
}

/// Runs both by a thread each, in all interleavings with three preemptions at most. They return how often they incremented the words.
fn check(works: [fn(&Guarded<Words>) -> u32; 2]) {
    let mut model = Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let guarded = Arc::new(Guarded::with_readers([0; 2], 1));
        guarded.run(|_| guarded.add_reader(0), |_| ()).expect("a lock that is free");
        let thread = {
            let guarded = guarded.clone();
            thread::spawn(move || works[0](&guarded))
        };
        let increments = works[1](&guarded) + thread.join().expect("a thread that ends");
        assert_eq!(guarded.run(|words| *words, |_| ()), Some([increments; 2]));
        assert!(!guarded.is_wanted());
    });
}

fn run(guarded: &Guarded<Words>) -> u32 {
    (0..2).for_each(|_| assert!(guarded.run(increment, |_| ()).is_some()));
    2
}

fn try_run(guarded: &Guarded<Words>) -> u32 {
    let runs = (0..2).filter(|_| guarded.try_run_as_it_is(increment, |_| ()).is_some());
    runs.count() as u32
}

fn run_or_set_pending(guarded: &Guarded<Words>) -> u32 {
    let mut runs = 0;
    guarded.run_or_set_pending(
        || (),
        |words, _| {
            increment(words);
            runs += 1;
        },
    );
    runs
}

fn read(guarded: &Guarded<Words>) -> u32 {
    // Not where the lock is held: loom may give a thread that waits the old value for ever.
    if let Some(reading) = guarded.run_lock.read(0) {
        let are_equal = guarded.read_by(reading, |[first, second]| first == second);
        assert!(are_equal, "a reader sees half of a change");
    }
    0
}

#[test]
fn value_is_changed_by_one_thread_at_a_time() {
    check([run, run]);
    check([run, try_run]);
    check([run, run_or_set_pending]);
    check([try_run, run_or_set_pending]);
}

#[test]
fn value_is_read_beside_no_thread_that_changes_it() {
    check([read, run]);
    check([read, try_run]);
    check([read, run_or_set_pending]);
}

#[test]
fn what_was_published_is_taken_by_whichever_thread_holds_the_lock() {
    let mut model = Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let guarded = Arc::new(Guarded::new([0; 2]));
        let published = Arc::new(AtomicU32::new(0));
        let work = |guarded: &Guarded<Words>, published: &AtomicU32| {
            let publish = || _ = published.fetch_add(1, Relaxed);
            let take = |words: &mut Words, is_first: bool| {
                words[0] += u32::from(is_first) + published.swap(0, Relaxed);
            };
            guarded.run_or_set_pending(publish, take);
        };
        let threads = [(), ()].map(|()| {
            let (guarded, published) = (guarded.clone(), published.clone());
            thread::spawn(move || work(&guarded, &published))
        });
        work(&guarded, &published);
        threads.into_iter().for_each(|thread| thread.join().expect("a thread that ends"));
        assert_eq!(guarded.run(|words| words[0], |_| ()), Some(3), "each thread's work is done once");
    });
}
