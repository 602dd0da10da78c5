//! An image that is read beside the process that writes it (decision 0069).
//!
//! Map, spare records, buffer and pages are the writer's, mapped to be read. Data is copied, and counts if it matches owner and
//! checksum of its record. Tables and areas are copies: [`Flash::refresh_area`] brings parts of an area up to date, and
//! [`Flash::reopened`] everything, once the writer [changed the device](Flash::has_changed).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_sys::{ImageFile, Mapping, MappingReader};

use crate::areas::AreaRef;
use crate::buffer::WaitingCopy;
use crate::counters::Cause;
use crate::error::{FlashError, ImageError};
use crate::flash::Flash;
use crate::flash::reader::UnitReader;
use crate::geometry::{PageId, UNIT_BYTES};
use crate::image::namespaces::ExtentId;
use crate::image::superblock::damaged;
use crate::location::{EntryIndex, Location};
use crate::options::OpenOptions;
use crate::sanitize::SanitizeState;
use crate::spare::PageKind;
use crate::state::State;

/// Times that an image is opened which its writer changes meanwhile.
const OPENINGS: u32 = 100;
/// Copies that are tried of an entry whose data moves each time.
const COPIES: u32 = 1000;
/// Copies that do not match, of an entry that stays where it is, until that counts as damage.
const COPIES_OF_DAMAGE: u32 = 3;

/// The writer's state, and what is known of it.
pub(super) struct Following {
    units: UnitReader,
    state: MappingReader,
    /// The version of the device when it was opened.
    version: u64,
    /// The image was closed: no process writes it, and another may take its place.
    file_if_closed: Option<Arc<ImageFile>>,
    path: PathBuf,
    options: OpenOptions,
}

/// What was found in place of an entry's data.
enum Unread {
    Overtaken,
    Lost(&'static str),
    Damaged(PageId),
}

impl Flash {
    /// Opens an image without a lock. What the writer is in the midst of changing is looked at again.
    pub(super) fn follow(path: &Path, options: OpenOptions) -> Result<Self, FlashError> {
        let mut attempts = 1..=OPENINGS;
        loop {
            let is_last = attempts.next().is_none_or(|attempt| attempt == OPENINGS);
            let file = ImageFile::open_beside(path).map_err(ImageError::from)?;
            match Self::open_in(file, options.clone()) {
                Err(FlashError::Overtaken | FlashError::Image(ImageError::Damaged { .. })) if !is_last => {}
                opened => return opened,
            }
        }
    }

    /// Goes on with what an opening copied; `version` is what the writer's state said before.
    pub(super) fn begin_following(
        &mut self,
        path: &Path,
        options: OpenOptions,
        (version, state): (u64, MappingReader),
    ) -> Result<(), FlashError> {
        let refused = |why| ImageError::NotFollowed { path: path.to_path_buf(), why };
        let units = self.ftl.mapped_reader().ok_or_else(|| refused("its pages have to be mapped"))?;
        let is_clean = self.ftl.state.is_clean();
        if !is_clean && !self.ftl.state.is_same_boot() {
            return Err(ImageError::Unrecovered { path: path.to_path_buf() }.into());
        }
        if self.ftl.state.sanitize().state == SanitizeState::Running {
            return Err(FlashError::Overtaken);
        }
        let leaving: Vec<ExtentId> =
            self.namespaces.iter().filter(|entry| entry.leaving).map(|entry| entry.record.extent).collect();
        leaving.into_iter().for_each(|extent| self.namespaces.leave_out(extent));
        if let Some(entry) = self.namespaces.iter().find(|entry| !self.fits(entry)) {
            return Err(damaged(path, &format!("the extent of namespace {}", entry.record.nsid)).into());
        }
        self.set_timing(false);
        self.watch_image()?;
        if State::version_in(&state) != version {
            return Err(FlashError::Overtaken);
        }
        let file_if_closed = self.image_file().filter(|_| is_clean);
        let path = path.to_path_buf();
        self.following = Some(Following { units, state, version, file_if_closed, path, options });
        Ok(())
    }

    /// Whether the image is read beside the process that writes it.
    #[must_use]
    #[inline]
    pub const fn is_following(&self) -> bool {
        self.following.is_some()
    }

    /// Whether the writer changed the device as a whole since it was opened: power cycles, namespaces, a sanitize; or, of an image
    /// that no process had open, whether another took its place. What was read since may be of something else.
    #[must_use]
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.following.as_ref().is_some_and(Following::has_changed)
    }

    /// The device as it is now, by the path it was opened by.
    ///
    /// # Errors
    /// As [`Flash::open`]; [`FlashError::CutShort`] where another device has that path.
    pub fn reopened(&self) -> Result<Self, FlashError> {
        let following = self.following.as_ref();
        let following = following.ok_or(FlashError::Misuse("the image is not beside a writer"))?;
        let new = Self::follow(&following.path, following.options.clone())?;
        if new.uuid() == self.uuid() { Ok(new) } else { Err(FlashError::CutShort) }
    }

    /// Whether words of an area are no longer as the writer has them now, before everything that is read after them. The range is
    /// aligned to eight bytes.
    #[must_use]
    #[inline]
    pub fn is_area_stale(&self, area: AreaRef, part: Range<usize>) -> bool {
        self.areas.is_stale(area, part)
    }

    /// Copies bytes of an area from the writer. Whether they are what it committed is for the caller to find out.
    pub fn refresh_area(&mut self, area: AreaRef, part: Range<usize>) {
        self.areas.refresh(area, part);
    }

    /// The same of an area whose memory [was given out](Flash::area_memory).
    pub fn refresh_memory(&self, memory: &Arc<Mapping>, part: Range<usize>) {
        self.areas.refresh_shared(memory, part);
    }

    /// As [`Flash::read`], from entry `first` on.
    pub(super) fn read_beside(
        &mut self,
        kind: PageKind,
        first: EntryIndex,
        within: usize,
        into: &mut [u8],
        cause: Cause,
    ) -> Result<(), FlashError> {
        let entry_bytes = self.entry_bytes(kind) as usize;
        let (mut entry, mut within, mut rest) = (first, within, into);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at_mut((entry_bytes - within).min(rest.len()));
            self.read_entry_beside(kind, entry, within, piece, cause)?;
            (entry, within, rest) = (entry + 1, 0, after);
        }
        Ok(())
    }

    fn read_entry_beside(
        &mut self,
        kind: PageKind,
        entry: EntryIndex,
        within: usize,
        into: &mut [u8],
        cause: Cause,
    ) -> Result<(), FlashError> {
        let Some(following) = &self.following else { return Err(FlashError::Overtaken) };
        match following.copy(kind, entry, within, into) {
            Ok(Location::Flash(_)) => {
                let units = (within + into.len()).div_ceil(UNIT_BYTES) - within / UNIT_BYTES;
                self.ftl.state.count_read(cause, (units * UNIT_BYTES) as u64);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(unread) => Err(self.unread(entry, unread)),
        }
    }

    #[cold]
    fn unread(&self, entry: EntryIndex, unread: Unread) -> FlashError {
        match unread {
            Unread::Overtaken => FlashError::Overtaken,
            Unread::Lost(why) => FlashError::Lost { nsid: 0, index: entry, why },
            Unread::Damaged(page) => {
                let (block, page) = self.ftl.geometry().place_of(page);
                FlashError::Media { block: block.0, page, why: "its data does not match its spare record" }
            }
        }
    }
}

impl Following {
    #[inline]
    fn has_changed(&self) -> bool {
        State::version_in(&self.state) != self.version
            || self.file_if_closed.as_ref().is_some_and(|file| !file.has_its_name())
    }

    /// Fills `into` with an entry's data at some moment of the call; where that is.
    fn copy(
        &self,
        kind: PageKind,
        entry: EntryIndex,
        within: usize,
        into: &mut [u8],
    ) -> Result<Location, Unread> {
        let (mut before, mut same) = (None, 0);
        for _ in 0..COPIES {
            // What waits in a lease of the writer is newer than what the map names.
            if kind == PageKind::Units && before.is_none() {
                match self.units.copy_waiting(entry, within, into) {
                    WaitingCopy::Absent => {}
                    WaitingCopy::Copied(place) => return Ok(Location::Buffer(place)),
                    WaitingCopy::Changed => continue,
                }
            }
            let word = before.unwrap_or_else(|| self.units.load(entry));
            if let Some(location) = self.units.copy(kind, entry, word, within, into) {
                return Ok(location);
            }
            let now = self.units.load(entry);
            same = if now == word { same + 1 } else { 0 };
            before = Some(now);
            if same == COPIES_OF_DAMAGE {
                return Err(match self.units.location(entry, now) {
                    Some(Location::Flash(unit)) => Unread::Damaged(self.units.page_of(unit)),
                    Some(Location::Lost) => {
                        Unread::Lost("a media error destroyed it while it was being moved")
                    }
                    Some(_) => Unread::Lost("the unit buffer does not match its checksum"),
                    None => Unread::Lost("its map entry does not match its checksum"),
                });
            }
        }
        Err(Unread::Overtaken)
    }
}
