//! `devdax`: memory behind a character device, which can be mapped and nothing else.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use byway_sys::map::Sharing;

use crate::domain::Domain;
use crate::error::RegionError;
use crate::opening::Opening;
use crate::sysfs;
use crate::terms::Terms;

/// Asks sysfs for all there is to know.
pub(crate) fn terms(
    path: &Path,
    file: &File,
    size_bytes: Option<u64>,
    how: &Opening,
) -> Result<Terms, RegionError> {
    let kind = file.metadata().map_err(RegionError::system(path, "ask what it is"))?.file_type();
    if !kind.is_char_device() {
        return Err(RegionError::refused(path, "it is no character device, as /dev/dax0.0 is"));
    }
    reported(path, size_bytes, how)
}

/// What sysfs says of the device of that name.
fn reported(path: &Path, size_bytes: Option<u64>, how: &Opening) -> Result<Terms, RegionError> {
    let refused = |why: String| RegionError::refused(path, why);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let link = how.sysfs.join("bus/dax/devices").join(&name);
    let folder = sysfs::folder_of(&link)
        .ok_or_else(|| refused(format!("it is no DAX device: there is no {}", link.display())))?;
    if sysfs::folder_of(&folder.join("driver")).is_some_and(|driver| driver.ends_with("kmem")) {
        let way = format!("daxctl reconfigure-device -m devdax {name}");
        return Err(refused(format!("the system has it for its own memory ({way} gives it back)")));
    }
    let size = sysfs::number(&folder.join("size")).filter(|size| *size > 0);
    let len_bytes = size.ok_or_else(|| refused("sysfs does not say its size".into()))?;
    // Kernels before 5.10 do not say.
    let align_bytes = sysfs::number(&folder.join("align")).unwrap_or(2 << 20).max(4096);
    let len_bytes = shorter(path, size_bytes, len_bytes, align_bytes)?;
    let (domain, why) = domain_of(&folder, how)?;
    Ok(Terms::new((len_bytes, align_bytes), Sharing::Shared, domain, why))
}

fn shorter(path: &Path, asked: Option<u64>, there: u64, align_bytes: u64) -> Result<u64, RegionError> {
    match asked {
        None => Ok(there / align_bytes * align_bytes),
        Some(asked) if asked <= there && asked.is_multiple_of(align_bytes) => Ok(asked),
        Some(asked) => {
            let why = format!("size={asked}: it has {there} bytes, mapped by {align_bytes}");
            Err(RegionError::refused(path, why))
        }
    }
}

/// Memory in no nvdimm region keeps nothing, whatever its owner would like.
fn domain_of(folder: &Path, how: &Opening) -> Result<(Domain, String), RegionError> {
    const VOLATILE: &str = "it is in no nvdimm region, so its memory is volatile";
    match (sysfs::persistence_of(folder), how.domain) {
        (None, None | Some(Domain::Volatile)) => Ok((Domain::Volatile, VOLATILE.to_owned())),
        (None, Some(_)) => Err(RegionError::option("domain", VOLATILE)),
        (Some(_), Some(Domain::PageSync)) => {
            Err(RegionError::option("domain", "pages of a device node cannot be synced"))
        }
        (Some(_), Some(domain)) => Ok((domain, "as it was asked for".to_owned())),
        (Some(reported), None) => Ok(reported),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A made-up tree of sysfs with one device in a region of that persistence domain, or in none.
    fn sysfs(domain: Option<&str>) -> (TempDir, Opening) {
        let tree = tempfile::tempdir().unwrap();
        let region = tree.path().join("devices/ndbus0/region0");
        let device = region.join("dax0.0/dax0.0");
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(tree.path().join("bus/dax/devices")).unwrap();
        fs::create_dir_all(tree.path().join("bus/dax/drivers/kmem")).unwrap();
        fs::write(device.join("size"), "268435456\n").unwrap();
        fs::write(device.join("align"), "0x200000\n").unwrap();
        if let Some(domain) = domain {
            fs::write(region.join("persistence_domain"), domain).unwrap();
        }
        symlink(&device, tree.path().join("bus/dax/devices/dax0.0")).unwrap();
        let how = Opening { sysfs: tree.path().into(), ..Opening::default() };
        (tree, how)
    }

    fn dax0() -> &'static Path {
        Path::new("/dev/dax0.0")
    }

    #[test]
    fn size_and_alignment_are_what_sysfs_says() {
        let (_tree, how) = sysfs(Some("memory_controller\n"));
        let terms = reported(dax0(), None, &how).unwrap();
        assert_eq!((terms.len_bytes(), terms.align_bytes()), (256 << 20, 2 << 20));
        assert_eq!(reported(dax0(), Some(4 << 20), &how).unwrap().len_bytes(), 4 << 20);
        for size in [1 << 30, 4096] {
            assert!(
                reported(dax0(), Some(size), &how).unwrap_err().to_string().contains("mapped by 2097152")
            );
        }
    }

    #[test]
    fn the_domain_is_that_of_its_region_and_lines_are_written_back_where_it_is_unknown() {
        let domains = [
            ("cpu_cache\n", Domain::CpuCache),
            ("memory_controller\n", Domain::LineFlush),
            ("unknown\n", Domain::LineFlush),
            ("\n", Domain::LineFlush),
        ];
        for (text, domain) in domains {
            let (_tree, how) = sysfs(Some(text));
            let terms = reported(dax0(), None, &how).unwrap();
            assert_eq!(terms.domain(), domain);
            assert!(terms.why().contains("the persistence domain of region0"), "{}", terms.why());
        }
    }

    #[test]
    fn operator_may_state_a_domain_except_for_volatile_memory() {
        let asked = |how| Opening { domain: Some(Domain::CpuCache), ..how };
        let (_tree, how) = sysfs(Some("memory_controller\n"));
        assert_eq!(reported(dax0(), None, &asked(how)).unwrap().domain(), Domain::CpuCache);
        let (_tree, how) = sysfs(None);
        assert_eq!(reported(dax0(), None, &how).unwrap().domain(), Domain::Volatile);
        assert!(reported(dax0(), None, &asked(how)).unwrap_err().to_string().contains("volatile"));
    }

    #[test]
    fn devdax_in_system_ram_mode_is_refused_with_the_remedy() {
        let (tree, how) = sysfs(None);
        let device = tree.path().join("devices/ndbus0/region0/dax0.0/dax0.0");
        symlink(tree.path().join("bus/dax/drivers/kmem"), device.join("driver")).unwrap();
        let why = reported(dax0(), None, &how).unwrap_err().to_string();
        assert!(why.contains("daxctl reconfigure-device -m devdax dax0.0"), "{why}");
    }
}
