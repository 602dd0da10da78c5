//! An open file or block device, presented as a controller with one block namespace.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use byway_core::{
    AdminCommand, Capabilities, DEPTH_MAX, Error, ErrorKind, Identity, Limits, Methods, Namespace,
    NamespaceKind, Nsid, NvmCommands, Outcome, QueueOptions, Result,
};
use byway_link::Method;
use byway_sys::{PlainFile, PlainKind, PlainOptions};

/// Most bytes of one command: well below what the kernel moves by one call (2 GiB less a page).
pub(crate) const TRANSFER_MAX_BYTES: u64 = 1 << 30;

/// How a file or block device is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetOptions {
    /// Open for reading only.
    pub read_only: bool,
    /// Bypass the page cache (O_DIRECT): then blocks and memory are aligned as the device asks.
    pub direct: bool,
    /// Bytes of a logical block, a power of two from 512 to 65536; `None` for the smallest that can be.
    pub lba_bytes: Option<u32>,
    /// Make a file of this many bytes; refused if the path exists.
    pub create_bytes: Option<u64>,
}

impl TargetOptions {
    byway_sys::setters! {
        /// Open for reading only. Default: off.
        read_only: bool;
        /// Bypass the page cache (O_DIRECT). Default: off.
        direct: bool;
        /// Bytes of a logical block, a power of two from 512 to 65,536. Default: `None`, the smallest that the file or device supports.
        lba_bytes: impl Into<Option<u32>>;
        /// Make a file of this many bytes; refused if the path exists. Default: `None`, open what is there.
        create_bytes: impl Into<Option<u64>>;
    }
}

/// An open file or block device.
#[derive(Debug)]
pub struct Target {
    file: PlainFile,
    path: PathBuf,
    lba_shift: u32,
    blocks: u64,
    options: TargetOptions,
    identity: Identity,
}

impl Target {
    /// Opens `path`.
    ///
    /// # Errors
    /// When it cannot be opened, is neither a file nor a block device, or cannot have the options.
    pub fn open(path: &Path, options: TargetOptions) -> Result<Self> {
        let plain = PlainOptions::default()
            .read_only(options.read_only)
            .direct(options.direct)
            .create_bytes(options.create_bytes);
        let file = PlainFile::open(path, plain).map_err(|cause| refused(path, options, cause))?;
        if !matches!(file.kind(), PlainKind::File | PlainKind::Block) {
            let said = format!("{} is neither a file nor a block device", path.display());
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        let asking = |cause| Error::kernel(format!("asking {} for its size failed", path.display()), cause);
        let smallest = match (file.kind(), options.direct) {
            (PlainKind::File, false) => 512,
            _ => file.logical_block_bytes().map_err(asking)?.max(512),
        };
        let lba_bytes = lba_bytes(path, options, smallest)?;
        let blocks = file.len_bytes().map_err(asking)? / u64::from(lba_bytes);
        if blocks == 0 {
            let said = format!("{} has no room for a block of {lba_bytes} bytes", path.display());
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        let identity = identity_of(path, file.kind());
        let path = path.to_owned();
        Ok(Self { file, path, lba_shift: lba_bytes.trailing_zeros(), blocks, options, identity })
    }

    /// Identity made of the path and the kind of file, as neither has an Identify command.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its one namespace.
    ///
    /// # Errors
    /// When the system no longer reports the size.
    pub fn namespaces(&self) -> Result<Vec<Namespace>> {
        let kind = NamespaceKind::Nvm { lba_bytes: self.lba_bytes(), blocks: self.blocks };
        let size_bytes = self.blocks << self.lba_shift;
        let asking =
            |cause| Error::kernel(format!("asking {} for its size failed", self.path.display()), cause);
        let used_bytes = self.file.allocated_bytes().map_err(asking)?.min(size_bytes);
        Ok(vec![Namespace { nsid: Nsid::FIRST, kind, size_bytes, used_bytes, nguid: [0; 16] }])
    }

    /// What a backend can do with it, over an interface whose commands go on by themselves or not.
    #[must_use]
    pub fn capabilities(&self, overlaps: bool, cancel: bool) -> Capabilities {
        let memory_align_bytes = if self.options.direct { self.lba_bytes() } else { 1 };
        Capabilities { memory_align_bytes, overlaps, cancel, ..blocks_capabilities() }
    }

    /// Refuses an admin command: neither a file nor a block device has a controller to send it to.
    ///
    /// # Errors
    /// Always.
    pub fn admin(&self, _: &AdminCommand) -> Result<Outcome> {
        Err(Error::no_controller(self.path.display()))
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &PlainFile {
        &self.file
    }

    /// Whether it was opened past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.options.direct
    }

    /// Path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of a logical block.
    #[must_use]
    pub fn lba_bytes(&self) -> u32 {
        1 << self.lba_shift
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape {
            lba_shift: self.lba_shift,
            blocks: self.blocks,
            transfer_max_bytes: TRANSFER_MAX_BYTES,
            align_bytes: if self.options.direct { self.lba_bytes() } else { 1 },
            read_only: self.options.read_only,
        }
    }
}

impl AsFd for Target {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What commands to a namespace are checked against.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub lba_shift: u32,
    pub blocks: u64,
    pub transfer_max_bytes: u64,
    /// What a command's memory begins and ends on.
    pub align_bytes: u32,
    pub read_only: bool,
}

/// What an interface can do with blocks that have no controller of their own, whatever they are kept in.
pub(crate) fn blocks_capabilities() -> Capabilities {
    Capabilities {
        methods: Methods::NONE.with(Method::Prp),
        limits: Limits {
            transfer_bytes: TRANSFER_MAX_BYTES,
            queues: u16::MAX,
            ring_entries: DEPTH_MAX + 1,
            queue_depth: DEPTH_MAX,
            ..Limits::default()
        },
        raw_commands: true,
        nvm: NvmCommands::SINGLE,
        memory_align_bytes: 1,
        event: true,
        ..Capabilities::default()
    }
}

/// Refuses options of a queue that mean nothing without an NVMe ring of one's own.
pub(crate) fn check_queue(options: &QueueOptions) -> Result<()> {
    check_shape(options)?;
    options.without_inline_reads()?;
    if options.transfer != Method::Prp {
        let said = format!("transfer method {} is a matter of NVMe devices", options.transfer);
        return Err(Error::host(ErrorKind::Unsupported, said));
    }
    Ok(())
}

/// Refuses a depth and a ring that no queue of this library's has.
pub(crate) fn check_shape(options: &QueueOptions) -> Result<()> {
    let refuse = |kind, said: String| Err(Error::host(kind, said));
    let depth = options.depth.commands();
    if !(1..=DEPTH_MAX).contains(&depth) {
        let said = format!("a queue is 1 to {DEPTH_MAX} commands deep, not {depth}");
        return refuse(ErrorKind::InvalidArgument, said);
    }
    if options.ring_entries.is_some() {
        return refuse(ErrorKind::Unsupported, "this backend has no ring whose entries can be chosen".into());
    }
    Ok(())
}

fn lba_bytes(path: &Path, options: TargetOptions, smallest: u32) -> Result<u32> {
    let Some(asked) = options.lba_bytes else { return Ok(smallest) };
    if !asked.is_power_of_two() || !(512..=65_536).contains(&asked) {
        let said = format!("a block is a power of two of 512 to 65536 bytes, not {asked}");
        return Err(Error::host(ErrorKind::InvalidArgument, said));
    }
    if asked < smallest {
        let said = format!("{} has blocks of at least {smallest} bytes, not {asked}", path.display());
        return Err(Error::host(ErrorKind::Unsupported, said));
    }
    Ok(asked)
}

fn identity_of(path: &Path, kind: PlainKind) -> Identity {
    let model = if kind == PlainKind::Block { "Linux block device" } else { "Linux file" };
    let serial = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Identity { model: model.into(), serial, ..Identity::default() }
}

fn refused(path: &Path, options: TargetOptions, cause: std::io::Error) -> Error {
    let shown = path.display();
    let said = match cause.kind() {
        std::io::ErrorKind::IsADirectory => format!("{shown} is neither a file nor a block device"),
        std::io::ErrorKind::AlreadyExists => format!("{shown} exists already"),
        std::io::ErrorKind::InvalidInput if options.direct => {
            return Error::kernel(format!("{shown} cannot be opened past the page cache (direct)"), cause);
        }
        _ => return not_opened(path, options.read_only, cause),
    };
    Error::kernel(said, cause).covering_source()
}

/// Why a node or a file cannot be opened, said once: the system's own words follow where ours do not say it all.
pub(crate) fn not_opened(path: &Path, read_only: bool, cause: std::io::Error) -> Error {
    let shown = path.display();
    let said = match cause.kind() {
        std::io::ErrorKind::NotFound => format!("{shown} does not exist"),
        std::io::ErrorKind::PermissionDenied => {
            let what = if read_only { "read" } else { "read and written" };
            format!("{shown} may not be {what} by this user")
        }
        _ => return Error::kernel(format!("opening {shown} failed"), cause),
    };
    Error::kernel(said, cause).covering_source()
}
