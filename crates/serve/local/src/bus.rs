//! The bus of a device in the same process: registers, doorbells and memory without a message or a thread hop.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use byway_controller::Subsystem;
use byway_dma::{Access, BusAddr, DmaMemory, DmaSpace};
use byway_driver::{Bus, BusError, Event};
use byway_link::{ClockMode, HostMeter, HostStep, Profile};
use byway_queue::DoorbellIndex;
use byway_spec::Key;
use byway_spec::base::register::DOORBELL_BASE;
use byway_sys::Deadline;

use crate::device::{Companion, RunBy};
use crate::memory::Window;
use crate::runner::Runner;
use crate::shared::{Failed, Shared};

/// A bus to an embedded device's controller.
#[derive(Debug, Clone)]
pub struct InProcessBus {
    // Declared first, so that it is gone before the image is closed.
    pub(crate) _companion: Option<Companion>,
    pub(crate) shared: Arc<Shared>,
    /// The device runs for as long as somebody reaches it.
    pub(crate) _runners: Arc<Vec<Runner>>,
}

impl Bus for InProcessBus {
    type Memory = Window;

    fn name(&self) -> &'static str {
        "embedded"
    }

    fn read_register(&self, offset: u32, bytes: u32) -> Result<u64, BusError> {
        check_register(offset, bytes)?;
        self.shared.host_meter.register_read(u64::from(bytes));
        let read = self.shared.with_core(|core| {
            let low = u64::from(core.controller.read_register(offset));
            let high = if bytes == 8 { u64::from(core.controller.read_register(offset + 4)) } else { 0 };
            low | high << 32
        });
        Ok(read?)
    }

    fn write_register(&self, offset: u32, bytes: u32, value: u64) -> Result<(), BusError> {
        check_register(offset, bytes)?;
        let shared = &*self.shared;
        shared.host_meter.register_write(u64::from(bytes));
        shared.with_core(|core| {
            let subsystem: &mut Subsystem = &mut core.subsystem;
            core.controller.write_register(subsystem, &shared.doorbells, offset, value as u32);
            if bytes == 8 {
                core.controller.write_register(
                    subsystem,
                    &shared.doorbells,
                    offset + 4,
                    (value >> 32) as u32,
                );
            }
        })?;
        Ok(())
    }

    #[inline(always)]
    fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        let shared = &*self.shared;
        shared.host_meter.doorbell(doorbell.place());
        shared.clock.charge(HostStep::Doorbell, 1);
        match shared.run_by {
            RunBy::Thread => {
                shared.doorbells.ring(doorbell, value);
                shared.bed.wake();
            }
            RunBy::Caller if doorbell.is_completion() => shared.ring_head(doorbell, value),
            RunBy::Caller => shared.ring_tail(doorbell, value),
        }
    }

    #[inline]
    fn expect(&self, nsid: u32, key: &Key) {
        // What a thread of the device's own reads is of no use in this processor's caches.
        if self.shared.run_by == RunBy::Caller {
            self.shared.outlooks.expect(nsid, key);
        }
    }

    fn map(&self, memory: &Arc<DmaMemory>) -> Result<BusAddr, BusError> {
        let len_bytes = memory.len() as u64;
        // Ranges never touch: an access that runs over an end meets a hole, as it may on a real bus.
        let at = BusAddr(
            self.shared.next_bus_addr.fetch_add(len_bytes.next_multiple_of(1 << 21) + (1 << 21), Relaxed),
        );
        let mapped = self.shared.space.map(memory.clone(), at, Access::ReadWrite);
        mapped.map_err(|e| BusError::Mapping(e.to_string()))?;
        Ok(at)
    }

    fn unmap(&self, at: BusAddr) -> Result<(), BusError> {
        let unmapped = self.shared.space.unmap(at);
        unmapped.map(drop).map_err(|e| BusError::Mapping(e.to_string()))
    }

    fn poll(&self) {
        let shared = &*self.shared;
        match (shared.run_by, shared.clock.mode()) {
            (RunBy::Thread, _) => std::hint::spin_loop(),
            (RunBy::Caller, ClockMode::Off) if !shared.has_work() => {}
            (RunBy::Caller, _) => shared.run_to_deadline(),
        }
    }

    #[inline]
    fn idle(&self, queue: u16) {
        self.shared.idle(queue);
    }

    fn wait(&self, vector: u16, timeout: Duration) -> Result<bool, BusError> {
        let shared = &*self.shared;
        if shared.has_failed() {
            return Err(Failed::Panicked.into());
        }
        if shared.run_by == RunBy::Thread {
            return Ok(shared.vectors.sleep(vector, timeout));
        }
        let until = Deadline::after(timeout);
        loop {
            self.idle(vector);
            self.poll();
            if shared.vectors.take(vector) {
                return Ok(true);
            }
            if shared.has_failed() {
                return Err(Failed::Panicked.into());
            }
            if until.is_over() {
                return Ok(false);
            }
            shared.rest();
        }
    }

    fn has_events(&self) -> bool {
        true
    }

    fn listen(&self, vector: u16) -> Result<Arc<dyn Event>, BusError> {
        let begun = self.shared.with_core(|_| self.shared.vectors.listen(vector))?;
        begun
            .map(|event| event as Arc<dyn Event>)
            .map_err(|cause| BusError::NoEvent { vector, why: cause.to_string() })
    }

    fn clear(&self, vector: u16) {
        self.shared.vectors.clear(vector);
    }

    fn call(&self, vector: u16) {
        self.shared.vectors.call(vector);
    }

    /// Under a modelled clock a device that runs in its host's thread has deadlines that nobody else keeps.
    fn waits_for_host(&self) -> bool {
        self.shared.run_by == RunBy::Caller && self.shared.deadline_ps().is_some()
    }

    fn device_memory(&self) -> Option<Window> {
        Window::cxl(self.shared.clone())
    }

    fn byte_memory(&self) -> Option<Window> {
        Some(Window::bytes(self.shared.byte_memory.clone(), self.shared.clone()))
    }

    #[inline]
    fn charge(&self, step: HostStep, times: u32) {
        self.shared.clock.charge(step, times);
    }

    fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }

    fn meter(&self) -> &HostMeter {
        &self.shared.host_meter
    }

    fn profile(&self) -> Option<&Profile> {
        Some(&self.shared.profile)
    }
}

impl InProcessBus {
    /// Host memory as the device sees it.
    pub fn space(&self) -> &Arc<DmaSpace> {
        &self.shared.space
    }
}

impl Shared {
    /// Nothing is ready: under a paced clock sleeps towards the deadline if it is far, else gives way to others.
    fn rest(&self) {
        const FAR_PS: u64 = 100_000_000;
        let left_ps = self.deadline_ps().map_or(0, |due_ps| due_ps.saturating_sub(self.clock.now_ps()));
        if left_ps > FAR_PS {
            std::thread::sleep(Duration::from_nanos((left_ps - FAR_PS) / 1000));
        } else {
            std::thread::yield_now();
        }
    }
}

impl From<Failed> for BusError {
    fn from(failed: Failed) -> Self {
        Self::Gone(failed.to_string())
    }
}

/// Registers are 4 or 8 bytes, aligned, and stand before the doorbells.
fn check_register(offset: u32, bytes: u32) -> Result<(), BusError> {
    let sized = matches!(bytes, 4 | 8) && offset.is_multiple_of(bytes);
    if sized && offset < DOORBELL_BASE {
        return Ok(());
    }
    Err(BusError::NoRegister { offset, bytes })
}
