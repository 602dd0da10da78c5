//! Sanitize (Base 2.1, sections 5.1.22 and 8.1.24): everything that hosts stored is wiped from the image.
//!
//! The operation goes on in slices, and the image remembers it from its first instant: one that a power loss or a kill cuts
//! short is finished when the subsystem is opened, before any namespace is. Meanwhile no namespace is served.

use byway_flash::{
    FlashError, NamespaceKind, NamespaceRecord, Overwrite, Sanitize, SanitizeState, SyncPoint,
};
use byway_spec::Status;
use byway_spec::base::admin::SanitizeCdw10;
use tracing::info;

use super::Subsystem;
use crate::error::CommandError;
use crate::namespace::{Namespace, write_error};

/// Entries trimmed, and blocks wiped, in one slice.
const SLICE_ENTRIES: u64 = 1 << 16;
const SLICE_BLOCKS: u32 = 16;

/// The progress of a sanitize operation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Namespaces, in the order of their records, and entries of the one at hand that are trimmed.
    namespace: usize,
    entry: u64,
    /// Blocks wiped in this pass.
    block: u32,
}

impl Subsystem {
    /// Begins a sanitize operation; slices follow.
    ///
    /// # Errors
    /// Errors of the flash.
    pub(crate) fn begin_sanitize(&mut self, cdw10: SanitizeCdw10, pattern: u32) -> Result<(), CommandError> {
        let cdw10 = cdw10.into_bits() as u16;
        let begun = Sanitize { state: SanitizeState::Running, cdw10, passes: 0, pattern };
        self.flash.set_sanitize(begun).map_err(write_error)?;
        self.flash.order_always(SyncPoint::SanitizeBegun).map_err(write_error)?;
        self.stop_serving();
        self.fail_queries_in(None);
        self.fail_all_programs();
        info!(passes = passes_of(begun), "sanitize begun");
        self.sanitizing = Some(Progress::default());
        Ok(())
    }

    /// Whether a sanitize operation is going on.
    #[must_use]
    pub fn is_sanitizing(&self) -> bool {
        self.sanitizing.is_some()
    }

    /// Progress in units of 1/65,536 (SPROG); FFFFh where no operation is going on.
    pub(crate) fn sanitize_progress(&self) -> u16 {
        let Some(progress) = self.sanitizing else { return u16::MAX };
        let passes = u64::from(passes_of(self.flash.sanitize())).max(1);
        let blocks = u64::from(self.flash.block_count()).max(1);
        let done = u64::from(self.flash.sanitize().passes) * blocks + u64::from(progress.block);
        (done * 65_535 / (passes * blocks)).min(65_534) as u16
    }

    /// Does one slice; whether there is more to do. A slice that fails is tried again by the next call.
    ///
    /// # Errors
    /// Errors of the flash.
    pub fn sanitize_slice(&mut self) -> Result<bool, FlashError> {
        let Some(mut progress) = self.sanitizing else { return Ok(false) };
        let more = self.advance_sanitize(&mut progress)?;
        self.sanitizing = more.then_some(progress);
        if !more {
            self.end_sanitize()?;
        }
        Ok(more)
    }

    /// Finishes an operation that a power loss or a kill interrupted, before namespaces are opened.
    ///
    /// # Errors
    /// Errors of the flash.
    pub(crate) fn resume_sanitize(&mut self) -> Result<(), FlashError> {
        if self.flash.sanitize().state != SanitizeState::Running || self.flash.is_read_only() {
            return Ok(());
        }
        info!(passes_done = self.flash.sanitize().passes, "interrupted sanitize resumed");
        self.sanitizing = Some(Progress::default());
        while self.sanitize_slice()? {}
        Ok(())
    }

    /// Wipes the data of a formatted namespace, and creates a new engine if it has one.
    pub(crate) fn erase_namespace(&mut self, nsid: u32) -> Result<(), CommandError> {
        let Some(record) = self.flash.namespace(nsid).cloned() else { return Ok(()) };
        self.wipe_namespace(&record).map_err(write_error)?;
        if record.kind == NamespaceKind::Kv {
            let record = self.flash.namespace(nsid).cloned().unwrap_or(record);
            let namespace = Namespace::open(&mut self.flash, record, &self.options);
            let failed = CommandError::new(Status::INTERNAL_ERROR, "the namespace could not be made anew");
            self.serve_again(nsid, namespace.map_err(|_| failed)?);
        }
        Ok(())
    }

    fn wipe_namespace(&mut self, record: &NamespaceRecord) -> Result<(), FlashError> {
        if record.kind == NamespaceKind::Kv {
            self.flash.set_owner_state(record.nsid, &[])?;
            self.flash.wipe_areas(record.nsid)?;
        }
        let entries = self.flash.extent_entries(record.extent)?;
        self.flash.trim(record.extent, 0..entries)?;
        self.flash.wipe_buffer()?;
        self.flash.wipe(0..self.flash.block_count(), None)
    }

    fn advance_sanitize(&mut self, progress: &mut Progress) -> Result<bool, FlashError> {
        let records: Vec<NamespaceRecord> = self.flash.namespaces().cloned().collect();
        if let Some(record) = records.get(progress.namespace) {
            self.empty_namespace(record, progress)?;
            return Ok(true);
        }
        if progress.block == 0 {
            self.flash.wipe_buffer()?;
        }
        let mut sanitize = self.flash.sanitize();
        let (passes, overwrites) = (passes_of(sanitize), overwrites(sanitize));
        let inverted = SanitizeCdw10::from_bits(sanitize.cdw10.into()).oipbp() && sanitize.passes % 2 == 1;
        let pattern = if inverted { !sanitize.pattern } else { sanitize.pattern };
        let end = (progress.block + SLICE_BLOCKS).min(self.flash.block_count());
        self.flash.wipe(progress.block..end, overwrites.then_some(Overwrite { pattern }))?;
        progress.block = end;
        if end < self.flash.block_count() {
            return Ok(true);
        }
        progress.block = 0;
        sanitize.passes += 1;
        self.flash.set_sanitize(sanitize)?;
        Ok(sanitize.passes < passes)
    }

    /// Trims some of a namespace; with the last of it, what its owner kept goes too.
    fn empty_namespace(
        &mut self,
        record: &NamespaceRecord,
        progress: &mut Progress,
    ) -> Result<(), FlashError> {
        if progress.entry == 0 && record.kind == NamespaceKind::Kv {
            // The engine's state is gone. Opening the namespace creates a new one.
            self.flash.set_owner_state(record.nsid, &[])?;
            self.flash.wipe_areas(record.nsid)?;
        }
        let entries = self.flash.extent_entries(record.extent)?;
        let end = (progress.entry + SLICE_ENTRIES).min(entries);
        self.flash.trim(record.extent, progress.entry..end)?;
        progress.entry = end;
        if end == entries {
            progress.namespace += 1;
            progress.entry = 0;
        }
        Ok(())
    }

    /// Opens the empty namespaces, and says that the operation is done.
    fn end_sanitize(&mut self) -> Result<(), FlashError> {
        self.flash.order_always(SyncPoint::SanitizeDone)?;
        let done = Sanitize { state: SanitizeState::Done, ..self.flash.sanitize() };
        self.flash.set_sanitize(done)?;
        info!("sanitize ended");
        self.reopen_all();
        Ok(())
    }

    /// Clears memory and programs, and reopens every other namespace, attached as it was. A namespace that cannot be opened is not served
    /// any more.
    fn reopen_all(&mut self) {
        self.clear_volatile();
        let records: Vec<NamespaceRecord> = self.flash.namespaces().cloned().collect();
        for record in records {
            let nsid = record.nsid;
            if let Ok(namespace) = Namespace::open(&mut self.flash, record, &self.options) {
                self.serve_again(nsid, namespace);
            }
        }
    }
}

/// Block erase is done in one pass, overwriting in as many as were asked for, of which 0 means 16.
fn passes_of(sanitize: Sanitize) -> u8 {
    let cdw10 = SanitizeCdw10::from_bits(sanitize.cdw10.into());
    match (overwrites(sanitize), cdw10.owpass()) {
        (false, _) => 1,
        (true, 0) => 16,
        (true, passes) => passes,
    }
}

fn overwrites(sanitize: Sanitize) -> bool {
    SanitizeCdw10::from_bits(sanitize.cdw10.into()).sanact() == SanitizeCdw10::OVERWRITE
}

/// Refuses a command while a sanitize operation is going on.
pub(crate) const IN_PROGRESS: CommandError =
    CommandError::new(Status::SANITIZE_IN_PROGRESS, "a sanitize operation is going on");
