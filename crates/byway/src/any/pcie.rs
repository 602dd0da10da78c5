//! PCIe devices outside this process, reached by this library's own driver.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use byway_buses::{PciAddress, VfioBus, VfioUserBus};
use byway_core::{Depth, Error, ErrorKind, QueueOptions, Result};
use byway_driver::{AttachOptions, Bus, BusError, Driver, Queue};
use byway_sys::vfio::VfioInterface;

use crate::any::choose::Chosen;
use crate::any::device::Reached;
use crate::path::{decode, split_options};
use crate::uri::{OPTIONS, Options, invalid, pairs_of, parse_options, unknown};

/// A queue of a device that another process serves.
pub type VfioUserQueue = Queue<VfioUserBus>;

/// A queue of a PCIe device of this machine.
pub type VfioQueue = Queue<VfioBus>;

/// A PCIe device, and how it is to be used.
#[derive(Debug, Clone, PartialEq)]
pub struct PcieUri {
    /// Where it is.
    pub place: PciePlace,
    /// How it is to be used: of these, what [`PCIE_OPTIONS`] names.
    pub options: Options,
}

/// Where a PCIe device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PciePlace {
    /// In another process, which serves it at a socket.
    VfioUser(PathBuf),
    /// In this machine, and in the hands of `vfio-pci`.
    Pci(PciAddress),
}

/// Options that are the host's: those of [`OPTIONS`] that say nothing of the device's inside.
pub const PCIE_OPTIONS: [&str; 8] = ["transfer", "policy", "tau", "alpha", "below", "ns", "depth", "ring"];

impl FromStr for PcieUri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (place, query) = split_options(text);
        let query = query.unwrap_or_default();
        let place = match place.split_once(':') {
            Some(("vfio-user", "")) => {
                return Err(invalid(format!("{text}: a socket's path follows vfio-user:")));
            }
            Some(("vfio-user", path)) => PciePlace::VfioUser(decode(path)),
            Some(("pci", address)) => {
                let address = address.parse::<PciAddress>();
                PciePlace::Pci(address.map_err(|wrong| invalid(wrong.to_string()))?)
            }
            _ => {
                let said = format!("{text:?} is no PCIe device: expected vfio-user:PATH or pci:ADDRESS");
                return Err(invalid(said));
            }
        };
        for (name, value) in pairs_of(query)? {
            if !PCIE_OPTIONS.contains(&name) {
                let known = OPTIONS.into_iter().filter(|(known, ..)| PCIE_OPTIONS.contains(known));
                return Err(unknown(&known.collect::<Vec<_>>()).doing(format!("option {name}={value}")));
            }
        }
        Ok(Self { place, options: parse_options(query)? })
    }
}

impl PcieUri {
    /// Options of queues.
    pub(crate) fn queue_options(&self) -> QueueOptions {
        QueueOptions {
            depth: Depth::UpTo(self.options.depth),
            ring_entries: self.options.ring_entries,
            transfer: self.options.transfer,
            policy: self.options.policy,
            ..QueueOptions::default()
        }
    }
}

/// Attaches the device.
pub(crate) fn reach(uri: &PcieUri) -> Result<(Reached, Chosen)> {
    match &uri.place {
        PciePlace::VfioUser(path) => {
            let driver = attach(VfioUserBus::open(path))?;
            let doorbells = if driver.bus().has_mapped_doorbells() {
                "stores"
            } else {
                "messages: the server shares no page"
            };
            let why = format!("another process serves the device; doorbells are {doorbells}");
            Ok((Reached::VfioUser(driver), Chosen { backend: "vfio-user", why, passed_over: Vec::new() }))
        }
        PciePlace::Pci(address) => {
            let driver = attach(VfioBus::open(*address))?;
            let interface = match driver.bus().interface() {
                VfioInterface::Iommufd => "iommufd (/dev/iommu)",
                VfioInterface::Group => "its group (/dev/vfio/vfio)",
            };
            let why =
                format!("vfio-pci has the device, taken by {interface}; this library's own driver drives it");
            Ok((Reached::Vfio(driver), Chosen { backend: "vfio", why, passed_over: Vec::new() }))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_device_of_this_machine_is_named_by_its_address() {
        let uri: PcieUri = "pci:0000:04:00.0?depth=8".parse().unwrap();
        assert_eq!(uri.place, PciePlace::Pci("04:00.0".parse().unwrap()));
        assert!(error("pci:4").contains("expected DOMAIN:BUS:DEVICE.FUNCTION"));
        assert!(error("pci:04:00.0?gc=greedy").contains("known are"));
    }

    fn error(text: &str) -> String {
        text.parse::<PcieUri>().unwrap_err().to_string()
    }

    #[test]
    fn a_socket_and_the_host_s_own_options_are_read() {
        let uri: PcieUri = "vfio-user:/run/byway.sock?transfer=inline&depth=32&ns=2".parse().unwrap();
        assert_eq!(uri.place, PciePlace::VfioUser("/run/byway.sock".into()));
        assert_eq!((uri.options.depth, uri.queue_options().transfer), (32, byway_link::Method::Inline));
    }

    #[test]
    fn options_of_the_device_s_inside_are_its_server_s() {
        let said = error("vfio-user:/run/byway.sock?clock=virtual");
        assert!(said.contains("known are transfer, policy") && !said.contains("clock,"), "{said}");
        assert!(error("vfio-user:").contains("a socket's path follows"));
        assert!(error("vfio-user:a?depth=1&depth=2").contains("twice"));
    }
}
