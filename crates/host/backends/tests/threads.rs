//! What a pool of threads does with commands that are not begun, seen by a device that begins when the test says so.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_backends::{Synchronous, Threads, ThreadsOptions};
use byway_core::{
    AdminCommand, Backend, BackendQueue, Buffer, Capabilities, Command, Error, ErrorKind, Failed, Identity,
    Memory, Methods, Namespace, Nsid, NvmCommand, Outcome, QueueOptions, Result,
};
use byway_sys::time::thread_ns;
use parking_lot::{Condvar, Mutex};

const LONG: Duration = Duration::from_secs(20);

/// A device whose commands last until it is opened.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    identity: Identity,
}

#[derive(Default)]
struct State {
    open: bool,
    begun: u32,
}

impl Gate {
    fn open(&self) {
        self.state.lock().open = true;
        self.changed.notify_all();
    }

    /// Waits until this number of commands has been begun.
    fn wait_until_begun(&self, count: u32) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.begun < count);
    }

    fn begun(&self) -> u32 {
        self.state.lock().begun
    }
}

impl Synchronous for Gate {
    type Request = ();

    fn check(&self, _: &Command) -> Result<()> {
        Ok(())
    }

    fn perform(&self, (): (), memory: Memory) -> Result<Outcome, Failed> {
        let mut state = self.state.lock();
        state.begun += 1;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| !state.open);
        Ok(Outcome { buffer: memory.into_buffers().0, ..Outcome::default() })
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self, overlaps: bool, cancel: bool) -> Capabilities {
        Capabilities { methods: Methods::NONE, overlaps, cancel, ..Capabilities::default() }
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        Ok(Vec::new())
    }

    fn check_queue(&self, _: &QueueOptions) -> Result<()> {
        Ok(())
    }

    fn admin(&self, _: AdminCommand) -> Result<Outcome> {
        Err(Error::host(ErrorKind::Unsupported, "a gate has no controller"))
    }
}

fn gate(threads: u32) -> (Arc<Gate>, Threads<Gate>) {
    let gate = Arc::new(Gate::default());
    let threads = Threads::new(Arc::clone(&gate), ThreadsOptions::of(threads)).unwrap();
    (gate, threads)
}

fn read() -> Command {
    NvmCommand::Read { nsid: Nsid::FIRST, slba: 0, blocks: 1, into: Buffer::zeroed(512).unwrap() }.into()
}

/// What became of everything outstanding: tag, and kind of failure; every buffer came back.
fn results(queue: &mut impl BackendQueue) -> Vec<(u64, Option<ErrorKind>)> {
    let mut results = Vec::new();
    let drained = queue.drain(&mut |finished| {
        let (kind, buffer) = match finished.result {
            Ok(outcome) => (None, outcome.buffer),
            Err(failed) => (Some(failed.error.kind()), failed.buffer),
        };
        assert_eq!(buffer.map(|buffer| buffer.len()), Some(512), "tag {}", finished.tag);
        results.push((finished.tag, kind));
    });
    assert_eq!(drained.unwrap(), results.len());
    results.sort_by_key(|(tag, _)| *tag);
    results
}

#[test]
fn a_thread_that_waits_for_another_burns_no_core() {
    let cpu = || Duration::from_nanos(thread_ns());
    let (gate, threads) = gate(1);
    let mut queue = threads.queue(QueueOptions::default()).unwrap();
    queue.submit(read(), 0).unwrap();
    queue.start().unwrap();
    gate.wait_until_begun(1);
    let (wall, burnt) = (Instant::now(), cpu());
    assert_eq!(queue.wait(1, Duration::from_millis(300), &mut |_| ()).unwrap(), 0);
    let (wall, burnt) = (wall.elapsed(), cpu() - burnt);
    assert!(burnt < wall / 10, "{burnt:?} of a processor in {wall:?} of sleep");
    gate.open();
    assert_eq!(results(&mut queue).len(), 1);
}

#[test]
fn an_event_loop_is_woken_at_the_deadline_of_a_command_that_no_thread_has_begun() {
    let (gate, threads) = gate(1);
    let mut queue = threads.queue(QueueOptions::default()).unwrap();
    queue.submit(read(), 0).unwrap();
    queue.start().unwrap();
    gate.wait_until_begun(1);
    // Asked for before the times are known, and after.
    for (round, millis) in [(1, 30), (2, 10)] {
        let times =
            [(10 * round, Duration::from_secs(3600)), (10 * round + 1, Duration::from_millis(millis))];
        for (tag, time) in times {
            queue.submit_within(read(), tag, Some(time)).unwrap();
        }
        queue.start().unwrap();
        let event = queue.event().unwrap();
        assert!(byway_sys::wait_readable(event, Duration::from_secs(20)).unwrap(), "no event");
        let finished = queue.next_finished().unwrap().unwrap();
        assert_eq!(finished.tag, 10 * round + 1);
        assert_eq!(finished.result.unwrap_err().error.kind(), ErrorKind::TimedOut);
        assert!(queue.next_finished().unwrap().is_none());
        let event = queue.event().unwrap();
        assert!(!byway_sys::wait_readable(event, Duration::ZERO).unwrap(), "no event is left");
    }
    gate.open();
    assert_eq!(results(&mut queue).len(), 3);
}

#[test]
fn cancel_takes_back_queued_commands_and_running_ones_finish() {
    let (gate, threads) = gate(2);
    let mut queue = threads.queue(QueueOptions::default()).unwrap();
    for tag in 0..6 {
        queue.submit(read(), tag).unwrap();
    }
    queue.start().unwrap();
    gate.wait_until_begun(2);
    for tag in 0..6 {
        queue.cancel(tag).unwrap();
    }
    assert_eq!(queue.outstanding(), 6, "a command that is taken back finishes all the same");
    gate.open();
    let results = results(&mut queue);
    let kinds: Vec<_> = results.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(kinds.iter().filter(|kind| kind.is_none()).count(), 2, "{results:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == Some(ErrorKind::Cancelled)).count(), 4, "{results:?}");
    assert_eq!(gate.begun(), 2);
}

#[test]
fn a_command_taken_back_before_any_thread_heard_of_it_never_begins() {
    let (gate, threads) = gate(1);
    let mut queue = threads.queue(QueueOptions::default()).unwrap();
    queue.submit(read(), 5).unwrap();
    queue.cancel(5).unwrap();
    assert_eq!(results(&mut queue), [(5, Some(ErrorKind::Cancelled))]);
    assert_eq!(queue.cancel(5).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(gate.begun(), 0);
}

#[test]
fn a_command_whose_time_is_over_is_given_up_while_every_thread_is_busy() {
    let (gate, threads) = gate(1);
    let mut queue = threads.queue(QueueOptions::default()).unwrap();
    queue.submit(read(), 0).unwrap();
    queue.start().unwrap();
    gate.wait_until_begun(1);
    queue.submit_within(read(), 1, Some(Duration::from_millis(1))).unwrap();
    queue.submit_within(read(), 2, Some(LONG)).unwrap();
    queue.start().unwrap();
    let mut late = Vec::new();
    while late.is_empty() {
        // Less than a helper waits.
        late.extend(queue.next_within(Duration::from_millis(50)).unwrap());
    }
    assert_eq!(late[0].tag, 1);
    assert_eq!(late[0].result.as_ref().unwrap_err().error.kind(), ErrorKind::TimedOut);
    gate.open();
    assert_eq!(results(&mut queue), [(0, None), (2, None)]);
}

#[test]
fn a_dropped_queue_leaves_the_threads_to_others_and_begins_no_more() {
    let (gate, threads) = gate(1);
    let mut first = threads.queue(QueueOptions::default()).unwrap();
    for tag in 0..4 {
        first.submit(read(), tag).unwrap();
    }
    first.start().unwrap();
    gate.wait_until_begun(1);
    drop(first);
    let mut second = threads.queue(QueueOptions::default()).unwrap();
    second.submit(read(), 9).unwrap();
    second.start().unwrap();
    gate.open();
    assert_eq!(results(&mut second), [(9, None)]);
    assert_eq!(gate.begun(), 2);
}

#[test]
fn every_thread_of_the_pool_takes_part_when_there_is_enough() {
    let (gate, threads) = gate(3);
    let mut queues: Vec<_> = (0..3).map(|_| threads.queue(QueueOptions::default()).unwrap()).collect();
    queues[0].submit(read(), 0).unwrap();
    queues[0].submit(read(), 1).unwrap();
    queues[0].start().unwrap();
    queues[1].submit(read(), 2).unwrap();
    queues[1].start().unwrap();
    gate.wait_until_begun(3);
    gate.open();
    assert_eq!(queues.iter_mut().map(|queue| results(queue).len()).sum::<usize>(), 3);
}

#[test]
fn a_pool_of_no_threads_is_refused_by_the_limits() {
    for threads in [0, 1025] {
        let options = ThreadsOptions::of(threads);
        let Err(refused) = Threads::new(Arc::new(Gate::default()), options) else {
            panic!("{threads} threads")
        };
        assert_eq!(refused.to_string(), format!("a pool has 1 to 1024 threads, not {threads}"));
    }
}
