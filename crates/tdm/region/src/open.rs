//! Opening regions.

use crate::description::{Description, Place};
use crate::error::RegionError;
use crate::fsdax;
use crate::mapped::{Kind, Mapped};
use crate::modelled::Modelled;
use crate::opening::Opening;
use crate::region::DeviceRegion;

/// Opens a region by its description, such as `emu:PATH?size=1G`.
///
/// # Errors
/// [`RegionError`], with the reason.
pub fn open(description: &str, how: &Opening) -> Result<Box<dyn DeviceRegion>, RegionError> {
    open_described(&description.parse()?, how)
}

/// As [`open`], for a parsed description.
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
