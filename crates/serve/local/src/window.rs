//! Device memory as the host driver sees it.

use byway_dma::BusAddr;
use byway_driver::{BusError, DeviceMemory};
use byway_executor::{DeviceWindow, WindowError};

/// Device memory that the driver stores into: CXL windows, or the controller memory buffer.
#[derive(Debug, Clone)]
pub struct Window(DeviceWindow);

impl Window {
    pub(crate) fn new(window: DeviceWindow) -> Self {
        Self(window)
    }
}

impl DeviceMemory for Window {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn bus_addr(&self) -> Option<BusAddr> {
        self.0.bus_addr()
    }

    #[inline]
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), BusError> {
        self.0.store(offset, bytes).map_err(from_window)
    }

    #[inline]
    fn settle(&self, last: u64) -> Result<(), BusError> {
        self.0.settle(last).map_err(from_window)
    }
}

fn from_window(error: WindowError) -> BusError {
    match error {
        WindowError::Outside { offset, len_bytes, memory_bytes } => {
            BusError::OutsideMemory { offset, len_bytes, memory_bytes }
        }
        WindowError::Mapping(error) => BusError::Mapping(error.to_string()),
        WindowError::Failed(failed) => BusError::Gone(failed.to_string()),
    }
}
