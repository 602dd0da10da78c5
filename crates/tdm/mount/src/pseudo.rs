//! Pseudo file systems, which are not mounted over.

use std::path::Path;

use rustix::fs::statfs;

/// The kernel's pseudo file systems (statfs(2), linux/magic.h). Reading there may query this process, which would wait for itself.
const PSEUDO: [(i64, &str); 21] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x1cd1, "devpts"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xcafe_4a11, "bpf"),
    (0x6265_6570, "configfs"),
    (0x6165_676c, "pstore"),
    (0xde5e_81e4, "efivarfs"),
    (0x1980_0202, "mqueue"),
    (0x4249_4e4d, "binfmt_misc"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x5a3c_69f0, "apparmorfs"),
    (0x0765_5821, "resctrl"),
    (0x6e73_6673, "nsfs"),
    (0x0187, "autofs"),
    (0x6573_5543, "fusectl"),
];

/// Name of the pseudo file system of a folder.
pub(crate) fn kind(folder: &Path) -> Option<&'static str> {
    let magic = statfs(folder).ok()?.f_type;
    of_magic(magic as i64).or_else(|| is_of_devices(folder).then_some("devtmpfs"))
}

fn of_magic(magic: i64) -> Option<&'static str> {
    PSEUDO.iter().find(|(pseudo, _)| *pseudo == magic).map(|(_, name)| *name)
}

/// devtmpfs has the type of tmpfs.
fn is_of_devices(folder: &Path) -> bool {
    let device = |path: &Path| rustix::fs::stat(path).ok().map(|found| found.st_dev);
    let dev = device(Path::new("/dev"));
    dev.is_some() && device(Path::new("/")) != dev && device(folder) == dev
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudo_file_systems_are_recognised_by_number() {
        assert_eq!(of_magic(0x9fa0), Some("proc"));
        // ext4, XFS, Btrfs, tmpfs, overlayfs.
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(of_magic(magic), None);
        }
        assert_eq!(kind(Path::new("/sys/kernel")), Some("sysfs"));
        assert_eq!(kind(Path::new(env!("CARGO_MANIFEST_DIR"))), None);
    }
}
