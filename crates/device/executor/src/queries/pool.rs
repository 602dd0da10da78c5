//! Threads that execute queries. They begin with the first queries, and end with the device.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byway_controller::{AtOnce, QueryFailure, QueryId, QueryRequest, ShortQuery};
use byway_spec::Status;
use byway_sys::OwnerProcess;
use parking_lot::{Condvar, Mutex};

use super::job::Job;
use super::object;
use super::runner::{ObjectReadError, QueryOptions, QueryRunner, QueryTask, ResultSink};
use crate::executor::Executor;

/// Longest time that a query can be given to wait for a thread.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Longest result that is kept whole, in bytes.
const WHOLE_MAX_BYTES: usize = 16 << 20;

thread_local! {
    /// Whether this is a thread of a pool.
    static EXECUTES_QUERIES: Cell<bool> = const { Cell::new(false) };
}

/// The threads, and the queries that they have.
#[derive(Debug)]
pub(crate) struct QueryPool {
    owner: OwnerProcess,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    executor: Weak<Executor>,
    runner: Box<dyn QueryRunner>,
    options: QueryOptions,
    work: Mutex<Work>,
    has_work: Condvar,
    /// A query waits, or the pool stops: for the thread that ends queries which wait too long.
    has_waiting: Condvar,
    /// Queries that have more of their results, or have ended, since the controller was given one.
    ready: Mutex<VecDeque<QueryId>>,
}

#[derive(Debug, Default)]
struct Work {
    jobs: HashMap<QueryId, Arc<Job>>,
    /// Those that no thread has begun.
    waiting: VecDeque<Arc<Job>>,
    idle_threads: usize,
    threads: usize,
    /// There is a thread that ends queries which wait too long.
    is_timed: bool,
    stops: bool,
}

impl QueryPool {
    /// No threads yet.
    pub fn new(executor: &Arc<Executor>, runner: Box<dyn QueryRunner>, options: QueryOptions) -> Self {
        let shared = Shared {
            executor: Arc::downgrade(executor),
            runner,
            options,
            work: Mutex::default(),
            has_work: Condvar::new(),
            has_waiting: Condvar::new(),
            ready: Mutex::default(),
        };
        Self { owner: OwnerProcess::current(), shared: Arc::new(shared), threads: Mutex::default() }
    }

    pub(super) fn options(&self) -> QueryOptions {
        self.shared.options
    }

    pub(super) fn text_max_bytes(&self) -> u32 {
        self.shared.runner.text_max_bytes()
    }

    /// Executes a short query without a thread.
    pub(super) fn run_at_once(&self, query: ShortQuery<'_>, value: &mut Vec<u8>) -> AtOnce {
        self.shared.runner.run_at_once(query, value)
    }

    /// Gives a query to the threads.
    ///
    /// # Errors
    /// The system's error: there is no thread, and none can be started.
    pub(super) fn begin(&self, id: QueryId, request: QueryRequest) -> io::Result<()> {
        let start_deadline = Instant::now() + self.shared.options.wait_max.min(WAIT_MAX);
        let job = Arc::new(Job::new(id, request, start_deadline));
        let mut work = self.shared.work.lock();
        if work.idle_threads <= work.waiting.len() {
            self.add_thread(&mut work)?;
        }
        work.jobs.insert(id, Arc::clone(&job));
        work.waiting.push_back(job);
        self.shared.has_work.notify_one();
        self.shared.has_waiting.notify_one();
        Ok(())
    }

    /// Starts a thread for a query that no thread is idle for, or sees to it that the query does not wait too long.
    fn add_thread(&self, work: &mut Work) -> io::Result<()> {
        if work.threads < usize::from(self.shared.options.running) {
            match self.start("byway-query", Shared::serve) {
                Ok(()) => {
                    work.threads += 1;
                    return Ok(());
                }
                Err(error) if work.threads == 0 => return Err(error),
                Err(_) => {}
            }
        }
        if !work.is_timed {
            self.start("byway-deadlines", Shared::fail_overdue)?;
            work.is_timed = true;
        }
        Ok(())
    }

    fn start(&self, name: &str, run: fn(&Shared)) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&shared))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    pub(super) fn job(&self, id: QueryId) -> Option<Arc<Job>> {
        self.shared.work.lock().jobs.get(&id).cloned()
    }

    /// Cancels a query and forgets it.
    pub(super) fn cancel(&self, id: QueryId) {
        let mut work = self.shared.work.lock();
        let Some(job) = work.jobs.remove(&id) else { return };
        work.waiting.retain(|waiting| waiting.id != id);
        drop(work);
        job.cancel();
    }

    /// Names a query to the holder of the run lock, which calls this.
    pub(super) fn mark_ready(&self, id: QueryId) {
        self.shared.ready.lock().push_back(id);
        self.shared.executor.upgrade().iter().for_each(|executor| executor.note_ready_commands());
    }

    pub(super) fn next_ready(&self) -> Option<QueryId> {
        self.shared.ready.lock().pop_front()
    }

    /// Cancels every query and waits for the threads. A forked child has none.
    pub fn stop(&self) {
        if !self.owner.is_current() {
            return self.threads.lock().drain(..).for_each(std::mem::forget);
        }
        let jobs: Vec<Arc<Job>> = {
            let mut work = self.shared.work.lock();
            work.stops = true;
            work.waiting.clear();
            work.jobs.drain().map(|(_, job)| job).collect()
        };
        jobs.iter().for_each(|job| job.cancel());
        self.shared.has_work.notify_all();
        self.shared.has_waiting.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        // Of a thread that Rust has not started, its identity would be allocated here: leak checkers report that.
        let own = EXECUTES_QUERIES.get().then(|| std::thread::current().id());
        for thread in threads.into_iter().filter(|thread| Some(thread.thread().id()) != own) {
            // A panic of the thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Executes queries until the device closes.
    fn serve(&self) {
        EXECUTES_QUERIES.set(true);
        while let Some(job) = self.next_job() {
            self.execute(&job);
        }
    }

    /// Fails queries whose deadline for a start has passed, until the device closes.
    fn fail_overdue(&self) {
        EXECUTES_QUERIES.set(true);
        while let Some(job) = self.next_overdue() {
            // A thread that took it from the queue has its request.
            if job.take_request().is_some() {
                job.complete(Err(waited_too_long(self.options)));
                self.notify_ready(job.id);
            }
        }
    }

    /// Waits until the deadline of a query has passed, and takes it from the queue. `None` once the pool stops.
    fn next_overdue(&self) -> Option<Arc<Job>> {
        let mut work = self.work.lock();
        loop {
            if work.stops {
                return None;
            }
            match work.waiting.front().map(|job| job.start_deadline) {
                None => self.has_waiting.wait(&mut work),
                Some(start_deadline) if start_deadline <= Instant::now() => return work.waiting.pop_front(),
                Some(start_deadline) => _ = self.has_waiting.wait_until(&mut work, start_deadline),
            }
        }
    }

    fn next_job(&self) -> Option<Arc<Job>> {
        let mut work = self.work.lock();
        loop {
            if work.stops {
                return None;
            }
            if let Some(job) = work.waiting.pop_front() {
                return Some(job);
            }
            work.idle_threads += 1;
            self.has_work.wait(&mut work);
            work.idle_threads -= 1;
        }
    }

    fn execute(&self, job: &Arc<Job>) {
        let Some(request) = job.take_request() else { return };
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run(job, request)));
        job.complete(outcome.unwrap_or_else(|_| Err(panicked())));
        self.notify_ready(job.id);
    }

    fn run(&self, job: &Job, request: QueryRequest) -> Result<(), QueryFailure> {
        let is_copied = request.object.is_copied();
        let object =
            object::open(&self.executor, request.object, &job.cancelled, &job.read_time).map_err(failure)?;
        let sink = Sink { shared: self, job };
        let task = QueryTask {
            text: &request.text,
            object: object.into(),
            is_copied,
            format: request.format,
            has_header: request.has_header,
            explains: request.explains,
            result_max_bytes: request.buffers_whole_result.then_some(WHOLE_MAX_BYTES),
            cancelled: &job.cancelled,
            result: &sink,
        };
        self.runner.run(&task)
    }

    /// Names a query to the controller that has more of its result, or has ended.
    fn notify_ready(&self, id: QueryId) {
        self.ready.lock().push_back(id);
        if let Some(executor) = self.executor.upgrade() {
            executor.complete_ready_commands();
        }
    }
}

/// The result of a job.
struct Sink<'a> {
    shared: &'a Shared,
    job: &'a Job,
}

impl ResultSink for Sink<'_> {
    fn put(&self, bytes: &[u8]) -> bool {
        if self.job.add(bytes) {
            self.shared.notify_ready(self.job.id);
        }
        self.job.wait_for_host()
    }
}

fn waited_too_long(options: QueryOptions) -> QueryFailure {
    let QueryOptions { running, wait_max, .. } = options;
    let text = format!("{running} other queries ran for the {} s that a query waits", wait_max.as_secs_f64());
    QueryFailure { status: Status::QUERY_NOT_BEGUN, text }
}

/// The failure of a query whose execution panicked: the panic hook has reported it.
fn panicked() -> QueryFailure {
    QueryFailure {
        status: Status::INTERNAL_ERROR,
        text: "the query's execution failed within the device".into(),
    }
}

fn failure(error: ObjectReadError) -> QueryFailure {
    let status = match error {
        ObjectReadError::Changed => Status::QUERY_OBJECT_CHANGED,
        ObjectReadError::Unreadable(_) => Status::QUERY_FAILED,
    };
    QueryFailure { status, text: error.to_string() }
}
