//! What a device has for hosts in other processes, who wait for the answer to each message, and not for long.
//!
//! Nobody who answers messages waits for the device. Registers are read from a copy that whoever runs the device leaves
//! behind; register writes and resets are posted, and made at once if nobody runs it, else by who does; work that takes long
//! is put off by the controller and done in a thread of its own, which raises a bell when it leaves something behind.
//!
//! A reset is answered at once all the same: until it is made, registers read as after it, and the device finds none of the
//! host's memory, so that the completion of what it is doing meanwhile goes nowhere.
//!
//! Ordering: a post is put into its list before word is left of it, and taken out by who then has the device. The copy is
//! written with the device in hand; one that is read meanwhile is as the device was before. Memory is taken away and
//! given back with the list locked, so it is away for as long as some reset is to be made.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byway_controller::{Controller, Interrupts, Next, Subsystem};
use byway_dma::DmaSpace;
use byway_spec::base::register::Register;
use byway_sys::time::monotonic_ns;
use byway_sys::{Mapping, Wakeup};

use crate::core::{Core, port};
use crate::runner::NAP;
use crate::shared::{Failed, Shared};

/// Words of the register space that are more than zero.
const WORDS: usize = 32;

const WORD_BYTES: u32 = 4;

/// Commands between two looks at the clock, and how long hosts are served in one run: they can give the device more to do for
/// as long as it runs, without a message, and their messages are looked at in between.
const BUDGET: u32 = 128;
pub(crate) const RUN_NS: u64 = 2_000_000;

/// Register writes that are kept. A host that has more of them waiting loses the oldest of those that it has made again since.
const WRITES: usize = 1024;

/// What whoever has the device next does before all else.
#[derive(Debug)]
pub(crate) enum Post {
    /// A register write.
    Write { offset: u32, value: u32 },
    /// A function level reset.
    Reset,
    /// The host stores into this memory from here on.
    DeviceMemory(Option<Arc<Mapping>>),
    /// Memory was unmapped: what the device holds of it is given back.
    LetGo,
}

/// What is posted.
#[derive(Debug, Default)]
struct Posts {
    list: Vec<Post>,
    /// Resets that are to be made: those in the list, and those that somebody makes now.
    resets: usize,
}

impl Posts {
    /// Adds to the list, which no host makes long.
    fn push(&mut self, post: Post) {
        match &post {
            Post::Write { offset, .. } => self.bound_writes(*offset),
            Post::Reset => self.forget_undone(),
            Post::DeviceMemory(_) => self.list.retain(|other| !matches!(other, Post::DeviceMemory(_))),
            Post::LetGo => self.list.retain(|other| !matches!(other, Post::LetGo)),
        }
        self.list.push(post);
    }

    fn bound_writes(&mut self, to: u32) {
        if self.list.len() >= WRITES {
            let again = |post: &Post| matches!(post, Post::Write { offset, .. } if *offset == to);
            self.list.iter().position(again).into_iter().for_each(|at| drop(self.list.remove(at)));
        }
    }

    /// A reset undoes all that was asked for before it.
    fn forget_undone(&mut self) {
        self.resets -= self.list.iter().filter(|post| matches!(post, Post::Reset)).count();
        self.list.retain(|post| matches!(post, Post::DeviceMemory(_)));
        self.resets += 1;
    }
}

/// The part of a device that hosts elsewhere meet.
pub(crate) struct Served {
    /// Who is told of interrupts.
    pub interrupts: Arc<dyn Interrupts + Send + Sync>,
    /// Raised when a thread of the device's own leaves it with something due, or failed.
    pub bell: Wakeup,
    /// A thread of the device's own runs it, as commands sync the image.
    pub runs_apart: bool,
    registers: [AtomicU32; WORDS],
    /// As they are after a reset.
    reset_registers: [AtomicU32; WORDS],
    posts: Mutex<Posts>,
    has_posted: AtomicBool,
    /// A reset is to be made.
    is_resetting: AtomicBool,
    has_put_off: AtomicBool,
    has_doorbell_buffers: AtomicBool,
    /// Whoever answers messages looks at doorbells in memory of hosts meanwhile.
    is_watched: AtomicBool,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").field("runs_apart", &self.runs_apart).finish_non_exhaustive()
    }
}

impl Served {
    pub fn new(interrupts: Arc<dyn Interrupts + Send + Sync>, runs_apart: bool) -> std::io::Result<Self> {
        Ok(Self {
            interrupts,
            bell: Wakeup::new()?,
            runs_apart,
            registers: [const { AtomicU32::new(0) }; WORDS],
            reset_registers: [const { AtomicU32::new(0) }; WORDS],
            posts: Mutex::default(),
            has_posted: AtomicBool::new(false),
            is_resetting: AtomicBool::new(false),
            has_put_off: AtomicBool::new(false),
            has_doorbell_buffers: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
        })
    }

    /// The register word at `offset`, as the device left it, or will once it is reset.
    pub fn register(&self, offset: u32) -> u32 {
        let is_resetting = self.is_resetting.load(Acquire);
        let registers = if is_resetting { &self.reset_registers } else { &self.registers };
        let word = registers.get((offset / WORD_BYTES) as usize);
        word.map_or(0, |word| word.load(Acquire))
    }

    /// Leaves something for whoever has the device next. With a reset the device finds nothing in `space` any more until it
    /// is made.
    fn post(&self, space: &DmaSpace, post: Post) {
        let mut posts = self.lock();
        if matches!(post, Post::Reset) {
            space.revoke(true);
            self.is_resetting.store(true, Release);
        }
        posts.push(post);
        self.has_posted.store(true, Release);
    }

    /// Takes note of a reset that was made.
    fn was_reset(&self, space: &DmaSpace, controller: &Controller) {
        self.copy_all(controller);
        let mut posts = self.lock();
        posts.resets -= 1;
        if posts.resets == 0 {
            self.is_resetting.store(false, Release);
            space.revoke(false);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Posts> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread of the device's own is to do something that was put off.
    pub fn has_put_off(&self) -> bool {
        self.has_put_off.load(Relaxed)
    }

    /// Whether hosts ring in memory of theirs.
    pub fn has_doorbell_buffers(&self) -> bool {
        self.has_doorbell_buffers.load(Relaxed)
    }

    /// Whether somebody looks at doorbells in memory of hosts from here on, whether or not they ring. What is said is seen
    /// by the next run.
    pub fn watch(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Relaxed);
    }

    /// Copies every register of a controller that was just made: as they are after a reset too.
    pub fn begin(&self, controller: &Controller) {
        copy(&self.reset_registers, controller);
        self.copy_all(controller);
    }

    /// Copies every register.
    fn copy_all(&self, controller: &Controller) {
        copy(&self.registers, controller);
    }

    /// Copies what changes by running, and notes what is to be done elsewhere.
    fn note(&self, controller: &Controller, subsystem: &Subsystem) {
        if let Some(status) = self.registers.get((Register::CSTS.0 / WORD_BYTES) as usize) {
            status.store(controller.read_register(Register::CSTS.0), Release);
        }
        self.has_put_off.store(controller.has_deferred(subsystem), Relaxed);
        self.has_doorbell_buffers.store(controller.has_doorbell_buffers(), Relaxed);
    }
}

fn copy(into: &[AtomicU32], controller: &Controller) {
    for (offset, word) in (0..).step_by(WORD_BYTES as usize).zip(into) {
        word.store(controller.read_register(offset), Release);
    }
}

impl Core {
    /// Makes the register writes and whatever else was posted, once every queue is in: else by whoever brings the last one.
    pub fn make_posted(&mut self, shared: &Shared, served: &Served) {
        if !served.has_posted.load(Acquire) || !shared.recall(self) {
            return;
        }
        // Lowered before the list is taken: what is posted later raises it again.
        served.has_posted.store(false, Relaxed);
        let posted = std::mem::take(&mut served.lock().list);
        for post in posted {
            self.make(shared, served, post);
        }
        served.copy_all(&self.controller);
        self.leave_note(shared, served);
    }

    fn make(&mut self, shared: &Shared, served: &Served, post: Post) {
        let (controller, subsystem, doorbells) =
            (&mut self.controller, &mut self.subsystem, &shared.doorbells);
        match post {
            Post::Write { offset, value } => controller.write_register(subsystem, doorbells, offset, value),
            Post::Reset => {
                controller.reset_function(subsystem, doorbells);
                self.memory.refresh();
                served.was_reset(&shared.space, controller);
            }
            Post::DeviceMemory(memory) => self.device_memory = memory,
            Post::LetGo => self.memory.refresh(),
        }
    }

    fn leave_note(&self, shared: &Shared, served: &Served) {
        served.note(&self.controller, &self.subsystem);
        if served.has_put_off() {
            shared.bed.wake();
        }
    }

    /// Runs the controller for a while.
    #[inline(never)]
    pub fn run_served(&mut self, shared: &Shared, served: &Served, now_ps: u64) -> Next {
        self.make_posted(shared, served);
        self.controller.watch_doorbell_buffers(served.is_watched.load(Relaxed));
        let mut until = None;
        let next = loop {
            match self.run_controller(shared, None, now_ps, BUDGET) {
                Next::Now if monotonic_ns() < *until.get_or_insert_with(|| monotonic_ns() + RUN_NS) => {}
                Next::Now => break Next::At(now_ps),
                _ if self.has_lanes_for_admin(shared) => {}
                next => break next,
            }
        };
        self.call_workers(shared);
        self.leave_note(shared, served);
        next
    }

    /// Does the next of what was put off, and what has become possible by that.
    pub fn do_put_off(&mut self, shared: &Shared) {
        let now_ps = shared.clock.now_ps();
        let since_ns = shared.counting_since_ns();
        self.counting(shared, since_ns, |core| {
            let mut port = port(&core.memory, &mut core.meter, shared);
            core.controller.run_deferred(&mut core.subsystem, &mut port, &shared.doorbells, now_ps);
        });
        self.run(shared, None, now_ps);
    }
}

impl Shared {
    /// Does something, at once or when whoever runs the device comes to it.
    pub(crate) fn post(&self, served: &Served, post: Post) -> Result<(), Failed> {
        served.post(&self.space, post);
        self.core.run_or_leave_word(
            || {},
            |core, first| {
                if first {
                    core.make_posted(self, served);
                } else {
                    core.run_now(self);
                }
            },
        );
        if self.has_failed() { Err(Failed::Panicked) } else { Ok(()) }
    }

    /// Returns once no access is under way to memory that the device may not reach any more.
    pub(crate) fn settle(&self) -> Result<(), Failed> {
        match self.space.settle() {
            Ok(()) => Ok(()),
            // Without barriers who has the device is waited for, whatever it does.
            Err(_) => self.with_core(|core| core.memory.refresh()),
        }
    }

    /// Whether the device's own thread has something to do.
    pub(crate) fn has_work_apart(&self) -> bool {
        self.served.as_ref().is_some_and(|served| {
            served.has_put_off() || served.runs_apart && (self.is_written(usize::MAX) || self.has_work())
        })
    }

    /// What the device's own thread does: what was put off, and all of it where the device runs apart.
    pub(crate) fn work_apart(&self, stops: impl Fn() -> bool) {
        let Some(served) = &self.served else { return };
        if !self.has_work_apart() {
            return;
        }
        while served.has_put_off() && !stops() {
            if self.with_core(|core| core.do_put_off(self)).is_err() {
                return;
            }
        }
        if served.runs_apart {
            self.take_written_and_run(&mut { usize::MAX });
        }
        self.tell_front();
    }

    /// How long that thread sleeps at most: to the next deadline, where nobody else keeps it.
    pub(crate) fn nap_apart(&self) -> Duration {
        if self.served.as_ref().is_some_and(|served| served.runs_apart) { self.nap() } else { NAP }
    }

    /// Takes in what hosts wrote to doorbells in shared memory, and serves it.
    pub(crate) fn take_written_and_run(&self, rung: &mut usize) {
        self.core.run_or_leave_word(
            || {},
            |core, _| {
                *rung = self.take_written(*rung);
                core.run_now(self);
            },
        );
    }

    /// Takes in what hosts wrote to doorbells in shared memory for the first `queues` queues, with the device in hand; how
    /// many of them may have been rung. Those of queues on leave are looked at where they are.
    pub(crate) fn take_written(&self, queues: usize) -> usize {
        let is_in = |qid| self.lanes.is_in(qid);
        self.doorbells.take_shared(queues, is_in, |index| self.host_meter.doorbell(index.place())).max(1)
    }

    /// Whether hosts wrote tails of the first `queues` queues in shared memory.
    #[inline]
    pub(crate) fn is_written(&self, queues: usize) -> bool {
        self.doorbells.has_shared_tail(queues, |qid| self.lanes.is_in(qid))
    }

    /// Wakes whoever answers messages, if this thread leaves something that nobody else would look for.
    pub(crate) fn tell_front(&self) {
        if let Some(served) = &self.served
            && (self.deadline_ps().is_some() || self.has_failed())
        {
            served.bell.raise();
        }
    }
}
