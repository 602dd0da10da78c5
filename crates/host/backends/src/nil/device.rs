//! A namespace of blocks that is not there.

use byway_core::{
    AdminCommand, Backend, Buffer, Capabilities, Error, ErrorKind, Identity, Limits, Namespace,
    NamespaceKind, Nsid, Outcome, QueueOptions, Result,
};

use crate::nil::NilQueue;
use crate::target::{Shape, blocks_capabilities, check_queue};

/// Bytes of a block.
const LBA_BYTES: u32 = 512;

/// A namespace of blocks that is not there.
#[derive(Debug, Clone)]
pub struct Nil {
    blocks: u64,
    identity: Identity,
    capabilities: Capabilities,
}

impl Nil {
    /// Name of the backend, in JSON and for `backend=`: that of the URI scheme.
    pub const NAME: &str = "null-backend";

    /// One of `size_bytes` bytes, in blocks of 512.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a size below a block.
    pub fn new(size_bytes: u64) -> Result<Self> {
        let blocks = size_bytes / u64::from(LBA_BYTES);
        if blocks == 0 {
            let said = format!("{size_bytes} bytes have no room for a block of {LBA_BYTES} bytes");
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        let identity = Identity { model: "Byway null backend".into(), ..Identity::default() };
        Ok(Self { blocks, identity, capabilities: capabilities() })
    }

    fn shape(&self) -> Shape {
        Shape {
            lba_shift: LBA_BYTES.trailing_zeros(),
            blocks: self.blocks,
            transfer_max_bytes: u64::MAX,
            align_bytes: 1,
            read_only: false,
        }
    }
}

fn capabilities() -> Capabilities {
    let blocks = blocks_capabilities();
    Capabilities { limits: Limits { transfer_bytes: u64::MAX, ..blocks.limits }, ..blocks }
}

impl Backend for Nil {
    type Queue = NilQueue;

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        let kind = NamespaceKind::Nvm { lba_bytes: LBA_BYTES, blocks: self.blocks };
        let size_bytes = self.blocks * u64::from(LBA_BYTES);
        Ok(vec![Namespace { nsid: Nsid::FIRST, kind, size_bytes, used_bytes: size_bytes, nguid: [0; 16] }])
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn queue(&self, options: QueueOptions) -> Result<NilQueue> {
        let options = options.capped(self.capabilities.limits.queue_depth);
        check_queue(&options)?;
        Ok(NilQueue::new(self.shape(), options.depth.commands()))
    }

    fn admin(&self, _: AdminCommand) -> Result<Outcome> {
        Err(Error::no_controller(Self::NAME))
    }
}
