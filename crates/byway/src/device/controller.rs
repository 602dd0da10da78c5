//! The controller of a device: its registers, and resetting it.

#[cfg(any(feature = "embedded", feature = "vfio"))]
use byway_core::ErrorKind;
use byway_core::{AdminCommand, Backend, Error, RawData, Result};
#[cfg(any(feature = "embedded", feature = "vfio"))]
use byway_driver::{Bus, BusError, Driver};
use byway_spec::Command;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::register::Register;

use crate::device::Device;
use crate::device::kind::DeviceKind;

/// Property Get, the fabrics command type (Base 2.1, section 6.4).
const PROPERTY_GET: u32 = 4;

impl Device {
    /// Reads a register of the controller, of 4 or 8 `bytes`. Where the device is behind a kernel's driver or a network, the register
    /// is asked for as a property, which controllers of NVMe over fabrics have.
    ///
    /// # Errors
    /// A device without a controller, a register that it does not have, and what it says.
    pub fn register(&self, register: Register, bytes: u32) -> Result<u64> {
        self.check_owner()?;
        match self.kind() {
            #[cfg(feature = "embedded")]
            DeviceKind::Embedded(device) => register_of(device.driver(), register, bytes),
            #[cfg(feature = "vfio")]
            DeviceKind::VfioUser(driver) => register_of(driver, register, bytes),
            #[cfg(feature = "vfio")]
            DeviceKind::Vfio(driver) => register_of(driver, register, bytes),
            _ => self.property(register, bytes),
        }
    }

    fn property(&self, register: Register, bytes: u32) -> Result<u64> {
        let mut entry = Command::new(AdminOpcode::FABRICS.0, 0, PROPERTY_GET);
        entry.cdw10 = u32::from(bytes == 8);
        entry.cdw11 = register.0;
        let answer = self.admin(AdminCommand::raw(entry, RawData::None))?.answer;
        Ok(u64::from(answer.dw0) | u64::from(answer.dw1) << 32)
    }

    /// Resets the controller. A kernel's driver resets its own at once, and begins its commands again. A device that this process
    /// drives, or that it is connected to over a network, was reset when it was opened: nothing more is done.
    ///
    /// # Errors
    /// A device without a controller; what the system says.
    pub fn reset(&self) -> Result<()> {
        self.check_owner()?;
        match self.kind() {
            #[cfg(feature = "kernel")]
            DeviceKind::IoUringCmd(device) => device.device().reset(),
            #[cfg(feature = "kernel")]
            DeviceKind::NvmeIoctl(device) => device.device().reset(),
            #[cfg(feature = "kernel")]
            DeviceKind::NvmeThreads(device) => device.device().reset(),
            #[cfg(feature = "embedded")]
            DeviceKind::Embedded(_) => Ok(()),
            #[cfg(feature = "vfio")]
            DeviceKind::VfioUser(_) | DeviceKind::Vfio(_) => Ok(()),
            #[cfg(feature = "tcp")]
            DeviceKind::Tcp(_) | DeviceKind::TcpPaths(_) => Ok(()),
            _ => Err(Error::no_controller(&self.identity().model)),
        }
    }
}

#[cfg(any(feature = "embedded", feature = "vfio"))]
fn register_of<B: Bus>(driver: &Driver<B>, register: Register, bytes: u32) -> Result<u64> {
    driver.bus().read_register(register.0, bytes).map_err(|error| {
        let kind = match error {
            BusError::NoRegister { .. } => ErrorKind::Unsupported,
            _ => ErrorKind::DeviceLost,
        };
        Error::device(kind, error.to_string())
    })
}
