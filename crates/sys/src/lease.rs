//! Write leases: the kernel reports another opener of a file before its `open` returns.
//!
//! An open file gets one only while it is the only one of its file, in the whole system. A process that then opens the file, or
//! truncates it by name, waits in the kernel until the lease is given back, or for as long as `/proc/sys/fs/lease-break-time` says.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The `fcntl` command that sets the signal of a lease break, on every Linux.
const F_SETSIG: i32 = 10;

/// Takes the lease for an open file, by any of its descriptors. [`is_whole`] says whether another opener waits for it. The kernel
/// also sends a signal then, SIGURG, which is ignored by default.
///
/// # Errors
/// `WouldBlock` while there is another open file; `InvalidInput` where the file system has no leases; what the system says.
pub fn take(file: impl AsFd) -> io::Result<()> {
    control(&file, F_SETSIG, libc::SIGURG)?;
    control(&file, libc::F_SETLEASE, libc::F_WRLCK).map(drop)
}

/// Whether the lease is held and no opener waits for it.
///
/// # Errors
/// What the system says.
pub fn is_whole(file: impl AsFd) -> io::Result<bool> {
    Ok(control(&file, libc::F_GETLEASE, 0)? == libc::F_WRLCK)
}

/// Gives it back: waiting openers go on.
///
/// # Errors
/// What the system says.
pub fn give_back(file: impl AsFd) -> io::Result<()> {
    control(&file, libc::F_SETLEASE, libc::F_UNLCK)?;
    control(&file, F_SETSIG, 0).map(drop)
}

fn control(file: &impl AsFd, command: i32, argument: i32) -> io::Result<i32> {
    // SAFETY: an open file, and a command whose argument is a number.
    match unsafe { libc::syscall(libc::SYS_fcntl, file.as_fd().as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer as i32),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::File;

    use rustix::fs::{Mode, OFlags, open};

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "leases are not there")]
    fn lease_needs_the_only_open_file_and_delays_other_opens() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert_eq!(take(&file).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(reader);
        take(&file).unwrap();
        assert!(is_whole(&file).unwrap());
        let again = || open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
        assert_eq!(again().unwrap_err(), rustix::io::Errno::AGAIN);
        assert!(!is_whole(&file).unwrap());
        give_back(&file).unwrap();
        again().unwrap();
    }
}
