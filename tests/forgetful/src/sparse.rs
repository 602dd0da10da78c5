//! Files with holes.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};

use crate::page::{PAGE_BYTES, ZEROES};

/// Copies an image, holes as holes.
///
/// # Panics
/// Where a file cannot be read or written.
pub fn copy_sparse(from: &Path, to: &Path) {
    let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
    to.set_len(from.metadata().unwrap().len()).unwrap();
    let mut page = [0; PAGE_BYTES];
    for at in data_ranges(&from).into_iter().flatten() {
        read_to(&from, at * PAGE_BYTES as u64, &mut page);
        if page != ZEROES {
            to.write_all_at(&page, at * PAGE_BYTES as u64).unwrap();
        }
    }
}

/// Reads up to the end of the file.
pub(crate) fn read_to(file: &File, at: u64, into: &mut [u8]) {
    let mut have = 0;
    while have < into.len() {
        match file.read_at(&mut into[have..], at + have as u64).unwrap() {
            0 => break,
            more => have += more,
        }
    }
    into[have..].fill(0);
}

/// The pages that have room on the disk.
pub(crate) fn data_ranges(file: &File) -> Vec<Range<u64>> {
    let (mut ranges, mut at) = (Vec::new(), 0);
    while let Ok(data) = seek(file, SeekFrom::Data(at)) {
        let end = seek(file, SeekFrom::Hole(data)).unwrap();
        ranges.push(data / PAGE_BYTES as u64..end.div_ceil(PAGE_BYTES as u64));
        at = end;
    }
    ranges
}
