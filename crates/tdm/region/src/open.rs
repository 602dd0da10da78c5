//! Regions opened by their description.

use std::path::PathBuf;

use crate::description::{Description, Place};
use crate::domain::Domain;
use crate::error::RegionError;
use crate::fsdax;
use crate::mapped::{Kind, Mapped};
use crate::modelled::Modelled;
use crate::region::DeviceRegion;

/// What is up to the process that opens a region, beside its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Memory that only stands for a device counts as persistent.
    pub emulate_persistence: bool,
    /// From where on stores are kept, by who knows better than the system. A description that says so goes before this.
    pub domain: Option<Domain>,
    /// Who may be given a slice of a device node. A description that says so goes before this; without either, this process's own
    /// user.
    pub user: Option<u32>,
    /// Where sysfs is mounted.
    pub sysfs: PathBuf,
}

impl Default for Opening {
    fn default() -> Self {
        Self { emulate_persistence: false, domain: None, user: None, sysfs: "/sys".into() }
    }
}

/// Opens the region that a text describes: `emu:PATH?size=1G`, `fsdax:DIR?size=1G`, `devdax:/dev/dax0.0`.
///
/// # Errors
/// [`RegionError`], which says why something is not what it was asked for.
pub fn open(description: &str, how: &Opening) -> Result<Box<dyn DeviceRegion>, RegionError> {
    open_described(&description.parse()?, how)
}

/// As [`open`], of a description that was parsed.
///
/// # Errors
/// As [`open`].
pub fn open_described(described: &Description, how: &Opening) -> Result<Box<dyn DeviceRegion>, RegionError> {
    let how =
        Opening { domain: described.domain.or(how.domain), user: described.user.or(how.user), ..how.clone() };
    let plain = |kind, path| Mapped::open(kind, path, described.size_bytes, &how, None);
    if let (Place::Emu(path), Some(profile)) = (&described.place, &described.profile) {
        return Ok(Box::new(Modelled::open(path, profile, described, &how)?));
    }
    Ok(Box::new(match &described.place {
        Place::Emu(path) => plain(Kind::Emu, path)?,
        Place::FsDax(folder) => plain(Kind::FsDax, &folder.join(fsdax::FILE_NAME))?,
        Place::DevDax(path) => plain(Kind::DevDax, path)?,
    }))
}
