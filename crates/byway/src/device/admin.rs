//! Admin commands of a device of any kind that go on by themselves.

use std::sync::Arc;

#[cfg(any(feature = "kernel", feature = "tcp"))]
use byway_backends::AdminCalls;
#[cfg(feature = "kernel")]
use byway_backends::{IoUringCmd, NvmeIoctl, NvmeTarget};
use byway_core::{AdminQueue, Backend, Error, Result};

use crate::device::Device;
use crate::device::kind::DeviceKind;

impl Device {
    /// Admin commands that go on by themselves: on a ring of the device's or the kernel's, or by a thread.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a device without a controller.
    pub fn admin_queue(&self) -> Result<Box<dyn AdminQueue>> {
        self.check_owner()?;
        match self.kind() {
            #[cfg(feature = "embedded")]
            DeviceKind::Embedded(device) => Ok(Box::new(device.driver().admin_commands())),
            #[cfg(feature = "vfio")]
            DeviceKind::VfioUser(driver) => Ok(Box::new(driver.admin_commands())),
            #[cfg(feature = "vfio")]
            DeviceKind::Vfio(driver) => Ok(Box::new(driver.admin_commands())),
            #[cfg(feature = "kernel")]
            DeviceKind::IoUringCmd(device) => of_ring(device),
            #[cfg(feature = "kernel")]
            DeviceKind::NvmeIoctl(device) => by_thread(device.device()),
            #[cfg(feature = "kernel")]
            DeviceKind::NvmeThreads(device) => by_thread(device.device()),
            #[cfg(feature = "tcp")]
            DeviceKind::Tcp(device) => Ok(Box::new(AdminCalls::new(device.clone())?)),
            #[cfg(feature = "tcp")]
            DeviceKind::TcpPaths(device) => Ok(Box::new(AdminCalls::new(device.clone())?)),
            _ => Err(Error::no_controller(&self.identity().model)),
        }
    }
}

/// By a ring over the controller's own node; by a thread where that may not be opened.
#[cfg(feature = "kernel")]
fn of_ring(device: &IoUringCmd) -> Result<Box<dyn AdminQueue>> {
    match device.admin_commands() {
        Ok(ring) => Ok(Box::new(ring)),
        Err(_) => by_thread(device.device()),
    }
}

#[cfg(feature = "kernel")]
fn by_thread(target: &Arc<NvmeTarget>) -> Result<Box<dyn AdminQueue>> {
    Ok(Box::new(AdminCalls::new(NvmeIoctl::new(Arc::clone(target)))?))
}
