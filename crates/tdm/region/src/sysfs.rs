//! What the kernel describes memory that keeps what is stored, in its `persistence_domain` files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::domain::Domain;

/// The domain of an nvdimm region in which a device lies, with where it was read; `None` for a device in no such region.
pub(crate) fn persistence_of(device: &Path) -> Option<(Domain, String)> {
    let (region, text) = device.ancestors().find_map(|folder| {
        let text = fs::read_to_string(folder.join("persistence_domain")).ok()?;
        Some((folder.file_name()?.to_string_lossy().into_owned(), text))
    })?;
    let (domain, says) = match text.trim() {
        "cpu_cache" => (Domain::CpuCache, "cpu_cache"),
        "memory_controller" => (Domain::LineFlush, "memory_controller"),
        _ => (Domain::LineFlush, "nothing that is known, so lines are written back"),
    };
    Some((domain, format!("the persistence domain of {region} is {says}")))
}

/// A device's own folder, which its class links to.
pub(crate) fn folder_of(link: &Path) -> Option<PathBuf> {
    fs::canonicalize(link).ok()
}

/// A number in a file of sysfs, decimal or hexadecimal.
pub(crate) fn number(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
