//! What the kernel reports of a PCI function, and what is missing before it can be opened.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use byway_driver::BusError;
use byway_sys::vfio::VfioError;

/// Class code of NVMe controllers: mass storage, non-volatile memory. The programming interface below is theirs to choose.
const CLASS_NVME: u32 = 0x0001_0800;

/// Folder in which the kernel reports PCI functions.
pub(super) const SYSFS: &str = "/sys/bus/pci";

/// Domain, bus, device and function of a PCI function: `0000:04:00.0`. The domain may be left out where it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// A text that is no address of a PCI function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no PCI address: expected DOMAIN:BUS:DEVICE.FUNCTION in hexadecimal, as 0000:04:00.0")]
pub struct WrongAddress(String);

impl FromStr for PciAddress {
    type Err = WrongAddress;

    fn from_str(text: &str) -> Result<Self, WrongAddress> {
        parse(text).ok_or_else(|| WrongAddress(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (place, function) = text.rsplit_once('.')?;
    let mut parts = place.rsplit(':');
    let (device, bus) = (hex(parts.next()?, 2)? as u8, hex(parts.next()?, 2)? as u8);
    let domain = parts.next().map_or(Some(0), |domain| hex(domain, 8))?;
    let function = hex(function, 1)? as u8;
    let fits = parts.next().is_none() && device < 32 && function < 8;
    fits.then_some(PciAddress { domain, bus, device, function })
}

/// At most `most` hexadecimal digits, and nothing else.
fn hex(text: &str, most: usize) -> Option<u32> {
    let digits = !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(text, 16).ok().filter(|_| digits)
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

pub(super) fn class_of(sysfs: &Path, address: PciAddress) -> Option<u32> {
    let text = fs::read_to_string(sysfs.join(format!("devices/{address}/class"))).ok()?;
    u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

pub(super) fn is_nvme(class: u32) -> bool {
    class & !0xff == CLASS_NVME
}

/// The IOMMU group of a function that `vfio-pci` has.
///
/// # Errors
/// What is missing, and how to bring it about.
pub(crate) fn group_of(address: PciAddress) -> Result<u32, BusError> {
    group_under(Path::new(SYSFS), address).map_err(BusError::Unready)
}

pub(super) fn group_under(sysfs: &Path, address: PciAddress) -> Result<u32, String> {
    let folder = sysfs.join(format!("devices/{address}"));
    if !folder.exists() {
        return Err(format!("there is no PCI device {address}: lspci -D lists those that are there"));
    }
    match class_of(sysfs, address) {
        Some(class) if is_nvme(class) => {}
        Some(class) => {
            return Err(format!("{address} is of class {class:06x}, NVMe controllers are of 0108xx"));
        }
        None => return Err(format!("the kernel does not report the class of {address}")),
    }
    let group = fs::read_link(folder.join("iommu_group")).map_err(|_| no_iommu(address))?;
    let driver = driver_of(&folder);
    if driver.as_deref() != Some("vfio-pci") {
        return Err(not_bound(address, driver.as_deref()));
    }
    let number = group.file_name().and_then(|name| name.to_str()?.parse().ok());
    number.ok_or_else(|| format!("the kernel calls the IOMMU group of {address} {}", group.display()))
}

/// The driver that has a function, by the function's folder.
pub(super) fn driver_of(folder: &Path) -> Option<String> {
    fs::read_link(folder.join("driver")).ok()?.file_name()?.to_str().map(str::to_owned)
}

fn no_iommu(address: PciAddress) -> String {
    format!(
        "{address} is behind no IOMMU, without which nothing keeps a device to the memory it was given: turn it on in the \
         firmware (VT-d, AMD-Vi) and by intel_iommu=on or amd_iommu=on on the kernel's command line"
    )
}

fn not_bound(address: PciAddress, driver: Option<&str>) -> String {
    let folder = format!("/sys/bus/pci/devices/{address}");
    let (bound, unbind) = match driver {
        Some(driver) => {
            (format!("driver {driver} has {address}"), format!("echo {address} > {folder}/driver/unbind; "))
        }
        None => (format!("no driver has {address}"), String::new()),
    };
    format!(
        "{bound}, vfio-pci must: modprobe vfio-pci; echo vfio-pci > {folder}/driver_override; {unbind}\
         echo {address} > /sys/bus/pci/drivers_probe"
    )
}

/// Why VFIO does not give a device, with what to do about it.
pub(crate) fn in_words(address: PciAddress, group: u32, cause: &VfioError) -> BusError {
    let kind = match cause {
        VfioError::Open { source, .. } | VfioError::Step { source, .. } => Some(source.kind()),
        _ => None,
    };
    let what = match (cause, kind) {
        (_, Some(io::ErrorKind::ResourceBusy)) => {
            return BusError::Busy(format!("another process has IOMMU group {group} of {address}"));
        }
        (VfioError::Open { path, .. }, Some(io::ErrorKind::NotFound)) => {
            format!("there is no {}: modprobe vfio-pci vfio_iommu_type1", path.display())
        }
        (VfioError::Open { path, .. }, Some(io::ErrorKind::PermissionDenied)) => {
            format!("{} may not be opened: chown it to the user of this process", path.display())
        }
        (VfioError::NotViable { .. }, _) => {
            format!("{cause}: ls /sys/kernel/iommu_groups/{group}/devices lists them, all go with {address}")
        }
        _ => format!("{address} in IOMMU group {group}: {cause}"),
    };
    BusError::Unready(what)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    fn address(text: &str) -> PciAddress {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_read_with_its_domain_or_without() {
        assert_eq!(address("0000:04:00.0"), address("04:00.0"));
        assert_eq!(address("10000:e1:1f.7").to_string(), "10000:e1:1f.7");
        assert_eq!(address("4:0.0").to_string(), "0000:04:00.0");
        for wrong in [
            "",
            "04:00",
            "04:20.0",
            "04:00.8",
            "x:04:00.0",
            "0:0:04:00.0",
            "04:00.0.0",
            "+4:00.0",
            "104:00.0",
        ] {
            assert!(wrong.parse::<PciAddress>().is_err(), "{wrong}");
        }
    }

    /// A folder as the kernel's, with one function.
    fn sysfs(class: &str, group: Option<&str>, driver: Option<&str>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("devices/0000:04:00.0");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("class"), format!("{class}\n")).unwrap();
        if let Some(group) = group {
            symlink(format!("../../../kernel/iommu_groups/{group}"), device.join("iommu_group")).unwrap();
        }
        if let Some(driver) = driver {
            let bound = folder.path().join("drivers").join(driver);
            fs::create_dir_all(&bound).unwrap();
            symlink(&bound, device.join("driver")).unwrap();
            symlink(&device, bound.join("0000:04:00.0")).unwrap();
            fs::write(bound.join("new_id"), "").unwrap();
        }
        folder
    }

    fn refused(class: &str, group: Option<&str>, driver: Option<&str>) -> String {
        group_under(sysfs(class, group, driver).path(), address("04:00.0")).unwrap_err()
    }

    #[test]
    fn a_function_that_vfio_has_is_found_with_its_group() {
        let folder = sysfs("0x010802", Some("14"), Some("vfio-pci"));
        assert_eq!(group_under(folder.path(), address("04:00.0")), Ok(14));
    }

    #[test]
    fn missing_prerequisite_is_reported_with_the_remedy() {
        let folder = sysfs("0x010802", Some("14"), Some("vfio-pci"));
        let said = group_under(folder.path(), address("05:00.0")).unwrap_err();
        assert!(said.contains("there is no PCI device 0000:05:00.0"), "{said}");
        let said = refused("0x020000", Some("14"), Some("vfio-pci"));
        assert!(said.contains("is of class 020000"), "{said}");
        let said = refused("0x010802", None, Some("vfio-pci"));
        assert!(said.contains("intel_iommu=on"), "{said}");
        let said = refused("0x010802", Some("14"), Some("nvme"));
        assert!(said.contains("driver nvme has") && said.contains("driver/unbind"), "{said}");
        let said = refused("0x010802", Some("14"), None);
        assert!(said.contains("no driver has") && !said.contains("unbind"), "{said}");
    }

    #[test]
    fn vfio_refusal_is_reported_with_the_remedy() {
        let open = |kind: io::ErrorKind| VfioError::Open { path: "/dev/vfio/14".into(), source: kind.into() };
        let said = |cause| in_words(address("04:00.0"), 14, &cause);
        assert!(said(open(io::ErrorKind::NotFound)).to_string().contains("modprobe"));
        assert!(said(open(io::ErrorKind::PermissionDenied)).to_string().contains("chown"));
        assert!(matches!(said(open(io::ErrorKind::ResourceBusy)), BusError::Busy(_)));
        assert!(said(VfioError::NotViable { group: 14 }).to_string().contains("iommu_groups/14/devices"));
    }
}
