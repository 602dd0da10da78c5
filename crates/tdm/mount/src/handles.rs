//! Open files and folders, by the handles given to the kernel.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuser::FileHandle;
use parking_lot::RwLock;
use rustix::io::Errno;

/// Open files, or open folders.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Handles<T> {
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(1), open: RwLock::default() }
    }

    pub(crate) fn add(&self, one: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().insert(number, Arc::new(one));
        FileHandle(number)
    }

    pub(crate) fn get(&self, handle: FileHandle) -> io::Result<Arc<T>> {
        let open = self.open.read();
        open.get(&handle.0).map(Arc::clone).ok_or_else(|| Errno::BADF.into())
    }

    pub(crate) fn remove(&self, handle: FileHandle) {
        self.open.write().remove(&handle.0);
    }
}
