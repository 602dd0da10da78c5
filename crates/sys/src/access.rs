//! Access to a file: owner, mode and access control list (ACL), copied to its replacement or copy.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Gid, Mode, Uid, XattrFlags};
use rustix::io::Errno;

/// The extended attribute that holds a file's POSIX ACL (acl(5)).
const ACL: &str = "system.posix_acl_access";

/// Permission bits, and the set-user-ID, set-group-ID and sticky bits.
const MODE_BITS: u32 = 0o7777;

/// Largest extended attribute of Linux (`XATTR_SIZE_MAX`).
const ATTRIBUTE_MAX_BYTES: usize = 64 << 10;

/// Owner, mode and ACL of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    uid: u32,
    gid: u32,
    mode: u32,
    acl: Option<Vec<u8>>,
}

impl Access {
    /// The access of an open file.
    ///
    /// # Errors
    /// The system's answer.
    pub fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self { uid: found.uid(), gid: found.gid(), mode: found.mode() & MODE_BITS, acl: acl_of(file)? })
    }

    /// The owner: user and group.
    #[must_use]
    pub const fn owner(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// Gives a new file without data the same owner, mode and ACL. It is never open to more users on the way.
    ///
    /// # Errors
    /// `PermissionDenied` where this process may not give the file to that owner; the system's answer.
    pub fn give(&self, to: &File) -> io::Result<()> {
        self.give_owner(to, Some(self.uid))?;
        set_acl(to, self.acl.as_deref())?;
        set_mode(to, self.mode)
    }

    /// As [`give`](Self::give), but the file stays this process's where it may not be given away, as with `cp -p`. Where not
    /// even its group can be kept, the group gets no more than everyone has, and a file with an ACL is its owner's alone.
    ///
    /// # Errors
    /// The system's answer.
    pub fn give_as_far_as_allowed(&self, to: &File) -> io::Result<()> {
        let denied =
            |given: &io::Result<()>| matches!(given, Err(e) if e.kind() == io::ErrorKind::PermissionDenied);
        let all = self.give(to);
        if !denied(&all) {
            return all;
        }
        // Set-user-ID and set-group-ID bits are of the owner that the file does not get.
        let mode = self.mode & 0o777;
        let group = self.give_owner(to, None);
        if !denied(&group) {
            group?;
            set_acl(to, self.acl.as_deref())?;
            return set_mode(to, mode);
        }
        set_acl(to, None)?;
        set_mode(to, self.without_group())
    }

    /// The mode for a file of another group.
    fn without_group(&self) -> u32 {
        match self.acl {
            Some(_) => self.mode & 0o700,
            None => self.mode & (0o707 | (self.mode & 0o007) << 3),
        }
    }

    fn give_owner(&self, to: &File, uid: Option<u32>) -> io::Result<()> {
        let has = to.metadata()?;
        if has.gid() == self.gid && uid.is_none_or(|uid| uid == has.uid()) {
            return Ok(());
        }
        Ok(rustix::fs::fchown(to, uid.map(Uid::from_raw), Some(Gid::from_raw(self.gid)))?)
    }
}

fn set_mode(to: &File, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(to, Mode::from_raw_mode(mode))?)
}

/// The ACL of a file, where it has one beside its mode.
fn acl_of(file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; ATTRIBUTE_MAX_BYTES];
    match rustix::fs::fgetxattr(file, ACL, &mut value[..]) {
        Ok(len) => {
            value.truncate(len);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sets the ACL of a file, or removes the one it was made with by the default ACL of its folder.
fn set_acl(to: &File, acl: Option<&[u8]>) -> io::Result<()> {
    let set = match acl {
        Some(acl) => rustix::fs::fsetxattr(to, ACL, acl, XattrFlags::empty()),
        None => rustix::fs::fremovexattr(to, ACL),
    };
    match set {
        Err(Errno::NODATA | Errno::OPNOTSUPP) if acl.is_none() => Ok(()),
        set => Ok(set?),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const OWNER: u16 = 1;
    const USER: u16 = 2;
    const GROUP: u16 = 4;
    const MASK: u16 = 16;
    const OTHER: u16 = 32;

    /// An ACL as the kernel takes it: version 2, then tag, rights and number of each entry.
    fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, number) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(rights.to_le_bytes());
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    fn named_user(rights: u16) -> Vec<u8> {
        let none = u32::MAX;
        acl(&[
            (OWNER, 6, none),
            (USER, rights, 4711),
            (GROUP, 0, none),
            (MASK, rights, none),
            (OTHER, 0, none),
        ])
    }

    fn mode_of(file: &File) -> u32 {
        file.metadata().unwrap().mode() & MODE_BITS
    }

    #[test]
    fn a_mode_is_given_whatever_the_umask() {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        for mode in [0o600, 0o640, 0o666, 0o400] {
            set_mode(&from, mode).unwrap();
            Access::of(&from).unwrap().give(&to).unwrap();
            assert_eq!(mode_of(&to), mode);
        }
    }

    #[test]
    fn a_mode_for_another_group_gives_it_what_everyone_has() {
        let access = |mode, acl| Access { uid: 0, gid: 0, mode, acl };
        let modes = [(0o640, 0o600), (0o644, 0o644), (0o664, 0o644), (0o660, 0o600), (0o600, 0o600)];
        for (mode, left) in modes {
            assert_eq!(access(mode, None).without_group(), left, "{mode:o}");
        }
        assert_eq!(access(0o664, Some(named_user(6))).without_group(), 0o600);
    }

    #[test]
    fn an_acl_is_given_and_one_that_the_folder_gave_is_removed() {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let set = set_acl(&from, Some(&named_user(4)));
        if set.as_ref().is_err_and(|e| e.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())) {
            // A file system without ACLs has none to lose.
            return;
        }
        set.unwrap();
        let access = Access::of(&from).unwrap();
        access.give(&to).unwrap();
        assert_eq!(Access::of(&to).unwrap(), access);
        let plain = tempfile::tempfile().unwrap();
        set_mode(&plain, 0o640).unwrap();
        Access::of(&plain).unwrap().give(&to).unwrap();
        assert_eq!((acl_of(&to).unwrap(), mode_of(&to)), (None, 0o640));
    }
}
