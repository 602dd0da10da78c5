//! Detection of changes that another program makes to an open image: truncating it, or overwriting its beginning.
//!
//! Both checks are loads from read-only shared mappings of the file, without system calls. A file that was truncated shows other
//! bytes there, or none, though it has its old length again.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::ImageFile;
use crate::file_error::FileError;
use crate::map::PAGE_BYTES;
use crate::view::ReadMapping;

/// Words that the owner of the file never changes while it is open, and the file's last page.
#[derive(Debug)]
pub(super) struct ChangeDetector {
    head: ReadMapping,
    /// Places of the words, and what they were when the file was opened.
    words: [(usize, u64); ImageFile::DETECTOR_WORDS],
    /// Touched to find out whether the file still reaches it. It may be a hole.
    tail: ReadMapping,
    /// The last page could not be loaded although the file has it: a hole on a full file system in memory.
    is_tail_unusable: AtomicBool,
}

impl ChangeDetector {
    #[inline]
    fn has_changed(&self) -> bool {
        self.words.iter().any(|(at, word)| self.head.load_u64(*at) != Some(*word))
    }

    /// Whether the file's last page could not be loaded.
    #[inline]
    fn has_no_tail(&self) -> bool {
        let _ = self.tail.load_u64(0);
        self.tail.is_lost() && !self.is_tail_unusable.load(Relaxed)
    }
}

impl ImageFile {
    /// How many words are compared.
    pub const DETECTOR_WORDS: usize = 3;

    /// Detects from now on that another program has changed the file: by aligned words, given by their places in bytes, that this
    /// opener does not change, and by the file's last page. The last place is the highest.
    ///
    /// # Errors
    /// What the system says.
    pub fn watch_words(&self, places: [u64; Self::DETECTOR_WORDS]) -> Result<(), FileError> {
        let failed = |source| self.failed("mapping", source);
        let lost = Some(std::sync::Arc::clone(&self.lost));
        let end = (places[Self::DETECTOR_WORDS - 1] + 8).next_multiple_of(PAGE_BYTES as u64);
        let head = ReadMapping::file_or_lost(&self.file, 0, end, lost).map_err(failed)?;
        let last_page = self.len_bytes.load(Relaxed).saturating_sub(1) & !(PAGE_BYTES as u64 - 1);
        let tail = ReadMapping::file(&self.file, last_page, PAGE_BYTES as u64).map_err(failed)?;
        let words = places.map(|at| (at as usize, head.load_u64(at as usize).unwrap_or_default()));
        let _ =
            self.detector.set(ChangeDetector { head, words, tail, is_tail_unusable: AtomicBool::new(false) });
        Ok(())
    }

    /// Whether another program has truncated the file to less than its beginning, or overwritten that: neither its contents nor
    /// results since the last check are valid.
    #[must_use]
    #[inline]
    pub fn is_lost(&self) -> bool {
        if self.lost.load(Relaxed) {
            return true;
        }
        let has_changed = self.detector.get().is_some_and(ChangeDetector::has_changed);
        if has_changed {
            self.lost.store(true, Relaxed);
        }
        has_changed
    }

    /// Whether another program has changed the file so that nothing more may be written: it is lost, or ends too early.
    #[must_use]
    #[inline]
    pub fn is_truncated(&self) -> bool {
        if self.detector.get().is_some_and(ChangeDetector::has_no_tail) {
            self.check_tail();
        }
        self.is_lost() || self.write_fault.is_truncated()
    }

    /// Finds out why the last page could not be loaded.
    #[cold]
    fn check_tail(&self) {
        if let (Ok(()), Some(detector)) = (self.check_len(), self.detector.get()) {
            detector.is_tail_unusable.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::FileExt;

    use super::*;

    const LEN_BYTES: u64 = 16 * PAGE_BYTES as u64;

    fn watched() -> (ImageFile, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let file = ImageFile::create(&dir.path().join("image")).unwrap();
        file.set_len(LEN_BYTES).unwrap();
        file.write_at(0, &[7; 4096]).unwrap();
        file.watch_words([0, 40, 64]).unwrap();
        assert!(!file.is_truncated() && !file.is_lost());
        (file, dir)
    }

    #[test]
    fn file_truncated_and_grown_back_is_lost() {
        let (file, _dir) = watched();
        file.file().set_len(0).unwrap();
        file.file().set_len(LEN_BYTES).unwrap();
        assert!(file.is_lost() && file.is_truncated());
        assert!(matches!(file.write_at(0, &[1]), Err(FileError::CutShort { .. })));
        assert!(matches!(file.sync(), Err(FileError::CutShort { .. })));
    }

    #[test]
    fn file_truncated_behind_its_beginning_is_not_lost() {
        let (file, _dir) = watched();
        file.file().set_len(LEN_BYTES / 2).unwrap();
        assert!(file.is_truncated() && !file.is_lost());
        file.read_at(0, &mut [0]).unwrap();
        file.file().set_len(LEN_BYTES).unwrap();
        assert!(file.is_truncated(), "for good");
    }

    #[test]
    fn file_whose_watched_words_are_overwritten_is_lost_for_good() {
        let (file, _dir) = watched();
        file.write_at(8, &[1; 32]).unwrap();
        file.write_at(LEN_BYTES - 1, &[1]).unwrap();
        assert!(!file.is_truncated(), "other bytes are its owner's to change");
        file.file().write_all_at(&[8], 47).unwrap();
        assert!(file.is_lost());
        file.file().write_all_at(&[7], 47).unwrap();
        assert!(file.is_lost());
    }
}
