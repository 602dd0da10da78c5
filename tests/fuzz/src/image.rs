//! An image with changed bytes, structure by structure: some by accident, some with matching checksums.
//!
//! Opening it fails, or it can be read, written, checked, repaired and reopened: with errors, but never a panic.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use byway_flash::{
    Cause, ExtentId, Flash, FlashError, FlashOptions, FlashProfile, MediaKind, NamespaceKind, NamespaceSpec,
    OpenOptions, RunOptions, UNIT_BYTES,
};

use crate::input::Input;

const SIZE_BYTES: u64 = 4 << 20;

/// A piece of a region that holds something.
struct Piece {
    name: &'static str,
    /// Bytes before it in its region, a multiple of every structure's size.
    within: usize,
    at: u64,
    bytes: Vec<u8>,
    /// Where it holds something, in steps of four bytes.
    used: Vec<usize>,
}

/// An image as a device left it.
struct Base {
    len_bytes: u64,
    record_bytes: usize,
    pieces: Vec<Piece>,
}

/// Changes the structure called `name` by `bytes`, and uses the image.
pub fn image(name: &str, bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let how = input.byte();
    let base = &bases()[usize::from(how & 1)];
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let path = folder.path().join("image");
    let file = File::create(&path).expect("a file");
    file.set_len(base.len_bytes).expect("a sparse file");
    for piece in &base.pieces {
        if piece.name != name {
            file.write_all_at(&piece.bytes, piece.at).expect("room for a small image");
            continue;
        }
        let mut bytes = piece.bytes.clone();
        change(&mut bytes, &piece.used, &mut input);
        if how & 2 == 0 && piece.within == 0 {
            byway_flash::fuzz::reseal(name, &mut bytes, base.record_bytes);
        }
        file.write_all_at(&bytes, piece.at).expect("room for a small image");
    }
    drop(file);
    if how & 4 == 0 {
        let _ = look_at_image(&path).and_then(|()| use_image(&path));
    }
    if how & 0x10 == 0 {
        let _ = check_image(&path, how & 8 == 0);
    }
    if how & 0x20 == 0 {
        let _ = look_at_image(&path);
    }
    let _ = use_image(&path);
}

/// Memory if it is mounted: the images live for a moment.
fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}

fn profile() -> FlashProfile {
    FlashProfile {
        channels: 2,
        ways: 1,
        planes: 1,
        blocks_per_plane: 16,
        pages_per_block: 16,
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

fn bases() -> &'static [Base; 2] {
    static BASES: OnceLock<[Base; 2]> = OnceLock::new();
    BASES.get_or_init(|| [base(true), base(false)])
}

/// An image with blocks, pages, areas and a namespace that was removed.
fn base(close: bool) -> Base {
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let path = folder.path().join("image");
    let spec = |nsid, kind| NamespaceSpec { nsid: Some(nsid), kind, size_bytes: 1 << 20 };
    let namespaces = [
        spec(1, NamespaceKind::Kv),
        spec(2, NamespaceKind::Nvm { lba_bytes: 512 }),
        spec(3, NamespaceKind::Nvm { lba_bytes: 4096 }),
    ];
    let options = FlashOptions::new(SIZE_BYTES, profile(), MediaKind::File(path.clone()));
    let mut flash = Flash::create(options, &namespaces).expect("an image");
    fill(&mut flash).expect("room");
    if close {
        flash.close().expect("a close");
    }
    let (regions, record_bytes) = (flash.regions(), flash.geometry().spare_record_bytes());
    let len_bytes = flash.image_bytes();
    drop(flash);
    let file = File::open(&path).expect("the image");
    let pieces = regions.into_iter().flat_map(|(name, range)| pieces_of(&file, name, range.start, range.end));
    Base { len_bytes, record_bytes, pieces: pieces.collect() }
}

fn fill(flash: &mut Flash) -> Result<(), FlashError> {
    let extent =
        |flash: &Flash, nsid| flash.namespace(nsid).map(|record| record.extent).expect("a namespace");
    let page = vec![0x5a; flash.geometry().page_bytes as usize];
    let (kv, nvm, gone) = (extent(flash, 1), extent(flash, 2), extent(flash, 3));
    for round in 0..3 {
        for at in 0..20 {
            flash.write_page(kv, at, &page, Cause::Host, &mut 0)?;
            flash.write_units(nvm, at * 3 + round, &page[..UNIT_BYTES], Cause::Host, &mut 0)?;
        }
        flash.write_units(gone, 1, &page[..UNIT_BYTES], Cause::Host, &mut 0)?;
    }
    flash.trim(nvm, 5..9)?;
    let area = flash.add_area(1, byway_flash::AreaId(7), 5000)?;
    flash.protected(area).fill(3);
    flash.add_area(3, byway_flash::AreaId(1), 64)?;
    flash.remove_namespace(3)
}

/// The parts of a region that hold something, 64 KiB each.
fn pieces_of(file: &File, name: &'static str, start: u64, end: u64) -> Vec<Piece> {
    const PIECE: u64 = 64 << 10;
    let mut pieces = Vec::new();
    for range in byway_sys::copy::DataRanges::new(file, end) {
        let (data, len) = range.expect("a readable file");
        let first = data.max(start) / PIECE * PIECE;
        for at in (first.max(start)..(data + len).min(end)).step_by(PIECE as usize) {
            let mut bytes = vec![0; PIECE.min(end - at) as usize];
            file.read_exact_at(&mut bytes, at).expect("a readable file");
            if bytes.iter().any(|byte| *byte != 0) && !pieces.iter().any(|piece: &Piece| piece.at == at) {
                let used = used(&bytes);
                pieces.push(Piece { name, within: (at - start) as usize, at, bytes, used });
            }
        }
    }
    pieces
}

fn used(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len()).step_by(4).filter(|at| bytes[*at..*at + 4] != [0; 4]).collect()
}

/// Changes up to eight places, most of them `used` ones.
fn change(bytes: &mut [u8], used: &[usize], input: &mut Input<'_>) {
    const NUMBERS: [u64; 8] = [0, 1, u64::MAX, 1 << 47, 1 << 63, 0xffff_ffff, SIZE_BYTES, (1 << 48) - 1];
    for _ in 0..8 {
        if input.is_empty() {
            return;
        }
        let how = input.byte();
        let at = match used.get(usize::from(input.word()) % used.len().max(1)) {
            Some(at) if how & 0x80 == 0 => *at,
            _ => usize::from(input.word()) % bytes.len(),
        };
        let into = &mut bytes[at..];
        match how % 4 {
            0 => into[0] ^= 1 << (how >> 4 & 7),
            1 => {
                let number = NUMBERS[usize::from(how >> 2) % NUMBERS.len()].to_le_bytes();
                into.iter_mut().zip(number).for_each(|(place, byte)| *place = byte);
            }
            2 => {
                let new = input.bytes(1 + usize::from(how >> 4 & 7));
                into.iter_mut().zip(new).for_each(|(place, byte)| *place = *byte);
            }
            _ => into[0] = into[0].wrapping_add(input.byte()),
        }
    }
}

/// Units of a namespace that are read and written: of each page some.
fn some_units() -> impl Iterator<Item = u64> {
    (0..64).step_by(3)
}

fn extents(flash: &Flash) -> Vec<(ExtentId, NamespaceKind)> {
    flash.namespaces().map(|record| (record.extent, record.kind)).collect()
}

/// Opens and reads. Errors are fine.
fn look_at_image(path: &Path) -> Result<(), FlashError> {
    let mut flash = Flash::open(path, OpenOptions::default().read_only(true))?;
    let mut unit = [0; UNIT_BYTES];
    for (extent, _) in extents(&flash) {
        for at in some_units() {
            let _ = flash.read(extent, at * UNIT_BYTES as u64, &mut unit, Cause::Host, &mut 0);
        }
        let _ = flash.write_units(extent, 0, &unit, Cause::Host, &mut 0);
    }
    let _ = flash.close();
    Ok(())
}

/// Uses everything a device offers. Errors are allowed.
fn use_image(path: &Path) -> Result<(), FlashError> {
    let mut flash = Flash::open(path, OpenOptions::default())?;
    let mut page = vec![0; flash.geometry().page_bytes as usize];
    for (extent, kind) in extents(&flash) {
        for at in some_units() {
            let _ = flash.read(extent, at * UNIT_BYTES as u64, &mut page[..UNIT_BYTES], Cause::Host, &mut 0);
            let _ = match kind {
                NamespaceKind::Kv => flash.write_page(extent, at, &page, Cause::Host, &mut 0),
                NamespaceKind::Nvm { .. } => {
                    flash.write_units(extent, at, &page[..UNIT_BYTES], Cause::Host, &mut 0)
                }
            };
        }
        let _ = (flash.trim(extent, 3..9), flash.used_bytes(), flash.unallocated_bytes());
    }
    let _ = flash.check();
    let spec = NamespaceSpec { nsid: None, kind: NamespaceKind::Kv, size_bytes: 64 << 10 };
    let made = flash.add_namespace(spec);
    let _ = made.map(|record| flash.add_area(record.nsid, byway_flash::AreaId(1), 4096));
    let _ = flash.remove_namespace(1);
    let _ = flash.close();
    Ok(())
}

fn check_image(path: &Path, repair: bool) -> Result<(), FlashError> {
    let (mut flash, _) = Flash::open_to_check(path, repair, RunOptions::default())?;
    let findings = flash.repair(&mut |_, _, _| {})?;
    flash.drop_lost(&findings);
    flash.accept_pages(&findings)?;
    let _ = (flash.lost_entries(), flash.check());
    flash.close()
}
