//! A device node of an NVMe controller or namespace, and commands through it that return when they are done.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, major, minor, open};

use super::abi::{Passthrough, request};
use super::command::{NvmeAnswer, NvmeCommand, NvmeQueue};
use crate::lent::KernelMemory;

/// Bytes that one segment of a request can always have: a page.
const PAGE_BYTES: u64 = 4096;

/// What a device node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A controller, `/dev/nvme0`: takes admin commands.
    Controller,
    /// A namespace as a block device, `/dev/nvme0n1`.
    Block {
        /// Its number.
        nsid: u32,
    },
    /// A namespace as a character device, `/dev/ng0n1`: takes commands from io_urings too.
    Generic {
        /// Its number.
        nsid: u32,
    },
    /// A part of a namespace: takes no commands passed through.
    Partition,
    /// No node of an NVMe device.
    Other,
}

/// An open device node of an NVMe controller or namespace.
#[derive(Debug)]
pub struct NvmeNode {
    file: File,
    kind: NodeKind,
    /// The node's folder in sysfs.
    sysfs: PathBuf,
}

impl NvmeNode {
    /// Opens `path`, whatever it is: [`kind`](Self::kind) says which.
    ///
    /// # Errors
    /// The system's answer.
    pub fn open(path: &Path, read_only: bool) -> io::Result<Self> {
        // Do not wait for a writer of a pipe.
        let flags =
            if read_only { OFlags::RDONLY } else { OFlags::RDWR } | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(open(path, flags, Mode::empty())?);
        let found = fstat(&file)?;
        let number = format!("{}:{}", major(found.st_rdev), minor(found.st_rdev));
        let (sysfs, kind) = match FileType::from_raw_mode(found.st_mode) {
            FileType::CharacterDevice => {
                let sysfs = Path::new("/sys/dev/char").join(number);
                let kind = character(&file, &sysfs);
                (sysfs, kind)
            }
            FileType::BlockDevice => {
                let sysfs = Path::new("/sys/dev/block").join(number);
                let kind = block(&file, &sysfs);
                (sysfs, kind)
            }
            _ => (PathBuf::new(), NodeKind::Other),
        };
        Ok(Self { file, kind, sysfs })
    }

    /// Whether it is a controller, a namespace or a part of one, as found when it was opened.
    #[must_use]
    pub const fn kind(&self) -> NodeKind {
        self.kind
    }

    /// The node of the controller that a namespace's commands go to: one of them, where there are several.
    #[must_use]
    pub fn controller(&self) -> Option<PathBuf> {
        let parent = self.sysfs.join("device").canonicalize().ok()?;
        let is_controller = |path: &Path| path.join("cntlid").exists();
        let found = if self.kind == NodeKind::Controller {
            self.sysfs.canonicalize().ok()?
        } else if is_controller(&parent) {
            parent
        } else {
            // With multipath the parent of a namespace is its subsystem.
            let entries = std::fs::read_dir(parent).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
            entries.filter_map(|path| path.canonicalize().ok()).find(|path| is_controller(path))?
        };
        Some(Path::new("/dev").join(found.file_name()?))
    }

    /// Most bytes of memory that the kernel passes on with one command: what its limits of length and of pieces leave to
    /// memory that lies scattered, page by page. `None` where the kernel does not report it.
    #[must_use]
    pub fn transfer_max_bytes(&self) -> Option<u64> {
        let queue = self.queue_folder()?;
        let limit = |name| std::fs::read_to_string(queue.join(name)).ok()?.trim().parse::<u64>().ok();
        let length = limit("max_hw_sectors_kb")?.checked_mul(1024)?;
        let pieces = limit("max_segments")?.checked_mul(PAGE_BYTES)?;
        Some(length.min(pieces))
    }

    /// The sysfs folder with the queue limits: the block device's, which a key-value namespace does not have.
    fn queue_folder(&self) -> Option<PathBuf> {
        let sysfs = self.sysfs.canonicalize().ok()?;
        let here = sysfs.join("queue");
        if here.exists() {
            return Some(here);
        }
        let block = sysfs.file_name()?.to_str()?.replacen("ng", "nvme", 1);
        Some(Path::new("/sys/block").join(block).join("queue")).filter(|folder| folder.exists())
    }

    /// Sends a command and waits for the device's answer.
    ///
    /// The device is given the addresses of the memory; that the command moves no more than this is its sender's care
    /// (see the module's text).
    ///
    /// # Errors
    /// The kernel's answer, where it did not send the command or gave it up. A device's refusal is a status.
    pub fn pass(&self, command: &NvmeCommand, memory: &mut impl KernelMemory) -> io::Result<NvmeAnswer> {
        let segments = if command.keeps_data { 0 } else { memory.segments() };
        let pieces: Vec<libc::iovec> = (0..segments)
            .filter_map(|index| memory.segment(index))
            .filter(|(_, len)| *len > 0)
            .map(|(start, len)| libc::iovec { iov_base: start.as_ptr().cast(), iov_len: len })
            .collect();
        match pieces.as_slice() {
            [] => self.send(number_of(command, false)?, command.passthrough(0, 0)),
            [one] => {
                let len = u32::try_from(one.iov_len).map_err(|_| io::ErrorKind::InvalidInput)?;
                let passed = command.passthrough(one.iov_base.addr() as u64, len);
                self.send(number_of(command, false)?, passed)
            }
            several => {
                let passed = command.passthrough(several.as_ptr().addr() as u64, several.len() as u32);
                self.send(number_of(command, true)?, passed)
            }
        }
    }

    fn send(&self, number: libc::c_ulong, mut passed: Passthrough) -> io::Result<NvmeAnswer> {
        // SAFETY: the structure has the size that the request's number states; the memory that it names is, by
        // `KernelMemory`, the kernel's alone until the call returns, and the pieces of it live as long as the call.
        let status = unsafe { libc::ioctl(self.file.as_raw_fd(), number as _, &raw mut passed) };
        match u16::try_from(status) {
            Ok(status) => Ok(NvmeAnswer { status, result: passed.result }),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// Resets the controller; commands under way are begun again by the kernel or fail.
    ///
    /// # Errors
    /// The system's answer.
    pub fn reset(&self) -> io::Result<()> {
        plain(&self.file, request::RESET).map(drop)
    }

    /// Resets every controller of the subsystem.
    ///
    /// # Errors
    /// The system's answer.
    pub fn reset_subsystem(&self) -> io::Result<()> {
        plain(&self.file, request::SUBSYSTEM_RESET).map(drop)
    }

    /// Has the kernel look for namespaces anew.
    ///
    /// # Errors
    /// The system's answer.
    pub fn rescan(&self) -> io::Result<()> {
        plain(&self.file, request::RESCAN).map(drop)
    }
}

impl AsFd for NvmeNode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The request's number; the kernel has none for an admin command with several pieces of memory.
fn number_of(command: &NvmeCommand, vectored: bool) -> io::Result<libc::c_ulong> {
    match (command.queue, vectored) {
        (NvmeQueue::Io, false) => Ok(request::IO),
        (NvmeQueue::Io, true) => Ok(request::IO_VECTORED),
        (NvmeQueue::Admin, false) => Ok(request::ADMIN),
        (NvmeQueue::Admin, true) => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn character(file: &File, sysfs: &Path) -> NodeKind {
    let subsystem = sysfs.join("subsystem").canonicalize().ok();
    match subsystem.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()) {
        Some("nvme") => NodeKind::Controller,
        Some("nvme-generic") => nsid(file).map_or(NodeKind::Other, |nsid| NodeKind::Generic { nsid }),
        _ => NodeKind::Other,
    }
}

fn block(file: &File, sysfs: &Path) -> NodeKind {
    let name = sysfs.canonicalize().ok();
    let name = name.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    // The number is asked of nothing but what calls itself NVMe: another driver may have another use for it.
    match name.filter(|name| name.starts_with("nvme")).and_then(|_| nsid(file)) {
        Some(_) if sysfs.join("partition").exists() => NodeKind::Partition,
        Some(nsid) => NodeKind::Block { nsid },
        None => NodeKind::Other,
    }
}

fn nsid(file: &File) -> Option<u32> {
    plain(file, request::ID).ok().and_then(|nsid| u32::try_from(nsid).ok()).filter(|nsid| *nsid > 0)
}

/// A request that takes nothing and answers with a number.
fn plain(file: &File, number: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: these requests read and write no memory of the process.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), number as _) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// No memory.
    struct Nothing;

    // SAFETY: it names no bytes.
    unsafe impl KernelMemory for Nothing {
        fn segments(&self) -> usize {
            0
        }

        fn segment(&self, _: usize) -> Option<(std::ptr::NonNull<u8>, usize)> {
            None
        }
    }

    #[test]
    fn files_and_other_devices_are_no_nvme_nodes_and_take_no_commands() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"no device").unwrap();
        for path in [path.as_path(), Path::new("/dev/null")] {
            let node = NvmeNode::open(path, true).unwrap();
            assert_eq!(node.kind(), NodeKind::Other, "{}", path.display());
            let refused = node.pass(&NvmeCommand::default(), &mut Nothing).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::ENOTTY), "{}", path.display());
            assert_eq!(node.controller(), None);
            assert!(node.reset().is_err() && node.rescan().is_err() && node.reset_subsystem().is_err());
        }
        assert!(NvmeNode::open(&folder.path().join("nothing"), true).is_err());
    }
}
