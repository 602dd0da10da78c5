//! A full host disk: commands that free space succeed, and puts succeed as far as space was freed.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use byway::{CreateOptions, ErrorKind, FileEvents, NewNamespace, Nsid};
use parking_lot::Mutex;
use rustix::io::Errno;

/// The unit in which the disk counts, in bytes.
const UNIT_BYTES: u64 = 64 << 10;

/// A disk with room for a number of units beyond those that a file has when it is opened.
#[derive(Debug)]
struct SmallDisk {
    units: Mutex<(BTreeSet<u64>, usize)>,
}

impl SmallDisk {
    fn with_room(image: &Path, bytes: u64) -> Arc<Self> {
        let file = std::fs::File::open(image).unwrap();
        let len = file.metadata().unwrap().len();
        let mut held = BTreeSet::new();
        let mut at = 0;
        while let Ok(from) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
            let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(from)).unwrap_or(len);
            held.extend(from / UNIT_BYTES..end.div_ceil(UNIT_BYTES));
            at = end;
        }
        let most = held.len() + (bytes / UNIT_BYTES) as usize;
        Arc::new(Self { units: Mutex::new((held, most)) })
    }

    fn take(&self, at: u64, len: u64) -> io::Result<()> {
        let (held, most) = &mut *self.units.lock();
        let wanted = at / UNIT_BYTES..(at + len).div_ceil(UNIT_BYTES);
        let new = wanted.clone().filter(|unit| !held.contains(unit)).count();
        if held.len() + new > *most {
            return Err(Errno::NOSPC.into());
        }
        held.extend(wanted);
        Ok(())
    }
}

impl FileEvents for SmallDisk {
    fn before_write(&self, at: u64, len: u64) -> io::Result<()> {
        self.take(at, len)
    }

    fn before_allocate(&self, at: u64, len: u64) -> io::Result<()> {
        self.take(at, len)
    }

    fn before_punch(&self, at: u64, len: u64) -> io::Result<()> {
        let whole = at.div_ceil(UNIT_BYTES)..(at + len) / UNIT_BYTES;
        self.units.lock().0.retain(|unit| !whole.contains(unit));
        Ok(())
    }
}

const IMAGE: &str = "disk.img";
const OPTIONS: [&str; 3] = ["flush=process", "flush=media", "memtable=16K"];

struct Full {
    device: byway::embedded::EmbeddedDevice,
    uri: String,
    _folder: tempfile::TempDir,
}

impl Full {
    /// Closes the device and opens it again, on a disk with room for `bytes` beyond the data in its image.
    fn reopen_with_room(self, bytes: u64) -> Self {
        let Self { device, uri, _folder } = self;
        device.close().unwrap();
        let disk = SmallDisk::with_room(&_folder.path().join(IMAGE), bytes);
        let device = byway::embedded::open_watched(&uri, disk).unwrap();
        Self { device, uri, _folder }
    }
}

/// A device of 256 MiB on a disk with room for 8 MiB of it.
fn open(options: &str) -> Full {
    open_with_room(options, 8 << 20)
}

/// The same, with room for so many bytes of it.
fn open_with_room(options: &str, room_bytes: u64) -> Full {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join(IMAGE);
    let namespaces = vec![NewNamespace::KV, NewNamespace::NVM];
    byway::create(&image, &CreateOptions::new(256 << 20).namespaces(namespaces)).unwrap();
    let uri = format!("embedded:{}?{options}", image.display());
    let device = byway::embedded::open_watched(&uri, SmallDisk::with_room(&image, room_bytes)).unwrap();
    Full { device, uri, _folder: folder }
}

const VALUE: [u8; 4000] = [5; 4000];

/// Puts keys from `from` on until the disk is full; the first that was refused.
fn fill(kv: &mut byway::Kv, from: u32) -> u32 {
    let refused = (from..).find_map(|n| Some((n, kv.put(&n.to_be_bytes(), &VALUE).err()?)));
    let (n, error) = refused.unwrap();
    assert_eq!(error.kind(), ErrorKind::CapacityExceeded, "{error}");
    n
}

fn deletes_make_room(options: &str) {
    let Full { device, uri, _folder } = open(options);
    let mut kv = device.kv(None).unwrap();
    let stored = fill(&mut kv, 0);
    assert!(stored > 300, "{stored}");
    for n in 0..stored {
        kv.delete(&n.to_be_bytes()).unwrap_or_else(|error| panic!("key {n} of {stored}: {error}"));
    }
    let again = fill(&mut kv, stored) - stored;
    assert!(again * 2 > stored, "{stored} values had room, {again} after they were deleted");
    drop(kv);
    device.close().unwrap();
    let mut kv = byway::open(&uri).unwrap().kv(None).unwrap();
    assert_eq!(kv.get(&0u32.to_be_bytes()).unwrap(), None);
    for n in stored..stored + again {
        assert_eq!(kv.get(&n.to_be_bytes()).unwrap().unwrap(), VALUE, "key {n}");
    }
}

#[test]
fn kv_deletes_on_a_full_host_disk_succeed_and_make_room() {
    for options in OPTIONS {
        deletes_make_room(options);
    }
}

#[test]
fn kv_deletes_on_a_full_host_disk_succeed_again_and_again() {
    let full = open("flush=process");
    let mut kv = full.device.kv(None).unwrap();
    let mut first = 0;
    for round in 0..3 {
        let end = fill(&mut kv, first);
        assert!(end > first, "round {round}");
        (first..end).for_each(|n| kv.delete(&n.to_be_bytes()).unwrap());
        first = end;
    }
}

#[test]
fn kv_put_after_reopening_uses_what_was_deleted_before() {
    for options in OPTIONS {
        let full = open(options);
        let mut kv = full.device.kv(None).unwrap();
        let stored = fill(&mut kv, 0);
        (0..stored).for_each(|n| kv.delete(&n.to_be_bytes()).unwrap());
        drop(kv);
        let full = full.reopen_with_room(2 << 20);
        let again = fill(&mut full.device.kv(None).unwrap(), stored) - stored;
        assert!(again * 2 > stored, "{options}: {stored} values had room, {again} after reopening");
    }
}

#[test]
fn kv_put_after_three_openings_uses_the_half_that_they_deleted() {
    for options in OPTIONS {
        // Space is freed by segments of 2 MiB: the disk holds many.
        let mut full = open_with_room(options, 48 << 20);
        let stored = fill(&mut full.device.kv(None).unwrap(), 0);
        let half: Vec<u32> = (0..stored / 2).collect();
        for deleted in half.chunks(half.len().div_ceil(3)) {
            full = full.reopen_with_room(2 << 20);
            let mut kv = full.device.kv(None).unwrap();
            deleted.iter().for_each(|n| kv.delete(&n.to_be_bytes()).unwrap());
        }
        let full = full.reopen_with_room(2 << 20);
        let mut kv = full.device.kv(None).unwrap();
        let again = fill(&mut kv, stored) - stored;
        assert!(again * 4 > stored, "{options}: {stored} values had room, {again} after half were deleted");
        for n in stored / 2..stored + again {
            assert_eq!(kv.get(&n.to_be_bytes()).unwrap().unwrap(), VALUE, "{options}: key {n}");
        }
    }
}

#[test]
fn kv_put_by_dma_after_reopening_uses_what_was_deleted_before() {
    let value = [6; 8192];
    let full = open("flush=process&transfer=prp");
    let mut kv = full.device.kv(None).unwrap();
    let fill = |kv: &mut byway::Kv, from: u32| {
        (from..).find(|n| kv.put(&n.to_be_bytes(), &value).is_err()).unwrap() - from
    };
    let stored = fill(&mut kv, 0);
    (0..stored).for_each(|n| kv.delete(&n.to_be_bytes()).unwrap());
    drop(kv);
    let full = full.reopen_with_room(2 << 20);
    let mut kv = full.device.kv(None).unwrap();
    let again = fill(&mut kv, stored);
    assert!(again * 2 > stored, "{stored} values had room, {again} after reopening");
    for n in stored..stored + again {
        assert_eq!(kv.get(&n.to_be_bytes()).unwrap().unwrap(), value, "key {n}");
    }
}

#[test]
fn kv_deletes_after_reopening_on_a_full_host_disk_succeed_and_make_room() {
    for options in OPTIONS {
        let full = open(options);
        let stored = fill(&mut full.device.kv(None).unwrap(), 0);
        let full = full.reopen_with_room(2 << 20);
        let mut kv = full.device.kv(None).unwrap();
        let end = fill(&mut kv, stored);
        (0..end).for_each(|n| kv.delete(&n.to_be_bytes()).unwrap_or_else(|e| panic!("{options}: {n}: {e}")));
        let again = fill(&mut kv, end) - end;
        assert!(again * 2 > stored, "{options}: {stored} values had room, {again} after they were deleted");
    }
}

#[test]
fn kv_put_that_finds_the_disk_full_first_uses_what_was_deleted() {
    let Full { device, _folder, .. } = open("flush=process");
    let most = fill(&mut device.kv(None).unwrap(), 0);
    let full = open("flush=process");
    let mut kv = full.device.kv(None).unwrap();
    let stored = most - 10;
    (0..stored).for_each(|n| kv.put(&n.to_be_bytes(), &VALUE).unwrap());
    (0..stored).for_each(|n| kv.delete(&n.to_be_bytes()).unwrap());
    let again = fill(&mut kv, stored) - stored;
    assert!(again * 2 > stored, "{stored} values had room, {again} after they were deleted");
}

#[test]
fn kv_deletes_between_failing_puts_make_room_in_the_end() {
    let full = open("flush=process");
    let mut kv = full.device.kv(None).unwrap();
    let stored = fill(&mut kv, 0);
    let put = (0..stored).find(|n| {
        kv.delete(&n.to_be_bytes()).unwrap();
        kv.put(&(stored + n).to_be_bytes(), &VALUE).is_ok()
    });
    assert!(put.is_some(), "{stored} values were deleted, and none found room");
}

/// Bytes written at once by [`fill_blocks`].
const CHUNK_BYTES: u64 = 1 << 16;

/// Writes chunks from `from` on until the disk is full; the first that was refused.
fn fill_blocks(nvm: &mut byway::Nvm, from: u64) -> u64 {
    let lbas = CHUNK_BYTES / u64::from(nvm.lba_bytes());
    (from..).find(|chunk| nvm.write(chunk * lbas, &[9; CHUNK_BYTES as usize]).is_err()).unwrap()
}

#[test]
fn trims_on_a_full_host_disk_succeed_and_make_room() {
    let full = open("flush=process");
    let mut nvm = full.device.nvm(None).unwrap();
    let end = fill_blocks(&mut nvm, 0);
    assert!(end > 10, "{end}");
    nvm.trim(0, (end * CHUNK_BYTES / u64::from(nvm.lba_bytes())) as u32).unwrap();
    let again = fill_blocks(&mut nvm, end) - end;
    assert!(again * 2 > end, "{end} had room, {again} after they were trimmed");
}

#[test]
fn writes_after_reopening_use_what_was_trimmed_before() {
    let full = open("flush=process");
    let mut nvm = full.device.nvm(None).unwrap();
    let end = fill_blocks(&mut nvm, 0);
    nvm.trim(0, (end * CHUNK_BYTES / u64::from(nvm.lba_bytes())) as u32).unwrap();
    drop(nvm);
    let full = full.reopen_with_room(2 << 20);
    let again = fill_blocks(&mut full.device.nvm(None).unwrap(), end) - end;
    assert!(again * 2 > end, "{end} had room, {again} after they were trimmed");
}

#[test]
fn trims_of_parts_of_units_after_reopening_on_a_full_host_disk_succeed() {
    let full = open("flush=process");
    let end = fill_blocks(&mut full.device.nvm(None).unwrap(), 0);
    let full = full.reopen_with_room(2 << 20);
    let mut nvm = full.device.nvm(None).unwrap();
    let end = fill_blocks(&mut nvm, end);
    let lbas = CHUNK_BYTES / u64::from(nvm.lba_bytes());
    for chunk in 0..end {
        nvm.trim(chunk * lbas + 1, 1).unwrap_or_else(|error| panic!("chunk {chunk} of {end}: {error}"));
    }
}

#[test]
fn namespace_after_reopening_on_a_full_host_disk_is_formatted() {
    let full = open("flush=process");
    let stored = fill(&mut full.device.kv(None).unwrap(), 0);
    let full = full.reopen_with_room(2 << 20);
    let end = fill_blocks(&mut full.device.nvm(None).unwrap(), 0);
    let nsid = Nsid::new(1).unwrap();
    full.device.driver().admin(byway::AdminCommand::Format { nsid, format: 0, erase: false }).unwrap();
    let again = fill_blocks(&mut full.device.nvm(None).unwrap(), end) - end;
    assert!(
        again * CHUNK_BYTES * 2 > u64::from(stored) * VALUE.len() as u64,
        "{stored} values, {again} chunks"
    );
}

#[test]
fn namespace_on_a_full_host_disk_is_deleted() {
    let full = open("flush=process");
    let mut kv = full.device.kv(None).unwrap();
    let stored = fill(&mut kv, 0);
    drop(kv);
    let nsid = Nsid::new(1).unwrap();
    full.device.driver().admin(byway::AdminCommand::Format { nsid, format: 0, erase: false }).unwrap();
    let mut kv = full.device.kv(None).unwrap();
    assert!(fill(&mut kv, 0) * 2 > stored);
}

#[test]
fn kv_put_through_a_window_uses_what_was_deleted_in_this_opening_and_before() {
    for transfer in ["cxl", "cxl+piggyback", "adaptive&policy=threshold&tau=4096&below=cxl"] {
        let full = open(&format!("flush=process&profile=gen5x8-cxl&transfer={transfer}"));
        let mut kv = full.device.kv(None).unwrap();
        let stored = fill(&mut kv, 0);
        (0..stored).for_each(|n| kv.delete(&n.to_be_bytes()).unwrap());
        let end = fill(&mut kv, stored);
        assert!((end - stored) * 2 > stored, "{transfer}: {stored} values had room, {} again", end - stored);
        (stored..end).for_each(|n| kv.delete(&n.to_be_bytes()).unwrap());
        drop(kv);
        let full = full.reopen_with_room(2 << 20);
        let mut kv = full.device.kv(None).unwrap();
        let last = fill(&mut kv, end);
        assert!((last - end) * 2 > stored, "{transfer}: {stored} values had room, {} reopened", last - end);
        for n in end..last {
            assert_eq!(kv.get(&n.to_be_bytes()).unwrap().unwrap(), VALUE, "{transfer}: key {n}");
        }
    }
}
