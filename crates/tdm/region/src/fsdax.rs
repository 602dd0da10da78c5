//! `fsdax`: a file on ext4 or XFS that maps it past the page cache.
//!
//! Stores reach the memory itself. What the file system keeps of the file has to be on its disk before, which `MAP_SYNC` has the
//! kernel see to at the first store into each page; a commit of its journal each time, were there anything to commit. So all
//! of the file is allocated, written with zeroes once and mapped before the first store.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use byway_sys::map::{PAGE_BYTES, Sharing};
use byway_sys::{Mapping, dax};

use crate::domain::Domain;
use crate::error::RegionError;
use crate::opening::Opening;
use crate::sysfs;
use crate::terms::{Terms, len_of};

/// The region's file in its folder.
pub(crate) const FILE_NAME: &str = "byway-region";

/// Refuses a file that is not mapped past the page cache; prepares one that is.
pub(crate) fn terms(
    path: &Path,
    file: &File,
    size_bytes: Option<u64>,
    how: &Opening,
) -> Result<Terms, RegionError> {
    let len_bytes = len_of(path, file, size_bytes)?.next_multiple_of(PAGE_BYTES as u64);
    match dax::is_dax(file)
        .map_err(RegionError::system(path, "ask whether it is mapped past the page cache"))?
    {
        Some(true) => {}
        Some(false) => return Err(RegionError::refused(path, NOT_DAX)),
        None => return Err(RegionError::refused(path, "this kernel does not say whether a file is DAX")),
    }
    dax::take_room(file, len_bytes).map_err(RegionError::system(path, "take room for all of it"))?;
    dax::write_zeroes_once(file, len_bytes)
        .map_err(RegionError::system(path, "write it with zeroes once"))?;
    let (sharing, domain, why) = domain_of(path, file, how)?;
    Ok(Terms::new((len_bytes, PAGE_BYTES as u64), sharing, domain, why))
}

const NOT_DAX: &str = "not on a DAX mount: statx does not say DAX. The file system has to be mounted with -o dax=always, or \
                       with -o dax=inode and the folder marked by xfs_io -c 'chattr +x'";

/// By how it can be mapped, and what the kernel says of the memory below.
fn domain_of(path: &Path, file: &File, how: &Opening) -> Result<(Sharing, Domain, String), RegionError> {
    if let Err(refusal) = Mapping::file(file, 0, PAGE_BYTES, Sharing::Synchronous) {
        let why = format!("MAP_SYNC refused ({refusal}), so that pages have to be synced");
        return match how.domain {
            None | Some(Domain::PageSync | Domain::Volatile) => {
                Ok((Sharing::Shared, how.domain.unwrap_or(Domain::PageSync), why))
            }
            Some(_) => Err(RegionError::option("domain", why)),
        };
    }
    if let Some(domain) = how.domain {
        return Ok((Sharing::Synchronous, domain, "as it was asked for".to_owned()));
    }
    let number = file.metadata().map_err(RegionError::system(path, "ask which disk it is on"))?.dev();
    let disk = sysfs::folder_of(&how.sysfs.join("dev/block").join(dax::device_name(number)));
    let unknown = || (Domain::LineFlush, "MAP_SYNC, on a disk that says nothing of its domain".to_owned());
    let (domain, why) = disk.and_then(|disk| sysfs::persistence_of(&disk)).unwrap_or_else(unknown);
    Ok((Sharing::Synchronous, domain, why))
}
