//! Synchronous calls to a namespace of logical blocks.

use byway_core::{
    BackendQueue, Command, Error, ErrorKind, LbaRange, LbaRanges, Namespace, NamespaceKind, Nsid, NvmCommand,
    Result,
};

use crate::device::EmbeddedQueue;

/// A namespace of blocks, with a queue of its own. One thread uses it.
pub struct Nvm {
    queue: EmbeddedQueue,
    nsid: Nsid,
    lba_bytes: u32,
    blocks: u64,
}

impl Nvm {
    pub(crate) fn new(queue: EmbeddedQueue, namespace: &Namespace) -> Result<Self> {
        let NamespaceKind::Nvm { lba_bytes, blocks } = namespace.kind else {
            return Err(Error::host(ErrorKind::InvalidArgument, "not a namespace of blocks"));
        };
        Ok(Self { queue, nsid: namespace.nsid, lba_bytes, blocks })
    }

    /// Size of a block in bytes.
    pub fn lba_bytes(&self) -> u32 {
        self.lba_bytes
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The queue beneath, for typed commands and completions of one's own.
    pub fn queue(&mut self) -> &mut EmbeddedQueue {
        &mut self.queue
    }

    /// Writes whole blocks from block `slba` on.
    ///
    /// # Errors
    /// A length that is no whole number of blocks, a range outside the namespace, or what the device says.
    #[inline]
    pub fn write(&mut self, slba: u64, data: &[u8]) -> Result<()> {
        self.queue.execute_write(self.nsid, slba, self.lba_bytes, data).map(drop)
    }

    /// Reads whole blocks from block `slba` on.
    ///
    /// # Errors
    /// As [`Nvm::write`].
    #[inline]
    pub fn read(&mut self, slba: u64, into: &mut [u8]) -> Result<()> {
        self.queue.execute_read(self.nsid, slba, self.lba_bytes, into).map(drop)
    }

    /// Makes completed writes durable on the media below.
    ///
    /// # Errors
    /// What the device says.
    pub fn flush(&mut self) -> Result<()> {
        self.queue.execute_flush(self.nsid).map(drop)
    }

    /// Tells the device that blocks are no longer needed: they read as zeroes.
    ///
    /// # Errors
    /// A range outside the namespace, or what the device says.
    pub fn trim(&mut self, slba: u64, blocks: u32) -> Result<()> {
        let ranges = LbaRanges::new(&[LbaRange { slba, blocks }])?;
        self.send(NvmCommand::Deallocate { nsid: self.nsid, ranges })
    }

    /// Makes blocks read as zeroes.
    ///
    /// # Errors
    /// As [`Nvm::trim`].
    pub fn write_zeroes(&mut self, slba: u64, blocks: u32) -> Result<()> {
        self.send(NvmCommand::WriteZeroes { nsid: self.nsid, slba, blocks, deallocate: true })
    }

    fn send(&mut self, command: NvmCommand) -> Result<()> {
        self.queue.execute(Command::Nvm(command)).map(drop)
    }
}
