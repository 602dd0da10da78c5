//! The face of the flash: a device that is open, what it is and what is known of it.

mod access;
mod areas;
mod check;
mod durability;
mod erase;
mod following;
mod health;
mod lease;
mod namespaces;
mod opening;
mod reader;
mod repair;
mod report;
mod resize;
mod snapshot;
mod upkeep;
mod view;

pub use health::{FlashHealth, RATED_ERASES};
pub use reader::{BlockReader, FlashReads};
pub use report::{Ages, BlockCounts, WearBucket};
pub use view::ExtentView;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use byway_link::FlashProfile;
use byway_sys::{ImageFile, WriteFault};

use crate::areas::AreaTable;
use crate::counters::{Cause, FlashCounters, HostCounters, HostIo};
use crate::error::FlashError;
use crate::event::{FlashEvent, Reporter};
use crate::flash::following::Following;
use crate::ftl::Ftl;
use crate::ftl::recovery::Recovery;
use crate::geometry::{Geometry, UNIT_BYTES};
use crate::host_tallies::{HOST_TALLIES, HostTally};
use crate::image::layout::Layout;
use crate::image::namespaces::{Entry, ExtentId, NamespaceTable};
use crate::image::superblock::Superblock;
use crate::mapped::MappedCounts;
use crate::protected::{Backing, ImageWatch};
use crate::spare::PageKind;
use crate::state::PowerHistory;
use crate::victims::GcPolicy;
use crate::wear::WearSummary;

/// One flash device: NAND array, translation layer, protected state.
///
/// The executor owns it; it has no thread, clock or randomness of its own. Times are a cursor in modelled
/// picoseconds that the caller passes in: a read moves it to when the bytes are there, a write to when the page
/// buffer has taken the data. Dropping it without [`close`](Self::close) is a power cut of a device with capacitors:
/// everything acknowledged is there when the image is opened again.
pub struct Flash {
    ftl: Ftl,
    namespaces: NamespaceTable,
    areas: AreaTable,
    mapped: MappedCounts,
    superblock: Superblock,
    layout: Layout,
    backing: Backing,
    recovery: Recovery,
    phase: Phase,
    /// [`Flash::lend`] gives bytes too that do not match the checksum of their page: the borrower verifies them.
    is_checked: bool,
    /// The file that describes a device in memory, locked while it is open.
    description: Option<Arc<ImageFile>>,
    /// The image is read beside the process that writes it.
    following: Option<Following>,
}

/// What may be done with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// In use: its image says that it was not closed.
    Open,
    /// Opened for a repair that has not finished: its image says that it was closed.
    Repair,
    /// Closed: it answers nothing more.
    Closed,
}

impl Flash {
    /// What opening found and did.
    #[must_use]
    pub const fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Times the device was opened, and how often without a close before.
    #[must_use]
    pub fn power_history(&self) -> PowerHistory {
        self.ftl.state.power_history()
    }

    /// Whether the device can only be read: its image was opened so, writing or syncing it failed, or no spare blocks
    /// are left.
    #[must_use]
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.check_takes_writes().is_err()
    }

    /// What is wrong with the image's file, if something is.
    #[must_use]
    pub fn write_fault(&self) -> Option<WriteFault> {
        self.backing.write_fault()
    }

    /// Fails once another program has truncated mapped parts of the image or overwritten its beginning: mapped state is not what
    /// was stored. Called before each command that reads, and again before it completes. Loads three words; no system call.
    ///
    /// # Errors
    /// [`FlashError::CutShort`].
    #[inline]
    pub fn check_whole(&self) -> Result<(), FlashError> {
        if self.backing.is_lost() { Err(FlashError::CutShort) } else { Ok(()) }
    }

    /// As [`Flash::check_whole`], and fails once the image ends early, wherever. Called before each command that writes, and again
    /// before it completes. Loads one word more.
    ///
    /// # Errors
    /// [`FlashError::CutShort`].
    #[inline]
    pub fn check_not_truncated(&self) -> Result<(), FlashError> {
        if self.backing.is_truncated() { Err(FlashError::CutShort) } else { Ok(()) }
    }

    /// A handle for other threads, which says whether the image takes writes.
    #[must_use]
    pub fn image_watch(&self) -> ImageWatch {
        ImageWatch(self.backing.clone())
    }

    /// Whether anything can be written.
    ///
    /// # Errors
    /// [`FlashError::ReadOnly`] where the image was opened so; [`FlashError::Stopped`] or
    /// [`FlashError::Unsynced`] once writing or syncing it failed;
    /// [`FlashError::WornOut`] when no spare blocks are left.
    #[inline]
    pub fn check_takes_writes(&self) -> Result<(), FlashError> {
        match self.backing.write_fault() {
            Some(WriteFault::CutShort) => Err(FlashError::CutShort),
            Some(WriteFault::Failed { doing }) => Err(FlashError::Stopped { doing }),
            _ if self.ftl.syncs.has_failed() => Err(FlashError::Unsynced),
            _ if self.ftl.blocks.are_worn_out() => Err(FlashError::WornOut),
            _ if self.backing.is_read_only() => Err(FlashError::ReadOnly),
            _ => Ok(()),
        }
    }

    /// Runs `work` of a command that frees space (delete, trim, format); on a full disk it may use the disk reserve.
    pub fn with_reserve<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        self.backing.spend_spare(true);
        let done = work(self);
        self.backing.spend_spare(false);
        done
    }

    /// Refills the disk reserve; on a full disk, from blocks without live data.
    pub fn restore_reserve(&mut self) {
        // A failure here is reported when the space is needed.
        while !self.backing.has_spare() && self.ftl.free_disk_room(0).unwrap_or(false) {
            self.backing.spend_spare(false);
        }
    }

    /// Turns modelled time of flash operations on or off.
    pub fn set_timing(&mut self, on: bool) {
        self.ftl.set_timing(on);
    }

    /// Chooses blocks for garbage collection by this policy from now on. At first it is greedy.
    pub fn set_gc_policy(&mut self, policy: GcPolicy) {
        self.ftl.set_gc_policy(policy);
    }

    /// Has `report` called for each event of a block from now on, by the thread whose command led to it.
    pub fn report_to(&mut self, report: fn(FlashEvent)) {
        self.ftl.set_reporter(Reporter(report));
    }

    /// What was done, by cause, since the image was made.
    #[must_use]
    pub const fn counters(&self) -> &FlashCounters {
        self.ftl.state.counters()
    }

    /// Counts commands of hosts that were completed, and the bytes that they moved. The counts outlive the process at any
    /// instruction. A closed image is left as it is.
    #[inline]
    pub fn count_host(&mut self, io: HostIo, commands: u64, bytes: u64) {
        if self.phase == Phase::Open {
            self.ftl.state.count_host(io, commands, bytes);
        }
    }

    /// The line in which thread `thread` of [`HOST_TALLIES`](crate::HOST_TALLIES) counts commands of hosts by itself. `None` where nothing
    /// is counted. One thread at a time has it.
    #[must_use]
    pub fn host_tally(&self, thread: usize) -> Option<HostTally> {
        let is_counted = self.phase == Phase::Open && !self.backing.is_read_only() && thread < HOST_TALLIES;
        is_counted.then(|| self.ftl.state.tally(thread))
    }

    /// Adds to the counters what came to the lines of threads.
    pub fn count_tallied(&mut self, more: HostCounters) {
        if self.phase == Phase::Open {
            self.ftl.state.count_tallied(more);
        }
    }

    /// Counts what [`BlockReader`](crate::BlockReader)s have read for hosts.
    pub fn count_reads(&mut self, reads: FlashReads) {
        if self.phase == Phase::Open && reads != FlashReads::default() {
            self.ftl.state.count_reads(Cause::Host, reads.pages, reads.bytes);
        }
    }

    /// Counts new entries of the error log; how many it has had. The count outlives the process at any instruction; a closed
    /// image, and one that was opened to be read, keeps the count that it had.
    pub fn count_errors(&mut self, entries: u64) -> u64 {
        let is_kept = self.phase == Phase::Open && !self.backing.is_read_only();
        self.ftl.state.count_errors(entries, is_kept)
    }

    /// How worn its blocks are.
    #[must_use]
    pub fn wear(&self) -> WearSummary {
        self.ftl.blocks.wear()
    }

    /// The shape of the array.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        self.ftl.geometry()
    }

    /// The array's profile as given when the image was made, with the over-provisioning that it has.
    #[must_use]
    pub const fn profile(&self) -> &FlashProfile {
        &self.superblock.profile
    }

    /// Name of that profile.
    #[must_use]
    pub fn profile_name(&self) -> &str {
        &self.superblock.profile_name
    }

    /// Identifier of the device.
    #[must_use]
    pub const fn uuid(&self) -> [u8; 16] {
        self.superblock.uuid
    }

    /// The image file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match &self.backing {
            Backing::File(file) => Some(file.path().to_path_buf()),
            Backing::Memory => None,
        }
    }

    /// Device and inode of the image that is open, whatever has its path by now; none in memory.
    #[must_use]
    pub fn image_id(&self) -> Option<(u64, u64)> {
        let Backing::File(file) = &self.backing else { return None };
        file.file().metadata().ok().map(|found| (found.dev(), found.ino()))
    }

    /// Whether the image was opened to read it, as other processes may at the same time.
    #[must_use]
    pub fn is_opened_to_read(&self) -> bool {
        self.backing.is_read_only()
    }

    /// Bytes namespaces may hold, all together.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.ftl.geometry().usable_bytes
    }

    /// Bytes of flash that hold live data, all namespaces together.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let units: u64 = self.ftl.blocks.iter().map(|(_, block)| u64::from(block.live)).sum();
        units * UNIT_BYTES as u64
    }

    /// Bytes the image takes on its disk; nothing for other media.
    ///
    /// # Errors
    /// What the system says.
    pub fn disk_bytes(&self) -> Result<u64, FlashError> {
        match &self.backing {
            Backing::File(file) => Ok(file.allocated_bytes()?),
            Backing::Memory => Ok(0),
        }
    }

    /// Bytes that the disk which holds the image has left; `None` for other media, or where it is unknown.
    #[must_use]
    pub fn disk_free_bytes(&self) -> Option<u64> {
        match &self.backing {
            Backing::File(file) => file.disk_free_bytes().ok(),
            Backing::Memory => None,
        }
    }

    /// Length of the image file, holes included.
    #[must_use]
    pub const fn image_bytes(&self) -> u64 {
        self.layout.total_bytes()
    }

    /// The image's file, if there is one; it is locked as long as anything has it.
    #[must_use]
    pub fn image_file(&self) -> Option<Arc<ImageFile>> {
        match &self.backing {
            Backing::File(file) => Some(Arc::clone(file)),
            Backing::Memory => None,
        }
    }

    /// Where the image has its pages, behind everything else.
    pub(crate) const fn pages_range(&self) -> crate::image::layout::Range {
        self.layout.pages
    }

    /// Where the image file holds what: ranges of bytes by name, in their order. What lies between them is unused.
    #[must_use]
    pub fn regions(&self) -> Vec<(&'static str, std::ops::Range<u64>)> {
        self.layout.named().into_iter().map(|(name, range)| (name, range.at..range.end())).collect()
    }

    #[inline]
    pub(crate) fn writable(&mut self) -> Result<(), FlashError> {
        self.ftl.syncs.note_store();
        self.check_takes_writes()?;
        self.not_closed()
    }

    #[inline]
    fn not_closed(&self) -> Result<(), FlashError> {
        if self.phase == Phase::Closed { Err(FlashError::Misuse("the device is closed")) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn entry(&self, extent: ExtentId) -> Result<&Entry, FlashError> {
        self.not_closed()?;
        // Not `ok_or`: an error made and dropped on each access is not free.
        match self.namespaces.get(extent) {
            Some(entry) => Ok(entry),
            None => Err(FlashError::Misuse("there is no such extent")),
        }
    }

    #[inline]
    pub(crate) const fn entry_bytes(&self, kind: PageKind) -> u64 {
        match kind {
            PageKind::Page => self.ftl.geometry().page_bytes as u64,
            PageKind::Units => UNIT_BYTES as u64,
        }
    }

    /// Bytes of an extent. That of a KV namespace is longer than the namespace's size.
    ///
    /// # Errors
    /// [`FlashError::Misuse`] where there is no such extent.
    pub fn extent_len_bytes(&self, extent: ExtentId) -> Result<u64, FlashError> {
        Ok(self.extent_bytes(self.entry(extent)?))
    }

    #[inline]
    pub(crate) const fn extent_bytes(&self, entry: &Entry) -> u64 {
        entry.entries * self.entry_bytes(entry.record.kind.page_kind())
    }
}
