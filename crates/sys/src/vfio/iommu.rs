//! The IOMMU of a device, by the group interface or by iommufd.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::VfioError;
use super::abi::{self, request};
use super::chain;
use super::device::{Answer, device_of, integer, open, raw, structure};

/// The kernel's folder of PCI functions.
const DEVICES: &str = "/sys/bus/pci/devices";

/// Ranges of addresses that iommufd is asked for at once; an IOMMU has a handful.
const RANGES_MAX: usize = 64;

/// By which interface of the kernel's a device was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VfioInterface {
    /// `/dev/vfio/GROUP` in a container (`/dev/vfio/vfio`), with an IOMMU of type 1 version 2.
    Group,
    /// `/dev/vfio/devices/vfioN`, bound to `/dev/iommu`.
    Iommufd,
}

/// The addresses of one device.
#[derive(Debug)]
pub(super) enum Iommu {
    Group {
        // The group before the container: the kernel wants them given back in this order.
        _group: File,
        container: File,
    },
    Iommufd {
        iommu: File,
        /// The address space that the device is attached to.
        space: u32,
    },
}

/// The device's own node for iommufd, where the kernel has both: it is built with them, and `vfio-pci` has the device.
pub(super) fn node_of(address: &str) -> Option<PathBuf> {
    node_under(Path::new(DEVICES), Path::new("/dev"), address)
}

/// The same with the folder of PCI functions at `devices` and of nodes at `dev`.
#[must_use]
pub fn node_under(devices: &Path, dev: &Path, address: &str) -> Option<PathBuf> {
    let folder = fs::read_dir(devices.join(address).join("vfio-dev")).ok()?;
    let name = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let node = dev.join("vfio/devices").join(name.min()?);
    (node.exists() && dev.join("iommu").exists()).then_some(node)
}

/// Takes a device by its own node.
pub(super) fn take_by_node(node: &Path) -> Result<(File, Iommu), VfioError> {
    let device = open(node)?;
    let iommu = open(Path::new("/dev/iommu"))?;
    let mut bind = abi::BindIommufd {
        argsz: size_of::<abi::BindIommufd>() as u32,
        iommufd: iommu.as_raw_fd(),
        ..Default::default()
    };
    structure(&device, request::DEVICE_BIND_IOMMUFD, &mut bind, "bind the device to iommufd")?;
    let mut space = abi::IoasAlloc { size: size_of::<abi::IoasAlloc>() as u32, ..Default::default() };
    structure(&iommu, request::IOAS_ALLOC, &mut space, "make an address space")?;
    let mut attach = abi::AttachIommufd {
        argsz: size_of::<abi::AttachIommufd>() as u32,
        flags: 0,
        pt_id: space.out_ioas_id,
    };
    structure(
        &device,
        request::DEVICE_ATTACH_IOMMUFD,
        &mut attach,
        "attach the device to its address space",
    )?;
    Ok((device, Iommu::Iommufd { iommu, space: space.out_ioas_id }))
}

/// Takes a device by its group.
pub(super) fn take_by_group(address: &str, group: u32) -> Result<(File, Iommu), VfioError> {
    let container = open(Path::new("/dev/vfio/vfio"))?;
    if integer(&container, request::GET_API_VERSION, 0, "ask for VFIO's version")? != abi::API_VERSION {
        return Err(VfioError::Unlike("another version of its interface than 0"));
    }
    let extension = integer(&container, request::CHECK_EXTENSION, abi::TYPE1_V2, "ask for the IOMMU's type")?;
    if extension == 0 {
        return Err(VfioError::Unlike("no IOMMU of type 1 version 2"));
    }
    let group_file = open(&Path::new("/dev/vfio").join(group.to_string()))?;
    check_viable(&group_file, group)?;
    let mut fd = container.as_raw_fd();
    structure(&group_file, request::GROUP_SET_CONTAINER, &mut fd, "put the group into a container")?;
    integer(&container, request::SET_IOMMU, abi::TYPE1_V2, "turn on the IOMMU")?;
    let device = device_of(&group_file, address)?;
    Ok((device, Iommu::Group { _group: group_file, container }))
}

fn check_viable(file: &File, group: u32) -> Result<(), VfioError> {
    let mut status = abi::GroupStatus { argsz: size_of::<abi::GroupStatus>() as u32, flags: 0 };
    structure(file, request::GROUP_GET_STATUS, &mut status, "ask for the group's state")?;
    if status.flags & abi::GROUP_VIABLE == 0 {
        return Err(VfioError::NotViable { group });
    }
    Ok(())
}

impl Iommu {
    pub(super) fn interface(&self) -> VfioInterface {
        match self {
            Self::Group { .. } => VfioInterface::Group,
            Self::Iommufd { .. } => VfioInterface::Iommufd,
        }
    }

    /// Addresses that memory can be mapped at: first and last of each range. Empty where the kernel does not report them.
    pub(super) fn address_ranges(&self) -> io::Result<Vec<(u64, u64)>> {
        match self {
            Self::Group { container, .. } => ranges_of_container(container),
            Self::Iommufd { iommu, space } => ranges_of_space(iommu, *space),
        }
    }

    /// Lets the device read and write `bytes` of this process's memory from `vaddr` at bus address `at`.
    pub(super) fn map(&self, vaddr: u64, at: u64, bytes: u64) -> io::Result<()> {
        match self {
            Self::Group { container, .. } => {
                let argsz = size_of::<abi::DmaMap>() as u32;
                let flags = abi::DMA_READ_WRITE;
                let mut map = abi::DmaMap { argsz, flags, vaddr, iova: at, size: bytes };
                call(container, request::IOMMU_MAP_DMA, &mut map)
            }
            Self::Iommufd { iommu, space } => {
                let mut map = abi::IoasMap {
                    size: size_of::<abi::IoasMap>() as u32,
                    flags: abi::IOAS_MAP_FIXED_READ_WRITE,
                    ioas_id: *space,
                    reserved: 0,
                    user_va: vaddr,
                    length: bytes,
                    iova: at,
                };
                call(iommu, request::IOAS_MAP, &mut map)
            }
        }
    }

    /// Takes memory away.
    pub(super) fn unmap(&self, at: u64, bytes: u64) -> io::Result<()> {
        match self {
            Self::Group { container, .. } => {
                let argsz = size_of::<abi::DmaUnmap>() as u32;
                let mut unmap = abi::DmaUnmap { argsz, flags: 0, iova: at, size: bytes };
                call(container, request::IOMMU_UNMAP_DMA, &mut unmap)
            }
            Self::Iommufd { iommu, space } => {
                let size = size_of::<abi::IoasUnmap>() as u32;
                let mut unmap = abi::IoasUnmap { size, ioas_id: *space, iova: at, length: bytes };
                call(iommu, request::IOAS_UNMAP, &mut unmap)
            }
        }
    }
}

fn ranges_of_container(container: &File) -> io::Result<Vec<(u64, u64)>> {
    let argsz = Answer::<abi::IommuInfo>::BYTES;
    let mut answer = Answer::new(abi::IommuInfo { argsz, ..Default::default() });
    answer.ask(container, request::IOMMU_GET_INFO)?;
    let info = answer.head;
    if info.flags & abi::IOMMU_CAPS == 0 {
        return Ok(Vec::new());
    }
    let found = chain::find(&answer.bytes(), info.cap_offset, abi::CAP_IOVA_RANGE).map(chain::pairs);
    Ok(found.unwrap_or_default())
}

fn ranges_of_space(iommu: &File, space: u32) -> io::Result<Vec<(u64, u64)>> {
    let mut ranges = vec![abi::IovaRange::default(); RANGES_MAX];
    let mut ask = abi::IoasIovaRanges {
        size: size_of::<abi::IoasIovaRanges>() as u32,
        ioas_id: space,
        num_iovas: RANGES_MAX as u32,
        reserved: 0,
        allowed_iovas: ranges.as_mut_ptr().expose_provenance() as u64,
        out_iova_alignment: 0,
    };
    match call(iommu, request::IOAS_IOVA_RANGES, &mut ask) {
        Ok(()) => {}
        // It has more, and returned as many as there was room for.
        Err(cause) if cause.raw_os_error() == Some(libc::EMSGSIZE) => {}
        Err(cause) => return Err(cause),
    }
    ranges.truncate(ask.num_iovas as usize);
    Ok(ranges.into_iter().map(|range| (range.start, range.last)).collect())
}

/// Calls `ioctl` with a structure.
fn call<T>(file: &File, number: libc::c_ulong, value: &mut T) -> io::Result<()> {
    raw(file, number, std::ptr::from_mut(value).expose_provenance() as libc::c_ulong).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_device_has_a_node_where_the_kernel_has_one_and_iommufd() {
        let folder = tempfile::tempdir().unwrap();
        let (devices, dev) = (folder.path().join("sys"), folder.path().join("dev"));
        let found = || node_under(&devices, &dev, "0000:04:00.0");
        assert_eq!(found(), None);
        fs::create_dir_all(devices.join("0000:04:00.0/vfio-dev/vfio3")).unwrap();
        fs::create_dir_all(dev.join("vfio/devices")).unwrap();
        assert_eq!(found(), None);
        fs::write(dev.join("vfio/devices/vfio3"), "").unwrap();
        assert_eq!(found(), None, "without /dev/iommu nothing can be bound");
        fs::write(dev.join("iommu"), "").unwrap();
        assert_eq!(found(), Some(dev.join("vfio/devices/vfio3")));
    }
}
