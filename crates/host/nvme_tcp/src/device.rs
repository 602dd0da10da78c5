//! A controller at a TCP address, as a backend.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Error, ErrorKind, Identity, Method, Namespace, Outcome,
    QueueOptions, Result, identify,
};

use byway_sys::OwnerProcess;

use crate::admin_thread::AdminThread;
use crate::association::Association;
use crate::attach::{Attached, attach};
use crate::peer::{Peer, TcpOptions, TcpPlace};
use crate::queue::TcpQueue;

/// A controller at a TCP address.
#[derive(Clone)]
pub struct NvmeTcp {
    owner: Arc<Owner>,
}

/// The users of the association: the device and its queues. With the last, the admin thread ends.
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

impl NvmeTcp {
    /// The interface's name.
    pub const NAME: &str = "tcp";

    /// Connects to a subsystem.
    ///
    /// # Errors
    /// One sentence says why not: no server listens, the subsystem is not there or refuses this host, an option cannot be
    /// honoured.
    pub fn open(place: TcpPlace, options: TcpOptions) -> Result<Self> {
        let peer = Peer::new(place, options)?;
        let attached = attach(&peer).map_err(|refused| refused.error)?;
        let association = Association::new(peer, None, Arc::default())?;
        Ok(Self { owner: Owner::start(association, Ok(attached))? })
    }

    fn association(&self) -> &Association {
        &self.owner.association
    }
}

/// The options as a controller that can do this honours them.
///
/// # Errors
/// What none of its queues has.
pub(crate) fn check_queue(can: &Capabilities, options: QueueOptions) -> Result<QueueOptions> {
    let most = can.limits.queue_depth;
    let options = options.capped(most);
    let depth = options.depth.commands();
    if !(1..=most).contains(&depth) {
        let said = format!("a queue of this controller is 1 to {most} commands deep, not {depth}");
        return Err(Error::host(ErrorKind::InvalidArgument, said));
    }
    if options.ring_entries.is_some() {
        let said = "a queue over TCP has no ring whose entries can be chosen";
        return Err(Error::host(ErrorKind::Unsupported, said));
    }
    if options.transfer != Method::Prp {
        let said = format!("transfer method {} is a matter of PCIe; TCP has its own way", options.transfer);
        return Err(Error::host(ErrorKind::Unsupported, said));
    }
    Ok(options)
}

impl Backend for NvmeTcp {
    type Queue = TcpQueue;

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn identity(&self) -> &Identity {
        &self.association().facts().identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.association().facts().capabilities
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        identify::namespaces(self.association())
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn queue(&self, options: QueueOptions) -> Result<TcpQueue> {
        let options = check_queue(self.capabilities(), options)?;
        TcpQueue::open(Arc::clone(&self.owner), options)
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.association().admin(command)
    }
}

impl fmt::Debug for NvmeTcp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.association().peer.place;
        out.debug_struct("NvmeTcp").field("place", place).finish_non_exhaustive()
    }
}
