//! Which backend serves a file, a block device or an NVMe device, and why that one.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use byway_backends::nvme::NodeKind;
use byway_backends::{
    IoUring, IoUringCmd, Libaio, Nil, NvmeIoctl, NvmeTarget, PosixAio, Psync, Ram, RamDisk, Target,
    TargetOptions, Threads, ThreadsOptions,
};
use byway_core::{Error, ErrorKind, Result};

use crate::device::chosen::{Chosen, PassedOver};
use crate::device::kind::DeviceKind;
use crate::uri::{BlockOptions, BlockPlace, BlockUri, IO_URING_CMD_OPTIONS, IO_URING_OPTIONS, of_image};

/// A backend that can serve devices of a kind.
struct Candidate<T: 'static> {
    name: &'static str,
    /// What speaks for it.
    good_for: &'static str,
    /// Options that mean something to it, beside those of every backend.
    takes: &'static [&'static str],
    reach: fn(&Arc<T>, &BlockOptions) -> Result<DeviceKind>,
}

/// The backends of files and block devices, in the order of preference: POSIX AIO is last, as it does one command at a time.
#[cfg(feature = "kernel")]
const CANDIDATES: &[Candidate<Target>] = &[
    Candidate {
        name: IoUring::NAME,
        good_for: "the fastest whose commands go on by themselves",
        takes: IO_URING_OPTIONS,
        reach: |target, options| Ok(DeviceKind::IoUring(IoUring::new(Arc::clone(target), options.io_uring)?)),
    },
    Candidate {
        name: Libaio::NAME,
        good_for: "commands go on by themselves: many of them by a system call, completions by none",
        takes: &[],
        reach: |target, _| Ok(DeviceKind::Libaio(Libaio::new(Arc::clone(target))?)),
    },
    Candidate {
        name: Threads::NAME,
        good_for: "commands go on by themselves: system calls by a pool of threads",
        takes: &["threads"],
        reach: |target, options| {
            let options = ThreadsOptions { threads: options.threads };
            Ok(DeviceKind::Threads(Threads::new(Arc::clone(target), options)?))
        },
    },
    Candidate {
        name: Psync::NAME,
        good_for: "one system call a command, in the caller's thread",
        takes: &[],
        reach: |target, _| Ok(DeviceKind::Psync(Psync::new(Arc::clone(target)))),
    },
    Candidate {
        name: PosixAio::NAME,
        good_for: "commands go on by themselves, one after the other: a thread of the C library's",
        takes: &[],
        reach: |target, _| Ok(DeviceKind::PosixAio(PosixAio::new(Arc::clone(target)))),
    },
];

/// The backends of NVMe device nodes that take commands as they are, in the same order.
#[cfg(feature = "kernel")]
const NVME_CANDIDATES: &[Candidate<NvmeTarget>] = &[
    Candidate {
        name: IoUringCmd::NAME,
        good_for: "the fastest by which the kernel passes commands through, and they go on by themselves",
        takes: IO_URING_CMD_OPTIONS,
        reach: |target, options| match target.kind() {
            // A ring over a controller's node carries no I/O commands.
            NodeKind::Controller if options.backend.is_none() => Err(admin_commands_alone()),
            _ => Ok(DeviceKind::IoUringCmd(IoUringCmd::new(Arc::clone(target), options.io_uring)?)),
        },
    },
    Candidate {
        name: Threads::NAME,
        good_for: "commands go on by themselves: a pool of threads has the kernel pass them through",
        takes: &["threads", "transfer"],
        reach: |target, options| match target.kind() {
            NodeKind::Controller if options.backend.is_none() => Err(admin_commands_alone()),
            _ => {
                let options = ThreadsOptions { threads: options.threads };
                Ok(DeviceKind::NvmeThreads(Threads::new(Arc::clone(target), options)?))
            }
        },
    },
    Candidate {
        name: NvmeIoctl::NAME,
        good_for: "the kernel passes commands through, one system call each",
        takes: &["transfer"],
        reach: |target, _| Ok(DeviceKind::NvmeIoctl(NvmeIoctl::new(Arc::clone(target)))),
    },
];

/// Opens blocks by the backend that is asked for, or the fastest that can serve them.
pub(crate) fn reach(uri: &BlockUri) -> Result<(DeviceKind, Chosen)> {
    let path = match &uri.place {
        BlockPlace::Nil(size_bytes) => return reach_nil(*size_bytes, &uri.options),
        BlockPlace::Memory(size_bytes) => return reach_memory(*size_bytes, &uri.options),
        BlockPlace::Path(path) => {
            refuse_image(path)?;
            path
        }
        BlockPlace::File(path) => path,
    };
    by_the_kernel(path, &uri.options)
}

#[cfg(not(feature = "kernel"))]
fn by_the_kernel(_: &Path, _: &BlockOptions) -> Result<(DeviceKind, Chosen)> {
    Err(crate::uri::left_out("kernel"))
}

#[cfg(feature = "kernel")]
fn by_the_kernel(path: &Path, options: &BlockOptions) -> Result<(DeviceKind, Chosen)> {
    if takes_commands(path, options) {
        if let Some(unread) = options.of_blocks() {
            let said = format!("option {unread} means nothing where commands are passed through");
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        let candidates = asked_for(NVME_CANDIDATES, options)?;
        let target = Arc::new(NvmeTarget::open(path, options.read_only)?);
        return first_that_can(candidates, &target, options);
    }
    let candidates = asked_for(CANDIDATES, options)?;
    let target = Arc::new(Target::open(path, target_options(options))?);
    first_that_can(candidates, &target, options)
}

/// Whether commands are passed through unchanged: to a character device, or where a backend is asked for that does
/// nothing else.
#[cfg(feature = "kernel")]
fn takes_commands(path: &Path, options: &BlockOptions) -> bool {
    let Some(asked) = &options.backend else { return is_character_device(path) };
    let passes_commands = NVME_CANDIDATES.iter().any(|candidate| candidate.name == asked);
    let moves_blocks = CANDIDATES.iter().any(|candidate| candidate.name == asked);
    passes_commands && (!moves_blocks || is_character_device(path))
}

fn is_character_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device())
}

fn admin_commands_alone() -> Error {
    Error::host(ErrorKind::Unsupported, "a controller's node takes admin commands alone")
}

fn first_that_can<T>(
    candidates: &[Candidate<T>],
    target: &Arc<T>,
    options: &BlockOptions,
) -> Result<(DeviceKind, Chosen)> {
    let mut passed_over = Vec::new();
    for candidate in candidates {
        let reached = candidate.refuse_unread(options).and_then(|()| (candidate.reach)(target, options));
        match reached {
            Ok(reached) => {
                let why = if options.backend.is_some() { "it was asked for" } else { candidate.good_for };
                let chosen = Chosen { backend: candidate.name, why: why.into(), passed_over };
                return Ok((reached, chosen));
            }
            Err(error) if options.backend.is_some() => return Err(error.doing(candidate.name)),
            Err(error) => {
                passed_over.push(PassedOver { backend: candidate.name, why: error.to_string() });
            }
        }
    }
    Err(none_can(&passed_over))
}

impl<T> Candidate<T> {
    /// Refuses an option that is given and that this backend would not read.
    fn refuse_unread(&self, options: &BlockOptions) -> Result<()> {
        let Some(unread) = options.of_one_backend().into_iter().find(|name| !self.takes.contains(name))
        else {
            return Ok(());
        };
        Err(Error::host(
            ErrorKind::InvalidArgument,
            format!("option {unread} means nothing to {}", self.name),
        ))
    }
}

fn none_can(tried: &[PassedOver]) -> Error {
    let tried: Vec<String> = tried.iter().map(|one| format!("{}: {}", one.backend, one.why)).collect();
    Error::host(ErrorKind::Unsupported, format!("no backend can serve it; tried {}", tried.join("; ")))
}

/// The candidate that is asked for, or all.
#[cfg(feature = "kernel")]
fn asked_for<T>(
    candidates: &'static [Candidate<T>],
    options: &BlockOptions,
) -> Result<&'static [Candidate<T>]> {
    let Some(asked) = &options.backend else { return Ok(candidates) };
    let found = candidates.iter().find(|candidate| candidate.name == asked);
    found.map(std::slice::from_ref).ok_or_else(|| unknown_backend(asked))
}

#[cfg(feature = "kernel")]
fn unknown_backend(asked: &str) -> Error {
    let of_blocks: Vec<&str> = CANDIDATES.iter().map(|one| one.name).collect();
    let of_commands = NVME_CANDIDATES.iter().map(|one| one.name).filter(|name| !of_blocks.contains(name));
    let known = of_blocks.iter().copied().chain(of_commands).collect::<Vec<&str>>().join(", ");
    let said = format!("there is no backend {asked:?} for files and devices; there are {known}");
    Error::host(ErrorKind::InvalidArgument, said)
}

fn reach_nil(size_bytes: u64, options: &BlockOptions) -> Result<(DeviceKind, Chosen)> {
    refuse_others("nil:SIZE", Nil::NAME, options)?;
    let why = "there is no device to serve".to_owned();
    let chosen = Chosen { backend: Nil::NAME, why, passed_over: Vec::new() };
    Ok((DeviceKind::Nil(Nil::new(size_bytes)?), chosen))
}

fn reach_memory(size_bytes: u64, options: &BlockOptions) -> Result<(DeviceKind, Chosen)> {
    refuse_others("blocks:SIZE", Ram::NAME, options)?;
    let why = "the blocks are in this process's memory".to_owned();
    let chosen = Chosen { backend: Ram::NAME, why, passed_over: Vec::new() };
    Ok((DeviceKind::Ram(Ram::new(Arc::new(RamDisk::new(size_bytes)?))), chosen))
}

/// Refuses another backend, and options of others, for what one alone can serve.
fn refuse_others(uri: &str, name: &str, options: &BlockOptions) -> Result<()> {
    if let Some(other) = options.backend.as_deref().filter(|asked| *asked != name) {
        let said = format!("{uri} is served by {name}, not by {other:?}");
        return Err(Error::host(ErrorKind::InvalidArgument, said));
    }
    match options.of_one_backend().first() {
        Some(unread) => {
            let said = format!("option {unread} means nothing to {name}");
            Err(Error::host(ErrorKind::InvalidArgument, said))
        }
        None => Ok(()),
    }
}

fn target_options(options: &BlockOptions) -> TargetOptions {
    TargetOptions {
        read_only: options.read_only,
        direct: options.direct,
        lba_bytes: options.lba_bytes,
        create_bytes: options.create_bytes,
    }
}

/// Refuses a path that stands alone and leads to an image: its blocks are not what is meant, and writing them destroys
/// the device in it.
fn refuse_image(path: &Path) -> Result<()> {
    if !byway_flash::is_image(path) {
        return Ok(());
    }
    let uri = of_image(path);
    let said = format!(
        "{} holds a Byway device: {uri} opens it, {} the bytes of the image",
        path.display(),
        uri.replacen("embedded:", "file:", 1)
    );
    Err(Error::host(ErrorKind::InvalidArgument, said))
}
