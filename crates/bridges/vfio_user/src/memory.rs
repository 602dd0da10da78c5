//! The host's memory as it maps it for the function, at addresses of its choice.
//!
//! Memory with a descriptor is mapped here and reached without a message. Memory without one is remembered, so that the
//! host may unmap it, and not reached: a command that points there ends with Data Transfer Error.
//!
//! A file is mapped once and whole, and its parts are lent to ranges from there: a host with an IOMMU of its own maps
//! page by page, and a mapping of this process for each would soon meet the system's limit.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Weak};

use byway_dma::{Access, BusAddr, DmaMemory, DmaSpace, MapRefusal};
use byway_sys::map::{Mapping, PAGE_BYTES, Sharing};
use byway_vfio_user_wire::{DmaMap, DmaUnmap, Errno};

/// Ranges that are kept at once: the protocol's default.
pub const MAX_RANGES: usize = 65_535;

/// Why memory is not mapped, or not unmapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Some of the range is mapped.
    #[error("a range overlaps one that is mapped")]
    Exists,
    /// More ranges than are kept.
    #[error("more than {MAX_RANGES} ranges")]
    TooMany,
    /// Neither to be read nor to be written.
    #[error("a range that may be neither read nor written")]
    NoAccess,
    /// The descriptor's file is shorter.
    #[error("a file of {file_bytes} bytes does not hold {bytes} from {offset:#x}")]
    NotInFile {
        /// Where the range begins in the file.
        offset: u64,
        /// Length of the range.
        bytes: u64,
        /// Length of the file.
        file_bytes: u64,
    },
    /// Only part of a range that was mapped at once.
    #[error("a part of a range cannot be unmapped")]
    Part,
    /// Not of whole pages, or past the last address.
    #[error(transparent)]
    Refused(#[from] MapRefusal),
    /// The system's answer.
    #[error("the memory cannot be mapped: {0}")]
    System(#[from] io::Error),
}

impl MemoryError {
    /// The number for the reply.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Exists | Self::Refused(MapRefusal::Overlap { .. }) => Errno::EEXIST,
            Self::TooMany => Errno::ENOSPC,
            Self::System(error) => error.raw_os_error().map_or(Errno::EIO, |errno| Errno(errno as u32)),
            _ => Errno::EINVAL,
        }
    }
}

/// What one host has mapped.
#[derive(Debug)]
pub struct HostRanges {
    space: Arc<DmaSpace>,
    /// By first address.
    ranges: BTreeMap<u64, Mapped>,
    files: Vec<SharedFile>,
}

#[derive(Debug, Clone, Copy)]
struct Mapped {
    last: u64,
    /// It stands in the space.
    is_reached: bool,
}

/// A file that is mapped whole, for as long as a range is part of it.
#[derive(Debug)]
struct SharedFile {
    device: u64,
    inode: u64,
    sharing: Sharing,
    memory: Weak<DmaMemory>,
}

impl HostRanges {
    /// Nothing is mapped in `space` yet.
    #[must_use]
    pub fn new(space: Arc<DmaSpace>) -> Self {
        Self { space, ranges: BTreeMap::new(), files: Vec::new() }
    }

    /// How many ranges are mapped.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Lets the function touch a range, if a descriptor leads to its memory.
    ///
    /// # Errors
    /// As [`MemoryError`] says; nothing is changed then.
    pub fn map(&mut self, map: &DmaMap, fd: Option<OwnedFd>) -> Result<(), MemoryError> {
        let (first, last) = (map.range.first(), map.range.last());
        if self.ranges.range(..=last).next_back().is_some_and(|(_, mapped)| mapped.last >= first) {
            return Err(MemoryError::Exists);
        }
        if self.ranges.len() >= MAX_RANGES {
            return Err(MemoryError::TooMany);
        }
        let access = access_of(map).ok_or(MemoryError::NoAccess)?;
        let is_reached = match fd.map(File::from) {
            Some(file) => self.map_file(map, &file, access)?,
            None => false,
        };
        self.ranges.insert(first, Mapped { last, is_reached });
        Ok(())
    }

    /// Maps a range of a file; false where the descriptor is of something that has no bytes of its own.
    fn map_file(&mut self, map: &DmaMap, file: &File, access: Access) -> Result<bool, MemoryError> {
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(false);
        }
        hold_length(file);
        // Measured after it is held. What is past the end of the file would end the process when it is touched.
        let found = file.metadata()?;
        let (bytes, offset) = (map.range.bytes(), map.file_offset);
        let short = || MemoryError::NotInFile { offset, bytes, file_bytes: found.len() };
        if offset.checked_add(bytes).is_none_or(|end| end > found.len()) {
            return Err(short());
        }
        let sharing = if access.writes() { Sharing::Shared } else { Sharing::CopyOnWrite };
        let memory = self.whole(file, (found.dev(), found.ino(), found.len()), sharing)?;
        let (offset, len) = (usize::try_from(offset), usize::try_from(bytes));
        let (offset, len) = (offset.map_err(|_| short())?, len.map_err(|_| short())?);
        self.space.map_part(memory, offset, len, BusAddr(map.range.first()), access)?;
        Ok(true)
    }

    /// A file's memory. What the function may only read is mapped so that nothing of it could be written: then the
    /// descriptor needs to allow no more.
    fn whole(
        &mut self,
        file: &File,
        (device, inode, len_bytes): (u64, u64, u64),
        sharing: Sharing,
    ) -> Result<Arc<DmaMemory>, MemoryError> {
        let len_bytes = usize::try_from(len_bytes).map_err(|_| io::Error::from_raw_os_error(12))?;
        let len_bytes = len_bytes / PAGE_BYTES * PAGE_BYTES;
        self.files.retain(|known| known.memory.strong_count() > 0);
        let known = self
            .files
            .iter()
            .find(|known| known.device == device && known.inode == inode && known.sharing == sharing);
        // One that has grown since is mapped anew.
        let memory =
            known.and_then(|known| known.memory.upgrade()).filter(|memory| memory.len() >= len_bytes);
        if let Some(memory) = memory {
            return Ok(memory);
        }
        let memory = Arc::new(DmaMemory::from_mapping(Mapping::file(file, 0, len_bytes, sharing)?));
        self.files.push(SharedFile { device, inode, sharing, memory: Arc::downgrade(&memory) });
        Ok(memory)
    }

    /// Takes ranges away. The function may be touching them until [`byway_in_process::Front::let_go`] says otherwise.
    ///
    /// The protocol has hosts unmap what they mapped, one by one. QEMU with an IOMMU unmaps stretches that hold many ranges
    /// or none: each whole range in there is unmapped.
    ///
    /// # Errors
    /// A range that is only partly in there; nothing is changed then.
    pub fn unmap(&mut self, unmap: &DmaUnmap) -> Result<(), MemoryError> {
        let (first, last) = match unmap {
            DmaUnmap::All => (0, u64::MAX),
            DmaUnmap::Range(range) => (range.first(), range.last()),
        };
        let ends_inside = |at: u64| {
            let before = self.ranges.range(..at).next_back();
            before.is_some_and(|(_, mapped)| mapped.last >= at)
        };
        if ends_inside(first) || last.checked_add(1).is_some_and(ends_inside) {
            return Err(MemoryError::Part);
        }
        let inside: Vec<u64> = self.ranges.range(first..=last).map(|(first, _)| *first).collect();
        for first in inside {
            if self.ranges.remove(&first).is_some_and(|mapped| mapped.is_reached) {
                self.space.unmap(BusAddr(first))?;
            }
        }
        Ok(())
    }
}

/// Has the file keep its length from here on, where files can be sealed: memory of QEMU's and of most other clients. It fails
/// for other files, whose clients are believed.
fn hold_length(file: &File) {
    let _ = rustix::fs::fcntl_add_seals(file, rustix::fs::SealFlags::SHRINK);
}

fn access_of(map: &DmaMap) -> Option<Access> {
    match (map.readable, map.writable) {
        (true, true) => Some(Access::ReadWrite),
        (true, false) => Some(Access::Read),
        (false, true) => Some(Access::Write),
        (false, false) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use byway_dma::{HostMemory, Why};
    use byway_vfio_user_wire::DmaRange;
    use proptest::prelude::*;
    use std::os::unix::fs::FileExt;

    const PAGE: u64 = PAGE_BYTES as u64;

    fn file(pages: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(pages * PAGE).unwrap();
        file
    }

    fn fd(file: &File) -> Option<OwnedFd> {
        Some(file.try_clone().unwrap().into())
    }

    fn map(first_page: u64, pages: u64, from_page: u64) -> DmaMap {
        DmaMap {
            range: DmaRange::new(first_page * PAGE, pages * PAGE).unwrap(),
            file_offset: from_page * PAGE,
            readable: true,
            writable: true,
        }
    }

    fn unmap(first_page: u64, pages: u64) -> DmaUnmap {
        DmaUnmap::Range(DmaRange::new(first_page * PAGE, pages * PAGE).unwrap())
    }

    fn ranges() -> HostRanges {
        HostRanges::new(Arc::new(DmaSpace::new()))
    }

    #[test]
    fn the_function_reaches_the_part_of_the_file_that_was_mapped() {
        let (mut ranges, memory) = (ranges(), file(4));
        memory.write_all_at(b"third", 2 * PAGE).unwrap();
        ranges.map(&map(100, 1, 2), fd(&memory)).unwrap();
        let mut bytes = [0; 5];
        ranges.space.read(BusAddr(100 * PAGE), &mut bytes).unwrap();
        assert_eq!(&bytes, b"third");
        ranges.space.write(BusAddr(100 * PAGE), b"T").unwrap();
        memory.read_exact_at(&mut bytes, 2 * PAGE).unwrap();
        assert_eq!(&bytes, b"Third");
        assert!(ranges.space.read(BusAddr(101 * PAGE), &mut bytes).is_err());
    }

    #[test]
    fn what_may_only_be_read_needs_a_descriptor_for_reading_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rom");
        std::fs::write(&path, [7; PAGE_BYTES]).unwrap();
        let (mut ranges, rom) = (ranges(), File::open(&path).unwrap());
        ranges.map(&DmaMap { writable: false, ..map(0, 1, 0) }, fd(&rom)).unwrap();
        let mut byte = [0];
        ranges.space.read(BusAddr(0), &mut byte).unwrap();
        assert_eq!(byte, [7]);
        assert_eq!(ranges.space.write(BusAddr(0), &byte).unwrap_err().why, Why::NotWritable);
        // The host changes it later.
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[8], 0).unwrap();
        ranges.space.read(BusAddr(0), &mut byte).unwrap();
        assert_eq!(byte, [8]);
        let refused = ranges.map(&map(1, 1, 0), fd(&rom)).unwrap_err();
        assert_eq!(refused.errno(), Errno::EACCES);
    }

    #[test]
    fn a_file_that_is_shorter_than_its_range_is_refused() {
        let (mut ranges, memory) = (ranges(), file(2));
        for (pages, from) in [(3, 0), (1, 2), (2, 1), (1, u64::MAX / PAGE)] {
            let refused = ranges.map(&map(0, pages, from), fd(&memory)).unwrap_err();
            assert!(matches!(refused, MemoryError::NotInFile { .. }), "{refused}");
        }
        assert_eq!(ranges.count(), 0);
    }

    #[test]
    fn a_file_that_can_be_sealed_cannot_be_cut_short_under_the_function() {
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let memory = File::from(rustix::fs::memfd_create("guest", flags).unwrap());
        memory.set_len(2 * PAGE).unwrap();
        let mut ranges = ranges();
        ranges.map(&map(0, 2, 0), fd(&memory)).unwrap();
        assert!(memory.set_len(PAGE).is_err());
        assert!(ranges.space.read(BusAddr(PAGE), &mut [0]).is_ok());
    }

    #[test]
    fn memory_without_a_descriptor_is_kept_and_not_reached() {
        let mut ranges = ranges();
        ranges.map(&map(5, 1 << 40, 0), None).unwrap();
        assert_eq!(ranges.space.read(BusAddr(5 * PAGE), &mut [0]).unwrap_err().why, Why::Unmapped);
        assert_eq!(ranges.map(&map(6, 1, 0), None).unwrap_err().errno(), Errno::EEXIST);
        ranges.unmap(&unmap(5, 1 << 40)).unwrap();
        ranges.map(&map(6, 1, 0), None).unwrap();
    }

    #[test]
    fn a_stretch_up_to_the_last_address_unmaps_what_is_in_it() {
        let (mut ranges, memory) = (ranges(), file(1));
        ranges.map(&map(0xfee00, 1, 0), fd(&memory)).unwrap();
        ranges.map(&map(0xfef00, 1, 0), fd(&memory)).unwrap();
        ranges.map(&map(0x1000_0000, 1, 0), fd(&memory)).unwrap();
        let rest = DmaRange::new(0xfef0_0000, 0xffff_ffff_0110_0000).unwrap();
        ranges.unmap(&DmaUnmap::Range(rest)).unwrap();
        assert_eq!(ranges.count(), 1);
        ranges.unmap(&DmaUnmap::Range(rest)).unwrap();
        ranges.unmap(&DmaUnmap::All).unwrap();
        assert_eq!(ranges.count(), 0);
        assert!(ranges.space.read(BusAddr(0xfee0_0000), &mut [0]).is_err());
    }

    #[test]
    fn a_range_is_not_split() {
        let mut ranges = ranges();
        ranges.map(&map(10, 4, 0), None).unwrap();
        for (first, pages) in [(10, 3), (11, 3), (11, 1), (9, 2), (13, 9)] {
            let refused = ranges.unmap(&unmap(first, pages)).unwrap_err();
            assert_eq!(refused.errno(), Errno::EINVAL, "{first} {pages}");
        }
        ranges.unmap(&unmap(10, 4)).unwrap();
    }

    #[test]
    fn a_file_is_mapped_once_for_all_its_ranges_and_let_go_with_the_last() {
        let (mut ranges, memory) = (ranges(), file(64));
        for page in 0..64 {
            ranges.map(&map(page * 2, 1, page), fd(&memory)).unwrap();
        }
        assert_eq!(ranges.files.len(), 1);
        ranges.unmap(&DmaUnmap::All).unwrap();
        assert_eq!(ranges.files[0].memory.strong_count(), 0);
    }

    proptest! {
        #[test]
        fn ranges_are_kept_as_a_list_would_keep_them(
            steps in prop::collection::vec((any::<bool>(), 0u64..24, 1u64..8, any::<bool>()), 1..60),
        ) {
            let (mut ranges, memory) = (ranges(), file(8));
            let mut list: Vec<(u64, u64, bool)> = Vec::new();
            for (maps, first, pages, has_fd) in steps {
                let touches = |&(at, len, _): &(u64, u64, bool)| at < first + pages && first < at + len;
                if maps {
                    let mapped = ranges.map(&map(first, pages, 0), fd(&memory).filter(|_| has_fd));
                    prop_assert_eq!(mapped.is_ok(), !list.iter().any(touches));
                    if mapped.is_ok() {
                        list.push((first, pages, has_fd));
                    }
                } else {
                    let covered = |&(at, len, _): &(u64, u64, bool)| first <= at && at + len <= first + pages;
                    let whole = list.iter().filter(|range| touches(range)).all(covered);
                    prop_assert_eq!(ranges.unmap(&unmap(first, pages)).is_ok(), whole);
                    if whole {
                        list.retain(|range| !covered(range));
                    }
                }
                for page in 0..32 {
                    let reached = list.iter().any(|&(at, len, has_fd)| has_fd && (at..at + len).contains(&page));
                    prop_assert_eq!(ranges.space.read(BusAddr(page * PAGE), &mut [0]).is_ok(), reached);
                }
            }
        }
    }
}
