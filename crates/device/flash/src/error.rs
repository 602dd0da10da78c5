//! What can go wrong, each in one sentence.

use std::io;
use std::path::PathBuf;

use byway_sys::{Bytes, FileError};
use thiserror::Error;

/// Why an image could not be made or opened. A refused image is left as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file has no Byway superblock.
    #[error("{} is not a Byway image", path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
    },
    /// The format version is another one.
    #[error("{} is a Byway image of format version {found}; this program knows version {known}", path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Version in the superblock.
        found: u32,
        /// Version of this program.
        known: u32,
    },
    /// The image uses features that this program would damage or misread.
    #[error("{} uses image features unknown to this program (bits {bits:#x})", path.display())]
    UnknownFeatures {
        /// The file.
        path: PathBuf,
        /// The unknown bits.
        bits: u64,
    },
    /// The image uses features that allow this program to read it only.
    #[error("{} uses image features (bits {bits:#x}) that this program can only read: readonly=1 opens it", path.display())]
    ReadableOnly {
        /// The file.
        path: PathBuf,
        /// The unknown bits.
        bits: u64,
    },
    /// The file is shorter than its superblock says.
    #[error("{} is truncated: it has {found_bytes} bytes of at least {expected_bytes}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Length by the superblock, or the superblock's own.
        expected_bytes: u64,
        /// Length of the file.
        found_bytes: u64,
    },
    /// A structure does not match its checksum.
    #[error("{} is damaged: {what} does not match its checksum", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The structure.
        what: String,
    },
    /// Another opener has the image.
    #[error(
        "{} is in use by another process or another opener in this one; follow=1 reads it beside a writer",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file may not be written and read-only was not asked for.
    #[error("{} is read-only here: readonly=1 opens it to look inside", path.display())]
    ReadOnlyFile {
        /// The file.
        path: PathBuf,
    },
    /// Power was lost while the image was open: what it holds is known once it was opened for writing.
    #[error("{} was not closed before power was lost: open it for writing once, then it can be followed", path.display())]
    Unrecovered {
        /// The file.
        path: PathBuf,
    },
    /// The image cannot be read beside a writer.
    #[error("{} cannot be followed: {why}", path.display())]
    NotFollowed {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// The size asked for is below the least.
    #[error("an image of {} is too small; the least is {}", Bytes(*asked_bytes), Bytes(*least_bytes))]
    TooSmall {
        /// Size asked for.
        asked_bytes: u64,
        /// Least size.
        least_bytes: u64,
    },
    /// The size asked for is beyond what block numbers count.
    #[error("an image of {asked_bytes} bytes is larger than the format can number")]
    TooLarge {
        /// Size asked for.
        asked_bytes: u64,
    },
    /// The profile describes an array that the image format cannot hold.
    #[error("the flash profile cannot be used: {0}")]
    BadProfile(&'static str),
    /// The file itself: missing, there already, on a full disk, or what the system says.
    #[error(transparent)]
    File(FileError),
}

impl From<FileError> for ImageError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::InUse { path } => Self::InUse { path },
            FileError::ReadOnly { path } => Self::ReadOnlyFile { path },
            other => Self::File(other),
        }
    }
}

/// What an operation on the flash can end in.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FlashError {
    /// The image could not be made or opened.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// What was written cannot be read back.
    #[error("media error in block {block}, page {page}: {why}")]
    Media {
        /// The block.
        block: u32,
        /// The page in the block.
        page: u32,
        /// What did not match.
        why: &'static str,
    },
    /// The map entry of a unit or page is damaged, or what it pointed to was lost.
    #[error("the data at unit {index} of namespace {nsid} is lost: {why}")]
    Lost {
        /// The namespace.
        nsid: u32,
        /// Unit or page in the namespace.
        index: u64,
        /// What happened.
        why: &'static str,
    },
    /// The range is outside the namespace's extent.
    #[error("{len_bytes} bytes at {at_bytes} are outside the extent of {extent_bytes} bytes")]
    OutOfRange {
        /// Start of the range.
        at_bytes: u64,
        /// Its length.
        len_bytes: u64,
        /// Length of the extent.
        extent_bytes: u64,
    },
    /// A length or an extent kind that the operation does not take.
    #[error("{0}")]
    Misuse(&'static str),
    /// The medium could not do what it was asked to: the block is bad.
    #[error("the medium failed to {doing} in block {block}")]
    MediumFailed {
        /// Program or erase.
        doing: &'static str,
        /// The block.
        block: u32,
    },
    /// More blocks went bad than there were to spare. Everything can still be read.
    #[error("no spare blocks are left: the device can only be read")]
    WornOut,
    /// No free block is left and none can be made.
    #[error("the flash is full")]
    Full,
    /// The image's disk is full or the file system failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// A sync failed before: its data may be lost, and no later sync proves anything.
    #[error(
        "an earlier sync of the image failed; what was stored since the last one that succeeded may be lost"
    )]
    Unsynced,
    /// Another program cut the image's file short while it was open.
    #[error(
        "the image was cut short or overwritten by another program while it was open: nothing more is kept"
    )]
    CutShort,
    /// The process that writes the image changed what was read, again and again, or is in the midst of a change of the whole device.
    #[error("the process that writes the image was changing what was read: try again")]
    Overtaken,
    /// Writing the image failed before: the device can only be read until it is opened again.
    #[error(
        "the device is read-only since {doing} its image failed; open it again once the file system is well"
    )]
    Stopped {
        /// What failed.
        doing: &'static str,
    },
    /// Memory could not be had.
    #[error("no memory for the device")]
    Memory(#[source] io::Error),
    /// The image was opened read-only, or a sync of it failed.
    #[error("the image can only be read")]
    ReadOnly,
    /// No namespace has that number.
    #[error("there is no namespace {0}")]
    NoNamespace(u32),
    /// A namespace has that number already.
    #[error("namespace {0} exists already")]
    NamespaceExists(u32),
    /// The namespace does not fit.
    #[error("a namespace of {} does not fit: {} are not in any namespace", Bytes(*asked_bytes), Bytes(*free_bytes))]
    NoCapacity {
        /// Size asked for.
        asked_bytes: u64,
        /// Bytes in no namespace.
        free_bytes: u64,
    },
    /// A device is to become smaller than its namespaces.
    #[error("its namespaces have {} together, which a device of {} does not hold", Bytes(*namespaces_bytes), Bytes(*size_bytes))]
    TooSmall {
        /// Bytes of all namespaces.
        namespaces_bytes: u64,
        /// Size asked for.
        size_bytes: u64,
    },
    /// The caller's progress callback cancelled a long operation.
    #[error("ended before it was done; everything is as it was")]
    Ended,
    /// A table of the image has no free entry.
    #[error("the image holds no more {0}")]
    TableFull(&'static str),
    /// A protected area of that name exists already.
    #[error("protected area {id} of namespace {nsid} exists already")]
    AreaExists {
        /// Namespace of the area.
        nsid: u32,
        /// Its name.
        id: u32,
    },
}
