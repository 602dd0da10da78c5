//! Checking an image, and repairing one: every structure of the flash, then of each key-value engine on it.

use std::path::Path;

use byway_core::Result;
use byway_flash::{Finding, Flash, Hit, NamespaceKind, NamespaceRecord, Remedy, RunOptions, Watch};
use byway_kv::{KvEngine, KvError, KvOptions, Repaired};

use crate::embedded::errors::from_flash;
use crate::embedded::memory::{MemoryUser, check_memory};
use crate::uri::of_existing_image;

/// What a check or a repair found.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// Defects found or repaired, in the order of the structures.
    pub findings: Vec<Finding>,
    /// Namespaces that were looked at.
    pub namespaces: u64,
    /// Keys in them, as far as their engines can list them.
    pub keys: u64,
    /// Bytes of live data that were read.
    pub live_bytes: u64,
    /// Blocks lost to an earlier media error and not written since: reads of them fail.
    pub known_lost: u64,
}

impl Checked {
    /// Nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Whether the device can be used, after a repair at the latest.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        !self.findings.iter().any(Finding::is_beyond_repair)
    }

    /// Whether data of hosts is lost, or will be dropped by a repair.
    #[must_use]
    pub fn loses(&self) -> bool {
        self.findings.iter().any(|finding| finding.remedy == Remedy::Drop)
    }
}

/// Checks the image at `path` and leaves it as it is: even one that was not closed is recovered in private memory.
/// `watch` gets the structure being checked, how much of it is done, and how much there is.
///
/// # Errors
/// When the file cannot be read as an image at all: it is none, in use, of another version, or both superblocks are gone.
pub fn check(path: impl AsRef<Path>, watch: Watch<'_>) -> Result<Checked> {
    examine(path.as_ref(), false, watch)
}

/// Checks the image at `path` and repairs it: what is kept twice or can be counted anew is restored, what is lost is
/// dropped and named. It may be ended at any instant and begun again. Nothing is dropped while a namespace cannot be
/// examined.
///
/// # Errors
/// As [`check`], and what writing to the image says.
pub fn repair(path: impl AsRef<Path>, watch: Watch<'_>) -> Result<Checked> {
    examine(path.as_ref(), true, watch)
}

fn examine(path: &Path, repair: bool, watch: Watch<'_>) -> Result<Checked> {
    let path = of_existing_image(path)?;
    // One namespace is open at a time.
    check_memory(&KvOptions::default(), 1, MemoryUser::WithoutOptions)?;
    let (mut flash, findings) =
        Flash::open_to_check(&path, repair, RunOptions::default()).map_err(from_flash)?;
    let mut checked = Checked { findings, ..Checked::default() };
    let repair = repair && checked.is_usable();
    checked.findings.extend(flash.repair(watch).map_err(from_flash)?);
    if repair {
        flash.drop_lost(&checked.findings);
    }
    let records: Vec<NamespaceRecord> = flash.namespaces().cloned().collect();
    for record in &records {
        checked.namespaces += 1;
        if record.kind == NamespaceKind::Kv {
            examine_engine(&mut flash, record, repair, watch, &mut checked);
        }
    }
    if repair && checked.is_usable() {
        flash.accept_pages(&checked.findings).map_err(from_flash)?;
    }
    checked.live_bytes = flash.used_bytes();
    checked.known_lost = flash.lost_entries();
    if repair {
        flash.close().map_err(from_flash)?;
    }
    Ok(checked)
}

fn examine_engine(
    flash: &mut Flash,
    record: &NamespaceRecord,
    repair: bool,
    watch: Watch<'_>,
    checked: &mut Checked,
) {
    let nsid = record.nsid;
    if !byway_kv::was_made(flash, record) {
        return;
    }
    checked.findings.extend(byway_kv::repair_state(flash, record));
    checked.findings.extend(byway_kv::repair_log(flash, record));
    let (mut engine, recovery) = match KvEngine::open(flash, record, KvOptions::default()) {
        Ok(opened) => opened,
        Err(error) => return checked.findings.push(unusable(nsid, &error)),
    };
    let found = engine.check(flash, nsid, &recovery, watch);
    if repair && !found.is_empty() {
        match engine.repair(flash, &found, watch) {
            Ok(repaired) => checked.findings.extend(dropped(nsid, &found, &repaired)),
            Err(error) => checked.findings.push(unusable(nsid, &error)),
        }
    }
    checked.findings.extend(found);
    checked.keys += engine.keys();
}

fn unusable(nsid: u32, error: &KvError) -> Finding {
    let place = format!("of namespace {nsid}");
    let found = Finding::new("key-value state", place, error.to_string(), Remedy::None);
    found.hitting(Hit::Namespace { nsid })
}

/// What a repair dropped beyond what the check had named.
fn dropped(nsid: u32, found: &[Finding], repaired: &Repaired) -> Vec<Finding> {
    let named = |key: &[u8]| {
        let is_it = |hit: &Hit| matches!(hit, Hit::Key { key: hit, .. } if hit == key);
        found.iter().flat_map(|finding| &finding.hits).any(is_it)
    };
    let place = format!("of namespace {nsid}");
    let more = repaired.dropped.iter().filter(|key| !named(key.as_bytes())).map(|key| {
        let hit = Hit::Key { nsid, key: key.as_bytes().to_vec() };
        Finding::new("record", place.clone(), "it cannot be read", Remedy::Drop).hitting(hit)
    });
    more.collect()
}
