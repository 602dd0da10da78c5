//! A PCI device in the hands of this process.

use std::ffi::{CString, c_ulong};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::abi::{self, request};
use super::chain;
use super::iommu::{self, Iommu, VfioInterface};
use crate::map::{Mapping, Sharing};

/// How long the kernel's answers with lists may be.
const ANSWER_BYTES: usize = 4096;

/// Why a device cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VfioError {
    /// A file of the kernel's cannot be opened.
    #[error("{path}: {source}")]
    Open {
        /// The node: of VFIO, of iommufd, of an IOMMU group or of a device.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refuses a step.
    #[error("{step}: {source}")]
    Step {
        /// What the kernel refused, as a verb phrase: "take the device".
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel's VFIO speaks another version, or has no such IOMMU.
    #[error("the kernel's VFIO has {0}")]
    Unlike(&'static str),
    /// Not all devices of the group are in the hands of VFIO.
    #[error("not every device of IOMMU group {group} is bound to vfio-pci or to no driver")]
    NotViable {
        /// The group.
        group: u32,
    },
}

impl VfioError {
    /// Whether another process has it.
    fn is_busy(&self) -> bool {
        match self {
            Self::Open { source, .. } | Self::Step { source, .. } => {
                source.kind() == io::ErrorKind::ResourceBusy
            }
            _ => false,
        }
    }
}

/// A part of a device: a BAR, or configuration space.
#[derive(Debug, Clone)]
pub struct VfioRegion {
    /// Its size; 0 where there is none.
    pub bytes: u64,
    /// Parts that can be mapped: where each begins in the region, and its length.
    pub mappable: Vec<(u64, u64)>,
    offset: u64,
}

/// A PCI device with its IOMMU. Everything is undone when it is dropped: memory is unmapped, the device is reset and given back.
#[derive(Debug)]
pub struct VfioDevice {
    // The device before what it is bound to: the kernel wants them given back in this order.
    device: File,
    iommu: Iommu,
    has_reset: bool,
}

impl VfioDevice {
    /// Takes the device at `address` (`0000:04:00.0`), which is in IOMMU group `group`: by its own node and iommufd where the
    /// kernel has them and lets this process have them, else by its group.
    ///
    /// # Errors
    /// As [`VfioError`] says.
    pub fn open(address: &str, group: u32) -> Result<Self, VfioError> {
        let (device, iommu) = match iommu::node_of(address).map(|node| iommu::take_by_node(&node)) {
            Some(Ok(taken)) => taken,
            // A process has it by the other interface, which would refuse us as well.
            Some(Err(busy)) if busy.is_busy() => return Err(busy),
            Some(Err(_)) | None => iommu::take_by_group(address, group)?,
        };
        let mut info = abi::DeviceInfo { argsz: size_of::<abi::DeviceInfo>() as u32, ..Default::default() };
        structure(&device, request::DEVICE_GET_INFO, &mut info, "ask what the device is")?;
        if info.flags & abi::DEVICE_PCI == 0 {
            return Err(VfioError::Unlike("a device there that is none of PCI"));
        }
        let has_reset = info.flags & abi::DEVICE_RESET != 0;
        Ok(Self { device, iommu, has_reset })
    }

    /// By which interface of the kernel's it was taken.
    #[must_use]
    pub fn interface(&self) -> VfioInterface {
        self.iommu.interface()
    }

    /// A region, by VFIO's number: 0 to 5 are BARs, 7 is configuration space.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn region(&self, index: u32) -> io::Result<VfioRegion> {
        let mut answer =
            Answer::new(abi::RegionInfo { argsz: ANSWER_BYTES as u32, index, ..Default::default() });
        answer.ask(&self.device, request::DEVICE_GET_REGION_INFO)?;
        let info = answer.head;
        let mappable = match (info.flags & abi::REGION_MMAP != 0, info.flags & abi::REGION_CAPS != 0) {
            (false, _) => Vec::new(),
            (true, false) => vec![(0, info.size)],
            (true, true) => match chain::find(&answer.bytes(), info.cap_offset, abi::CAP_SPARSE_MMAP) {
                Some(body) => chain::pairs(body),
                None => vec![(0, info.size)],
            },
        };
        Ok(VfioRegion { bytes: info.size, mappable, offset: info.offset })
    }

    /// Maps a part of a region that can be mapped.
    ///
    /// # Errors
    /// The kernel's answer; a part that is not inside.
    pub fn map_region(&self, region: &VfioRegion, at: u64, len_bytes: u64) -> io::Result<Mapping> {
        let len = usize::try_from(len_bytes).ok().filter(|_| region.holds(at, len_bytes));
        let len = len.ok_or(io::ErrorKind::InvalidInput)?;
        Mapping::file(&self.device, region.offset + at, len, Sharing::Shared)
    }

    /// Reads from a region by the kernel.
    ///
    /// # Errors
    /// The kernel's answer; a range that is not inside.
    pub fn read_region(&self, region: &VfioRegion, at: u64, into: &mut [u8]) -> io::Result<()> {
        if !region.holds(at, into.len() as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.device.read_exact_at(into, region.offset + at)
    }

    /// Writes to a region by the kernel.
    ///
    /// # Errors
    /// As [`VfioDevice::read_region`].
    pub fn write_region(&self, region: &VfioRegion, at: u64, from: &[u8]) -> io::Result<()> {
        if !region.holds(at, from.len() as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.device.write_all_at(from, region.offset + at)
    }

    /// How many interrupts of a kind there are, by VFIO's number: 2 is MSI-X.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn irqs(&self, index: u32) -> io::Result<u32> {
        let mut info = abi::IrqInfo { argsz: size_of::<abi::IrqInfo>() as u32, index, ..Default::default() };
        raw(&self.device, request::DEVICE_GET_IRQ_INFO, (&raw mut info).expose_provenance() as c_ulong)?;
        Ok(info.count)
    }

    /// Has the kernel signal these descriptors for the interrupts of a kind from `start` on; none where there is none.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn arm(&self, index: u32, start: u32, fds: &[Option<BorrowedFd<'_>>]) -> io::Result<()> {
        // `struct vfio_irq_set`: five words, and a descriptor for each interrupt, -1 for none.
        let fixed = [0, abi::IRQ_EVENTFD_TRIGGER, index, start, fds.len() as u32];
        let fds = fds.iter().map(|fd| fd.map_or(-1, |fd| fd.as_raw_fd()) as u32);
        let mut words: Vec<u32> = fixed.into_iter().chain(fds).collect();
        words[0] = (words.len() * size_of::<u32>()) as u32;
        raw(&self.device, request::DEVICE_SET_IRQS, words.as_mut_ptr().expose_provenance() as c_ulong)
            .map(drop)
    }

    /// Resets the device, if it can be reset by itself; says whether it was.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn reset(&self) -> io::Result<bool> {
        if self.has_reset {
            raw(&self.device, request::DEVICE_RESET, 0)?;
        }
        Ok(self.has_reset)
    }

    /// Addresses that memory can be mapped at: first and last of each range. Empty where the kernel does not report them.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn address_ranges(&self) -> io::Result<Vec<(u64, u64)>> {
        self.iommu.address_ranges()
    }

    /// Lets the device read and write `memory` at bus address `at`. The kernel keeps the pages pinned, even if the
    /// process unmaps them, until they are taken away or the device is given back.
    ///
    /// # Errors
    /// The kernel's answer: `OutOfMemory` where the process may lock no more.
    pub fn map_memory(&self, memory: &Mapping, at: u64) -> io::Result<()> {
        let vaddr = memory.as_mut_ptr().expose_provenance() as u64;
        self.iommu.map(vaddr, at, memory.len() as u64)
    }

    /// Takes memory away.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn unmap_memory(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        self.iommu.unmap(at, len_bytes)
    }
}

impl VfioRegion {
    fn holds(&self, at: u64, len_bytes: u64) -> bool {
        at.checked_add(len_bytes).is_some_and(|end| end <= self.bytes)
    }
}

/// A structure of the kernel's with room for lists behind it.
#[repr(C, align(8))]
pub(super) struct Answer<T> {
    pub head: T,
    lists: [u8; ANSWER_BYTES],
}

impl<T: Copy> Answer<T> {
    /// Bytes of the lists, which the kernel takes for those of the whole.
    pub const BYTES: u32 = ANSWER_BYTES as u32;

    pub fn new(head: T) -> Box<Self> {
        Box::new(Self { head, lists: [0; ANSWER_BYTES] })
    }

    pub fn ask(&mut self, file: &File, number: c_ulong) -> io::Result<()> {
        raw(file, number, std::ptr::from_mut(self).expose_provenance() as c_ulong).map(drop)
    }

    /// The lists, where their offsets from the structure's beginning find them.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<T>()];
        bytes.extend_from_slice(&self.lists);
        bytes
    }
}

pub(super) fn open(path: &Path) -> Result<File, VfioError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map_err(|source| VfioError::Open { path: path.to_owned(), source })
}

pub(super) fn device_of(group: &File, address: &str) -> Result<File, VfioError> {
    const STEP: &str = "take the device";
    let name = CString::new(address).map_err(|wrong| VfioError::Step { step: STEP, source: wrong.into() })?;
    let fd = raw(group, request::GROUP_GET_DEVICE_FD, name.as_ptr().expose_provenance() as c_ulong);
    let fd = fd.map_err(|source| VfioError::Step { step: STEP, source })?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Asks with a number.
pub(super) fn integer(
    file: &File,
    number: c_ulong,
    value: c_ulong,
    step: &'static str,
) -> Result<i32, VfioError> {
    raw(file, number, value).map_err(|source| VfioError::Step { step, source })
}

/// Asks with a structure, which the kernel fills in.
pub(super) fn structure<T>(
    file: &File,
    number: c_ulong,
    value: &mut T,
    step: &'static str,
) -> Result<(), VfioError> {
    let asked = raw(file, number, std::ptr::from_mut(value).expose_provenance() as c_ulong);
    asked.map(drop).map_err(|source| VfioError::Step { step, source })
}

/// An `ioctl` of this file's callers: with a number, or with the address of a structure of the size that its own first word, or
/// the request, states, alive and exclusively borrowed for the call.
pub(super) fn raw(file: &File, number: c_ulong, argument: c_ulong) -> io::Result<i32> {
    // SAFETY: as the function says; the kernel writes no further than `argsz`, which every caller sets to what it has.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), number as _, argument) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
