//! Devices made, opened, brought into order and closed.

use std::path::Path;
use std::sync::Arc;

use byway_link::FlashProfile;
use byway_sys::ImageFile;

use crate::areas::AreaTable;
use crate::bit_repair::RepairLog;
use crate::blocks::BlockTable;
use crate::durability::SyncPoint;
use crate::error::{FlashError, ImageError};
use crate::finding::Finding;
use crate::flash::{Flash, Phase};
use crate::ftl::Ftl;
use crate::ftl::recovery::{Owned, Recovery};
use crate::geometry::Geometry;
use crate::geometry::Promises;
use crate::image::layout::Layout;
use crate::image::namespaces::{Entry, NamespaceRecord, NamespaceSpec, NamespaceTable};
use crate::image::superblock::{Features, Incompatible, Keeps, Superblock, damaged};
use crate::mapped::MappedCounts;
use crate::media::{FileMedia, InjectedMedia, Media, MediaKind, NullMedia, RamMedia};
use crate::options::{FlashOptions, How, OpenOptions};
use crate::protected::Backing;
use crate::retention::RetentionLimits;
use crate::state::State;
use crate::syncs::Syncs;
use crate::timing::FlashTiming;

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
        let (how, media) = (options.how(), options.media.clone());
        let superblock = |keeps| superblock_of(options, promises, keeps);
        match media {
            MediaKind::File(path) => Self::create_file(&path, superblock(Keeps::File)?, how, namespaces),
            MediaKind::Ram => Self::create_in_memory(superblock(Keeps::Ram)?, how, namespaces),
            MediaKind::Null => Self::create_in_memory(superblock(Keeps::Null)?, how, namespaces),
            MediaKind::External => {
                let superblock = superblock(Keeps::Ram)?;
                let geometry = superblock.geometry;
                let media = RamMedia::without_data(geometry, &Layout::of(&geometry))?;
                Self::create_on(Backing::Memory, Box::new(media), superblock, how, namespaces)
            }
            MediaKind::DescribedRam(path) => Self::describe(&path, superblock(Keeps::Ram)?, how, namespaces),
            MediaKind::DescribedNull(path) => {
                Self::describe(&path, superblock(Keeps::Null)?, how, namespaces)
            }
        }
    }

    /// Makes a device without namespaces in an empty file, which gets its name later.
    pub(crate) fn create_in(
        file: ImageFile,
        options: FlashOptions,
        promises: Promises,
    ) -> Result<Self, FlashError> {
        let how = options.how();
        Self::fill_file(&Arc::new(file), superblock_of(options, promises, Keeps::File)?, how, &[])
    }

    fn create_in_memory(
        superblock: Superblock,
        how: How,
        namespaces: &[NamespaceSpec],
    ) -> Result<Self, FlashError> {
        let media: Box<dyn Media> = match superblock.keeps {
            Keeps::Null => Box::new(NullMedia),
            _ => Box::new(RamMedia::new(superblock.geometry, &Layout::of(&superblock.geometry), &how.run)?),
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
        Self::open(path, OpenOptions { timing, run, ..OpenOptions::default() })
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
        let made = Self::fill_file(&file, superblock, how, namespaces)
            .and_then(|flash| file.sync_name().map(|()| flash).map_err(FlashError::from))
            .and_then(|flash| flash.watch_image().map(|()| flash));
        if made.is_err() {
            // The file is ours and new. What made this fail is the better error.
            file.remove_name();
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
        // What makes it an image comes last. Whatever is promised of it is promised by a later sync.
        flash.ftl.sync(SyncPoint::Made)?;
        flash.superblock.write(file)?;
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
        if options.follow {
            return Self::follow(path, options);
        }
        let opened = if options.read_only { ImageFile::open_read_only(path) } else { ImageFile::open(path) };
        Self::open_in(opened.map_err(ImageError::from)?, options)
    }

    /// As [`Flash::open`], of a file that is open and locked. `options.read_only` counts for nothing: it is as the file was
    /// opened.
    ///
    /// # Errors
    /// As [`Flash::open`].
    pub fn open_in(file: ImageFile, options: OpenOptions) -> Result<Self, FlashError> {
        let file = Arc::new(file.watched_by(options.run.events.clone()));
        let superblock = Superblock::read(&file)?;
        let path = file.path().to_path_buf();
        if superblock.keeps != Keeps::File && file.is_beside() {
            return Err(ImageError::NotFollowed { path, why: "its device is in memory" }.into());
        }
        if superblock.keeps != Keeps::File {
            return Self::open_described(file, superblock, options, &path);
        }
        Self::open_file(file, superblock, options, &path, None)
    }

    /// Opens the device that an image holds. With a repair log, what of its tables is damaged is set right or left out.
    pub(crate) fn open_file(
        file: Arc<ImageFile>,
        superblock: Superblock,
        options: OpenOptions,
        path: &Path,
        mut repair_log: RepairLog<'_>,
    ) -> Result<Self, FlashError> {
        let layout = Layout::of(&superblock.geometry);
        let media = FileMedia::open(Arc::clone(&file), superblock.geometry, &layout, &options.run)?;
        let backing = Backing::File(file);
        // Before the tables are copied: they are of this version if it is still the writer's then.
        let live_state = backing.live(layout.state)?.map(|state| (State::version_in(&state), state));
        let blocks = BlockTable::open(&backing, &layout, &superblock.geometry, repair_log.as_deref_mut())?;
        let for_tables = repair_log.as_deref_mut();
        let media = Box::new(media);
        let mut flash = Self::assemble(backing, media, superblock, options.how(), blocks, path, for_tables)?;
        if let Some(live_state) = live_state {
            flash.begin_following(path, options, live_state)?;
            return Ok(flash);
        }
        flash.recover(path, repair_log, options.run.power_was_lost)?;
        // A repair has the image in use later, or not at all.
        if flash.phase == Phase::Open {
            flash.watch_image()?;
        }
        Ok(flash)
    }

    /// Detects from now on that another program changes the image: words of the superblock and of the state are fixed until it is
    /// closed.
    pub(super) fn watch_image(&self) -> Result<(), FlashError> {
        let Backing::File(file) = &self.backing else { return Ok(()) };
        let [magic, uuid] = Superblock::FIXED_WORDS;
        // Beside a writer, cycles of power come and go.
        let last = if file.is_beside() { uuid + 8 } else { self.layout.state.at + State::POWER_CYCLES_AT };
        Ok(file.watch_words([magic, uuid, last])?)
    }

    fn assemble(
        backing: Backing,
        media: Box<dyn Media>,
        superblock: Superblock,
        how: How,
        blocks: BlockTable,
        path: &Path,
        mut repair_log: RepairLog<'_>,
    ) -> Result<Self, FlashError> {
        let geometry = superblock.geometry;
        let layout = Layout::of(&geometry);
        let timing = FlashTiming::new(&geometry, &superblock.profile, how.timing);
        let named = |what: String| damaged(path, &what);
        let namespaces =
            NamespaceTable::open(&backing, &layout, repair_log.as_deref_mut())?.map_err(named)?;
        let areas = AreaTable::open(&backing, &layout, repair_log)?.map_err(named)?;
        let media = match &how.run.injection {
            Some(injection) => Box::new(InjectedMedia::new(media, geometry, injection)),
            None => media,
        };
        let syncs = Syncs::new(backing.clone(), how.run.durability, how.run.left_out);
        let mut ftl = Ftl::open(geometry, &layout, &backing, media, timing, blocks, syncs)?;
        let refresh = how.run.retention.refresh && !backing.is_read_only();
        ftl.set_retention(RetentionLimits { refresh, ..how.run.retention });
        let mapped = MappedCounts::default();
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
            phase: Phase::Open,
            is_checked: false,
            description: None,
            following: None,
        };
        flash.note_promises();
        Ok(flash)
    }

    /// Brings an opened image into order. Read-only, this happens in private copies of the mapped regions.
    fn recover(
        &mut self,
        path: &Path,
        mut repair_log: RepairLog<'_>,
        power_was_lost: bool,
    ) -> Result<(), FlashError> {
        let is_repaired = repair_log.is_some() && !self.backing.is_read_only();
        if let Some(findings) = &mut repair_log {
            self.repair_before_recovery(findings);
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
        let had_leases = !clean && self.superblock.incompatible == Incompatible::BLOCK_LEASES;
        if power_lost {
            if let Some(findings) = repair_log {
                self.repair_map_before_recovery(findings);
            }
            let owned = self.owned();
            self.ftl.recover_from_power_loss(&owned, read_only, had_leases, &mut self.recovery)?;
            self.ftl.state.count_power_loss();
            if !read_only {
                self.remove_ownerless_areas()?;
            }
        } else {
            self.ftl.recover_from_death(read_only, had_leases, &mut self.recovery);
        }
        match is_repaired {
            true => self.close_to_be_repaired(),
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
    fn close_to_be_repaired(&mut self) -> Result<(), FlashError> {
        if self.recovery.unclean {
            self.mark_closed()?;
        }
        self.phase = Phase::Repair;
        // By the repair, which is about to begin.
        self.ftl.syncs.note_store();
        Ok(())
    }

    /// What was set right counts from here on, and the device is in use.
    pub(crate) fn begin_use_once_repaired(&mut self, from_seq: u64) -> Result<(), FlashError> {
        if self.phase != Phase::Repair {
            self.ftl.state.raise_next_seq(from_seq);
            return Ok(());
        }
        self.ftl.order_now(SyncPoint::Repaired)?;
        self.phase = Phase::Open;
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
                kind: entry.record.kind.page_kind(),
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
        match self.phase {
            Phase::Open => self.mark_closed(),
            Phase::Repair | Phase::Closed => {
                self.phase = Phase::Closed;
                Ok(())
            }
        }
    }

    fn mark_closed(&mut self) -> Result<(), FlashError> {
        self.end_block_leases();
        // The mark follows what it vouches for: counters too, which are kept without a word.
        self.ftl.syncs.note_store();
        self.ftl.order_now(SyncPoint::PowerOff)?;
        self.unmark_leases()?;
        self.close_unnamed()
    }

    /// Ends the use of an image that has no name to be opened by yet: one sync for the mark and all that it vouches for.
    pub(crate) fn close_unnamed(&mut self) -> Result<(), FlashError> {
        self.phase = Phase::Closed;
        self.ftl.state.close();
        self.ftl.sync(SyncPoint::Closed)
    }
}

/// The superblock of a device that is to be made.
fn superblock_of(options: FlashOptions, promises: Promises, keeps: Keeps) -> Result<Superblock, ImageError> {
    let over_provisioning_percent = options.over_provisioning_percent;
    let profile = FlashProfile { over_provisioning_percent, ..options.profile };
    Ok(Superblock {
        keeps,
        geometry: Geometry::for_promises(options.size_bytes, &profile, promises)?,
        profile,
        profile_name: options.profile_name,
        uuid: options.uuid,
        features: Features::default(),
        incompatible: Incompatible::NONE,
    })
}
