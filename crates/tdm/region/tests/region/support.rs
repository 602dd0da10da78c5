//! Regions under test.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use byway_tdm_region::{DeviceRegion, Opening, Point, RegionError, open};
use tempfile::TempDir;

pub const HERE: Point = Point("test");

/// Bytes of the regions.
pub const SIZE: u64 = 1 << 20;

/// Emulated memory that counts as persistent.
pub fn persistent() -> Opening {
    Opening { emulate_persistence: true, ..Opening::default() }
}

/// A region that can be opened repeatedly.
pub struct Place {
    pub name: &'static str,
    pub description: String,
    /// Its known domain.
    pub domain: Option<String>,
    /// Removed with this.
    _folder: Option<TempDir>,
    /// A device node serves one test at a time.
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Place {
    pub fn open(&self) -> Box<dyn DeviceRegion> {
        self.try_open().unwrap()
    }

    pub fn try_open(&self) -> Result<Box<dyn DeviceRegion>, RegionError> {
        open(&self.description, &persistent())
    }
}

/// An emulated device with these options beside its size.
pub fn emu(options: &str) -> Place {
    let folder = TempDir::with_prefix_in("byway-region-", memory_folder()).unwrap();
    let path = folder.path().join("region");
    let description = format!("emu:{}?size={SIZE}{options}", path.display());
    Place { name: "emu", description, domain: None, _folder: Some(folder), _turn: None }
}

/// A folder in memory, if there is one.
fn memory_folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// Every region that this machine has: emulated ones, and what the environment names (a folder on a DAX mount, a device node whose
/// content may be lost, and what is known of their domains).
pub fn all() -> Vec<Place> {
    let modelled =
        ["off", "virtual", "paced"].map(|clock| emu(&format!("&profile=cmm-h&cache=256K&clock={clock}")));
    let mut all = vec![emu(""), emu("&profile=cmm-h&cache=256K&pin=on")];
    all.extend(modelled);
    all.extend(fsdax());
    all.extend(devdax());
    all
}

/// Those with partitions.
pub fn all_with_files() -> Vec<Place> {
    let mut all = vec![emu(""), emu("&profile=cmm-h&cache=256K")];
    all.extend(fsdax());
    all
}

fn fsdax() -> Option<Place> {
    static TURN: Mutex<()> = Mutex::new(());
    named("the_suite_over_fsdax", "BYWAY_TDM_FSDAX", "?size=16M", &TURN)
}

/// The device node, if there is one.
pub fn devdax() -> Option<Place> {
    static TURN: Mutex<()> = Mutex::new(());
    named("the_suite_over_devdax", "BYWAY_TDM_DEVDAX", "", &TURN)
}

fn named(suite: &'static str, variable: &str, ending: &str, turn: &'static Mutex<()>) -> Option<Place> {
    let Ok(place) = std::env::var(variable) else {
        skip(suite, &format!("{variable} names none"));
        return None;
    };
    let name = suite.trim_start_matches("the_suite_over_");
    let domain = std::env::var(format!("{variable}_DOMAIN")).ok();
    let turn = Some(byway_sys::locked(turn));
    Some(Place { name, description: format!("{name}:{place}{ending}"), domain, _folder: None, _turn: turn })
}

/// Records a skipped test once, for `make test`.
fn skip(test: &str, why: &str) {
    static SKIPPED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_first = SKIPPED.lock().unwrap().insert(test.to_owned());
    let Some(path) = std::env::var_os("BYWAY_SKIPS").filter(|_| is_first) else { return };
    let mut skips = OpenOptions::new().append(true).create(true).open(path).unwrap();
    skips.write_all(format!("{test}: {why}\n").as_bytes()).unwrap();
}
