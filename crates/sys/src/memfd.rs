//! Files in memory that another process may be given: of a sealed size, so that a mapping of one never raises SIGBUS.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};

/// A file of `len_bytes` zeroes in memory, called `name` in listings of descriptors, whose size is sealed. Pages are taken
/// from the system when they are first touched.
///
/// # Errors
/// The system's answer.
pub fn sealed(name: &str, len_bytes: u64) -> io::Result<File> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, len_bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Whether the bytes from `offset` on are in the file and stay there: no other holder can truncate it, which
/// would end every process that touches a mapping of it.
#[must_use]
pub fn stays(file: &File, offset: u64, len_bytes: u64) -> bool {
    let sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    let end = offset.checked_add(len_bytes);
    sealed && end.is_some_and(|end| file.metadata().is_ok_and(|file| end <= file.len()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_sealed_file_keeps_its_size() {
        let file = sealed("test", 8192).unwrap();
        assert!(file.set_len(0).is_err() && file.set_len(1 << 20).is_err());
        assert!(stays(&file, 4096, 4096));
        assert!(!stays(&file, 4096, 4097) && !stays(&file, u64::MAX, 1));
    }

    #[test]
    fn a_file_that_can_be_cut_short_does_not_stay() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(!stays(&file, 0, 4096));
    }
}
