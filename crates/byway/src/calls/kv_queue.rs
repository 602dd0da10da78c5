//! A queue of one key-value namespace: each call submits one command, completions are taken one by one.

use std::time::Duration;

use byway_core::{
    BackendQueue, Buffer, Error, ErrorKind, Finished, Key, KvCommand, Namespace, NamespaceKind, Nsid,
    Payload, Refused, Result, StoreOptions,
};

use crate::calls::queue::Queue;

/// A queue for one key-value namespace. One thread uses it.
///
/// Each call submits one command and returns at once; [`wait_next`](Self::wait_next) takes the completions, which carry the
/// command's `tag` and its buffer. Commands on one key that are outstanding together may be done in any order.
///
/// ```
/// # fn main() -> byway::Result<()> {
/// use byway::{Backend, Key, Payload};
///
/// let device = byway::open("embedded-ram:64M")?;
/// let mut queue = device.kv_queue(None)?;
/// queue.store(Key::new(b"0041")?, Payload::copy_of(b"LATIN CAPITAL LETTER A")?, 1)?;
/// while let Some(done) = queue.wait_next()? {
///     done.result?;
/// }
/// queue.retrieve(Key::new(b"0041")?, device.buffer(64)?, 2)?;
/// let read = queue.wait_next()?.expect("one is outstanding").result?;
/// assert_eq!(read.dw0(), 22, "the length of the whole value");
/// # Ok(())
/// # }
/// ```
pub struct KvQueue {
    queue: Queue,
    nsid: Nsid,
}

impl KvQueue {
    /// Commands to a namespace of the device that the queue belongs to.
    ///
    /// # Errors
    /// For a namespace of another kind.
    pub fn new(queue: impl Into<Queue>, namespace: &Namespace) -> Result<Self> {
        if !matches!(namespace.kind, NamespaceKind::Kv { .. }) {
            return Err(Error::host(ErrorKind::InvalidArgument, "not a namespace of keys and values"));
        }
        Ok(Self { queue: queue.into(), nsid: namespace.nsid })
    }

    /// The namespace.
    #[must_use]
    pub fn nsid(&self) -> Nsid {
        self.nsid
    }

    /// The queue beneath, for every other command and way to wait.
    #[inline]
    pub fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Stores a value. Once it has completed without an error, the value survives the death of the process.
    ///
    /// # Errors
    /// As [`BackendQueue::submit`].
    pub fn store(&mut self, key: Key, value: Payload, tag: u64) -> Result<(), Refused> {
        self.store_if(key, value, StoreOptions::NONE, tag)
    }

    /// Stores a value under conditions. Where one does not hold, the completion's error is of kind
    /// [`ErrorKind::KeyExists`] or [`ErrorKind::KeyNotFound`].
    ///
    /// # Errors
    /// As [`BackendQueue::submit`].
    pub fn store_if(
        &mut self,
        key: Key,
        value: Payload,
        options: StoreOptions,
        tag: u64,
    ) -> Result<(), Refused> {
        self.submit(KvCommand::Store { nsid: self.nsid, key, value, options }, tag)
    }

    /// Reads a value into `into`; [`Outcome::dw0`](byway_core::Outcome::dw0) is the length of the whole value in bytes, which
    /// may be more than fits.
    ///
    /// # Errors
    /// As [`BackendQueue::submit`].
    pub fn retrieve(&mut self, key: Key, into: Buffer, tag: u64) -> Result<(), Refused> {
        self.submit(KvCommand::Retrieve { nsid: self.nsid, key, into }, tag)
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// As [`BackendQueue::submit`].
    pub fn delete(&mut self, key: Key, tag: u64) -> Result<(), Refused> {
        self.submit(KvCommand::Delete { nsid: self.nsid, key }, tag)
    }

    /// Asks whether a key exists; if not, the completion's error is of kind [`ErrorKind::KeyNotFound`].
    ///
    /// # Errors
    /// As [`BackendQueue::submit`].
    pub fn exist(&mut self, key: Key, tag: u64) -> Result<(), Refused> {
        self.submit(KvCommand::Exist { nsid: self.nsid, key }, tag)
    }

    /// The next completion, waited for as long as it takes; `None` when no command is outstanding.
    ///
    /// # Errors
    /// When the queue itself fails; commands that fail are [`Finished`].
    #[inline]
    pub fn wait_next(&mut self) -> Result<Option<Finished>> {
        self.queue.next_within(Duration::MAX)
    }

    #[inline]
    fn submit(&mut self, command: KvCommand, tag: u64) -> Result<(), Refused> {
        self.queue.submit(command.into(), tag)
    }
}
