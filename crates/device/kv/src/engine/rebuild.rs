//! Repairing an engine: keys whose records are lost are dropped, and a damaged index is made anew.
//!
//! The index that is made holds every entry that can be [had](crate::engine::salvage). Storing the new manifest's root word
//! replaces the old index by the new one, so a repair that is cut short leaves the old one.

use byway_flash::{Finding, Hit, Watch};

use crate::engine::KvEngine;
use crate::engine::check::is_of_index;
use crate::engine::salvage::Salvage;
use crate::error::KvError;
use crate::index::builder::RunBuilder;
use crate::index::entry::Entry;
use crate::index::run::Run;
use crate::store::PageStore;
use crate::value_log::record::Kind;
use byway_spec::Key;

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Keys that were dropped, as their records cannot be read.
    pub dropped: Vec<Key>,
    /// The index was made anew.
    pub rebuilt: bool,
}

impl KvEngine {
    /// Repairs what [`check`](Self::check) found. Keys that are lost are dropped, so that they are not found any more;
    /// an index that is damaged is made anew.
    ///
    /// # Errors
    /// [`KvError::Full`] when there is no room for another index beside the damaged one, errors of the flash. The engine is
    /// then as it was.
    pub fn repair<S: PageStore>(
        &mut self,
        store: &mut S,
        findings: &[Finding],
        watch: Watch<'_>,
    ) -> Result<Repaired, KvError> {
        self.check_writable(store)?;
        let mut repaired = Repaired::default();
        if findings.is_empty() {
            return Ok(repaired);
        }
        self.index.flush(&mut self.log, store, self.next_seq.last(), &mut 0)?;
        self.unsaved.clear();
        if findings.iter().any(is_of_index) {
            self.rebuild(store, watch, &mut repaired)?;
        } else {
            for key in findings.iter().flat_map(|finding| &finding.hits).filter_map(key_of) {
                self.delete(store, &key, &mut 0)?;
                repaired.dropped.push(key);
            }
            self.flush(store, &mut 0)?;
        }
        self.index.forget_losses(&mut self.log, store, self.next_seq.last())?;
        Ok(repaired)
    }

    fn rebuild<S: PageStore>(
        &mut self,
        store: &mut S,
        watch: Watch<'_>,
        repaired: &mut Repaired,
    ) -> Result<(), KvError> {
        let mut salvage = Salvage::survey(self, store);
        let (mut runs, mut live) = (Vec::new(), vec![0; self.log.layout().segments]);
        for pass in 0..salvage.passes {
            watch("index", pass, salvage.passes);
            let newest = salvage.newest(self, store, pass);
            match self.write_run(store, newest.entries.into_values().collect(), &mut live, repaired) {
                Ok(run) => runs.extend(run),
                Err(error) => {
                    self.index.drop_unlisted(&mut self.log, store)?;
                    return Err(error);
                }
            }
        }
        repaired.rebuilt = true;
        let keys = runs.iter().map(|run| run.entries).sum();
        self.log.segments_mut().set_checkpoint_keys(keys);
        self.index.replace_runs(runs, &live, &mut self.log, store)
    }

    /// Writes a run of the entries whose records can be read.
    fn write_run<S: PageStore>(
        &mut self,
        store: &mut S,
        mut entries: Vec<Entry>,
        live: &mut [i64],
        repaired: &mut Repaired,
    ) -> Result<Option<Run>, KvError> {
        entries.sort_unstable_by_key(Entry::key);
        let layout = self.log.layout();
        let mut bytes_left = 2 * layout.segments as u64 * layout.segment_bytes();
        let tier = self.index.manifest().runs.last().map_or(0, |run| run.tier);
        let mut builder = RunBuilder::new(self.index.take_run_number(), tier, self.index.page_shape());
        for entry in entries {
            if entry.shape().kind() != Kind::Value {
                continue;
            }
            // Valid records do not overlap, but a forged image may claim it.
            bytes_left = bytes_left.checked_sub(entry.shape().record_bytes()).ok_or(KvError::Full)?;
            if self.read_through(store, &entry).is_err() {
                repaired.dropped.push(entry.key());
                continue;
            }
            for (segment, bytes) in self.log.segments().pieces(entry.address(), entry.shape().record_bytes())
            {
                live[segment] += bytes;
            }
            builder.push(&entry, &mut self.log, store, &mut 0)?;
        }
        builder.finish(&mut self.log, store, &mut 0)
    }
}

fn key_of(hit: &Hit) -> Option<Key> {
    match hit {
        Hit::Key { key, .. } => Key::new(key).ok(),
        _ => None,
    }
}
