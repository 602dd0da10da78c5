//! Observers of a file: called before each operation on it, and able to make it fail.
//!
//! Two things stand on this: file systems that are full or failing, by choice, and files that forget what was not synced.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::names::NameStep;

/// An observer of one file: an [`ImageFile`](crate::ImageFile), or a copy of one.
///
/// An implementer may answer with an error, which becomes the operation's own: nothing was done then. It is called on
/// the thread that operates on the file, before the system is asked. Every read, write,
/// allocation, punch and sync is reported to it; stores through mappings are not, but each mapping is.
pub trait FileEvents: fmt::Debug + Send + Sync {
    /// Whether it looks at reads. Then none is made through a mapping.
    fn sees_reads(&self) -> bool {
        true
    }

    /// Bytes are about to be read.
    ///
    /// # Errors
    /// What the read is to fail with.
    fn before_read(&self, _at: u64, _len_bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Bytes are about to be written.
    ///
    /// # Errors
    /// What the write is to fail with.
    fn before_write(&self, _at: u64, _len_bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Disk room is about to be taken.
    ///
    /// # Errors
    /// What taking it is to fail with.
    fn before_allocate(&self, _at: u64, _len_bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Disk room is about to be given back.
    ///
    /// # Errors
    /// What giving it back is to fail with.
    fn before_punch(&self, _at: u64, _len_bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Bytes are mapped from now on, and may be stored to.
    fn mapped(&self, _at: u64, _len_bytes: u64) {}

    /// The file is about to be synced.
    ///
    /// # Errors
    /// What the sync is to fail with.
    fn before_sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Everything stored before the sync began is on the disk.
    fn after_sync(&self) {}
}

/// An observer of what a thread does to files and their names. Made for tests.
pub trait FolderEvents {
    /// The observer of the file at `path`, which is made or opened now.
    fn file(&self, _path: &Path) -> Option<Arc<dyn FileEvents>> {
        None
    }

    /// A name is about to be given, or to be put on the disk.
    ///
    /// # Errors
    /// What the step is to fail with.
    fn before(&self, _step: &NameStep<'_>) -> io::Result<()> {
        Ok(())
    }

    /// That is done.
    fn after(&self, _step: &NameStep<'_>) {}
}

thread_local! {
    static WATCHING: RefCell<Option<Rc<dyn FolderEvents>>> = const { RefCell::new(None) };
}

/// Runs `act` with `events` observing what this thread does to files and names.
pub fn watching<R>(events: Rc<dyn FolderEvents>, act: impl FnOnce() -> R) -> R {
    /// Ends the observing, however `act` ends.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            WATCHING.set(None);
        }
    }
    WATCHING.set(Some(events));
    let _end = End;
    act()
}

pub(crate) fn of_folder() -> Option<Rc<dyn FolderEvents>> {
    WATCHING.with_borrow(Option::clone)
}

pub(crate) fn of_file(path: &Path) -> Option<Arc<dyn FileEvents>> {
    of_folder()?.file(path)
}
