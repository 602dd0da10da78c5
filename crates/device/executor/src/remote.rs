//! State for hosts in other processes, whose messages must not wait for the run lock.
//!
//! Register reads are answered from a copy that the lock holder updates. Register writes and resets are posted: executed at once if
//! the run lock is free, else by its holder. Work that takes long is deferred to a thread of the device.
//!
//! A reset is answered at once. Until it is executed, registers read as after it, and the device finds no host memory, so
//! completions of unfinished commands are dropped.
//!
//! Ordering: a post is added to the list before the pending bit is set, and taken under the run lock. Memory is revoked and restored
//! with the list locked, so it stays revoked while a reset is outstanding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use byway_controller::{Controller, Interrupts, Subsystem};
use byway_dma::DmaSpace;
use byway_spec::base::register::Register;
use byway_sys::{Mapping, Wakeup};
use parking_lot::Mutex;

/// 32-bit words of the register space that can be nonzero.
const WORDS: usize = 32;

const WORD_BYTES: u32 = 4;

/// Posted register writes, at most. Beyond that the oldest write to the same register is dropped.
const WRITES_MAX: usize = 1024;

/// A request that the next lock holder executes first.
#[derive(Debug)]
pub(crate) enum Post {
    /// A register write.
    Write { offset: u32, value: u32 },
    /// A function level reset.
    Reset,
    /// The host's device memory from now on.
    DeviceMemory(Option<Arc<Mapping>>),
    /// Memory was unmapped: release the device's view of it.
    RefreshViews,
}

/// Posted requests.
#[derive(Debug, Default)]
struct Posts {
    list: Vec<Post>,
    /// Outstanding resets: in the list, or being executed.
    resets: usize,
}

impl Posts {
    /// Adds a request; the list stays bounded.
    fn push(&mut self, post: Post) {
        match &post {
            Post::Write { offset, .. } => self.bound_writes(*offset),
            Post::Reset => self.drop_undone(),
            Post::DeviceMemory(_) => self.list.retain(|other| !matches!(other, Post::DeviceMemory(_))),
            Post::RefreshViews => self.list.retain(|other| !matches!(other, Post::RefreshViews)),
        }
        self.list.push(post);
    }

    fn bound_writes(&mut self, to: u32) {
        if self.list.len() >= WRITES_MAX {
            let again = |post: &Post| matches!(post, Post::Write { offset, .. } if *offset == to);
            self.list.iter().position(again).into_iter().for_each(|at| drop(self.list.remove(at)));
        }
    }

    /// A reset supersedes every request before it, except for device memory.
    fn drop_undone(&mut self) {
        self.resets -= self.list.iter().filter(|post| matches!(post, Post::Reset)).count();
        self.list.retain(|post| matches!(post, Post::DeviceMemory(_)));
        self.resets += 1;
    }
}

/// State for hosts in other processes.
pub(crate) struct Remote {
    interrupts: Arc<dyn Interrupts + Send + Sync>,
    /// Wakes the message thread: a thread of the device left work due, or failed.
    notifier: Wakeup,
    /// A thread of the device runs it, because commands sync the image.
    runs_on_own_thread: bool,
    registers: [AtomicU32; WORDS],
    /// Their values after a reset.
    reset_registers: [AtomicU32; WORDS],
    posts: Mutex<Posts>,
    has_posted: AtomicBool,
    is_resetting: AtomicBool,
    has_deferred: AtomicBool,
    has_doorbell_buffers: AtomicBool,
    /// The message thread polls doorbell buffers.
    polls_doorbell_buffers: AtomicBool,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("runs_on_own_thread", &self.runs_on_own_thread).finish_non_exhaustive()
    }
}

impl Remote {
    /// # Errors
    /// The process has no descriptor left.
    pub fn new(
        interrupts: Arc<dyn Interrupts + Send + Sync>,
        runs_on_own_thread: bool,
    ) -> std::io::Result<Self> {
        Ok(Self {
            interrupts,
            notifier: Wakeup::new()?,
            runs_on_own_thread,
            registers: [const { AtomicU32::new(0) }; WORDS],
            reset_registers: [const { AtomicU32::new(0) }; WORDS],
            posts: Mutex::default(),
            has_posted: AtomicBool::new(false),
            is_resetting: AtomicBool::new(false),
            has_deferred: AtomicBool::new(false),
            has_doorbell_buffers: AtomicBool::new(false),
            polls_doorbell_buffers: AtomicBool::new(false),
        })
    }

    /// Receives interrupts.
    pub fn interrupts(&self) -> &(dyn Interrupts + Send + Sync) {
        &*self.interrupts
    }

    /// Wakes the message thread.
    pub fn notifier(&self) -> &Wakeup {
        &self.notifier
    }

    /// Whether a thread of the device runs it.
    pub fn runs_on_own_thread(&self) -> bool {
        self.runs_on_own_thread
    }

    /// The copy of the register word at `offset`; during a reset, its value after the reset.
    pub fn register(&self, offset: u32) -> u32 {
        let is_resetting = self.is_resetting.load(Acquire);
        let registers = if is_resetting { &self.reset_registers } else { &self.registers };
        let word = registers.get((offset / WORD_BYTES) as usize);
        word.map_or(0, |word| word.load(Acquire))
    }

    /// Posts a request. A reset revokes all memory of `space` until it is executed.
    pub fn post(&self, space: &DmaSpace, post: Post) {
        let mut posts = self.posts.lock();
        if matches!(post, Post::Reset) {
            space.revoke(true);
            self.is_resetting.store(true, Release);
        }
        posts.push(post);
        self.has_posted.store(true, Release);
    }

    /// Whether requests are posted.
    pub fn has_posted(&self) -> bool {
        self.has_posted.load(Acquire)
    }

    /// Takes the posted requests.
    pub fn take_posted(&self) -> Vec<Post> {
        // Cleared before the list is taken: a later post sets it again.
        self.has_posted.store(false, Relaxed);
        std::mem::take(&mut self.posts.lock().list)
    }

    /// Notes an executed reset.
    pub fn finish_reset(&self, space: &DmaSpace, controller: &Controller) {
        self.copy_all(controller);
        let mut posts = self.posts.lock();
        posts.resets -= 1;
        if posts.resets == 0 {
            self.is_resetting.store(false, Release);
            space.revoke(false);
        }
    }

    /// Whether work is deferred to a thread of the device.
    pub fn has_deferred(&self) -> bool {
        self.has_deferred.load(Relaxed)
    }

    /// Whether the host configured doorbell buffers.
    pub fn has_doorbell_buffers(&self) -> bool {
        self.has_doorbell_buffers.load(Relaxed)
    }

    /// Whether the message thread polls doorbell buffers.
    pub fn polls_doorbell_buffers(&self) -> bool {
        self.polls_doorbell_buffers.load(Relaxed)
    }

    /// Sets whether the message thread polls doorbell buffers; the next run applies it.
    pub fn set_polls_doorbell_buffers(&self, polls: bool) {
        self.polls_doorbell_buffers.store(polls, Relaxed);
    }

    /// Copies every register of a new controller, also as values after a reset.
    pub fn begin(&self, controller: &Controller) {
        copy(&self.reset_registers, controller);
        self.copy_all(controller);
    }

    /// Copies every register.
    pub fn copy_all(&self, controller: &Controller) {
        copy(&self.registers, controller);
    }

    /// Copies CSTS, and notes deferred work and doorbell buffers, after a run.
    pub fn note_run(&self, controller: &Controller, subsystem: &Subsystem) {
        if let Some(status) = self.registers.get((Register::CSTS.0 / WORD_BYTES) as usize) {
            status.store(controller.read_register(Register::CSTS.0), Release);
        }
        self.has_deferred.store(controller.has_deferred(subsystem), Relaxed);
        self.has_doorbell_buffers.store(controller.has_doorbell_buffers(), Relaxed);
    }
}

fn copy(into: &[AtomicU32], controller: &Controller) {
    for (offset, word) in (0..).step_by(WORD_BYTES as usize).zip(into) {
        word.store(controller.read_register(offset), Release);
    }
}
