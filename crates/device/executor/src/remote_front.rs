//! The device for a front that serves hosts in other processes.
//!
//! The thread that receives a host's messages notes its doorbells and then runs the device; several threads may. Addresses are the
//! host's, as mapped in the device's address space.

use std::sync::Arc;
use std::time::Duration;

use byway_dma::DmaSpace;
use byway_link::ClockMode;
use byway_queue::DoorbellIndex;
use byway_sys::{Mapping, Wakeup};

use crate::executor::Executor;
use crate::options::Failed;
use crate::owner::Owner;
use crate::remote::{Post, Remote};

/// Runs for a host whose service ends: enough for all it has submitted. It may submit more meanwhile.
const LAST_RUNS: u32 = 64;

/// One controller, for one host in another process at a time.
#[derive(Debug, Clone)]
pub struct RemoteFront(Owner);

impl RemoteFront {
    pub(crate) fn new(owner: Owner) -> Self {
        Self(owner)
    }

    #[inline]
    fn executor(&self) -> &Executor {
        self.0.executor()
    }

    /// Reads the 4 bytes of the register space at `offset`, a multiple of 4. Never blocks.
    ///
    /// # Errors
    /// The device has failed.
    pub fn read_register(&self, offset: u32) -> Result<u32, Failed> {
        self.executor().host_meter().register_read(4);
        self.check()?;
        Ok(self.executor().remote().map_or(0, |remote| remote.register(offset)))
    }

    /// Writes the 4 bytes of the register space at `offset`, a multiple of 4. Never blocks: the write is executed at once, or by
    /// the run lock's holder; CSTS reports the end of what it started.
    ///
    /// # Errors
    /// The device has failed.
    pub fn write_register(&self, offset: u32, value: u32) -> Result<(), Failed> {
        self.executor().host_meter().register_write(4);
        self.post(Post::Write { offset, value })
    }

    /// Whether the device can be used.
    ///
    /// # Errors
    /// The device has failed.
    pub fn check(&self) -> Result<(), Failed> {
        self.executor().check()
    }

    /// Readable once a thread of the device has left a deadline, or failed.
    #[must_use]
    pub fn notifier(&self) -> Option<&Wakeup> {
        self.executor().remote().map(Remote::notifier)
    }

    /// Notes a doorbell write. The next [`RemoteFront::run`] serves it.
    #[inline]
    pub fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        let doorbells = self.executor().doorbells();
        if !doorbells.is_shared() {
            self.executor().host_meter().doorbell(doorbell.place());
        }
        doorbells.write(doorbell, value);
    }

    /// Serves doorbells in shared memory, and deadlines; whether there were any. Of several writes since the last poll only the
    /// last value is seen.
    ///
    /// `rung` is the number of queues that may have been rung so far: only those are polled, and all from time to time.
    #[inline]
    pub fn poll(&self, rung: &mut usize) -> bool {
        let executor = self.executor();
        if !executor.is_written(*rung) && !executor.has_work() {
            return false;
        }
        if self.runs_on_own_thread() {
            executor.wake();
        } else {
            executor.take_written_and_run(rung);
        }
        true
    }

    /// Whether a thread of the device runs it.
    fn runs_on_own_thread(&self) -> bool {
        self.executor().remote().is_some_and(Remote::runs_on_own_thread)
    }

    /// Serves doorbells and deadlines. If the run lock is held, its holder does.
    #[inline]
    pub fn run(&self) {
        if self.runs_on_own_thread() {
            self.executor().wake();
        } else if self.executor().has_work() {
            self.executor().run_now();
        }
    }

    /// Polls doorbell buffers in host memory and serves them, so that hosts need not ring until [`RemoteFront::stop_polling_buffers`].
    /// Returns whether any doorbell was written; `None` without such buffers, or if a thread of the device polls them.
    pub fn poll_doorbell_buffers(&self) -> Option<bool> {
        let remote = self.executor().remote()?;
        if remote.runs_on_own_thread() || !remote.has_doorbell_buffers() {
            return None;
        }
        remote.set_polls_doorbell_buffers(true);
        Some(self.executor().poll_doorbell_buffers())
    }

    /// Makes hosts ring again. Doorbells written so far are served.
    pub fn stop_polling_buffers(&self) {
        if let Some(remote) = self.executor().remote() {
            remote.set_polls_doorbell_buffers(false);
            self.executor().run_now();
        }
    }

    /// Serves what was rung as far as that needs no host, and syncs the image for commands that wait for it.
    ///
    /// # Errors
    /// The device has failed.
    pub fn finish(&self) -> Result<(), Failed> {
        let executor = self.executor();
        for _ in 0..LAST_RUNS {
            let more = executor.with_core(|core| {
                executor.take_written(usize::MAX);
                core.run_now(executor);
                let more = core.controller.has_deferred(&core.subsystem);
                if more {
                    core.do_deferred(executor);
                }
                more
            })?;
            if !more && !executor.is_due() {
                break;
            }
        }
        executor.sync(None);
        Ok(())
    }

    /// How long the device needs no run unless a doorbell is rung; `None` is without limit.
    #[must_use]
    pub fn idle_time(&self) -> Option<Duration> {
        let executor = self.executor();
        let due_ps = executor.deadline_ps().filter(|_| !self.runs_on_own_thread())?;
        match executor.clock().mode() {
            ClockMode::Paced => {
                Some(Duration::from_nanos(due_ps.saturating_sub(executor.clock().now_ps()) / 1000))
            }
            _ => executor.is_due().then_some(Duration::ZERO),
        }
    }

    /// Function level reset: controller and queues as after power-on. When it returns, no host memory is accessed until the host
    /// enables the controller again. Never blocks on the run lock: the reset is executed before anything else, and later register
    /// writes after it.
    ///
    /// # Errors
    /// The device has failed.
    pub fn reset(&self) -> Result<(), Failed> {
        if let Some(remote) = self.executor().remote() {
            remote.set_polls_doorbell_buffers(false);
        }
        self.post(Post::Reset)?;
        self.executor().quiesce_dma()
    }

    fn post(&self, post: Post) -> Result<(), Failed> {
        self.executor().remote().map_or(Ok(()), |remote| self.executor().post(remote, post))
    }

    /// Bytes of device memory: the windows of every possible namespace.
    #[must_use]
    pub fn device_memory_bytes(&self) -> u64 {
        self.executor().windows().len_bytes()
    }

    /// Sets the memory that the host stores into, as long as the device's; `None` removes it. Commands that refer to a stored value
    /// copy it from there. A command in progress still uses the former memory.
    ///
    /// # Errors
    /// The device has failed.
    pub fn share_device_memory(&self, memory: Option<Arc<Mapping>>) -> Result<(), Failed> {
        self.post(Post::DeviceMemory(memory))
    }

    /// The device's address space, in which host memory is mapped.
    #[must_use]
    pub fn space(&self) -> &Arc<DmaSpace> {
        self.executor().space()
    }

    /// Returns once no access to memory that was unmapped or hidden before is in progress: after the rest of one copy at most. The
    /// device releases its views of it at its next run.
    ///
    /// # Errors
    /// The device has failed.
    pub fn quiesce_dma(&self) -> Result<(), Failed> {
        self.post(Post::RefreshViews)?;
        self.executor().quiesce_dma()
    }
}
