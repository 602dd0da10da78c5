//! The kernel's interfaces to files, block devices and NVMe nodes, in order of preference.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use byway_backends::nvme::NodeKind;
use byway_backends::{
    IoUring, IoUringCmd, Libaio, NvmeIoctl, NvmeTarget, PosixAio, Psync, Target, TargetOptions, Threads,
    ThreadsOptions,
};
use byway_core::{Error, ErrorKind, Result};

use crate::device::chosen::{Chosen, PassedOver};
use crate::device::kind::DeviceKind;
use crate::uri::{BlockOptions, IO_URING_CMD_OPTIONS, IO_URING_OPTIONS};

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
            let options = ThreadsOptions::of(options.threads);
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
                let options = ThreadsOptions::of(options.threads);
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

/// Opens the file or device at a path by the backend that is asked for, or the fastest that can serve it.
pub(crate) fn reach_path(path: &Path, options: &BlockOptions) -> Result<(DeviceKind, Chosen)> {
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
fn asked_for<T>(
    candidates: &'static [Candidate<T>],
    options: &BlockOptions,
) -> Result<&'static [Candidate<T>]> {
    let Some(asked) = &options.backend else { return Ok(candidates) };
    let found = candidates.iter().find(|candidate| candidate.name == asked);
    found.map(std::slice::from_ref).ok_or_else(|| unknown_backend(asked))
}

fn unknown_backend(asked: &str) -> Error {
    let of_blocks: Vec<&str> = CANDIDATES.iter().map(|one| one.name).collect();
    let of_commands = NVME_CANDIDATES.iter().map(|one| one.name).filter(|name| !of_blocks.contains(name));
    let known = of_blocks.iter().copied().chain(of_commands).collect::<Vec<&str>>().join(", ");
    let said = format!("there is no backend {asked:?} for files and devices; there are {known}");
    Error::host(ErrorKind::InvalidArgument, said)
}

fn target_options(options: &BlockOptions) -> TargetOptions {
    TargetOptions::default()
        .read_only(options.read_only)
        .direct(options.direct)
        .lba_bytes(options.lba_bytes)
        .create_bytes(options.create_bytes)
}
