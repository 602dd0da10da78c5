//! The device for a driver in this process: registers, doorbells, memory and interrupts without a message or a thread hop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use byway_dma::{Access, BusAddr, DmaMemory, DmaSpace, MapRefusal};
use byway_link::{ClockMode, HostStep, Profile};
use byway_queue::DoorbellIndex;
use byway_spec::Key;
use byway_sys::{Deadline, Wakeup};

use crate::executor::Executor;
use crate::options::{Failed, RunBy};
use crate::owner::Owner;
use crate::window::DeviceWindow;

/// The device for a driver in this process.
#[derive(Debug, Clone)]
pub struct LocalHost(Owner);

impl LocalHost {
    pub(crate) fn new(owner: Owner) -> Self {
        Self(owner)
    }

    #[inline]
    fn executor(&self) -> &Executor {
        self.0.executor()
    }

    /// Reads the register of `bytes` bytes, 4 or 8, at `offset`.
    ///
    /// # Errors
    /// The device has failed.
    pub fn read_register(&self, offset: u32, bytes: u32) -> Result<u64, Failed> {
        self.executor().host_meter().register_read(u64::from(bytes));
        self.executor().with_all_queues(|core| {
            let low = u64::from(core.controller.read_register(offset));
            let high = if bytes == 8 { u64::from(core.controller.read_register(offset + 4)) } else { 0 };
            low | high << 32
        })
    }

    /// Writes the register of `bytes` bytes, 4 or 8, at `offset`.
    ///
    /// # Errors
    /// The device has failed.
    pub fn write_register(&self, offset: u32, bytes: u32, value: u64) -> Result<(), Failed> {
        let executor = self.executor();
        executor.host_meter().register_write(u64::from(bytes));
        executor.with_core(|core| {
            let (controller, subsystem) = (&mut core.controller, &mut core.subsystem);
            controller.write_register(subsystem, executor.doorbells(), offset, value as u32);
            if bytes == 8 {
                let high = (value >> 32) as u32;
                controller.write_register(subsystem, executor.doorbells(), offset + 4, high);
            }
        })
    }

    /// Writes a doorbell, and runs the device if the caller runs it.
    #[inline(always)]
    pub fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        let executor = self.executor();
        executor.host_meter().doorbell(doorbell.place());
        executor.clock().charge(HostStep::Doorbell, 1);
        match executor.run_by() {
            RunBy::Thread => executor.ring_for_thread(doorbell, value),
            RunBy::Caller if doorbell.is_completion() => executor.ring_head(doorbell, value),
            RunBy::Caller => executor.ring_tail(doorbell, value),
        }
    }

    /// Hints that a command for `key` follows, which prefetches its index lines.
    #[inline]
    pub fn hint(&self, nsid: u32, key: &Key) {
        // Cache lines that this thread prefetches do not help a thread of the device.
        if self.executor().run_by() == RunBy::Caller {
            self.executor().hints().prefetch(nsid, key);
        }
    }

    /// Maps host memory at a free bus address.
    ///
    /// # Errors
    /// The mapping is refused.
    pub fn map(&self, memory: &Arc<DmaMemory>) -> Result<BusAddr, MapRefusal> {
        let len_bytes = memory.len() as u64;
        // Ranges never touch: an access past an end meets a hole, as it may on a real bus.
        let stride = len_bytes.next_multiple_of(1 << 21) + (1 << 21);
        let at = BusAddr(self.executor().next_bus_addr().fetch_add(stride, Relaxed));
        self.executor().space().map(memory.clone(), at, Access::ReadWrite)?;
        Ok(at)
    }

    /// Unmaps host memory.
    ///
    /// # Errors
    /// No memory is mapped at `at`.
    pub fn unmap(&self, at: BusAddr) -> Result<(), MapRefusal> {
        self.executor().space().unmap(at).map(drop)
    }

    /// Runs the device if there is work, or lets a modelled clock advance.
    pub fn poll(&self) {
        let executor = self.executor();
        match (executor.run_by(), executor.clock().mode()) {
            (RunBy::Thread, _) => std::hint::spin_loop(),
            (RunBy::Caller, ClockMode::Off) if !executor.has_work() => {}
            (RunBy::Caller, _) => executor.run_to_deadline(),
        }
    }

    /// Does a quantum of the device's upkeep, if any is due, for a thread that has nothing outstanding.
    #[inline]
    pub fn keep_up(&self) {
        if self.executor().run_by() == RunBy::Caller {
            self.executor().keep_up();
        }
    }

    /// The host has no more commands for `queue` now.
    #[inline]
    pub fn idle(&self, queue: u16) {
        self.executor().idle(queue);
    }

    /// Waits for an interrupt, at most `timeout`; whether it was raised.
    ///
    /// # Errors
    /// The device has failed.
    pub fn wait(&self, vector: u16, timeout: Duration) -> Result<bool, Failed> {
        let executor = self.executor();
        executor.check()?;
        if executor.run_by() == RunBy::Thread {
            return Ok(executor.vectors().sleep(vector, timeout));
        }
        let until = Deadline::after(timeout);
        loop {
            self.idle(vector);
            self.poll();
            if executor.vectors().take(vector) {
                return Ok(true);
            }
            executor.check()?;
            if until.is_over() {
                return Ok(false);
            }
            executor.pause();
        }
    }

    /// A descriptor that is readable once `vector` was raised, or the host must run the device.
    ///
    /// # Errors
    /// The device has failed; the system's error.
    pub fn listen(&self, vector: u16) -> Result<io::Result<Arc<Wakeup>>, Failed> {
        self.executor().with_core(|_| self.executor().vectors().listen(vector))
    }

    /// Clears the descriptor of `vector`.
    pub fn clear(&self, vector: u16) {
        self.executor().vectors().clear(vector);
    }

    /// Signals the descriptor of `vector`.
    pub fn signal(&self, vector: u16) {
        self.executor().vectors().signal(vector);
    }

    /// Whether a deadline of a modelled clock waits for the host to run the device.
    pub fn waits_for_host(&self) -> bool {
        self.executor().run_by() == RunBy::Caller && self.executor().deadline_ps().is_some()
    }

    /// CXL windows, if the device has any.
    pub fn cxl_windows(&self) -> Option<DeviceWindow> {
        DeviceWindow::cxl(self.0.shared())
    }

    /// The controller memory buffer.
    pub fn byte_memory(&self) -> DeviceWindow {
        DeviceWindow::bytes(self.0.shared())
    }

    /// Charges steps of the host's software to a modelled clock.
    #[inline]
    pub fn charge(&self, step: HostStep, times: u32) {
        self.executor().clock().charge(step, times);
    }

    /// The parameters of the device.
    pub fn profile(&self) -> &Profile {
        self.executor().profile()
    }

    /// The device's address space.
    pub fn space(&self) -> &Arc<DmaSpace> {
        self.executor().space()
    }
}
