//! What the tests of the flash share.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::Path;

use byway_flash::{
    Cause, ExtentId, Flash, FlashError, FlashOptions, FlashProfile, MediaKind, NamespaceKind, NamespaceSpec,
    OpenOptions, UNIT_BYTES,
};
use byway_kit::pattern;

pub const MIB: u64 = 1 << 20;

/// A small array: 2 channels × 2 ways, 64 pages of 16 KiB a block.
pub fn small_profile() -> FlashProfile {
    FlashProfile {
        channels: 2,
        ways: 2,
        planes: 1,
        blocks_per_plane: 64,
        pages_per_block: 64,
        page_bytes: 16384,
        spare_bytes: 1664,
        read_ns: 60_000,
        program_ns: 1_300_000,
        erase_ns: 3_800_000,
        bus_mb_s: 200,
        over_provisioning_percent: 10,
        buffer_pages: 4,
    }
}

pub fn nvm(size_bytes: u64) -> NamespaceSpec {
    NamespaceSpec { nsid: None, kind: NamespaceKind::Nvm { lba_bytes: 512 }, size_bytes }
}

pub fn kv(size_bytes: u64) -> NamespaceSpec {
    NamespaceSpec { nsid: None, kind: NamespaceKind::Kv, size_bytes }
}

pub fn create(media: MediaKind, size_bytes: u64, namespaces: &[NamespaceSpec]) -> Flash {
    try_create(media, size_bytes, namespaces).unwrap()
}

pub fn try_create(
    media: MediaKind,
    size_bytes: u64,
    namespaces: &[NamespaceSpec],
) -> Result<Flash, FlashError> {
    let options = FlashOptions::new(size_bytes, small_profile(), media)
        .profile_name("small")
        .uuid(*b"0123456789abcdef");
    Flash::create(options, namespaces)
}

pub fn open(path: &Path) -> Result<Flash, FlashError> {
    Flash::open(path, OpenOptions::default())
}

pub fn extent(flash: &Flash, nsid: u32) -> ExtentId {
    flash.namespace(nsid).unwrap().extent
}

/// A unit whose bytes follow from its number.
pub fn unit_of(seed: u64) -> Vec<u8> {
    pattern(seed, UNIT_BYTES)
}

/// A page whose bytes follow from its number.
pub fn page_of(flash: &Flash, seed: u64) -> Vec<u8> {
    pattern(!seed, flash.geometry().units_per_page() as usize * UNIT_BYTES)
}

pub fn read_unit(flash: &mut Flash, extent: ExtentId, unit: u64) -> Result<Vec<u8>, FlashError> {
    let mut into = vec![0xEE; UNIT_BYTES];
    flash.read(extent, unit * UNIT_BYTES as u64, &mut into, Cause::Host, &mut 0)?;
    Ok(into)
}

pub fn write_unit(flash: &mut Flash, extent: ExtentId, unit: u64, seed: u64) -> Result<(), FlashError> {
    flash.write_units(extent, unit, &unit_of(seed), Cause::Host, &mut 0)
}

/// The sentence an opener is refused with.
pub fn refusal(result: Result<Flash, FlashError>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}

/// Length, content and time of change of a file, to see whether it was left alone. Holes are skipped.
pub fn fingerprint(path: &Path) -> (u64, u32, std::time::SystemTime) {
    use rustix::fs::{SeekFrom, seek};
    use std::os::unix::fs::FileExt;
    const PIECE: u64 = 64 << 10;
    let file = std::fs::File::open(path).unwrap();
    let found = file.metadata().unwrap();
    let (mut crc, mut at) = (0, 0);
    while let Ok(data) = seek(&file, SeekFrom::Data(at)) {
        at = data / PIECE * PIECE;
        let mut piece = vec![0; PIECE.min(found.len() - at) as usize];
        file.read_exact_at(&mut piece, at).unwrap();
        if piece.iter().any(|byte| *byte != 0) {
            crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &at.to_le_bytes()), &piece);
        }
        at += PIECE;
    }
    (found.len(), crc, found.modified().unwrap())
}
