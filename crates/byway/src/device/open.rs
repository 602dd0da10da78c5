//! Opening a device of any kind by its URI.

use std::borrow::Cow;

use byway_core::{Depth, Error, ErrorKind, Method, QueueOptions, Result};

#[cfg(feature = "vfio")]
use crate::device::pcie;
use crate::device::{Device, choose};
#[cfg(feature = "tcp")]
use crate::device::{nameless, tcp};
#[cfg(feature = "embedded")]
use crate::embedded;
use crate::uri::{Address, BlockOptions, BlockPlace, shown};

/// Opens the device that `uri` names: `embedded:PATH`, `embedded-ram:SIZE` or `embedded-null:SIZE` for one in this process, a path or
/// `file:PATH` for a file, a block device or an NVMe device node, `vfio-user:PATH` for a device that another process
/// serves, `pci:0000:04:00.0` for one that `vfio-pci` has, `tcp://HOST:4420/NQN` for one that is reached over the network (without `/NQN` discovery is asked for the
/// only subsystem there), `ramdisk:SIZE` for blocks in memory, `null-backend:SIZE` for none.
///
/// # Errors
/// A text that is no device, an option that cannot be honoured, a device that cannot be opened: one sentence says which
/// and why, and what was tried.
pub fn open(uri: &str) -> Result<Device> {
    let uri = &*resolved(uri)?;
    open_address(&uri.parse()?).map_err(|error| error.doing(format!("open {}", shown(uri))))
}

/// The URI that names the device of `uri` in full: `tcp://HOST` gets the name of the only subsystem there. Others stay as they are.
///
/// # Errors
/// Discovery finds no subsystem, or several.
pub(crate) fn resolved(uri: &str) -> Result<Cow<'_, str>> {
    #[cfg(feature = "tcp")]
    let uri = nameless::with_subsystem(uri)?;
    #[cfg(not(feature = "tcp"))]
    let uri = Cow::Borrowed(uri);
    Ok(uri)
}

/// Opens the device at an address that is parsed already.
///
/// # Errors
/// As [`open`].
pub fn open_address(address: &Address) -> Result<Device> {
    match address {
        #[cfg(feature = "embedded")]
        Address::Embedded(uri) => Ok(Device::of_embedded(embedded::open_uri(uri)?)),
        #[cfg(feature = "vfio")]
        Address::Pcie(uri) => {
            let (kind, chosen) = pcie::reach(uri)?;
            Device { kind: kind.into(), chosen, queue: uri.queue_options(), ns: uri.options.ns }
                .with_its_namespace()
        }
        #[cfg(feature = "tcp")]
        Address::Tcp(uri) => {
            let (kind, chosen) = tcp::reach(uri)?;
            Device { kind: kind.into(), chosen, queue: uri.queue_options(), ns: uri.ns }.with_its_namespace()
        }
        Address::Blocks(uri) => {
            let (kind, chosen) = choose::reach(uri)?;
            let BlockOptions { depth, transfer, ns, .. } = uri.options;
            let queue = QueueOptions::default().depth(Depth::UpTo(depth)).transfer(transfer);
            let device = Device { kind: kind.into(), chosen, queue, ns };
            if transfer != Method::Prp {
                // Refuse a missing transfer method now, not at the first queue.
                device.default_queue()?;
            }
            device.with_its_namespace()
        }
    }
}

/// Opens the device that `uri` names to read it: what may not be written is opened for reading alone.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(uri: &str) -> Result<Device> {
    let uri = &*resolved(uri)?;
    match uri.parse()? {
        #[cfg(feature = "embedded")]
        Address::Embedded(_) => Ok(Device::of_embedded(embedded::open_to_read(uri)?)),
        Address::Blocks(address) if address.options.create_bytes.is_some() => {
            let said = format!("open {uri}: option create makes a file, and this only reads one");
            Err(Error::host(ErrorKind::InvalidArgument, said))
        }
        Address::Blocks(mut address) => {
            address.options.read_only |= matches!(address.place, BlockPlace::Path(_) | BlockPlace::File(_));
            let opened = open_address(&Address::Blocks(address));
            opened.map_err(|error| error.doing(format!("open {uri}")))
        }
        // What is not in this process opens alike for either.
        #[cfg(any(feature = "vfio", feature = "tcp"))]
        _ => open(uri),
    }
}
