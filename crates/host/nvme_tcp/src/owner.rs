//! The shared owner of an association and its admin thread.

use std::sync::Arc;
use std::thread::JoinHandle;

use byway_core::{Error, Result};
use byway_sys::OwnerProcess;

use crate::admin_thread::AdminThread;
use crate::association::Association;
use crate::attach::Attached;

/// An association and its admin thread, shared by the device and its queues. The last of them to be dropped ends the thread.
pub(crate) struct Owner {
    pub process: OwnerProcess,
    pub association: Arc<Association>,
    admin_thread: Option<JoinHandle<()>>,
}

impl Owner {
    /// Starts the admin thread of an association: with a controller that was found, or why there is none yet.
    ///
    /// # Errors
    /// When a controller does not report its ANA states, or there is no thread.
    pub fn start(association: Association, found: Result<Attached, String>) -> Result<Arc<Self>> {
        let association = Arc::new(association);
        let admin_thread = match found {
            Ok(attached) => AdminThread::new(Arc::clone(&association), attached)?,
            Err(why) => AdminThread::awaiting(Arc::clone(&association), why)?,
        };
        let thread = std::thread::Builder::new().name("byway-tcp".into());
        let thread = thread.spawn(move || admin_thread.run());
        let admin_thread = thread.map_err(|cause| Error::kernel("no thread for the admin queue", cause))?;
        let process = OwnerProcess::current();
        Ok(Arc::new(Self { process, association, admin_thread: Some(admin_thread) }))
    }
}

impl Drop for Owner {
    /// A forked child leaves its parent's connections as they are: nothing is sent, and none is shut down.
    fn drop(&mut self) {
        if !self.process.is_current() {
            return std::mem::forget(self.admin_thread.take());
        }
        self.association.end();
        if let Some(admin_thread) = self.admin_thread.take() {
            // An admin thread that panicked has nothing left to wait for.
            let _ = admin_thread.join();
        }
    }
}
