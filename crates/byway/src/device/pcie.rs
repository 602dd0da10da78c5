//! PCIe devices outside this process, reached by this library's own driver.

use std::sync::Arc;

use byway_buses::{VfioBus, VfioUserBus};
use byway_core::{Error, ErrorKind, Result};
use byway_driver::{AttachOptions, Bus, BusError, Driver};
use byway_sys::vfio::VfioInterface;

use crate::device::chosen::Chosen;
use crate::device::kind::DeviceKind;
use crate::uri::{PciePlace, PcieUri};

/// Attaches the device.
pub(crate) fn reach(uri: &PcieUri) -> Result<(DeviceKind, Chosen)> {
    match &uri.place {
        PciePlace::VfioUser(path) => {
            let driver = attach(VfioUserBus::open(path))?;
            let doorbells = if driver.bus().has_mapped_doorbells() {
                "stores"
            } else {
                "messages: the server shares no page"
            };
            let why = format!("another process serves the device; doorbells are {doorbells}");
            Ok((DeviceKind::VfioUser(driver), Chosen { backend: "vfio-user", why, passed_over: Vec::new() }))
        }
        PciePlace::Pci(address) => {
            let driver = attach(VfioBus::open(*address))?;
            let interface = match driver.bus().interface() {
                VfioInterface::Iommufd => "iommufd (/dev/iommu)",
                VfioInterface::Group => "its group (/dev/vfio/vfio)",
            };
            let why =
                format!("vfio-pci has the device, taken by {interface}; this library's own driver drives it");
            Ok((DeviceKind::Vfio(driver), Chosen { backend: "vfio", why, passed_over: Vec::new() }))
        }
    }
}

fn attach<B: Bus>(bus: Result<B, BusError>) -> Result<Driver<B>> {
    let bus = bus.map_err(|cause| {
        let kind = match cause {
            BusError::Gone(_) => ErrorKind::DeviceLost,
            BusError::Silent(_) => ErrorKind::TimedOut,
            BusError::Busy(_) => ErrorKind::Busy,
            BusError::Unready(_) => ErrorKind::NotFound,
            BusError::Protocol(_) => ErrorKind::Protocol,
            _ => ErrorKind::System,
        };
        Error::host(kind, cause.to_string())
    })?;
    Driver::attach(Arc::new(bus), AttachOptions::default())
}
