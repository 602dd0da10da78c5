//! What is chosen when a device is made, and whenever it is opened.

use std::sync::Arc;

use byway_link::FlashProfile;
use byway_sys::FileEvents;

use crate::block::FactoryBad;
use crate::durability::{Durability, SyncPoint};
use crate::injection::Injection;
use crate::media::{MediaKind, Reads};
use crate::retention::RetentionLimits;

/// A device to be made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FlashOptions {
    /// Bytes that its namespaces may hold, all together.
    pub size_bytes: u64,
    /// The array it models.
    pub profile: FlashProfile,
    /// Name of the profile, at most 32 bytes; kept with the image.
    pub profile_name: String,
    /// What its pages are kept on.
    pub media: MediaKind,
    /// Whether operations take modelled time. They are done and counted either way.
    pub timing: bool,
    /// Identifier of the device; identifiers of namespaces follow from it. The caller is the source of randomness.
    pub uuid: [u8; 16],
    /// How the device is run.
    pub run: RunOptions,
    /// Flash beyond `size_bytes`, in percent of it. It stands in the image's profile in place of the modelled drive's.
    pub over_provisioning_percent: u32,
    /// Blocks that are bad from the start. They are taken from the over-provisioning.
    pub factory_bad: FactoryBad,
}

/// Over-provisioning of a device that asks for none. Filled to 95 % and overwritten at random it programs less than
/// two bytes for each byte written; `byway-lab endurance` shows it. The image is sparse, so what is not used is not
/// taken.
pub const DEFAULT_OVER_PROVISIONING_PERCENT: u32 = 28;

impl FlashOptions {
    /// A device of `size_bytes` with timing on, no profile name and a zero identifier.
    #[must_use]
    pub const fn new(size_bytes: u64, profile: FlashProfile, media: MediaKind) -> Self {
        Self {
            size_bytes,
            profile,
            profile_name: String::new(),
            media,
            timing: true,
            uuid: [0; 16],
            run: RunOptions::new(),
            over_provisioning_percent: DEFAULT_OVER_PROVISIONING_PERCENT,
            factory_bad: FactoryBad { ppm: 0, seed: 0 },
        }
    }

    byway_sys::setters! {
        /// Name of the profile, at most 32 bytes.
        profile_name: impl Into<String>;
        /// Whether operations take modelled time.
        timing: bool;
        /// Identifier of the device.
        uuid: [u8; 16];
        /// How the device is run.
        run: RunOptions;
        /// Flash beyond `size_bytes`, in percent of it.
        over_provisioning_percent: u32;
        /// Blocks that are bad from the start.
        factory_bad: FactoryBad;
    }

    pub(crate) fn how(&self) -> How {
        How { timing: self.timing, run: self.run.clone(), factory_bad: self.factory_bad }
    }
}

/// How a device is run, whether made or opened. Nothing of it is kept in the image.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// What a completion promises.
    pub durability: Durability,
    /// Called before each operation on the image's file, and may make it fail: for tests.
    pub events: Option<Arc<dyn FileEvents>>,
    /// How pages are read. With `events` those of an image file are read by system calls in any case.
    pub reads: Reads,
    /// Take all memory of a medium in memory at once, not as it is first written.
    pub prefault: bool,
    /// A sync point to leave out: for the test that proves each of them necessary.
    pub left_out: Option<SyncPoint>,
    /// Operations of the medium that shall fail.
    pub injection: Option<Injection>,
    /// Read disturb and retention: page reads of a block, and pages programmed since it was filled, past which its data is lost; `refresh`
    /// moves data before. Default: no limits.
    pub retention: RetentionLimits,
    /// Treat an image that was not closed as one that lost real power, even if the kernel's boot identifier is the same: for
    /// images that were copied while in use, and for tests.
    pub power_was_lost: bool,
}

impl RunOptions {
    const fn new() -> Self {
        Self {
            durability: Durability::Process,
            events: None,
            reads: Reads::Mapped,
            prefault: false,
            left_out: None,
            injection: None,
            retention: RetentionLimits { reads_limit: None, age_limit: None, refresh: false },
            power_was_lost: false,
        }
    }

    byway_sys::setters! {
        /// What a completion promises.
        durability: Durability;
        /// Called before each operation on the image's file, and may make it fail.
        events: Option<Arc<dyn FileEvents>>;
        /// How pages are read.
        reads: Reads;
        /// Take all memory of a medium in memory at once.
        prefault: bool;
        /// A sync point to leave out.
        left_out: impl Into<Option<SyncPoint>>;
        /// Operations of the medium that shall fail.
        injection: Option<Injection>;
        /// Read disturb and retention: page reads of a block, and pages programmed since it was filled, past which its data is lost;
        /// `refresh` moves data before. Default: no limits.
        retention: RetentionLimits;
        /// Treat an image that was not closed as one that lost real power.
        power_was_lost: bool;
    }
}

/// How an image is opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Leave the file as it is; writing answers [`FlashError::ReadOnly`](crate::FlashError::ReadOnly).
    pub read_only: bool,
    /// Read the image without a lock, beside a process that may have it open for writing (decision 0069). As read-only, and reads
    /// take no modelled time.
    pub follow: bool,
    /// Whether operations take modelled time.
    pub timing: bool,
    /// How the device is run.
    pub run: RunOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { read_only: false, follow: false, timing: true, run: RunOptions::new() }
    }
}

impl OpenOptions {
    byway_sys::setters! {
        /// Leave the file as it is; writing answers [`FlashError::ReadOnly`](crate::FlashError::ReadOnly)(crate::FlashError::ReadOnly).
        read_only: bool;
        /// Read the image without a lock, beside a process that may have it open for writing.
        follow: bool;
        /// Whether operations take modelled time.
        timing: bool;
        /// How the device is run.
        run: RunOptions;
    }

    pub(crate) fn how(&self) -> How {
        How { timing: self.timing, run: self.run.clone(), factory_bad: FactoryBad::default() }
    }
}

/// What making and opening have in common.
#[derive(Clone)]
pub(crate) struct How {
    pub(crate) timing: bool,
    pub(crate) run: RunOptions,
    /// Of a device that is made.
    pub(crate) factory_bad: FactoryBad,
}
