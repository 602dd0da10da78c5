//! Futures of one queue on one thread, without a runtime.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::BackendQueue;
use crate::future::AsyncQueue;

/// The longest sleep on the queue, after which futures that wait for something else are looked at.
const SLEEP_MAX: Duration = Duration::from_millis(5);

/// Runs a future to its end in this thread, taking the completions of `queue` meanwhile.
///
/// Sleeps while nothing can be done: on the queue while commands are under way; else until the future is woken. A future
/// that waits for another thread's doing while commands are under way is looked at again within 5 ms.
pub fn block_on<Q: BackendQueue, F: Future>(queue: &AsyncQueue<Q>, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let woken = Arc::new(Woken::of_this_thread());
    let task = Arc::new(Task::new(0, &woken));
    let waker = Waker::from(Arc::clone(&task));
    loop {
        while woken.next().is_some() {
            task.is_woken.store(false, Release);
            if let Poll::Ready(output) = poll(future.as_mut(), &waker) {
                return output;
            }
        }
        rest(queue, &woken);
    }
}

/// Runs futures to their ends in this thread, all at once, taking the completions of `queue` meanwhile; their outputs in
/// the futures' order. Each is polled only when it was woken. Sleeps as [`block_on`] does.
pub fn block_on_all<Q: BackendQueue, F: Future>(
    queue: &AsyncQueue<Q>,
    futures: impl IntoIterator<Item = F>,
) -> Vec<F::Output> {
    let woken = Arc::new(Woken::of_this_thread());
    let mut tasks: Vec<Running<F>> =
        futures.into_iter().enumerate().map(|(index, future)| Running::new(index, future, &woken)).collect();
    let mut left = tasks.len();
    while left > 0 {
        while let Some(index) = woken.next() {
            left -= usize::from(tasks.get_mut(index).is_some_and(Running::step));
        }
        if left > 0 {
            rest(queue, &woken);
        }
    }
    tasks.into_iter().filter_map(|task| task.output).collect()
}

/// No future can go on: polls the queue, or sleeps.
fn rest<Q: BackendQueue>(queue: &AsyncQueue<Q>, woken: &Woken) {
    // A queue that fails wakes every future that waits for it.
    if queue.turn().is_ok_and(|taken| taken > 0) || woken.any() {
        return;
    }
    if queue.wait(SLEEP_MAX).is_none() {
        woken.park();
    }
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// One of several futures.
struct Running<F: Future> {
    /// None once it has ended.
    future: Option<Pin<Box<F>>>,
    output: Option<F::Output>,
    task: Arc<Task>,
    waker: Waker,
}

impl<F: Future> Running<F> {
    fn new(index: usize, future: F, woken: &Arc<Woken>) -> Self {
        let task = Arc::new(Task::new(index, woken));
        let waker = Waker::from(Arc::clone(&task));
        Self { future: Some(Box::pin(future)), output: None, task, waker }
    }

    /// Polls it; says whether it has ended by that.
    fn step(&mut self) -> bool {
        self.task.is_woken.store(false, Release);
        let Some(future) = &mut self.future else { return false };
        let Poll::Ready(output) = poll(future.as_mut(), &self.waker) else { return false };
        self.output = Some(output);
        self.future = None;
        true
    }
}

/// Which futures were woken, in their order.
#[derive(Debug)]
struct Woken {
    tasks: Mutex<VecDeque<usize>>,
    thread: Thread,
}

impl Woken {
    fn of_this_thread() -> Self {
        Self { tasks: Mutex::new(VecDeque::new()), thread: std::thread::current() }
    }

    fn next(&self) -> Option<usize> {
        self.tasks.lock().pop_front()
    }

    fn any(&self) -> bool {
        !self.tasks.lock().is_empty()
    }

    /// Sleeps until a future is woken.
    fn park(&self) {
        while !self.any() {
            std::thread::park();
        }
    }
}

/// A future that can be woken.
#[derive(Debug)]
struct Task {
    index: usize,
    is_woken: AtomicBool,
    woken: Arc<Woken>,
}

impl Task {
    /// A future that is to be polled first.
    fn new(index: usize, woken: &Arc<Woken>) -> Self {
        woken.tasks.lock().push_back(index);
        Self { index, is_woken: AtomicBool::new(true), woken: Arc::clone(woken) }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, AcqRel) {
            self.woken.tasks.lock().push_back(self.index);
            self.woken.thread.unpark();
        }
    }
}
