//! Why memory of a device is not had, or not as it was asked for.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What a region refused, each in one sentence that says why.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The text names no region.
    #[error("{0:?} is no region: expected emu:PATH, fsdax:DIR or devdax:/dev/daxX.Y")]
    Unknown(String),
    /// An option that is not known, has a wrong value or has no meaning here.
    #[error("option {option}: {why}")]
    Option {
        /// As it was given.
        option: String,
        /// What is wrong with it.
        why: String,
    },
    /// What is there is not what was asked for.
    #[error("{}: {why}", path.display())]
    Refused {
        /// Of what.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The system refused something.
    #[error("{}: could not {doing}", path.display())]
    System {
        /// Of what.
        path: PathBuf,
        /// What could not be done, as a verb phrase: "open it".
        doing: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A range that is not in the region, or not of whole pages.
    #[error(
        "bytes {start} to {end} are not whole pages of {align_bytes} bytes in a region of {region_bytes} bytes"
    )]
    Range {
        /// First byte.
        start: u64,
        /// First byte after it.
        end: u64,
        /// What a range is to be a multiple of.
        align_bytes: u64,
        /// Length of the region.
        region_bytes: u64,
    },
    /// A range that cannot be kept resident.
    #[error("bytes {start} to {end} are not admitted: {why}")]
    NotAdmitted {
        /// First byte.
        start: u64,
        /// First byte after it.
        end: u64,
        /// Why not.
        why: String,
    },
    /// The device cannot.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The model of the device's flash refused something.
    #[error("the modelled flash")]
    Flash(#[from] byway_flash::FlashError),
}

/// Something that a device does not offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{what} is not offered: {why}")]
pub struct Unsupported {
    /// What the device does not offer, as a noun: "pinning".
    pub what: &'static str,
    /// Why not.
    pub why: &'static str,
}

impl RegionError {
    pub(crate) fn refused(path: &Path, why: impl Into<String>) -> Self {
        Self::Refused { path: path.to_path_buf(), why: why.into() }
    }

    pub(crate) fn option(option: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Option { option: option.into(), why: why.into() }
    }

    /// For `map_err`: the system's answer, with what was being done to what.
    pub(crate) fn system(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::System { path, doing, source }
    }
}
