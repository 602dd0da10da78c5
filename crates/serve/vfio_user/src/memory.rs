//! The host's memory as it maps it for the function, at addresses of its choice.
//!
//! Memory with a descriptor is mapped here and reached without a message. Memory without one is remembered, so that the
//! host may unmap it, and not reached: a command that points there ends with Data Transfer Error.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use byway_dma::{Access, BusAddr, DmaSpace, MapRefusal};
use byway_sys::map::Sharing;
use byway_vfio_user_wire::{DmaMap, DmaUnmap, Errno};

use crate::windows::{MAX_WINDOWS, MAX_WINDOWS_BYTES, WindowId, Windows};

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
    /// More of its files than is mapped for one host.
    #[error("more than {MAX_WINDOWS} parts of files, or {MAX_WINDOWS_BYTES} bytes of them")]
    TooManyWindows,
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
            Self::TooMany | Self::TooManyWindows => Errno::ENOSPC,
            Self::System(error) => error.raw_os_error().map_or(Errno::EIO, |errno| Errno(errno as u32)),
            _ => Errno::EINVAL,
        }
    }
}

/// The memory ranges of one client.
#[derive(Debug)]
pub struct HostRanges {
    space: Arc<DmaSpace>,
    /// By first address.
    ranges: BTreeMap<u64, Mapped>,
    windows: Windows,
}

#[derive(Debug, Clone, Copy)]
struct Mapped {
    last: u64,
    /// Its window, if it is mapped in the address space.
    window: Option<WindowId>,
}

impl HostRanges {
    /// No ranges in `space`.
    #[must_use]
    pub fn new(space: Arc<DmaSpace>) -> Self {
        Self { space, ranges: BTreeMap::new(), windows: Windows::default() }
    }

    /// How many ranges are mapped.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Maps a range for the device; without a descriptor it is only noted.
    ///
    /// # Errors
    /// See [`MemoryError`]; nothing is changed.
    pub fn map(&mut self, map: &DmaMap, fd: Option<OwnedFd>) -> Result<(), MemoryError> {
        let (first, last) = (map.range.first(), map.range.last());
        if self.ranges.range(..=last).next_back().is_some_and(|(_, mapped)| mapped.last >= first) {
            return Err(MemoryError::Exists);
        }
        if self.ranges.len() >= MAX_RANGES {
            return Err(MemoryError::TooMany);
        }
        let access = access_of(map).ok_or(MemoryError::NoAccess)?;
        let window = match fd.map(File::from) {
            Some(file) => self.map_file(map, &file, access)?,
            None => None,
        };
        self.ranges.insert(first, Mapped { last, window });
        Ok(())
    }

    /// Maps a range of a file, which is part of a window then; of none where the descriptor is of something that has no bytes of its own.
    fn map_file(
        &mut self,
        map: &DmaMap,
        file: &File,
        access: Access,
    ) -> Result<Option<WindowId>, MemoryError> {
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        hold_length(file);
        // Measured after it is held.
        let found = file.metadata()?;
        let (bytes, offset) = (map.range.bytes(), map.file_offset);
        let short = || MemoryError::NotInFile { offset, bytes, file_bytes: found.len() };
        let end = offset.checked_add(bytes).filter(|end| *end <= found.len()).ok_or_else(short)?;
        let len = usize::try_from(bytes).map_err(|_| short())?;
        // What the function may only read is mapped so that nothing of it could be written: then the descriptor needs to
        // allow no more.
        let sharing = if access.writes() { Sharing::Shared } else { Sharing::CopyOnWrite };
        let lent = self.windows.lend(file, &found, &(offset..end), sharing)?;
        let at = BusAddr(map.range.first());
        if let Err(refused) = self.space.map_part(lent.memory, lent.offset_bytes, len, at, access) {
            self.windows.give_back(lent.window);
            return Err(refused.into());
        }
        Ok(Some(lent.window))
    }

    /// Whether the client truncated a mapped file, so that accesses found zeroes.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.windows.is_lost()
    }

    /// Unmaps ranges. Accesses may be in progress until [`byway_executor::RemoteFront::quiesce_dma`] returns.
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
            if let Some(window) = self.ranges.remove(&first).and_then(|mapped| mapped.window) {
                self.space.unmap(BusAddr(first))?;
                self.windows.give_back(window);
            }
        }
        Ok(())
    }
}

/// Has the file keep its length from here on, where files can be sealed: memory of QEMU's and of most other clients. It fails
/// for other files; a client that cuts one short is found out when it is touched.
fn hold_length(file: &File) {
    let _ = rustix::fs::fcntl_add_seals(file, rustix::fs::SealFlags::SHRINK);
}

pub(crate) fn access_of(map: &DmaMap) -> Option<Access> {
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
    use byway_sys::map::PAGE_BYTES;
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
    fn read_only_range_needs_only_a_read_only_descriptor() {
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
    fn ranges_that_stand_close_in_a_file_share_a_window_which_goes_with_the_last() {
        let (mut ranges, memory) = (ranges(), file(64));
        for page in 0..64 {
            ranges.map(&map(page * 2, 1, page), fd(&memory)).unwrap();
        }
        assert_eq!(ranges.windows.count(), 1);
        ranges.unmap(&DmaUnmap::All).unwrap();
        assert_eq!(ranges.windows.count(), 0);
    }

    /// Pages of a file that no memory could hold.
    const VAST: u64 = 48 << 40 >> 12;

    fn vast_file() -> File {
        let memory = rustix::fs::memfd_create("vast", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let memory = File::from(memory);
        memory.set_len(VAST * PAGE).unwrap();
        memory
    }

    #[test]
    fn only_the_named_part_of_a_large_file_is_mapped() {
        let (mut ranges, memory) = (ranges(), vast_file());
        memory.write_all_at(b"end", (VAST - 1) * PAGE).unwrap();
        for (at, page) in [(0, 0), (1, VAST / 2), (2, VAST - 1)] {
            ranges.map(&map(at, 1, page), fd(&memory)).unwrap();
        }
        let mut bytes = [0; 3];
        ranges.space.read(BusAddr(2 * PAGE), &mut bytes).unwrap();
        assert_eq!(&bytes, b"end");
        let refused = ranges.map(&map(100, VAST, 0), fd(&memory)).unwrap_err();
        assert_eq!((refused.errno(), ranges.count()), (Errno::ENOSPC, 3));
        // What it has is not lost by that.
        ranges.map(&map(100, 1 << 28, 0), fd(&memory)).unwrap();
    }

    #[test]
    fn more_windows_than_a_host_may_have_are_refused_and_can_be_had_again() {
        let (mut ranges, memory) = (ranges(), vast_file());
        let stride = 1 << 30 >> 12;
        let mut at = 0;
        let refused = loop {
            match ranges.map(&map(at, 1, at * stride), fd(&memory)) {
                Ok(()) => at += 1,
                Err(refused) => break refused,
            }
        };
        assert_eq!((refused.errno(), at), (Errno::ENOSPC, MAX_WINDOWS as u64));
        ranges.unmap(&unmap(0, 1)).unwrap();
        ranges.map(&map(at, 1, at * stride), fd(&memory)).unwrap();
    }

    #[test]
    fn as_many_ranges_as_there_may_be_are_mapped_and_found_and_one_more_is_refused() {
        let (mut ranges, memory) = (ranges(), file(256));
        let limit = MAX_RANGES as u64;
        for at in 0..limit {
            ranges.map(&map(at * 2, 1, at % 256), fd(&memory)).unwrap();
        }
        assert_eq!(ranges.map(&map(limit * 2, 1, 0), None).unwrap_err().errno(), Errno::ENOSPC);
        assert!(ranges.space.read(BusAddr((limit - 1) * 2 * PAGE), &mut [0]).is_ok());
        assert!(ranges.space.read(BusAddr(PAGE), &mut [0]).is_err());
        ranges.unmap(&DmaUnmap::All).unwrap();
        assert!(ranges.space.read(BusAddr(0), &mut [0]).is_err());
    }

    #[test]
    fn truncated_file_reads_zeroes_and_is_reported() {
        let (mut ranges, memory) = (ranges(), file(4));
        ranges.map(&map(0, 4, 0), fd(&memory)).unwrap();
        ranges.space.write(BusAddr(3 * PAGE), b"last").unwrap();
        memory.set_len(PAGE).unwrap();
        assert!(!ranges.is_lost());
        let mut bytes = [7; 4];
        ranges.space.read(BusAddr(3 * PAGE), &mut bytes).unwrap();
        assert_eq!((bytes, ranges.is_lost()), ([0; 4], true));
        assert!(ranges.is_lost(), "for good");
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
