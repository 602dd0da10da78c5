//! The face of the flash: devices made and opened, namespaces, and access to their extents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_link::FlashProfile;
use byway_sys::{FileEvents, ImageFile, Trouble};

use crate::areas::AreaTable;
use crate::blocks::BlockTable;
use crate::counters::FlashCounters;
use crate::durability::{Durability, SyncPoint, Syncs};
use crate::error::{FlashError, ImageError};
use crate::fading::Fading;
use crate::finding::Finding;
use crate::ftl::Ftl;
use crate::geometry::{Geometry, UNIT_BYTES};
use crate::health::FactoryBad;
use crate::image::layout::Layout;
use crate::image::namespaces::{
    Entry, ExtentId, NamespaceKind, NamespaceRecord, NamespaceSpec, NamespaceTable,
};
use crate::image::superblock::{Keeps, Superblock, damaged};
use crate::injection::Injection;
use crate::media::{FileMedia, InjectedMedia, Media, MediaKind, NullMedia, RamMedia, Reads};
use crate::mend::Mender;
use crate::promises::Promises;
use crate::protected::Backing;
use crate::recovery::{Owned, Recovery};
use crate::spare::PageKind;
use crate::state::PowerHistory;
use crate::timing::FlashTiming;
use crate::victims::GcPolicy;
use crate::wear::WearSummary;

/// A device to be made.
#[derive(Debug, Clone)]
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
/// two bytes for each byte written; `byway bench endurance` shows it. The image is sparse, so what is not used is not
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
}

/// How a device is run, whether made or opened. Nothing of it is kept in the image.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// What a completion promises.
    pub durability: Durability,
    /// Who is told of the operations on the image's file, and may make them fail.
    pub events: Option<Arc<dyn FileEvents>>,
    /// How pages of an image file are read. With `events` they are read by system calls in any case.
    pub reads: Reads,
    /// A sync point to leave out: for the test that proves each of them necessary.
    pub left_out: Option<SyncPoint>,
    /// Operations of the medium that shall fail.
    pub injection: Option<Injection>,
    /// What blocks endure between two erases, and whether data is moved before.
    pub fading: Fading,
    /// Take an image that was not closed for one that lost real power, whatever the kernel tells of its boot: for
    /// images that were copied while in use, and for tests.
    pub power_was_lost: bool,
}

impl RunOptions {
    const fn new() -> Self {
        Self {
            durability: Durability::Process,
            events: None,
            reads: Reads::Mapped,
            left_out: None,
            injection: None,
            fading: Fading { reads_limit: None, age_limit: None, refresh: false },
            power_was_lost: false,
        }
    }
}

/// How an image is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Leave the file as it is; writing answers [`FlashError::ReadOnly`].
    pub read_only: bool,
    /// Whether operations take modelled time.
    pub timing: bool,
    /// How the device is run.
    pub run: RunOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { read_only: false, timing: true, run: RunOptions::new() }
    }
}

impl OpenOptions {
    fn how(&self) -> How {
        How { timing: self.timing, run: self.run.clone(), factory_bad: FactoryBad::default() }
    }
}

/// What making and opening have in common.
#[derive(Clone)]
struct How {
    timing: bool,
    run: RunOptions,
    /// Of a device that is made.
    factory_bad: FactoryBad,
}

/// One flash device: NAND array, translation layer, protected state.
///
/// Whoever runs the device owns it; it has no thread, clock or randomness of its own. Times are a cursor in modelled
/// picoseconds that the caller passes in: a read moves it to when the bytes are there, a write to when the page
/// buffer has taken the data. Dropping it without [`close`](Self::close) is a power cut of a device with capacitors:
/// everything acknowledged is there when the image is opened again.
pub struct Flash {
    pub(crate) ftl: Ftl,
    pub(crate) namespaces: NamespaceTable,
    pub(crate) areas: AreaTable,
    /// Mapped entries of each extent, once someone asked.
    pub(crate) mapped: Vec<Option<u64>>,
    pub(crate) superblock: Superblock,
    layout: Layout,
    backing: Backing,
    recovery: Recovery,
    closed: bool,
    /// A repair opened it, and has not set right yet what is damaged: the medium says that it is closed.
    is_to_be_mended: bool,
    /// Whoever verifies what it borrows is lent what does not match the checksum of its page, too.
    pub(crate) is_checked: bool,
    /// The file that describes a device in memory, locked while it is open.
    description: Option<Arc<ImageFile>>,
}

impl Flash {
    /// Makes a device with `namespaces`. On a file medium the file must not exist; when making fails it is removed.
    ///
    /// # Errors
    /// [`ImageError`] for the size, the profile and the file; [`FlashError::NoCapacity`] when the namespaces do not
    /// fit.
    pub fn create(options: FlashOptions, namespaces: &[NamespaceSpec]) -> Result<Self, FlashError> {
        Self::create_for(options, namespaces, Promises::default())
    }

    /// As [`Flash::create`], with room for namespaces that will come with what they were promised elsewhere.
    pub(crate) fn create_for(
        options: FlashOptions,
        namespaces: &[NamespaceSpec],
        promises: Promises,
    ) -> Result<Self, FlashError> {
        let how = How { timing: options.timing, run: options.run, factory_bad: options.factory_bad };
        let over_provisioning_percent = options.over_provisioning_percent;
        let profile = FlashProfile { over_provisioning_percent, ..options.profile };
        let superblock = |keeps| -> Result<Superblock, ImageError> {
            Ok(Superblock {
                keeps,
                geometry: Geometry::for_promises(options.size_bytes, &profile, promises)?,
                profile,
                profile_name: options.profile_name,
                uuid: options.uuid,
            })
        };
        match options.media {
            MediaKind::File(path) => Self::create_file(&path, superblock(Keeps::File)?, how, namespaces),
            MediaKind::Ram => Self::create_in_memory(superblock(Keeps::Ram)?, how, namespaces),
            MediaKind::Null => Self::create_in_memory(superblock(Keeps::Null)?, how, namespaces),
            MediaKind::DescribedRam(path) => Self::describe(&path, superblock(Keeps::Ram)?, how, namespaces),
            MediaKind::DescribedNull(path) => {
                Self::describe(&path, superblock(Keeps::Null)?, how, namespaces)
            }
        }
    }

    fn create_in_memory(
        superblock: Superblock,
        how: How,
        namespaces: &[NamespaceSpec],
    ) -> Result<Self, FlashError> {
        let media: Box<dyn Media> = match superblock.keeps {
            Keeps::Null => Box::new(NullMedia),
            _ => Box::new(RamMedia::new(superblock.geometry, &Layout::of(&superblock.geometry))?),
        };
        Self::create_on(Backing::Memory, media, superblock, how, namespaces)
    }

    /// Writes an image that only describes a device, and opens it.
    fn describe(
        path: &Path,
        superblock: Superblock,
        how: How,
        namespaces: &[NamespaceSpec],
    ) -> Result<Self, FlashError> {
        let How { timing, run, .. } = how.clone();
        Self::create_file(path, superblock, how, namespaces)?.close()?;
        Self::open(path, OpenOptions { timing, read_only: false, run })
    }

    /// A device in memory of the shape that an image describes. The file stays locked while the device is open.
    pub(crate) fn open_described(
        file: Arc<ImageFile>,
        superblock: Superblock,
        options: OpenOptions,
        path: &Path,
    ) -> Result<Self, FlashError> {
        let layout = Layout::of(&superblock.geometry);
        let table = NamespaceTable::open(&Backing::File(Arc::clone(&file)), &layout, None)?;
        let table = table.map_err(|what| damaged(path, &what))?;
        let spec = |entry: &Entry| {
            let NamespaceRecord { nsid, kind, size_bytes, .. } = entry.record;
            NamespaceSpec { nsid: Some(nsid), kind, size_bytes }
        };
        let specs: Vec<NamespaceSpec> = table.iter().map(spec).collect();
        let mut flash = Self::create_in_memory(superblock, options.how(), &specs)?;
        flash.description = Some(file);
        Ok(flash)
    }

    fn create_file(
        path: &Path,
        superblock: Superblock,
        how: How,
        namespaces: &[NamespaceSpec],
    ) -> Result<Self, FlashError> {
        let file = ImageFile::create(path).map_err(ImageError::from)?;
        let file = Arc::new(file.watched_by(how.run.events.clone()));
        let made = Self::fill_file(&file, superblock, how, namespaces);
        if made.is_err() {
            // The file is ours and new. What made this fail is the better error.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    fn fill_file(
        file: &Arc<ImageFile>,
        superblock: Superblock,
        how: How,
        namespaces: &[NamespaceSpec],
    ) -> Result<Self, FlashError> {
        let layout = Layout::of(&superblock.geometry);
        file.set_len(layout.total_bytes())?;
        let backing = Backing::File(Arc::clone(file));
        backing.allocate(layout.fixed())?;
        let media = FileMedia::open(Arc::clone(file), superblock.geometry, &layout, &how.run)?;
        let mut flash = Self::create_on(backing, Box::new(media), superblock, how, namespaces)?;
        // What makes it an image comes last, and its name with it. Whatever is promised of it is promised by a later sync.
        flash.ftl.sync(SyncPoint::Made)?;
        flash.superblock.write(file)?;
        file.sync_name()?;
        Ok(flash)
    }

    fn create_on(
        backing: Backing,
        media: Box<dyn Media>,
        superblock: Superblock,
        how: How,
        namespaces: &[NamespaceSpec],
    ) -> Result<Self, FlashError> {
        let layout = Layout::of(&superblock.geometry);
        let blocks = BlockTable::create(&backing, &layout, &superblock.geometry, how.factory_bad)?;
        let mut flash = Self::assemble(backing, media, superblock, how, blocks, Path::new(""), None)?;
        flash.ftl.state.begin_power_cycle(true);
        for spec in namespaces {
            flash.add_namespace(*spec)?;
        }
        Ok(flash)
    }

    /// Opens an image. One that is refused is left as it is.
    ///
    /// # Errors
    /// [`FlashError::Image`]: what is wrong with it, in one sentence.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Self, FlashError> {
        let opened = if options.read_only { ImageFile::open_read_only(path) } else { ImageFile::open(path) };
        let file = opened.map_err(ImageError::from)?;
        let file = Arc::new(file.watched_by(options.run.events.clone()));
        let superblock = Superblock::read(&file)?;
        if superblock.keeps != Keeps::File {
            return Self::open_described(file, superblock, options, path);
        }
        Self::open_file(file, superblock, options, path, None)
    }

    /// Opens the device that an image holds. With a mender, what of its tables is damaged is set right or left out.
    pub(crate) fn open_file(
        file: Arc<ImageFile>,
        superblock: Superblock,
        options: OpenOptions,
        path: &Path,
        mut mender: Mender<'_>,
    ) -> Result<Self, FlashError> {
        let layout = Layout::of(&superblock.geometry);
        let media = FileMedia::open(Arc::clone(&file), superblock.geometry, &layout, &options.run)?;
        let backing = Backing::File(file);
        let blocks = BlockTable::open(&backing, &layout, &superblock.geometry, mender.as_deref_mut())?;
        let mender_of_tables = mender.as_deref_mut();
        let media = Box::new(media);
        let mut flash =
            Self::assemble(backing, media, superblock, options.how(), blocks, path, mender_of_tables)?;
        flash.recover(path, mender, options.run.power_was_lost)?;
        Ok(flash)
    }

    fn assemble(
        backing: Backing,
        media: Box<dyn Media>,
        superblock: Superblock,
        how: How,
        blocks: BlockTable,
        path: &Path,
        mut mender: Mender<'_>,
    ) -> Result<Self, FlashError> {
        let geometry = superblock.geometry;
        let layout = Layout::of(&geometry);
        let timing = FlashTiming::new(&geometry, &superblock.profile, how.timing);
        let named = |what: String| damaged(path, &what);
        let namespaces = NamespaceTable::open(&backing, &layout, mender.as_deref_mut())?.map_err(named)?;
        let areas = AreaTable::open(&backing, &layout, mender)?.map_err(named)?;
        let media = match &how.run.injection {
            Some(injection) => Box::new(InjectedMedia::new(media, geometry, injection)),
            None => media,
        };
        let syncs = Syncs::new(backing.clone(), how.run.durability, how.run.left_out);
        let mut ftl = Ftl::open(geometry, &layout, &backing, media, timing, blocks, syncs)?;
        let refresh = how.run.fading.refresh && !backing.is_read_only();
        ftl.fading = Fading { refresh, ..how.run.fading };
        let mapped = Vec::new();
        let recovery = Recovery::default();
        let mut flash = Self {
            ftl,
            namespaces,
            areas,
            mapped,
            superblock,
            layout,
            backing,
            recovery,
            closed: false,
            is_to_be_mended: false,
            is_checked: false,
            description: None,
        };
        flash.note_promises();
        Ok(flash)
    }

    /// Brings an opened image into order. Read-only, this happens in private copies of the mapped regions.
    fn recover(
        &mut self,
        path: &Path,
        mut mender: Mender<'_>,
        power_was_lost: bool,
    ) -> Result<(), FlashError> {
        let is_repaired = mender.is_some() && !self.backing.is_read_only();
        if let Some(findings) = &mut mender {
            self.mend_before_recovery(findings);
            if is_repaired && findings.iter().any(Finding::is_beyond_repair) {
                return Ok(());
            }
        }
        let clean = self.ftl.state.is_clean();
        if clean && !self.ftl.state.checksum_holds() {
            return Err(damaged(path, "the device state").into());
        }
        if let Some(entry) = self.namespaces.iter().find(|entry| !self.fits(entry)) {
            let what = format!("the extent of namespace {}", entry.record.nsid);
            return Err(damaged(path, &what).into());
        }
        let power_lost = !clean && (power_was_lost || !self.ftl.state.is_same_boot());
        self.recovery = Recovery { unclean: !clean, power_lost, ..Recovery::default() };
        let read_only = self.is_read_only();
        if power_lost {
            if let Some(findings) = mender {
                self.mend_map_before_recovery(findings);
            }
            let owned = self.owned();
            self.ftl.recover_from_power_loss(&owned, read_only, &mut self.recovery)?;
            self.ftl.state.count_power_loss();
            if !read_only {
                self.remove_ownerless_areas()?;
            }
        } else {
            self.recovery.recounted_blocks = self.ftl.recover_from_death(read_only);
        }
        match is_repaired {
            true => self.close_to_be_mended(),
            false => self.begin_use(0),
        }
    }

    /// Marks the device as in use, its programs numbered from `from_seq` on at least, and finishes what was left to be finished.
    fn begin_use(&mut self, from_seq: u64) -> Result<(), FlashError> {
        self.ftl.state.begin_power_cycle(!self.recovery.unclean);
        // Not before: a closed state is vouched for as it is.
        self.ftl.state.raise_next_seq(from_seq);
        if self.is_read_only() {
            return Ok(());
        }
        // Whatever a completion promises: an image that says it was closed is believed in everything else.
        self.ftl.order_now(SyncPoint::PowerOn)?;
        self.ftl.choose_side_job();
        self.recovery.removed_namespaces = self.finish_removals()?;
        Ok(())
    }

    /// A repair sets an image right while that says it was closed: a loss of power on the way leaves nothing that would have to
    /// be recovered by what is still damaged.
    fn close_to_be_mended(&mut self) -> Result<(), FlashError> {
        if self.recovery.unclean {
            self.mark_closed()?;
        }
        (self.is_to_be_mended, self.closed) = (true, false);
        // By the repair, which is about to begin.
        self.ftl.syncs.note_store();
        Ok(())
    }

    /// What was set right counts from here on, and the device is in use.
    pub(crate) fn begin_use_once_mended(&mut self, from_seq: u64) -> Result<(), FlashError> {
        if !self.is_to_be_mended {
            self.ftl.state.raise_next_seq(from_seq);
            return Ok(());
        }
        self.ftl.order_now(SyncPoint::Mended)?;
        self.is_to_be_mended = false;
        self.begin_use(from_seq)
    }

    /// An area that was added to a namespace whose record did not reach the medium.
    fn remove_ownerless_areas(&mut self) -> Result<(), FlashError> {
        let namespaces = &self.namespaces;
        let ownerless = |nsid: &u32| *nsid != 0 && namespaces.find(*nsid).is_none();
        let gone: Vec<u32> = self.areas.owners().filter(ownerless).collect();
        gone.into_iter().try_for_each(|nsid| self.areas.remove_all(nsid))
    }

    /// The entries of all namespaces, in order.
    fn owned(&self) -> Vec<Owned> {
        let mut owned: Vec<Owned> = self
            .namespaces
            .iter()
            .map(|entry| Owned {
                first: entry.first,
                entries: entry.entries,
                kind: kind_of(entry.record.kind),
            })
            .collect();
        owned.sort_unstable_by_key(|part| part.first);
        owned
    }

    /// Whether an extent is inside the map, long enough for its namespace, and its own.
    pub(crate) fn fits(&self, entry: &Entry) -> bool {
        let Some(end) = entry.first.checked_add(entry.entries) else { return false };
        let mut others = self.namespaces.iter().filter(|other| other.record.extent != entry.record.extent);
        end <= self.ftl.map.len()
            && entry.record.size_bytes <= self.extent_bytes(entry)
            && others
                .all(|other| end <= other.first || entry.first >= other.first.saturating_add(other.entries))
    }

    /// Ends the use of the device in order; it answers nothing more. Without it the next opener counts an unsafe
    /// shutdown.
    ///
    /// # Errors
    /// What syncing the file says.
    pub fn close(&mut self) -> Result<(), FlashError> {
        if self.closed {
            return Ok(());
        }
        if self.is_to_be_mended {
            // It says that it was closed.
            self.closed = true;
            return Ok(());
        }
        self.mark_closed()
    }

    fn mark_closed(&mut self) -> Result<(), FlashError> {
        // The mark follows what it vouches for: counters too, which are kept without a word.
        self.ftl.syncs.note_store();
        self.ftl.order_now(SyncPoint::PowerOff)?;
        self.close_unnamed()
    }

    /// Ends the use of an image that has no name to be opened by yet: one sync for the mark and all that it vouches for.
    pub(crate) fn close_unnamed(&mut self) -> Result<(), FlashError> {
        self.closed = true;
        self.ftl.state.close();
        self.ftl.sync(SyncPoint::Closed)
    }

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
    pub fn trouble(&self) -> Option<Trouble> {
        self.backing.trouble()
    }

    /// Whether anything can be written.
    ///
    /// # Errors
    /// [`FlashError::ReadOnly`] where the image was opened so; [`FlashError::Stopped`] or
    /// [`FlashError::Unsynced`] once writing or syncing it failed;
    /// [`FlashError::WornOut`] when no spare blocks are left.
    #[inline]
    pub fn check_takes_writes(&self) -> Result<(), FlashError> {
        match self.backing.trouble() {
            Some(Trouble::Failed { doing }) => Err(FlashError::Stopped { doing }),
            _ if self.ftl.syncs.has_failed() => Err(FlashError::Unsynced),
            _ if self.ftl.blocks.are_worn_out() => Err(FlashError::WornOut),
            _ if self.backing.is_read_only() => Err(FlashError::ReadOnly),
            _ => Ok(()),
        }
    }

    /// Turns modelled time of flash operations on or off.
    pub fn set_timing(&mut self, on: bool) {
        self.ftl.timing.set(on);
    }

    /// Chooses blocks for garbage collection by this policy from now on. At first it is greedy.
    pub fn set_gc_policy(&mut self, policy: GcPolicy) {
        self.ftl.gc_policy = policy;
    }

    /// What was done, by cause, since the image was made.
    #[must_use]
    pub const fn counters(&self) -> &FlashCounters {
        self.ftl.state.counters()
    }

    /// How worn its blocks are.
    #[must_use]
    pub fn wear(&self) -> WearSummary {
        self.ftl.blocks.wear()
    }

    /// The shape of the array.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.ftl.geometry
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

    /// Bytes namespaces may hold, all together.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.ftl.geometry.usable_bytes
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

    /// Bytes that the disk which holds the image has left; `None` for other media, or where nobody knows.
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

    /// The image's file, if there is one.
    pub(crate) fn image_file(&self) -> Option<Arc<ImageFile>> {
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
        if self.closed { Err(FlashError::Misuse("the device is closed")) } else { Ok(()) }
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
            PageKind::Page => self.ftl.geometry.page_bytes as u64,
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
        entry.entries * self.entry_bytes(kind_of(entry.record.kind))
    }
}

pub(crate) const fn kind_of(kind: NamespaceKind) -> PageKind {
    match kind {
        NamespaceKind::Nvm { .. } => PageKind::Units,
        NamespaceKind::Kv => PageKind::Page,
    }
}
