//! A device of another size with the same namespaces: everything is copied into a new image.
//!
//! The shape of the array follows from the size, and with it the place of everything, so an image is not resized in place.
//! Until the new one takes the name of the old, the old one is the image.

use std::ops::ControlFlow;

use byway_sys::ImageFile;

use crate::counters::Cause;
use crate::error::FlashError;
use crate::flash::Flash;
use crate::image::namespaces::{Entry, NamespaceKind};
use crate::location::{Before, Location};
use crate::media::MediaKind;
use crate::options::FlashOptions;
use crate::spare::PageKind;

impl Flash {
    /// Copies the device into a new image with room for `size_bytes` in the empty file `into`. Namespaces keep numbers,
    /// identifiers and content; `sizes` may give one of blocks another size. `watch` receives how many of how many entries
    /// are copied, and may end it. The new device is closed, and its file locked as long as the value is there.
    ///
    /// # Errors
    /// [`FlashError::TooSmall`] when the namespaces do not fit, [`FlashError::Misuse`] for a namespace that cannot have
    /// the size asked for, [`FlashError::Ended`] where `watch` ended it, and what reading, writing and the file say. Then
    /// `into` is of no use.
    pub fn resized(
        &mut self,
        into: ImageFile,
        size_bytes: u64,
        sizes: &[(u32, u64)],
        watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Self, FlashError> {
        let (entries, planned) = self.plan(size_bytes, sizes)?;
        let media = MediaKind::File(into.path().to_path_buf());
        let mut options = FlashOptions::new(size_bytes, *self.profile(), media);
        self.profile_name().clone_into(&mut options.profile_name);
        (options.timing, options.uuid) = (false, self.uuid());
        options.over_provisioning_percent = self.profile().over_provisioning_percent;
        let mut new = Self::create_in(into, options, self.promises())?;
        self.copy_into(&mut new, &entries, planned, watch)?;
        new.close_unnamed()?;
        Ok(new)
    }

    /// The namespaces as they are and as they shall be, if they fit.
    fn plan(&self, size_bytes: u64, sizes: &[(u32, u64)]) -> Result<(Vec<Entry>, Vec<Entry>), FlashError> {
        let entries: Vec<Entry> = self.namespaces.iter().cloned().collect();
        let planned =
            entries.iter().map(|entry| self.planned(entry, sizes)).collect::<Result<Vec<_>, _>>()?;
        if let Some((nsid, _)) = sizes.iter().find(|(nsid, _)| self.namespaces.find(*nsid).is_none()) {
            return Err(FlashError::NoNamespace(*nsid));
        }
        let asked_bytes =
            planned.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.record.size_bytes));
        if asked_bytes > size_bytes {
            return Err(FlashError::TooSmall { namespaces_bytes: asked_bytes, size_bytes });
        }
        Ok((entries, planned))
    }

    /// A namespace as it shall be.
    fn planned(&self, entry: &Entry, sizes: &[(u32, u64)]) -> Result<Entry, FlashError> {
        let mut planned = entry.clone();
        let asked = sizes.iter().find(|(nsid, _)| *nsid == entry.record.nsid);
        let Some((_, size_bytes)) = asked.filter(|(_, size)| *size != entry.record.size_bytes) else {
            return Ok(planned);
        };
        if entry.record.kind == NamespaceKind::Kv {
            return Err(FlashError::Misuse("a key-value namespace keeps the size it was made with"));
        }
        planned.record.size_bytes = *size_bytes;
        planned.entries = size_bytes.div_ceil(self.entry_bytes(entry.record.kind.page_kind())).max(1);
        let (from, gone) = (entry.first + planned.entries, entry.entries.saturating_sub(planned.entries));
        if gone > 0 && self.ftl.count_mapped(from, gone) > 0 {
            return Err(FlashError::Misuse("the namespace holds data beyond the size asked for"));
        }
        Ok(planned)
    }

    fn copy_into(
        &mut self,
        new: &mut Self,
        old: &[Entry],
        planned: Vec<Entry>,
        watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<(), FlashError> {
        let total = old.iter().map(|entry| self.ftl.count_mapped(entry.first, entry.entries)).sum();
        let mut done = 0;
        self.copy_areas(new, 0)?;
        for (entry, planned) in old.iter().zip(planned) {
            let first = new.take_over(planned)?;
            self.copy_areas(new, entry.record.nsid)?;
            let mut mapped = Vec::new();
            self.each_present(entry.first, entry.entries, |index| {
                if self.ftl.is_mapped(index) {
                    mapped.push(index);
                }
            });
            for index in mapped {
                if done % 1024 == 0 && watch(done, total).is_break() {
                    return Err(FlashError::Ended);
                }
                self.copy_entry(new, entry, index, first)?;
                done += 1;
            }
        }
        new.ftl.state.take_over(&self.ftl.state);
        Ok(())
    }

    /// Gives a namespace of another image a place in this one: its first entry.
    fn take_over(&mut self, mut entry: Entry) -> Result<u64, FlashError> {
        let asked_bytes = entry.record.size_bytes;
        let refused = FlashError::NoCapacity { asked_bytes, free_bytes: self.unallocated_bytes() };
        entry.first = self.place_for(entry.entries).ok_or(refused)?;
        let (extent, first) = (entry.record.extent, entry.first);
        self.set_namespace(extent, Some(entry))?;
        self.mapped.set(extent, 0);
        Ok(first)
    }

    fn copy_areas(&self, new: &mut Self, nsid: u32) -> Result<(), FlashError> {
        for (id, bytes) in self.areas.of(nsid) {
            let area = new.add_area(nsid, id, bytes.len())?;
            new.protected(area).copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Copies what an entry holds. What was lost is lost in the copy too, and says so when it is read.
    fn copy_entry(
        &mut self,
        new: &mut Self,
        entry: &Entry,
        index: u64,
        first: u64,
    ) -> Result<(), FlashError> {
        let kind = entry.record.kind.page_kind();
        let within = index - entry.first;
        let mut data = vec![0; self.entry_bytes(kind) as usize];
        let (extent, at_bytes) = (entry.record.extent, within * self.entry_bytes(kind));
        let is_lost = self.ftl.map.load(index) == Ok(Location::Lost);
        if is_lost || self.read(extent, at_bytes, &mut data, Cause::Metadata, &mut 0).is_err() {
            new.ftl.map.make_ready(first + within, 1)?;
            new.ftl.map.store(first + within, Location::Lost, Before::Mapped);
            return Ok(());
        }
        match kind {
            PageKind::Page => new.write_page(extent, within, &data, Cause::Metadata, &mut 0),
            PageKind::Units => new.write_units(extent, within, &data, Cause::Metadata, &mut 0),
        }
    }
}
