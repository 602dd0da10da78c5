//! The first page of the image: what it is, what shape it has, where its regions are.
//!
//! Written when the image is made, and when it first uses a feature of the format; a copy follows it. Every field is
//! little-endian. The reserved bytes and the unused region entries are zero: room for what comes.

use std::path::Path;

use byway_link::FlashProfile;
use byway_sys::ImageFile;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::error::{FlashError, ImageError};
use crate::finding::{Finding, Remedy};
use crate::geometry::Geometry;
use crate::image::layout::{Layout, Range};

/// Version of the format. Another version is refused.
pub(crate) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"BYWAYIMG";
const BYTES: usize = 4096;
const COPY_AT: u64 = BYTES as u64;
const REGION_ENTRIES: usize = 32;
const NAME_BYTES: usize = 32;

/// Feature bits this program knows, by what an unknown one forbids: nothing, writing, opening.
const KNOWN_READ_ONLY_COMPATIBLE: u64 = Features::ACCESS_STATE.0;
const KNOWN_INCOMPATIBLE: u64 = Incompatible::BLOCK_LEASES.0;

/// Features of the format that an image uses. A program that does not know one of them can read the image, and must not
/// write it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Features(u64);

impl Features {
    /// Namespace records hold reservations: a program that ignores them would let every host write.
    pub(crate) const ACCESS_STATE: Self = Self(1 << 0);

    /// Whether all of `other` are in use.
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Features of the format that an image uses. A program that does not know one of them must not open it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Incompatible(u64);

impl Incompatible {
    pub(crate) const NONE: Self = Self(0);

    /// Units in leased slots of the buffer count though the map does not name them.
    pub(crate) const BLOCK_LEASES: Self = Self(1 << 0);
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct StoredRange {
    at: U64,
    len: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct StoredProfile {
    channels: U32,
    ways: U32,
    planes: U32,
    blocks_per_plane: U32,
    pages_per_block: U32,
    page_bytes: U32,
    spare_bytes: U32,
    bus_mb_s: U32,
    read_ns: U64,
    program_ns: U64,
    erase_ns: U64,
    over_provisioning_percent: U32,
    buffer_pages: U32,
    name: [u8; NAME_BYTES],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Stored {
    magic: [u8; 8],
    version: U32,
    /// [`Keeps`] of the device.
    keeps: U32,
    compatible: U64,
    read_only_compatible: U64,
    incompatible: U64,
    uuid: [u8; 16],
    total_bytes: U64,
    usable_bytes: U64,
    channels: U32,
    ways: U32,
    planes: U32,
    blocks_per_plane: U32,
    pages_per_block: U32,
    reserved_geometry: [U32; 3],
    profile: StoredProfile,
    regions: [StoredRange; REGION_ENTRIES],
    room: [u8; ROOM_BYTES],
    crc: U32,
}

/// Where the marks of features are that come while an image is used, or go.
const MARKS: [usize; 2] =
    [std::mem::offset_of!(Stored, read_only_compatible), std::mem::offset_of!(Stored, incompatible)];
const ROOM_BYTES: usize = BYTES - 104 - 96 - 16 * REGION_ENTRIES - 4;

const _: () = assert!(size_of::<Stored>() == BYTES);

/// Where the pages of an image's device are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// In the image.
    File,
    /// In memory, from one opening to the next: the image only describes the device.
    Ram,
    /// Nowhere.
    Null,
}

/// What the superblock says.
#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    pub(crate) keeps: Keeps,
    pub(crate) geometry: Geometry,
    pub(crate) profile: FlashProfile,
    pub(crate) profile_name: String,
    pub(crate) uuid: [u8; 16],
    pub(crate) features: Features,
    pub(crate) incompatible: Incompatible,
}

impl Superblock {
    /// Places in the image of two words that stay as they were made: the magic number, and half of the identifier.
    pub(crate) const FIXED_WORDS: [u64; 2] =
        [std::mem::offset_of!(Stored, magic) as u64, std::mem::offset_of!(Stored, uuid) as u64];

    /// Writes copy and superblock, in this order: until the second is there, the file is no image.
    pub(crate) fn write(&self, file: &ImageFile) -> Result<(), FlashError> {
        Ok(self.write_by(|at, bytes| file.write_at(at, bytes))?)
    }

    /// The same by what writes bytes to a place.
    pub(crate) fn write_by<E>(&self, write_at: impl Fn(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let stored = self.to_stored();
        write_at(COPY_AT, stored.as_bytes())?;
        write_at(0, stored.as_bytes())
    }

    /// Reads and checks the superblock, and that the file is as long as it says.
    pub(crate) fn read(file: &ImageFile) -> Result<Self, ImageError> {
        let path = file.path();
        let found_bytes = file.len_bytes()?;
        let mut stored = Stored::new_zeroed();
        let there = (found_bytes as usize).min(BYTES);
        file.read_at(0, &mut stored.as_mut_bytes()[..there])?;
        check_identity(&stored, path)?;
        if there < BYTES {
            return Err(truncated(path, BYTES as u64, found_bytes));
        }
        if !stored.settle_marks() {
            return Err(damaged(path, "the superblock"));
        }
        check_version(&stored, path)?;
        check_features(&stored, file)?;
        if found_bytes < stored.total_bytes.get() {
            return Err(truncated(path, stored.total_bytes.get(), found_bytes));
        }
        Self::from_stored(&stored, path)
    }

    /// Reads the superblock or, where that cannot be used, its copy; says what is wrong with either, and restores the
    /// one from the other where the file may be written.
    pub(crate) fn read_either(file: &ImageFile) -> Result<(Self, Option<Finding>), ImageError> {
        let refused = match Self::read(file) {
            Ok(found) => return Ok((found, check_copy(file)?)),
            Err(
                refused @ (ImageError::Damaged { .. }
                | ImageError::NotAnImage { .. }
                | ImageError::OtherVersion { .. }),
            ) => refused,
            Err(refused) => return Err(refused),
        };
        let Some(stored) = read_stored(file, COPY_AT)? else { return Err(refused) };
        check_features(&stored, file)?;
        let found = Self::from_stored(&stored, file.path())?;
        if !file.is_read_only() {
            file.write_at(0, stored.as_bytes())?;
        }
        let what = "it cannot be used; its copy can";
        Ok((found, Some(Finding::new("superblock", "", what, Remedy::Restore))))
    }

    fn from_stored(stored: &Stored, path: &Path) -> Result<Self, ImageError> {
        let geometry = stored.geometry();
        geometry.check()?;
        let layout = Layout::of(&geometry);
        let same = |(stored, range): (&StoredRange, Range)| {
            (stored.at.get(), stored.len.get()) == (range.at, range.len)
        };
        if !stored.regions.iter().zip(layout.regions()).all(same)
            || stored.total_bytes.get() != layout.total_bytes()
        {
            return Err(damaged(path, "the region table"));
        }
        let keeps = match stored.keeps.get() {
            0 => Keeps::File,
            1 => Keeps::Ram,
            2 => Keeps::Null,
            _ => return Err(damaged(path, "the kind of media")),
        };
        Ok(Self {
            keeps,
            geometry,
            profile: stored.profile.get(),
            profile_name: name_of(&stored.profile.name),
            uuid: stored.uuid,
            features: Features(stored.read_only_compatible.get()),
            incompatible: Incompatible(stored.incompatible.get()),
        })
    }

    fn to_stored(&self) -> Stored {
        let layout = Layout::of(&self.geometry);
        let mut stored = Stored::new_zeroed();
        stored.magic = MAGIC;
        stored.version = VERSION.into();
        stored.keeps = (self.keeps as u32).into();
        stored.uuid = self.uuid;
        stored.read_only_compatible = self.features.0.into();
        stored.incompatible = self.incompatible.0.into();
        stored.total_bytes = layout.total_bytes().into();
        stored.usable_bytes = self.geometry.usable_bytes.into();
        stored.channels = self.geometry.channels.into();
        stored.ways = self.geometry.ways.into();
        stored.planes = self.geometry.planes.into();
        stored.blocks_per_plane = self.geometry.blocks_per_plane.into();
        stored.pages_per_block = self.geometry.pages_per_block.into();
        stored.profile = StoredProfile::of(&self.profile, &self.profile_name);
        for (place, range) in stored.regions.iter_mut().zip(layout.regions()) {
            *place = StoredRange { at: range.at.into(), len: range.len.into() };
        }
        stored.crc = checksum(&stored).into();
        stored
    }
}

impl Stored {
    /// Whether it matches its checksum. Where a loss of power left the mark of leases of another time than the checksum, which is in
    /// another sector, the mark counts: there may be units that wait.
    fn settle_marks(&mut self) -> bool {
        if self.crc.get() == checksum(self) {
            return true;
        }
        let found = self.incompatible;
        self.incompatible = (found.get() ^ Incompatible::BLOCK_LEASES.0).into();
        let is_of_another_time = self.crc.get() == checksum(self);
        self.incompatible = found;
        if is_of_another_time {
            self.incompatible = (found.get() | Incompatible::BLOCK_LEASES.0).into();
            self.crc = checksum(self).into();
        }
        is_of_another_time
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            channels: self.channels.get(),
            ways: self.ways.get(),
            planes: self.planes.get(),
            blocks_per_plane: self.blocks_per_plane.get(),
            pages_per_block: self.pages_per_block.get(),
            page_bytes: self.profile.page_bytes.get(),
            spare_bytes: self.profile.spare_bytes.get(),
            usable_bytes: self.usable_bytes.get(),
        }
    }
}

impl StoredProfile {
    fn of(profile: &FlashProfile, name: &str) -> Self {
        let mut stored_name = [0; NAME_BYTES];
        let len = name.len().min(NAME_BYTES);
        stored_name[..len].copy_from_slice(&name.as_bytes()[..len]);
        Self {
            channels: profile.channels.into(),
            ways: profile.ways.into(),
            planes: profile.planes.into(),
            blocks_per_plane: profile.blocks_per_plane.into(),
            pages_per_block: profile.pages_per_block.into(),
            page_bytes: profile.page_bytes.into(),
            spare_bytes: profile.spare_bytes.into(),
            bus_mb_s: profile.bus_mb_s.into(),
            read_ns: profile.read_ns.into(),
            program_ns: profile.program_ns.into(),
            erase_ns: profile.erase_ns.into(),
            over_provisioning_percent: profile.over_provisioning_percent.into(),
            buffer_pages: profile.buffer_pages.into(),
            name: stored_name,
        }
    }

    fn get(&self) -> FlashProfile {
        FlashProfile {
            channels: self.channels.get(),
            ways: self.ways.get(),
            planes: self.planes.get(),
            blocks_per_plane: self.blocks_per_plane.get(),
            pages_per_block: self.pages_per_block.get(),
            page_bytes: self.page_bytes.get(),
            spare_bytes: self.spare_bytes.get(),
            bus_mb_s: self.bus_mb_s.get(),
            read_ns: self.read_ns.get(),
            program_ns: self.program_ns.get(),
            erase_ns: self.erase_ns.get(),
            over_provisioning_percent: self.over_provisioning_percent.get(),
            buffer_pages: self.buffer_pages.get(),
        }
    }
}

fn name_of(stored: &[u8; NAME_BYTES]) -> String {
    let len = stored.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    String::from_utf8_lossy(&stored[..len]).into_owned()
}

fn checksum(stored: &Stored) -> u32 {
    crc32c::crc32c(&stored.as_bytes()[..BYTES - 4])
}

/// The superblock at a place, if it is one: magic, version and checksum.
fn read_stored(file: &ImageFile, at: u64) -> Result<Option<Stored>, ImageError> {
    let mut stored = Stored::new_zeroed();
    if file.len_bytes()? < at + BYTES as u64 {
        return Ok(None);
    }
    file.read_at(at, stored.as_mut_bytes())?;
    let is_known =
        check_identity(&stored, file.path()).and_then(|()| check_version(&stored, file.path())).is_ok();
    let good = is_known && stored.settle_marks();
    Ok(good.then_some(stored))
}

/// Compares the copy with a good superblock.
fn check_copy(file: &ImageFile) -> Result<Option<Finding>, ImageError> {
    let Some(first) = read_stored(file, 0)? else { return Ok(None) };
    let copy = read_stored(file, COPY_AT)?;
    if copy.as_ref().is_some_and(|copy| copy.as_bytes() == first.as_bytes()) {
        return Ok(None);
    }
    if !file.is_read_only() {
        file.write_at(COPY_AT, first.as_bytes())?;
    }
    if copy.is_some_and(|copy| is_ahead(&copy, &first)) {
        return Ok(None);
    }
    Ok(Some(Finding::new("superblock", "copy", "it is not what the superblock is", Remedy::Restore)))
}

/// Whether a copy only differs in marks of features that are known: that they are used, or used no more. They were written to the copy first, and
/// the write was cut short between the two.
fn is_ahead(copy: &Stored, first: &Stored) -> bool {
    let (has, known) = (copy.read_only_compatible.get(), first.read_only_compatible.get());
    let is_known = copy.incompatible.get() & !KNOWN_INCOMPATIBLE == 0;
    let is_mark = |at: usize| at >= BYTES - 4 || MARKS.iter().any(|mark| (*mark..mark + 8).contains(&at));
    let differs = |at: &usize| copy.as_bytes()[*at] != first.as_bytes()[*at];
    has & known == known && is_known && (0..BYTES).filter(differs).all(is_mark)
}

fn check_identity(stored: &Stored, path: &Path) -> Result<(), ImageError> {
    if stored.magic != MAGIC {
        return Err(ImageError::NotAnImage { path: path.to_path_buf() });
    }
    // Version 0 is what a file too short to hold its version reads as: it is reported as truncated or damaged.
    if stored.version.get() == 0 { Ok(()) } else { check_version(stored, path) }
}

/// Refuses every version but [`VERSION`], 0 included, which no image was ever made with.
fn check_version(stored: &Stored, path: &Path) -> Result<(), ImageError> {
    match stored.version.get() {
        VERSION => Ok(()),
        found => Err(ImageError::OtherVersion { path: path.to_path_buf(), found, known: VERSION }),
    }
}

fn check_features(stored: &Stored, file: &ImageFile) -> Result<(), ImageError> {
    let path = file.path().to_path_buf();
    let unknown = stored.incompatible.get() & !KNOWN_INCOMPATIBLE;
    if unknown != 0 {
        return Err(ImageError::UnknownFeatures { path, bits: unknown });
    }
    let unknown = stored.read_only_compatible.get() & !KNOWN_READ_ONLY_COMPATIBLE;
    if unknown != 0 && !file.is_read_only() {
        return Err(ImageError::ReadableOnly { path, bits: unknown });
    }
    Ok(())
}

fn truncated(path: &Path, expected_bytes: u64, found_bytes: u64) -> ImageError {
    ImageError::Truncated { path: path.to_path_buf(), expected_bytes, found_bytes }
}

/// Makes the checksums of superblock and copy fit, for fuzzers.
pub(crate) fn reseal(region: &mut [u8]) {
    for stored in region.chunks_exact_mut(BYTES).take(2) {
        let crc = crc32c::crc32c(&stored[..BYTES - 4]);
        stored[BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    }
}

pub(crate) fn damaged(path: &Path, what: &str) -> ImageError {
    ImageError::Damaged { path: path.to_path_buf(), what: what.to_owned() }
}
