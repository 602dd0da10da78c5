//! A queue of one namespace of blocks: each call submits one command, completions are taken one by one.

use std::time::Duration;

use byway_core::{
    BackendQueue, Buffer, Error, ErrorKind, Finished, LbaRange, LbaRanges, Namespace, NamespaceKind, Nsid,
    NvmCommand, Refused, Result,
};

use crate::calls::queue::Queue;

/// A queue for one namespace of blocks. One thread uses it.
///
/// Each call submits one command and returns at once; [`wait_next`](Self::wait_next) takes the completions, which carry the
/// command's `tag` and its buffer. As many commands can be outstanding as [`BackendQueue::depth`] says; one more is refused
/// with [`ErrorKind::QueueFull`] and given back.
///
/// ```
/// # fn main() -> byway::Result<()> {
/// use byway::Backend;
///
/// let device = byway::open("embedded-ram:64M")?;
/// let mut queue = device.nvm_queue(None)?;
/// for tag in 0..8 {
///     queue.read(tag, device.buffer(queue.lba_bytes() as usize)?, tag)?;
/// }
/// while let Some(done) = queue.wait_next()? {
///     println!("block {}: {:?}", done.tag, done.result?.buffer);
/// }
/// # Ok(())
/// # }
/// ```
pub struct NvmQueue {
    queue: Queue,
    nsid: Nsid,
    lba_bytes: u32,
    blocks: u64,
}

impl NvmQueue {
    /// Commands to a namespace of the device that the queue belongs to.
    ///
    /// # Errors
    /// For a namespace of another kind.
    pub fn new(queue: impl Into<Queue>, namespace: &Namespace) -> Result<Self> {
        let NamespaceKind::Nvm { lba_bytes, blocks } = namespace.kind else {
            return Err(Error::host(ErrorKind::InvalidArgument, "not a namespace of blocks"));
        };
        Ok(Self { queue: queue.into(), nsid: namespace.nsid, lba_bytes, blocks })
    }

    /// The namespace.
    #[must_use]
    #[inline]
    pub fn nsid(&self) -> Nsid {
        self.nsid
    }

    /// Size of a block in bytes.
    #[must_use]
    #[inline]
    pub fn lba_bytes(&self) -> u32 {
        self.lba_bytes
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The queue beneath, for every other command and way to wait.
    #[inline]
    pub fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Reads blocks from block `slba` on into the whole of `into`.
    ///
    /// # Errors
    /// As [`BackendQueue::submit`]; a length that is no whole number of blocks. The buffer comes back with the refusal.
    pub fn read(&mut self, slba: u64, into: Buffer, tag: u64) -> Result<(), Refused> {
        let (nsid, len) = (self.nsid, into.len());
        self.submit_of(len, tag, |blocks| NvmCommand::Read { nsid, slba, blocks, into })
    }

    /// Writes the whole of `data` from block `slba` on.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&mut self, slba: u64, data: Buffer, tag: u64) -> Result<(), Refused> {
        let (nsid, len) = (self.nsid, data.len());
        self.submit_of(len, tag, |blocks| NvmCommand::Write { nsid, slba, blocks, data: data.into() })
    }

    /// Makes writes that completed before durable on the media below.
    ///
    /// # Errors
    /// As [`BackendQueue::submit`].
    pub fn flush(&mut self, tag: u64) -> Result<(), Refused> {
        self.queue.submit(NvmCommand::Flush { nsid: self.nsid }.into(), tag)
    }

    /// Makes blocks read as zeroes.
    ///
    /// # Errors
    /// As [`BackendQueue::submit`].
    pub fn write_zeroes(&mut self, slba: u64, blocks: u32, tag: u64) -> Result<(), Refused> {
        let zeroes = NvmCommand::WriteZeroes { nsid: self.nsid, slba, blocks, deallocate: true };
        self.queue.submit(zeroes.into(), tag)
    }

    /// Deallocates blocks (Dataset Management); those of a Byway device read as zeroes then.
    ///
    /// # Errors
    /// As [`BackendQueue::submit`].
    pub fn trim(&mut self, slba: u64, blocks: u32, tag: u64) -> Result<()> {
        let ranges = LbaRanges::new(&[LbaRange { slba, blocks }])?;
        Ok(self.queue.submit(NvmCommand::Deallocate { nsid: self.nsid, ranges }.into(), tag)?)
    }

    /// The next completion, waited for as long as it takes; `None` when no command is outstanding.
    ///
    /// # Errors
    /// When the queue itself fails; commands that fail are [`Finished`].
    #[inline]
    pub fn wait_next(&mut self) -> Result<Option<Finished>> {
        self.queue.next_within(Duration::MAX)
    }

    /// Number of blocks in `bytes`, if it is a whole number of them.
    pub(crate) fn whole_blocks(&self, bytes: usize) -> Result<u32> {
        let lba_bytes = self.lba_bytes as usize;
        let blocks = u32::try_from(bytes / lba_bytes).ok().filter(|_| bytes.is_multiple_of(lba_bytes));
        blocks.ok_or_else(|| {
            let said = format!("{bytes} bytes are no whole number of blocks of {lba_bytes} bytes");
            Error::host(ErrorKind::InvalidArgument, said)
        })
    }

    fn submit_of(
        &mut self,
        bytes: usize,
        tag: u64,
        command: impl FnOnce(u32) -> NvmCommand,
    ) -> Result<(), Refused> {
        match self.whole_blocks(bytes) {
            Ok(blocks) => self.queue.submit(command(blocks).into(), tag),
            Err(error) => Err(Refused { command: command(0).into(), error }),
        }
    }
}
