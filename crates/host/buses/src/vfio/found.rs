//! The NVMe controllers that `vfio-pci` has, and what is missing before this process can open one. None is opened for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use byway_sys::vfio::{VfioError, node_under};
use rustix::fs::{Access, access};

use super::function::{PciAddress, SYSFS, class_of, driver_of, group_under, in_words, is_nvme};

/// Where the kernel hands out devices, by groups (`vfio/GROUP`) and, where it has iommufd, one by one (`vfio/devices/vfioN`).
const DEV: &str = "/dev";

/// Drivers of a group's other devices that leave it to VFIO: its own, and those of bridges, which do no DMA of their own.
const VIABLE: [&str; 3] = ["vfio-pci", "pci-stub", "pcieport"];

/// An NVMe controller that `vfio-pci` has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// PCI address: domain, bus, device and function.
    pub address: PciAddress,
    /// What has to be done before this process can open it, in a sentence; `None` where nothing has.
    pub missing: Option<String>,
}

/// The NVMe controllers that `vfio-pci` has, by address.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn bound() -> io::Result<Vec<Bound>> {
    bound_under(Path::new(SYSFS), Path::new(DEV))
}

fn bound_under(sysfs: &Path, dev: &Path) -> io::Result<Vec<Bound>> {
    let entries = match fs::read_dir(sysfs.join("drivers/vfio-pci")) {
        Ok(entries) => entries,
        // The driver is not there, or there is no PCI.
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(cause),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<PciAddress> = names.filter_map(|name| name.parse().ok()).collect();
    found.retain(|address| class_of(sysfs, *address).is_some_and(is_nvme));
    found.sort();
    let bound = |address| Bound { address, missing: missing(sysfs, dev, address).err() };
    Ok(found.into_iter().map(bound).collect())
}

/// Looks at everything that opening needs, in the order in which it needs it: either of the kernel's interfaces will do.
fn missing(sysfs: &Path, dev: &Path, address: PciAddress) -> Result<(), String> {
    let group = group_under(sysfs, address)?;
    let refused = |cause| in_words(address, group, &cause).to_string();
    let by_node = node_under(&sysfs.join("devices"), dev, &address.to_string())
        .map(|node| openable(node).and_then(|()| openable(dev.join("iommu"))).map_err(refused));
    if by_node != Some(Ok(())) {
        openable(dev.join("vfio/vfio"))
            .and_then(|()| openable(dev.join("vfio").join(group.to_string())))
            .map_err(|cause| either(refused(cause), by_node.and_then(Result::err)))?;
    }
    if is_viable(sysfs, address) { Ok(()) } else { Err(refused(VfioError::NotViable { group })) }
}

/// What is missing where a group cannot be opened: that, or what keeps iommufd from being used instead.
fn either(by_group: String, by_node: Option<String>) -> String {
    match by_node {
        Some(by_node) => format!("{by_group}; or, for iommufd, {by_node}"),
        None => by_group,
    }
}

fn openable(path: PathBuf) -> Result<(), VfioError> {
    access(&path, Access::READ_OK | Access::WRITE_OK)
        .map_err(|cause| VfioError::Open { source: cause.into(), path })
}

/// Whether no driver but VFIO's has a device of the group. What cannot be read is left for the kernel to say.
fn is_viable(sysfs: &Path, address: PciAddress) -> bool {
    let Ok(devices) = fs::read_dir(sysfs.join(format!("devices/{address}/iommu_group/devices"))) else {
        return true;
    };
    devices
        .filter_map(|device| driver_of(&device.ok()?.path()))
        .all(|driver| VIABLE.contains(&driver.as_str()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    /// A kernel's folders, with one NVMe controller that `vfio-pci` has, in group 14 beside a device of this driver.
    struct Kernel(tempfile::TempDir);

    impl Kernel {
        fn new(beside: Option<&str>) -> Self {
            let kernel = Self(tempfile::tempdir().unwrap());
            let group = kernel.sysfs().join("groups/14");
            fs::create_dir_all(group.join("devices")).unwrap();
            fs::create_dir_all(kernel.dev().join("vfio/devices")).unwrap();
            for (name, driver) in [("0000:04:00.0", Some("vfio-pci")), ("0000:04:00.1", beside)] {
                let device = kernel.sysfs().join("devices").join(name);
                fs::create_dir_all(&device).unwrap();
                fs::write(device.join("class"), "0x010802\n").unwrap();
                symlink(&group, device.join("iommu_group")).unwrap();
                symlink(&device, group.join("devices").join(name)).unwrap();
                if let Some(driver) = driver {
                    let driver = kernel.sysfs().join("drivers").join(driver);
                    fs::create_dir_all(&driver).unwrap();
                    symlink(&driver, device.join("driver")).unwrap();
                    symlink(&device, driver.join(name)).unwrap();
                }
            }
            kernel
        }

        fn sysfs(&self) -> PathBuf {
            self.0.path().join("sys")
        }

        fn dev(&self) -> PathBuf {
            self.0.path().join("dev")
        }

        fn give(&self, name: &str) {
            fs::write(self.dev().join(name), "").unwrap();
        }

        /// What of the one device is missing.
        fn missing(&self) -> Option<String> {
            let found = bound_under(&self.sysfs(), &self.dev()).unwrap();
            assert_eq!(found[0].address, "04:00.0".parse().unwrap());
            found[0].missing.clone()
        }
    }

    #[test]
    fn missing_kernel_modules_and_nodes_are_listed_without_an_open() {
        let kernel = Kernel::new(None);
        assert!(kernel.missing().unwrap().contains("modprobe vfio-pci"));
        kernel.give("vfio/vfio");
        assert!(kernel.missing().unwrap().contains("dev/vfio/14"));
        kernel.give("vfio/14");
        assert_eq!(kernel.missing(), None);
    }

    #[test]
    fn a_device_that_iommufd_can_give_needs_no_group() {
        let kernel = Kernel::new(None);
        fs::create_dir_all(kernel.sysfs().join("devices/0000:04:00.0/vfio-dev/vfio3")).unwrap();
        kernel.give("vfio/devices/vfio3");
        assert!(
            kernel.missing().unwrap().contains("dev/vfio/vfio"),
            "without /dev/iommu nothing can be bound"
        );
        kernel.give("iommu");
        assert_eq!(kernel.missing(), None);
    }

    #[test]
    fn a_device_that_neither_interface_gives_names_both_reasons() {
        assert_eq!(either("no group".to_owned(), None), "no group");
        let both = either("no group".to_owned(), Some("no node".to_owned()));
        assert_eq!(both, "no group; or, for iommufd, no node");
    }

    #[test]
    fn a_group_with_a_device_of_another_driver_is_named() {
        for (beside, viable) in [("ahci", false), ("pcieport", true), ("vfio-pci", true)] {
            let kernel = Kernel::new(Some(beside));
            kernel.give("vfio/vfio");
            kernel.give("vfio/14");
            let missing = kernel.missing();
            assert_eq!(missing.is_none(), viable, "{beside}: {missing:?}");
            assert!(viable || missing.unwrap().contains("iommu_groups/14/devices"));
        }
    }

    #[test]
    fn only_nvme_controllers_that_vfio_has_are_listed() {
        let kernel = Kernel::new(Some("nvme"));
        assert_eq!(bound_under(&kernel.sysfs(), &kernel.dev()).unwrap().len(), 1);
        fs::write(kernel.sysfs().join("devices/0000:04:00.0/class"), "0x020000").unwrap();
        assert_eq!(bound_under(&kernel.sysfs(), &kernel.dev()).unwrap(), []);
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(bound_under(nothing.path(), nothing.path()).unwrap(), []);
    }
}
