//! One thread of a load: a queue kept full, and what its commands took.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use byway::{BackendQueue, Command, ErrorKind, Finished, Queue};
use byway_console::failure::No;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::load::{Memory, Op, Ops};
use super::log::Log;
use super::measured::OfThread;
use super::pattern::Pattern;
use super::plan::{Plan, What};
use super::samples::{Sample, Samples};
use super::settings::Wait;
use super::{Phase, Shared};
use byway_console::event::wait_for_any;

/// How long a thread sleeps at most before it looks where the measurement is.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Commands between two updates of the shared count.
const REPORT_EVERY: u64 = 256;

/// Whose completions are taken.
enum Take {
    /// Of what has finished.
    Finished,
    /// The same, once there is one, waited for at most this long.
    Awaited(Duration),
    /// Of this command, sent and waited for by one call.
    Call(Command, u64),
}

/// A command's place.
#[derive(Debug)]
struct Slot {
    memory: Memory,
    op: Op,
    begun: Option<Instant>,
}

/// What one thread did.
#[derive(Debug)]
pub struct Ran {
    pub of: OfThread,
    /// Pieces that were written, a bit each, where they are read back.
    pub touched: Vec<u64>,
}

/// One thread of a load.
pub struct Worker<'a> {
    plan: &'a Plan,
    queue: Queue,
    ops: Ops,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Commands that may still be begun.
    left: u64,
    of: OfThread,
    /// Bytes that a command moves.
    op_bytes: u64,
    /// Whether reads are compared as they come.
    compares: bool,
    /// Pieces that were written, a bit each, where they are read back later.
    touched: Option<Vec<u64>>,
    unreported: u64,
    /// What is kept of each interval, where anything is.
    samples: Option<Samples>,
    /// When the measurement began, on the wall's and on the thread's clock.
    since: Option<(Instant, Duration)>,
}

impl<'a> Worker<'a> {
    /// A thread's queue and memory; it is the thread that calls, and that is pinned.
    ///
    /// # Errors
    /// When there is no such processor, no queue or no memory.
    pub fn new(plan: &'a Plan, thread: u32, log: Option<&Log>) -> Result<Self> {
        if let Some(cpus) = &plan.cpus {
            pin(cpus.of_thread(thread))?;
        }
        let slot =
            |_| -> Result<Slot> { Ok(Slot { memory: Memory::new(plan)?, op: Op::default(), begun: None }) };
        let slots: Vec<Slot> = (0..plan.depth).map(slot).collect::<Result<_>>()?;
        let words = match plan.what {
            What::Blocks(blocks) if plan.verify && plan.load.changes() => {
                Some(blocks.pieces.div_ceil(64) as usize)
            }
            _ => None,
        };
        Ok(Self {
            queue: plan.queue()?,
            ops: Ops::new(plan, thread),
            free: (0..slots.len()).rev().collect(),
            slots,
            left: if plan.warmup.is_zero() { plan.count.unwrap_or(u64::MAX) } else { u64::MAX },
            of: OfThread::default(),
            op_bytes: plan.op_bytes(),
            compares: plan.verify && !plan.load.changes(),
            touched: words.map(|words| vec![0; words]),
            unreported: 0,
            samples: plan.keep.map(|keep| Samples::new(keep, log.map(|log| log.of_thread(thread)))),
            since: None,
            plan,
        })
    }

    /// Runs until the measurement is over or all commands are done; gives what was measured and what was written.
    ///
    /// # Errors
    /// What the device says; a difference.
    pub fn run(mut self, shared: &Shared) -> Result<Ran> {
        loop {
            match shared.phase.now() {
                Phase::WARM_UP => {}
                Phase::MEASURE if self.since.is_none() => {
                    self.begin();
                    shared.measuring.fetch_add(1, Ordering::Release);
                }
                Phase::MEASURE => {}
                _ => break,
            }
            let taken = match self.plan.wait {
                Wait::Call => self.call()?,
                _ => {
                    self.submit()?;
                    self.take(Take::Finished)?
                }
            };
            self.report(shared, taken);
            if self.left == 0 && self.queue.outstanding() == 0 && self.since.is_some() {
                break;
            }
            if taken == 0 {
                let taken = self.wait()?;
                self.report(shared, taken);
            }
        }
        self.end();
        if shared.phase.now() == Phase::GIVEN_UP {
            // What cannot be cancelled finishes by itself.
            (0..self.slots.len() as u64).for_each(|tag| drop(self.queue.cancel(tag)));
        }
        self.finish()?;
        Ok(Ran { of: self.of, touched: self.touched.unwrap_or_default() })
    }

    /// From here on it counts.
    fn begin(&mut self) {
        (self.of.reads, self.of.writes, self.of.missing) = Default::default();
        if !self.plan.warmup.is_zero() {
            self.left = self.plan.count.unwrap_or(u64::MAX);
        }
        let now = Instant::now();
        self.since = Some((now, thread_time()));
        if let Some(samples) = &mut self.samples {
            samples.begin(now);
        }
    }

    fn end(&mut self) {
        match self.since {
            Some((wall, cpu)) => {
                self.of.wall = wall.elapsed();
                self.of.cpu = thread_time().saturating_sub(cpu);
            }
            // It ended before the measurement began.
            None => (self.of.reads, self.of.writes, self.of.missing) = Default::default(),
        }
        if let Some(mut samples) = self.samples.take() {
            samples.end(Instant::now());
            self.of.series = samples.into_series();
        }
    }

    /// Begins as many commands as are free, by one call, once they are enough for a batch.
    #[inline]
    fn submit(&mut self) -> Result<()> {
        let enough = self.free.len() >= self.plan.batch as usize || self.queue.outstanding() == 0;
        if !enough || self.left == 0 {
            return Ok(());
        }
        let begun = self.plan.latency.then(Instant::now);
        let Self { queue, ops, slots, free, left, .. } = self;
        let (mut failed, mut last) = (None, 0);
        let mut commands = std::iter::from_fn(|| {
            if *left == 0 {
                return None;
            }
            let index = free.pop()?;
            let slot = slots.get_mut(index)?;
            (*left, last) = (*left - 1, index);
            (slot.op, slot.begun) = (ops.next(), begun);
            match ops.command(slot.op, &mut slot.memory) {
                Ok(command) => Some((command, index as u64)),
                Err(error) => {
                    failed = Some(error);
                    None
                }
            }
        });
        let submitted = match self.plan.timeout {
            None => queue.submit_all(&mut commands),
            limit => commands.try_for_each(|(command, tag)| queue.submit_within(command, tag, limit)),
        };
        match submitted {
            Ok(()) => {}
            // A ring whose slots hold payloads too may be full before its depth is reached: then there is more to take.
            Err(refused) if refused.error.kind() == ErrorKind::QueueFull && queue.outstanding() > 0 => {
                free.push(last);
                *left += 1;
                if let Some(slot) = slots.get_mut(last) {
                    slot.memory.restore(refused.command);
                }
                return Ok(());
            }
            Err(refused) => return Err(byway::Error::from(refused).into()),
        }
        failed.map_or(Ok(()), Err)
    }

    /// Sends the next command and waits for it, by one call.
    #[inline]
    fn call(&mut self) -> Result<usize> {
        let Some((index, slot)) =
            self.free.last().and_then(|&index| Some((index, self.slots.get_mut(index)?)))
        else {
            return Ok(0);
        };
        if self.left == 0 {
            return Ok(0);
        }
        (slot.op, slot.begun) = (self.ops.next(), self.plan.latency.then(Instant::now));
        let command = self.ops.command(slot.op, &mut slot.memory)?;
        self.left -= 1;
        self.free.pop();
        self.take(Take::Call(command, index as u64))
    }

    /// Takes completions; returns how many commands that was.
    #[inline]
    fn take(&mut self, which: Take) -> Result<usize> {
        let Self { queue, slots, free, of, op_bytes, compares, touched, samples, plan, .. } = self;
        let (mut now, mut failed) = (None, None);
        // A value may be shorter than its buffer.
        let is_of_pairs = plan.load.is_pairs();
        let mut on = |finished: Finished| {
            let Some(slot) = slots.get_mut(finished.tag as usize) else { return };
            free.push(finished.tag as usize);
            let mut bytes = *op_bytes;
            match finished.result {
                Ok(outcome) => {
                    if is_of_pairs && slot.op.is_read {
                        bytes = bytes.min(outcome.dw0().into());
                    }
                    slot.memory.take_back(outcome);
                }
                Err(why) if why.error.kind() == ErrorKind::KeyNotFound => {
                    // An error that is counted: it moved no value, and is no part of the rate.
                    of.missing += 1;
                    slot.memory.take_back(byway::Outcome { buffer: why.buffer, ..byway::Outcome::default() });
                    return;
                }
                Err(why) => {
                    failed.get_or_insert((slot.op, why.error));
                    return;
                }
            }
            let side = if slot.op.is_read { &mut of.reads } else { &mut of.writes };
            side.ops += 1;
            side.bytes += bytes;
            if let Some(begun) = slot.begun {
                let now = *now.get_or_insert_with(Instant::now);
                let ns = now.duration_since(begun).as_nanos() as u64;
                side.ns.saturating_record(ns);
                if let Some(samples) = samples {
                    let Op { is_read, place } = slot.op;
                    samples.record(Sample { now, ns, is_read, bytes, at: plan.byte_of(place) });
                }
            }
            if let Some(touched) = touched.as_mut().filter(|_| !slot.op.is_read) {
                touch(touched, slot.op.place);
            }
            if *compares && let Some(wrong) = difference(plan, slot) {
                failed.get_or_insert((slot.op, wrong));
            }
        };
        let taken = match which {
            Take::Finished => queue.poll(usize::MAX, &mut on)?,
            Take::Awaited(timeout) => match queue.next_within(timeout)? {
                Some(finished) => {
                    on(finished);
                    1 + queue.poll(usize::MAX, &mut on)?
                }
                None => 0,
            },
            Take::Call(command, tag) => {
                let result = queue.alone_within(command, plan.timeout);
                on(Finished { tag, result });
                1
            }
        };
        match failed {
            None => Ok(taken),
            Some((op, error)) => Err(self.failed(op, error)),
        }
    }

    /// Why the load ends, of a command that failed.
    #[cold]
    fn failed(&self, op: Op, error: byway::Error) -> anyhow::Error {
        if error.kind() == ErrorKind::Mismatch {
            return No(error.to_string()).into();
        }
        let what = if op.is_read { "read" } else { "write" };
        anyhow::Error::new(self.queue.explained(error))
            .context(format!("{what} at place {} of the load", op.place))
    }

    fn report(&mut self, shared: &Shared, taken: usize) {
        self.unreported += taken as u64;
        if self.unreported >= REPORT_EVERY || (taken == 0 && self.unreported > 0) {
            shared.done.fetch_add(self.unreported, Ordering::Relaxed);
            self.unreported = 0;
        }
    }

    /// Waits for a while for a completion; returns how many were taken.
    fn wait(&mut self) -> Result<usize> {
        match self.plan.wait {
            Wait::Spin | Wait::Call => std::hint::spin_loop(),
            Wait::Sleep => return self.take(Take::Awaited(LOOK_EVERY)),
            Wait::Event => {
                self.queue.start()?;
                wait_for_any([self.queue.event()?], LOOK_EVERY)?;
            }
        }
        Ok(0)
    }

    /// Takes what is on its way. It is not measured, and what was cancelled is no failure.
    fn finish(&mut self) -> Result<()> {
        let measured = std::mem::take(&mut self.of);
        while self.queue.outstanding() > 0 {
            match self.take(Take::Awaited(LOOK_EVERY)) {
                Ok(_) => {}
                Err(error) if is_cancelled(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.of = measured;
        Ok(())
    }
}

fn is_cancelled(error: &anyhow::Error) -> bool {
    error.downcast_ref::<byway::Error>().is_some_and(|error| error.kind() == ErrorKind::Cancelled)
}

fn touch(touched: &mut [u64], piece: u64) {
    if let Some(word) = touched.get_mut((piece / 64) as usize) {
        *word |= 1 << (piece % 64);
    }
}

/// What of a piece that was read is not as the plan's seed has it.
fn difference(plan: &Plan, slot: &Slot) -> Option<byway::Error> {
    let What::Blocks(blocks) = plan.what else { return None };
    let at = blocks.offset + slot.op.place * blocks.piece_bytes;
    let wrong = slot.memory.difference(Pattern(plan.seed), at)?;
    let said = format!("byte {wrong} does not hold what a load that writes with this --seed leaves there");
    Some(byway::Error::host(ErrorKind::Mismatch, said))
}

fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(std::io::Error::from)
        .with_context(|| format!("no thread can run on processor {cpu}"))
}

/// Processor time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
