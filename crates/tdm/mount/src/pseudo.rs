//! Folders that are no files' at all: what the kernel tells of itself.

use std::path::Path;

use rustix::fs::statfs;

/// The kernel's own file systems, and what they are called (statfs(2), linux/magic.h). A read there may be a question to this process, which
/// waits for itself then.
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

/// What a folder is of, if the kernel makes up its files.
pub(crate) fn kind(folder: &Path) -> Option<&'static str> {
    let magic = statfs(folder).ok()?.f_type;
    of_magic(magic as i64).or_else(|| is_of_devices(folder).then_some("devtmpfs"))
}

fn of_magic(magic: i64) -> Option<&'static str> {
    PSEUDO.iter().find(|(pseudo, _)| *pseudo == magic).map(|(_, name)| *name)
}

/// Where devices have their nodes is a file system in memory by its number.
fn is_of_devices(folder: &Path) -> bool {
    let device = |path: &Path| rustix::fs::stat(path).ok().map(|found| found.st_dev);
    let dev = device(Path::new("/dev"));
    dev.is_some() && device(Path::new("/")) != dev && device(folder) == dev
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_makes_up_is_known_by_its_number_and_a_file_system_is_not_taken_for_it() {
        assert_eq!(of_magic(0x9fa0), Some("proc"));
        // ext4, XFS, Btrfs, tmpfs, overlayfs.
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(of_magic(magic), None);
        }
        assert_eq!(kind(Path::new("/sys/kernel")), Some("sysfs"));
        assert_eq!(kind(Path::new(env!("CARGO_MANIFEST_DIR"))), None);
    }
}
