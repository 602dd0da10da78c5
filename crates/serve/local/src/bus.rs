//! The bus of a device in this process.

use std::sync::Arc;
use std::time::Duration;

use byway_dma::{BusAddr, DmaMemory, DmaSpace};
use byway_driver::{Bus, BusError, Event, KeyHints, LinkModel};
use byway_executor::{Embedded, Failed, LocalHost};
use byway_link::{HostStep, Profile};
use byway_queue::DoorbellIndex;
use byway_spec::Key;
use byway_spec::base::register::DOORBELL_BASE;

use crate::window::Window;

/// A bus to an embedded device's controller.
#[derive(Debug, Clone)]
pub struct InProcessBus(LocalHost);

impl InProcessBus {
    /// A bus to the controller of `device`, which it keeps open.
    pub fn new(device: &Embedded) -> Self {
        Self(device.host())
    }

    /// Host memory as the device sees it.
    pub fn space(&self) -> &Arc<DmaSpace> {
        self.0.space()
    }
}

impl Bus for InProcessBus {
    type Memory = Window;

    fn name(&self) -> &'static str {
        "embedded"
    }

    fn read_register(&self, offset: u32, bytes: u32) -> Result<u64, BusError> {
        check_register(offset, bytes)?;
        self.0.read_register(offset, bytes).map_err(from_failed)
    }

    fn write_register(&self, offset: u32, bytes: u32, value: u64) -> Result<(), BusError> {
        check_register(offset, bytes)?;
        self.0.write_register(offset, bytes, value).map_err(from_failed)
    }

    #[inline(always)]
    fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        self.0.ring(doorbell, value);
    }

    fn map(&self, memory: &Arc<DmaMemory>) -> Result<BusAddr, BusError> {
        self.0.map(memory).map_err(|refused| BusError::Mapping(refused.to_string()))
    }

    fn unmap(&self, at: BusAddr) -> Result<(), BusError> {
        self.0.unmap(at).map_err(|refused| BusError::Mapping(refused.to_string()))
    }

    fn poll(&self) {
        self.0.poll();
    }

    #[inline]
    fn keep_up(&self) {
        self.0.keep_up();
    }

    #[inline]
    fn idle(&self, queue: u16) {
        self.0.idle(queue);
    }

    fn wait(&self, vector: u16, timeout: Duration) -> Result<bool, BusError> {
        self.0.wait(vector, timeout).map_err(from_failed)
    }

    fn has_events(&self) -> bool {
        true
    }

    fn listen(&self, vector: u16) -> Result<Arc<dyn Event>, BusError> {
        let event = self.0.listen(vector).map_err(from_failed)?;
        event
            .map(|event| event as Arc<dyn Event>)
            .map_err(|cause| BusError::NoEvent { vector, why: cause.to_string() })
    }

    fn clear(&self, vector: u16) {
        self.0.clear(vector);
    }

    fn call(&self, vector: u16) {
        self.0.signal(vector);
    }

    fn waits_for_host(&self) -> bool {
        self.0.waits_for_host()
    }

    fn device_memory(&self) -> Option<Window> {
        self.0.cxl_windows().map(Window::new)
    }

    fn byte_memory(&self) -> Option<Window> {
        Some(Window::new(self.0.byte_memory()))
    }

    #[inline]
    fn model(&self) -> Option<&impl LinkModel> {
        Some(self)
    }

    #[inline]
    fn key_hints(&self) -> Option<&impl KeyHints> {
        Some(self)
    }
}

impl LinkModel for InProcessBus {
    #[inline]
    fn charge(&self, step: HostStep, times: u32) {
        self.0.charge(step, times);
    }

    fn profile(&self) -> &Profile {
        self.0.profile()
    }
}

impl KeyHints for InProcessBus {
    #[inline]
    fn prefetch(&self, nsid: u32, key: &Key) {
        self.0.hint(nsid, key);
    }
}

fn from_failed(failed: Failed) -> BusError {
    BusError::Gone(failed.to_string())
}

/// Registers are 4 or 8 bytes, aligned, below the doorbells.
fn check_register(offset: u32, bytes: u32) -> Result<(), BusError> {
    let sized = matches!(bytes, 4 | 8) && offset.is_multiple_of(bytes);
    if sized && offset < DOORBELL_BASE {
        return Ok(());
    }
    Err(BusError::NoRegister { offset, bytes })
}
