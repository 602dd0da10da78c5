//! A controller at a TCP address, as a backend.

use std::fmt;
use std::sync::Arc;

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Error, ErrorKind, Identity, Method, Namespace, Outcome,
    QueueOptions, Result, identify,
};

use crate::association::Association;
use crate::attach::attach;
use crate::io_queue::IoQueue;
use crate::owner::Owner;
use crate::peer::{Peer, TcpOptions, TcpPlace};
use crate::queue::Queue;

/// A queue of a controller at a TCP address.
pub type TcpQueue = Queue<IoQueue>;

/// A controller at a TCP address.
#[derive(Clone)]
pub struct NvmeTcp {
    owner: Arc<Owner>,
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
    options.without_inline_reads()?;
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
        let transport = IoQueue::open(Arc::clone(&self.owner), options.depth.commands())?;
        Ok(Queue::new(transport, self.association().peer.options.idle, &options))
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
