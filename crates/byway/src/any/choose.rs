//! Which backend serves a file or block device, and why that one.

use std::path::Path;
use std::sync::Arc;

use byway_backends::{IoUring, Libaio, Nil, PosixAio, Psync, Target, TargetOptions, Threads, ThreadsOptions};
use byway_core::{Error, ErrorKind, Result};

use crate::any::address::{BlockOptions, BlockPlace, BlockUri, IO_URING_OPTIONS};
use crate::any::device::Reached;

/// The backend that serves a device, and why that one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub backend: &'static str,
    /// Why it.
    pub why: String,
    /// Faster ones that could not serve the device.
    pub passed_over: Vec<PassedOver>,
}

/// A backend that could not serve a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// Its name.
    pub backend: &'static str,
    /// Why not.
    pub why: String,
}

/// A backend that can serve files and block devices.
struct Candidate {
    name: &'static str,
    /// What speaks for it.
    good_for: &'static str,
    /// Options that mean something to it, beside those of every backend.
    takes: &'static [&'static str],
    reach: fn(&Arc<Target>, &BlockOptions) -> Result<Reached>,
}

/// The backends of files and block devices: those whose commands go on by themselves first, then the fastest first.
const CANDIDATES: &[Candidate] = &[
    Candidate {
        name: IoUring::NAME,
        good_for: "the fastest whose commands go on by themselves",
        takes: IO_URING_OPTIONS,
        reach: |target, options| Ok(Reached::IoUring(IoUring::new(Arc::clone(target), options.io_uring)?)),
    },
    Candidate {
        name: Libaio::NAME,
        good_for: "commands go on by themselves: many of them by a system call, completions by none",
        takes: &[],
        reach: |target, _| Ok(Reached::Libaio(Libaio::new(Arc::clone(target))?)),
    },
    Candidate {
        name: Threads::NAME,
        good_for: "commands go on by themselves: system calls by a pool of threads",
        takes: &["threads"],
        reach: |target, options| {
            let options = ThreadsOptions { threads: options.threads };
            Ok(Reached::Threads(Threads::new(Arc::clone(target), options)?))
        },
    },
    Candidate {
        name: Psync::NAME,
        good_for: "one system call a command, in the caller's thread",
        takes: &[],
        reach: |target, _| Ok(Reached::Psync(Psync::new(Arc::clone(target)))),
    },
    Candidate {
        name: PosixAio::NAME,
        good_for: "commands go on by themselves, one after the other: a thread of the C library's",
        takes: &[],
        reach: |target, _| Ok(Reached::PosixAio(PosixAio::new(Arc::clone(target)))),
    },
];

/// Opens blocks by the backend that is asked for, or the fastest that can serve them.
pub(crate) fn reach(uri: &BlockUri) -> Result<(Reached, Chosen)> {
    let path = match &uri.place {
        BlockPlace::Nil(size_bytes) => return reach_nil(*size_bytes, &uri.options),
        BlockPlace::Path(path) => {
            refuse_image(path)?;
            path
        }
        BlockPlace::File(path) => path,
    };
    let candidates = match &uri.options.backend {
        Some(asked) => std::slice::from_ref(named(asked)?),
        None => CANDIDATES,
    };
    let target = Arc::new(Target::open(path, target_options(&uri.options))?);
    first_that_can(candidates, &target, &uri.options)
}

fn first_that_can(
    candidates: &[Candidate],
    target: &Arc<Target>,
    options: &BlockOptions,
) -> Result<(Reached, Chosen)> {
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

impl Candidate {
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

fn named(asked: &str) -> Result<&'static Candidate> {
    let unknown = || {
        let known: Vec<&str> = CANDIDATES.iter().map(|candidate| candidate.name).collect();
        let said = format!(
            "there is no backend {asked:?} for files and block devices; there are {}",
            known.join(", ")
        );
        Error::host(ErrorKind::InvalidArgument, said)
    };
    CANDIDATES.iter().find(|candidate| candidate.name == asked).ok_or_else(unknown)
}

fn reach_nil(size_bytes: u64, options: &BlockOptions) -> Result<(Reached, Chosen)> {
    if let Some(other) = options.backend.as_deref().filter(|name| *name != Nil::NAME) {
        let said = format!("nil:SIZE is served by nil, not by {other:?}");
        return Err(Error::host(ErrorKind::InvalidArgument, said));
    }
    if let Some(unread) = options.of_one_backend().first() {
        let said = format!("option {unread} means nothing to nil");
        return Err(Error::host(ErrorKind::InvalidArgument, said));
    }
    let why = "there is no device to serve".to_owned();
    let chosen = Chosen { backend: Nil::NAME, why, passed_over: Vec::new() };
    Ok((Reached::Nil(Nil::new(size_bytes)?), chosen))
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
    let said = format!(
        "{path} holds a Byway device: embedded:{path} opens it, file:{path} the bytes of the image",
        path = path.display()
    );
    Err(Error::host(ErrorKind::InvalidArgument, said))
}
