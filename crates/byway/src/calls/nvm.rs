//! Synchronous calls to a namespace of logical blocks.

use byway_core::{
    BackendQueue, Command, ErrorKind, LbaRange, LbaRanges, Namespace, Nsid, NvmCommand, Result, gather,
};

use crate::calls::nvm_queue::NvmQueue;
use crate::calls::queue::{Queue, by_driver};
use crate::calls::scratch::Scratch;

/// A namespace of blocks, with a queue of its own. One thread uses it.
pub struct Nvm {
    queue: NvmQueue,
    /// What borrowed bytes travel in where a queue takes none.
    scratch: Scratch,
}

impl Nvm {
    /// Calls to a namespace of the device that the queue belongs to.
    ///
    /// # Errors
    /// For a namespace of another kind.
    pub fn new(queue: impl Into<Queue>, namespace: &Namespace) -> Result<Self> {
        Ok(Self { queue: NvmQueue::new(queue, namespace)?, scratch: Scratch::default() })
    }

    /// The namespace.
    pub fn nsid(&self) -> Nsid {
        self.queue.nsid()
    }

    /// Size of a block in bytes.
    pub fn lba_bytes(&self) -> u32 {
        self.queue.lba_bytes()
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.queue.blocks()
    }

    /// The queue beneath, for typed commands and completions of one's own.
    pub fn queue(&mut self) -> &mut Queue {
        self.queue.queue()
    }

    /// Its queue, and what borrowed bytes travel in.
    pub(crate) fn queue_and_buffer(&mut self) -> (&mut Queue, &mut Scratch) {
        (self.queue.queue(), &mut self.scratch)
    }

    /// Writes whole blocks from block `slba` on.
    ///
    /// # Errors
    /// A length that is no whole number of blocks, a range outside the namespace, or what the device says.
    #[inline]
    pub fn write(&mut self, slba: u64, data: &[u8]) -> Result<()> {
        let (nsid, lba_bytes) = (self.nsid(), self.lba_bytes());
        by_driver!(self.queue().kind_mut(),
            queue => queue.execute_write(nsid, slba, lba_bytes, data).map(drop),
            _ => self.write_copy(slba, data))
    }

    /// Reads whole blocks from block `slba` on.
    ///
    /// # Errors
    /// As [`Nvm::write`].
    #[inline]
    pub fn read(&mut self, slba: u64, into: &mut [u8]) -> Result<()> {
        let (nsid, lba_bytes) = (self.nsid(), self.lba_bytes());
        by_driver!(self.queue().kind_mut(),
            queue => queue.execute_read(nsid, slba, lba_bytes, into).map(drop),
            _ => self.read_copy(slba, into))
    }

    /// Writes `new` from block `slba` on if the blocks hold `expected`, atomically among all writers; returns whether it did. Both are as
    /// many whole blocks, one where a device says no more.
    ///
    /// # Errors
    /// As [`Nvm::write`]; [`ErrorKind::Unsupported`] where nothing is compared and written as one.
    pub fn compare_and_write(&mut self, slba: u64, expected: &[u8], new: &[u8]) -> Result<bool> {
        let blocks = self.queue.whole_blocks(expected.len())?;
        let mut data = self.scratch.take(expected.len() + new.len())?;
        gather([expected, new].into_iter(), data.as_mut_slice());
        let command = NvmCommand::CompareAndWrite { nsid: self.nsid(), slba, blocks, data: data.into() };
        match self.queue().execute(command.into()) {
            Ok(done) => {
                self.scratch.keep(done.buffer);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Mismatch => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes completed writes durable on the media below.
    ///
    /// # Errors
    /// What the device says.
    pub fn flush(&mut self) -> Result<()> {
        self.send(NvmCommand::Flush { nsid: self.nsid() })
    }

    /// Deallocates blocks (Dataset Management); those of a Byway device read as zeroes then.
    ///
    /// # Errors
    /// A range outside the namespace, or what the device says.
    pub fn trim(&mut self, slba: u64, blocks: u32) -> Result<()> {
        let ranges = LbaRanges::new(&[LbaRange { slba, blocks }])?;
        self.send(NvmCommand::Deallocate { nsid: self.nsid(), ranges })
    }

    /// Makes blocks read as zeroes.
    ///
    /// # Errors
    /// As [`Nvm::trim`].
    pub fn write_zeroes(&mut self, slba: u64, blocks: u32) -> Result<()> {
        self.send(NvmCommand::WriteZeroes { nsid: self.nsid(), slba, blocks, deallocate: true })
    }

    fn send(&mut self, command: NvmCommand) -> Result<()> {
        self.queue().execute(Command::Nvm(command)).map(drop)
    }

    fn write_copy(&mut self, slba: u64, data: &[u8]) -> Result<()> {
        let blocks = self.queue.whole_blocks(data.len())?;
        let copy = self.scratch.copy_of(data)?;
        let write = NvmCommand::Write { nsid: self.nsid(), slba, blocks, data: copy.into() };
        let sent = self.queue().execute(write.into())?.buffer;
        self.scratch.keep(sent);
        Ok(())
    }

    fn read_copy(&mut self, slba: u64, into: &mut [u8]) -> Result<()> {
        let blocks = self.queue.whole_blocks(into.len())?;
        let copy = self.scratch.take(into.len())?;
        let read = NvmCommand::Read { nsid: self.nsid(), slba, blocks, into: copy };
        let copy = self.queue().execute(read.into())?.buffer;
        if let Some(copy) = &copy {
            into.copy_from_slice(copy.as_slice());
        }
        self.scratch.keep(copy);
        Ok(())
    }
}
