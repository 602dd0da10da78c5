//! The devices that the kernel lists in sysfs; none is opened.

use std::fs;
use std::path::{Path, PathBuf};

use byway_core::{Error, Result};

/// Bytes of a sector, the unit of sizes in sysfs.
const SECTOR_BYTES: u64 = 512;

/// A device that the kernel knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What [`crate::open`] takes.
    pub uri: String,
    /// Which node of the kernel it is, which decides the interfaces that can open it.
    pub kind: FoundKind,
    /// Its size in bytes, if the kernel states one.
    pub size_bytes: Option<u64>,
    /// Its model, if the kernel states one.
    pub model: Option<String>,
    /// Whether it can only be read.
    pub read_only: bool,
    /// What has to be done before this process can open it, in a sentence, where that is known.
    pub missing: Option<String>,
}

/// What a device that was found is. Not `non_exhaustive`: the C binding has a number for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundKind {
    /// A block device.
    Block,
    /// A part of a block device.
    Partition,
    /// A namespace of an NVMe controller, as a character device that takes any command.
    Generic,
    /// An NVMe controller.
    Controller,
    /// An NVMe controller that `vfio-pci` has, for drivers in user space.
    Function,
}

impl FoundKind {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Partition => "partition",
            Self::Generic => "generic",
            Self::Controller => "controller",
            Self::Function => "pci function",
        }
    }
}

/// Lists the devices that the kernel knows, by name. Block devices without a size, as loop devices that nothing is
/// bound to, are left out.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn scan() -> Result<Vec<Found>> {
    let mut found = scan_under(Path::new("/sys/class"))?;
    found.extend(functions()?);
    Ok(found)
}

#[cfg(not(feature = "vfio"))]
fn functions() -> Result<Vec<Found>> {
    Ok(Vec::new())
}

/// The devices that `vfio-pci` has.
#[cfg(feature = "vfio")]
fn functions() -> Result<Vec<Found>> {
    let functions = byway_buses::vfio::bound();
    let functions =
        functions.map_err(|cause| Error::kernel("listing the devices of vfio-pci failed", cause))?;
    Ok(functions
        .into_iter()
        .map(|bound| Found {
            uri: format!("pci:{}", bound.address),
            kind: FoundKind::Function,
            size_bytes: None,
            model: None,
            read_only: false,
            missing: bound.missing,
        })
        .collect())
}

fn scan_under(class: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in entries(&class.join("block"))? {
        found.extend(block(&entry).filter(|block| block.size_bytes != Some(0)));
    }
    for (folder, kind) in [("nvme-generic", FoundKind::Generic), ("nvme", FoundKind::Controller)] {
        found.extend(entries(&class.join(folder))?.iter().filter_map(|entry| node(entry, kind)));
    }
    found.sort_by(|a, b| a.uri.cmp(&b.uri));
    Ok(found)
}

/// The entries of a folder; none where a kernel has no such devices.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = match fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(Error::kernel(format!("listing {} failed", folder.display()), cause)),
    };
    Ok(listed.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

fn block(entry: &Path) -> Option<Found> {
    let kind = if entry.join("partition").exists() { FoundKind::Partition } else { FoundKind::Block };
    let sectors = word(&entry.join("size")).and_then(|sectors| sectors.parse::<u64>().ok());
    Some(Found {
        size_bytes: sectors.and_then(|sectors| sectors.checked_mul(SECTOR_BYTES)),
        read_only: word(&entry.join("ro")).as_deref() == Some("1"),
        ..node(entry, kind)?
    })
}

fn node(entry: &Path, kind: FoundKind) -> Option<Found> {
    // A slash in a device's name is an exclamation mark there.
    let name = entry.file_name()?.to_str()?.replace('!', "/");
    let model = word(&entry.join("model")).or_else(|| word(&entry.join("device/model")));
    let uri = format!("/dev/{name}");
    Some(Found { uri, kind, size_bytes: None, model, read_only: false, missing: None })
}

/// What a file of the kernel says in one line, if it says something.
fn word(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn scan_of_sysfs_lists_every_kind_of_device() {
        let class = tempfile::tempdir().unwrap();
        let say = |path: &str, word: &str| {
            let path = class.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{word}\n")).unwrap();
        };
        say("block/nvme0n1/size", "2048");
        say("block/nvme0n1/device/model", "Fast SSD 9000   ");
        say("block/nvme0n1p1/size", "1024");
        say("block/nvme0n1p1/partition", "1");
        say("block/loop0/size", "0");
        say("block/cciss!c0d0/size", "8");
        say("block/cciss!c0d0/ro", "1");
        say("nvme/nvme0/model", "Fast SSD 9000");
        say("nvme-generic/ng0n1/dev", "1:2");
        let found = scan_under(class.path()).unwrap();
        let listed: Vec<_> =
            found.iter().map(|one| (one.uri.as_str(), one.kind.name(), one.size_bytes)).collect();
        let wanted = [
            ("/dev/cciss/c0d0", "block", Some(4096)),
            ("/dev/ng0n1", "generic", None),
            ("/dev/nvme0", "controller", None),
            ("/dev/nvme0n1", "block", Some(1 << 20)),
            ("/dev/nvme0n1p1", "partition", Some(512 << 10)),
        ];
        assert_eq!(listed, wanted);
        assert!(found[0].read_only && !found[3].read_only);
        assert_eq!(found[3].model.as_deref(), Some("Fast SSD 9000"));
    }

    #[test]
    fn a_kernel_without_such_devices_lists_none() {
        let class = tempfile::tempdir().unwrap();
        assert_eq!(scan_under(class.path()).unwrap(), []);
    }
}
