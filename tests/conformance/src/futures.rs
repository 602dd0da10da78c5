//! Commands as futures: many at once, dropped ones, and under a foreign executor.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use byway_core::future::{AsyncQueue, block_on, block_on_all};
use byway_core::{Backend, ErrorKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::subject::{Subject, assert_same};

const LONG: Duration = Duration::from_secs(20);

pub fn many_futures_share_a_queue_that_is_not_as_deep<B: Backend>(subject: &Subject<'_, B>) {
    let queue = AsyncQueue::new(subject.queue(8));
    let futures = (0..300u64).map(|n| {
        let queue = queue.clone();
        async move {
            let written = queue.execute(subject.write(n, subject.filled(n, 1, 3))).await.unwrap();
            assert_same(written.buffer.unwrap().as_slice(), subject.filled(n, 1, 3).as_slice());
            let read = match subject.gives_up {
                true => queue.execute_within(subject.read(n, 1), LONG).await,
                false => queue.execute(subject.read(n, 1)).await,
            };
            let read = read.unwrap().buffer.unwrap();
            if subject.keeps {
                assert_same(read.as_slice(), subject.filled(n, 1, 3).as_slice());
            }
            n
        }
    });
    assert!(block_on_all(&queue, futures).into_iter().eq(0..300), "outputs in the futures' order");
    assert_eq!(queue.outstanding(), 0);
}

pub fn a_future_that_fails_gives_the_buffer_back<B: Backend>(subject: &Subject<'_, B>) {
    let queue = AsyncQueue::new(subject.queue(2));
    let failed = block_on(&queue, queue.execute(subject.read(subject.blocks, 1))).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::OutOfRange, "{}", failed.error);
    assert_eq!(failed.buffer.unwrap().len(), subject.lba_bytes as usize);
    assert!(block_on(&queue, queue.execute(subject.read(0, 1))).is_ok());
}

pub fn a_dropped_future_harms_no_other_and_frees_its_slot<B: Backend>(subject: &Subject<'_, B>) {
    let queue = AsyncQueue::new(subject.queue(4));
    let mut context = Context::from_waker(Waker::noop());
    for round in 0..20 {
        // Some are under way, some wait for room, one was never polled.
        let mut futures: Vec<_> = (0..7).map(|n| Box::pin(queue.execute(subject.read(n, 2)))).collect();
        for future in futures.iter_mut().take(6) {
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        futures.swap_remove(round % 7);
        drop(futures);
        assert!(block_on(&queue, queue.execute(subject.read(0, 1))).is_ok());
    }
    while queue.outstanding() > 0 {
        queue.turn().unwrap();
    }
}

/// An executor of one task, as a runtime has many: it polls what was woken, and sleeps on descriptors alone.
fn run_by_descriptors<Q: byway_core::BackendQueue, F: Future>(queue: &AsyncQueue<Q>, future: F) -> F::Output {
    struct Flag(AtomicBool);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&flag));
    let event = queue.event().unwrap();
    let mut future = pin!(future);
    loop {
        if flag.0.swap(false, SeqCst)
            && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return output;
        }
        if queue.turn().unwrap() == 0 && !flag.0.load(SeqCst) {
            let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
            let woken = poll(&mut [PollFd::new(&event, PollFlags::IN)], Some(&timeout)).unwrap();
            assert_eq!(woken, 1, "{} are under way and woke no waiter", queue.outstanding());
        }
    }
}

pub fn an_executor_that_sleeps_on_descriptors_is_woken<B: Backend>(subject: &Subject<'_, B>) {
    if !subject.backend.capabilities().event {
        return;
    }
    let queue = AsyncQueue::new(subject.queue(4));
    run_by_descriptors(&queue, async {
        for n in 0..100 {
            queue.execute(subject.write(n, subject.filled(n, 1, 4))).await.unwrap();
            queue.execute(subject.read(n, 1)).await.unwrap();
        }
    });
    assert_eq!(queue.outstanding(), 0);
}

pub fn the_task_that_polls_a_queue_is_woken_by_submissions<B: Backend>(subject: &Subject<'_, B>) {
    let queue = AsyncQueue::new(subject.queue(4));
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut attending = queue.submitted();
    assert!(Pin::new(&mut attending).poll(&mut Context::from_waker(&waker)).is_pending());
    let mut first = Box::pin(queue.execute(subject.read(0, 1)));
    let mut second = Box::pin(queue.execute(subject.read(1, 1)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert_eq!(wakes.0.load(SeqCst), 1, "once for both");
    assert!(Pin::new(&mut attending).poll(&mut Context::from_waker(&waker)).is_ready());
    block_on(&queue, async {
        first.await.unwrap();
        second.await.unwrap();
    });
}

/// Counts wake-ups.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}
