//! A controller at a TCP address, as a backend.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Error, ErrorKind, Identity, Method, Namespace, Outcome,
    QueueOptions, Result, identify,
};

use crate::association::Association;
use crate::attach::{Attached, attach};
use crate::keeper::Keeper;
use crate::peer::{Peer, TcpOptions, TcpPlace};
use crate::queue::TcpQueue;

/// A controller at a TCP address.
#[derive(Clone)]
pub struct NvmeTcp {
    owner: Arc<Owner>,
}

/// Whoever uses the association: the device, and its queues. With the last, the keeper ends.
pub(crate) struct Owner {
    pub association: Arc<Association>,
    keeper: Option<JoinHandle<()>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.association.end();
        if let Some(keeper) = self.keeper.take() {
            // A keeper that failed has nothing left to be waited for.
            let _ = keeper.join();
        }
    }
}

impl NvmeTcp {
    /// The interface's name.
    pub const NAME: &str = "tcp";

    /// Connects to a subsystem.
    ///
    /// # Errors
    /// One sentence says why not: nobody listens, the subsystem is not there or refuses this host, an option cannot be
    /// honoured.
    pub fn open(place: TcpPlace, options: TcpOptions) -> Result<Self> {
        let peer = Peer::new(place, options)?;
        let Attached { line, controller, facts } = attach(&peer).map_err(|refused| refused.error)?;
        let association = Arc::new(Association::new(peer, facts, controller)?);
        let keeper = Keeper::new(Arc::clone(&association), line);
        let thread = std::thread::Builder::new().name("byway-tcp".into());
        let thread = thread.spawn(move || keeper.run());
        let keeper = thread.map_err(|cause| Error::kernel("no thread for the admin queue", cause))?;
        Ok(Self { owner: Arc::new(Owner { association, keeper: Some(keeper) }) })
    }

    fn association(&self) -> &Association {
        &self.owner.association
    }

    /// Refuses what no queue of the controller has.
    fn check_queue(&self, options: &QueueOptions) -> Result<()> {
        let most = self.capabilities().limits.ring_entries - 1;
        if !(1..=most).contains(&options.depth) {
            let said =
                format!("a queue of this controller is 1 to {most} commands deep, not {}", options.depth);
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        if options.ring_entries.is_some() {
            let said = "a queue over TCP has no ring whose entries can be chosen";
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        if options.transfer != Method::Prp {
            let said =
                format!("transfer method {} is a matter of PCIe; TCP has its own way", options.transfer);
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        Ok(())
    }
}

impl Backend for NvmeTcp {
    type Queue = TcpQueue;

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn identity(&self) -> &Identity {
        &self.association().facts.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.association().facts.capabilities
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        let association = self.association();
        let all = identify::active_namespaces(association)?;
        all.into_iter().map(|nsid| Ok(identify::namespace(association, nsid)?.0)).collect()
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn queue(&self, options: QueueOptions) -> Result<TcpQueue> {
        self.check_queue(&options)?;
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
