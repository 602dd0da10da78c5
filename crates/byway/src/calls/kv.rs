//! Synchronous calls to a key-value namespace, whichever way its commands travel.

use byway_core::{
    Answer, BackendQueue, Buffer, Capabilities, Command, Error, ErrorKind, Key, KvCommand, KvCommands,
    Limits, Namespace, NamespaceKind, Nsid, Outcome, Payload, Result, SmallBytes, StoreOptions,
};
#[cfg(any(feature = "embedded", feature = "vfio"))]
use byway_driver::{Bus, Driver};
use byway_spec::kv::{LIST_ENTRY_HEADER_BYTES, LIST_HEADER_BYTES, list_entry_bytes};

use crate::calls::backward::FIRST_DISTANCE;
use crate::calls::queue::{Queue, by_driver};
use crate::calls::scratch::Scratch;

/// A value of up to this many bytes is read by one command.
const FIRST_READ_BYTES: usize = 4096;

/// Bytes of the first List command's buffer; each further one has twice as many, up to [`LIST_MAX_BYTES`].
pub(crate) const LIST_BYTES: usize = 4 * 1024;

/// Bytes of the buffer of a List command that goes on a long list.
pub(crate) const LIST_MAX_BYTES: usize = 64 * 1024;

/// Bytes that a pair is taken to have before one has been seen: 100 of them fit a page of 16 KiB.
const FIRST_PAIR_BYTES: usize = 128;

/// Gives memory that a device knows.
type Memory = Box<dyn Fn(usize) -> Result<Buffer> + Send + Sync>;

/// A key-value namespace, with a queue of its own. One thread uses it.
pub struct Kv {
    queue: Queue,
    nsid: Nsid,
    value_max_bytes: u32,
    /// Of a device that this library's own driver reaches.
    memory: Option<Memory>,
    /// Longest payload of many pairs by one command, 0 of a device that takes one pair at a time; and longest of `inline`.
    bulk_max_bytes: usize,
    inline_max_bytes: usize,
    /// Longest transfer of one command.
    transfer_max_bytes: usize,
    /// Commands on ranges and on many keys, and their limits.
    can: KvCommands,
    limits: Limits,
    /// Bytes of a pair in the last page of a scan, on average.
    pair_bytes: usize,
    /// How far below a key the keys before it were found, on a device that lists in one direction alone.
    distance: u128,
    scratch: Vec<u8>,
    /// The buffer of the last command of many keys.
    many: Option<Buffer>,
    /// What borrowed values travel in where a queue takes none.
    copy: Scratch,
}

impl Kv {
    /// Calls to a namespace of the device that the queue belongs to.
    ///
    /// # Errors
    /// For a namespace of another kind.
    pub fn new(queue: impl Into<Queue>, namespace: &Namespace) -> Result<Self> {
        let NamespaceKind::Kv { value_max_bytes, .. } = namespace.kind else {
            return Err(Error::host(ErrorKind::InvalidArgument, "not a namespace of keys and values"));
        };
        let (queue, nsid, scratch) = (queue.into(), namespace.nsid, vec![0; FIRST_READ_BYTES]);
        Ok(Self {
            queue,
            nsid,
            value_max_bytes,
            memory: None,
            bulk_max_bytes: 0,
            inline_max_bytes: 0,
            transfer_max_bytes: usize::MAX,
            can: KvCommands::default(),
            limits: Limits::default(),
            pair_bytes: FIRST_PAIR_BYTES,
            distance: FIRST_DISTANCE,
            scratch,
            many: None,
            copy: Scratch::default(),
        })
    }

    /// The same, within the device's limits, and with many pairs by one command where the device says that it can.
    #[must_use]
    pub fn with_capabilities(self, capabilities: &Capabilities) -> Self {
        let limits = &capabilities.limits;
        let bulk =
            if capabilities.bulk_store { limits.transfer_bytes.min(limits.bulk_bytes.into()) } else { 0 };
        let transfer_max_bytes = match limits.transfer_bytes {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let inline_max_bytes = limits.inline_bytes as usize;
        let (can, limits) = (capabilities.kv, *limits);
        Self { bulk_max_bytes: bulk as usize, inline_max_bytes, transfer_max_bytes, can, limits, ..self }
    }

    /// The same, with memory that the device knows, as [`Backend::buffer`](byway_core::Backend::buffer) gives it.
    #[must_use]
    pub fn with_memory(self, memory: impl Fn(usize) -> Result<Buffer> + Send + Sync + 'static) -> Self {
        Self { memory: Some(Box::new(memory)), ..self }
    }

    /// The same, with what a device of this library's own driver has.
    #[cfg(any(feature = "embedded", feature = "vfio"))]
    pub(crate) fn with_memory_of<B: Bus>(self, driver: Driver<B>) -> Self {
        self.with_capabilities(driver.capabilities()).with_memory(move |len| driver.buffer(len))
    }

    /// The namespace.
    pub fn nsid(&self) -> Nsid {
        self.nsid
    }

    /// The queue beneath, for typed commands and completions of one's own.
    pub fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Its queue, and what borrowed bytes travel in.
    pub(crate) fn queue_and_buffer(&mut self) -> (&mut Queue, &mut Scratch) {
        if self.copy.is_empty() {
            self.copy.keep(self.buffer(FIRST_READ_BYTES).ok());
        }
        (&mut self.queue, &mut self.copy)
    }

    /// A buffer for commands of this namespace.
    pub(crate) fn buffer(&self, len: usize) -> Result<Buffer> {
        self.memory.as_ref().map_or_else(|| Buffer::zeroed(len), |memory| memory(len))
    }

    /// A buffer of `len` bytes for a command of many keys: the last one, if it has room for them.
    pub(crate) fn many_buffer(&mut self, len: usize) -> Result<Buffer> {
        match self.many.take() {
            Some(mut buffer) if buffer.capacity() >= len => {
                buffer.set_len(len);
                Ok(buffer)
            }
            _ => self.buffer(len),
        }
    }

    /// Keeps the buffer of a command of many keys for the next.
    pub(crate) fn keep_many(&mut self, buffer: Buffer) {
        self.many = Some(buffer);
    }

    /// Bytes of pairs that one command can store; 0 of a device that stores one pair at a time.
    pub(crate) fn bulk_bytes(&self) -> usize {
        let most = self.queue.ring_payload_bytes();
        let most = most.map_or(usize::MAX, |bytes| bytes.min(self.inline_max_bytes));
        self.bulk_max_bytes.min(most)
    }

    /// Commands on ranges and on many keys that are used; what is not there is done by List, Retrieve, Store and Delete.
    #[must_use]
    pub fn can(&self) -> KvCommands {
        self.can
    }

    /// Longest result of Scan and Retrieve Many.
    pub(crate) fn result_max_bytes(&self) -> usize {
        match self.can.scan || self.can.retrieve_many {
            true => self.transfer_max_bytes.min(self.limits.result_bytes as usize),
            false => usize::MAX,
        }
    }

    /// Most keys of one Retrieve Many.
    pub(crate) fn retrieve_many_max(&self) -> usize {
        if self.can.retrieve_many { self.limits.retrieve_many_keys as usize } else { 0 }
    }

    /// Longest payload of an atomic Store Many.
    pub(crate) fn commit_max_bytes(&self) -> usize {
        let ring_bytes =
            self.queue.ring_payload_bytes().map_or(usize::MAX, |bytes| bytes.min(self.inline_max_bytes));
        self.transfer_max_bytes.min(self.limits.store_many_bytes as usize).min(ring_bytes)
    }

    /// Longest bound of a range that commands carry.
    pub(crate) fn bound_max_bytes(&self) -> usize {
        if self.can.scan { self.limits.range_bound_bytes as usize } else { Key::MAX_BYTES }
    }

    /// Bytes that a pair takes in a page of a scan, by the last one.
    pub(crate) const fn pair_bytes(&self) -> usize {
        self.pair_bytes
    }

    pub(crate) const fn note_pair_bytes(&mut self, bytes: usize) {
        if bytes > 0 {
            self.pair_bytes = bytes;
        }
    }

    pub(crate) const fn distance(&self) -> u128 {
        self.distance
    }

    pub(crate) const fn set_distance(&mut self, distance: u128) {
        self.distance = distance;
    }

    pub(crate) fn execute(&mut self, command: Command) -> Result<Outcome> {
        self.queue.execute(command).map_err(|error| self.explained(error))
    }

    /// The error of a command on a key, with what it was to do and the limit it met.
    #[cold]
    #[inline(never)]
    fn refused(&self, error: Error, what: &str, key: &Key) -> Error {
        self.explained(error).doing(format!("{what} key {key}"))
    }

    /// An error of this namespace's queue, with the limit it met.
    #[cold]
    fn explained(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::TooLarge && error.nvme_status().is_some() {
            let (nsid, limit) = (self.nsid, self.value_max_bytes);
            return error.with_source(format!("a value in namespace {nsid} has at most {limit} bytes"));
        }
        error
    }

    /// Stores a value. When this returns, the value survives the death of the process at any instruction.
    ///
    /// # Errors
    /// A key or value of a wrong length, a full namespace, or what the device says.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_if(key, value, StoreOptions::NONE)
    }

    /// Stores a value under conditions.
    ///
    /// # Errors
    /// As [`Kv::put`]; [`ErrorKind::KeyExists`] or [`ErrorKind::KeyNotFound`] where the condition does not hold.
    #[inline]
    pub fn put_if(&mut self, key: &[u8], value: &[u8], options: StoreOptions) -> Result<()> {
        let key = Key::new(key)?;
        let stored = by_driver!(self.queue.kind_mut(),
            queue => queue.execute_store(self.nsid, &key, value, options).map(drop),
            _ => self.store_copy(&key, value, options));
        match stored {
            Ok(()) => Ok(()),
            Err(error) => Err(self.refused(error, "put", &key)),
        }
    }

    /// The value of a key, or `None` if there is no such key.
    ///
    /// # Errors
    /// A key of a wrong length, or what the device says.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let got = self.get_growing(key, &mut scratch);
        let value = got.map(|len| len.map(|len| scratch.get(..len).unwrap_or(&scratch).to_vec()));
        scratch.truncate(FIRST_READ_BYTES);
        self.scratch = scratch;
        value
    }

    fn get_growing(&mut self, key: &[u8], into: &mut Vec<u8>) -> Result<Option<usize>> {
        loop {
            match self.get_into(key, into)? {
                Some(len) if len > into.len() => into.resize(len, 0),
                other => return Ok(other),
            }
        }
    }

    /// Reads the value of a key into `into`. Returns the length of the whole value, which may be more than fits, or
    /// `None` if there is no such key.
    ///
    /// # Errors
    /// As [`Kv::get`].
    #[inline]
    pub fn get_into(&mut self, key: &[u8], into: &mut [u8]) -> Result<Option<usize>> {
        let key = Key::new(key)?;
        let read = by_driver!(self.queue.kind_mut(),
            queue => queue.execute_retrieve(self.nsid, &key, into),
            _ => self.retrieve_copy(&key, into));
        match read {
            Ok(answer) => Ok(Some(answer.dw0 as usize)),
            Err(error) if error.kind() == ErrorKind::KeyNotFound => Ok(None),
            Err(error) => Err(self.refused(error, "get", &key)),
        }
    }

    /// Deletes a key; one that is not there is deleted already.
    ///
    /// # Errors
    /// A key of a wrong length, or what the device says.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        let key = Key::new(key)?;
        let deleted = by_driver!(self.queue.kind_mut(),
            queue => queue.execute_delete(self.nsid, &key).map(drop),
            _ => self.queue.execute(KvCommand::Delete { nsid: self.nsid, key }.into()).map(drop));
        match deleted {
            // A namespace may be configured to report a missing key (EDNEK).
            Err(error) if error.kind() == ErrorKind::KeyNotFound => Ok(()),
            deleted => deleted.map_err(|error| self.refused(error, "delete", &key)),
        }
    }

    /// Whether a key is there.
    ///
    /// # Errors
    /// A key of a wrong length, or what the device says.
    pub fn exists(&mut self, key: &[u8]) -> Result<bool> {
        let key = Key::new(key)?;
        let found = by_driver!(self.queue.kind_mut(),
        queue => queue.execute_exist(self.nsid, &key),
        _ => match self.queue.execute(KvCommand::Exist { nsid: self.nsid, key }.into()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::KeyNotFound => Ok(false),
            Err(error) => Err(error),
        });
        found.map_err(|error| self.refused(error, "look for", &key))
    }

    /// Stores many pairs by one command (the bulk put of KV-CSD), or one by one where the device has none such. Not
    /// atomic: on an error, a first part is stored.
    ///
    /// # Errors
    /// As [`Kv::put`]; over this library's own driver, more pairs than the device takes at once.
    pub fn put_bulk(&mut self, pairs: &[(Key, &[u8])]) -> Result<()> {
        let stored: Result<()> = by_driver!(self.queue.kind_mut(),
            queue => queue.execute_bulk_store(self.nsid, pairs).map(drop),
            _ => return self.load(pairs.iter().copied()).map(drop));
        stored.map_err(|error| self.explained(error))
    }

    /// Stores a value through the controller memory buffer (the byte interface of 2B-SSD).
    ///
    /// # Errors
    /// As [`Kv::put`]; a device without such a buffer.
    pub fn put_by_bytes(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let key = Key::new(key)?;
        let stored: Result<()> = by_driver!(self.queue.kind_mut(),
        queue => queue.execute_byte_store(self.nsid, &key, value, StoreOptions::NONE).map(drop),
        _ => {
            let said = "this interface reaches no memory of the device's that can be stored into";
            return Err(Error::host(ErrorKind::Unsupported, said));
        });
        stored.map_err(|error| self.explained(error))
    }

    fn store_copy(&mut self, key: &Key, value: &[u8], options: StoreOptions) -> Result<()> {
        let value = match SmallBytes::new(value) {
            Some(small) => Payload::Small(small),
            None => Payload::Buffer(self.copy.copy_of(value)?),
        };
        let store = KvCommand::Store { nsid: self.nsid, key: *key, value, options };
        let outcome = self.queue.execute(store.into())?;
        if outcome.buffer.is_some() {
            self.copy.keep(outcome.buffer);
        }
        Ok(())
    }

    fn retrieve_copy(&mut self, key: &Key, into: &mut [u8]) -> Result<Answer> {
        let copy = self.copy.take(into.len())?;
        let outcome =
            self.queue.execute(KvCommand::Retrieve { nsid: self.nsid, key: *key, into: copy }.into())?;
        let len = outcome.dw0() as usize;
        if let Some(copy) = &outcome.buffer {
            let came = copy.as_slice().get(..len).unwrap_or(copy.as_slice());
            into.iter_mut().zip(came).for_each(|(to, from)| *to = *from);
        }
        self.copy.keep(outcome.buffer);
        Ok(outcome.answer)
    }

    /// The keys in order, from `start` on (from the first if `None`), asked for in pages as they are taken.
    pub fn keys(&mut self, start: Option<Key>) -> Keys<'_> {
        Keys { kv: self, page: Page::default(), next: Next::From(start), list_bytes: LIST_BYTES }
    }

    /// One page of keys, from `start` on.
    pub(crate) fn list(&mut self, start: Option<Key>, list_bytes: usize) -> Result<Page> {
        let into = self.buffer(list_bytes.min(self.transfer_max_bytes))?;
        let command = Command::Kv(KvCommand::List { nsid: self.nsid, start, into });
        let outcome = self.execute(command).map_err(|error| error.doing("list keys"))?;
        let buffer =
            outcome.buffer.ok_or_else(|| Error::device(ErrorKind::Protocol, "list gave no buffer back"))?;
        Page::of(buffer)
    }
}

/// Keys of a namespace in order.
pub struct Keys<'a> {
    kv: &'a mut Kv,
    page: Page,
    next: Next,
    list_bytes: usize,
}

/// Where the next page of keys begins.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// At this key, or the first.
    From(Option<Key>),
    /// Behind this key.
    Behind(Key),
    /// There is none.
    End,
}

impl Iterator for Keys<'_> {
    type Item = Result<Key>;

    #[inline]
    fn next(&mut self) -> Option<Result<Key>> {
        while self.page.left == 0 {
            match self.fetch() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(self.end(error))),
            }
        }
        match self.page.next() {
            Ok(key) => {
                self.next = Next::Behind(key);
                Some(Ok(key))
            }
            Err(error) => Some(Err(self.end(error))),
        }
    }
}

impl Keys<'_> {
    /// Asks for the next page; says whether there was anything in it.
    #[inline(never)]
    fn fetch(&mut self) -> Result<bool> {
        let (start, skip) = match self.next {
            Next::From(start) => (start, None),
            Next::Behind(last) => (Some(last), Some(last)),
            Next::End => return Ok(false),
        };
        // Dropped first, so that the pool has it.
        self.page = Page::default();
        self.page = self.kv.list(start, self.list_bytes)?;
        self.list_bytes = (2 * self.list_bytes).min(LIST_MAX_BYTES);
        // The start key comes first if it is still there (Key Value Command Set, List).
        if skip.is_some() && self.page.peek()? == skip {
            self.page.next()?;
        }
        if self.page.left == 0 {
            self.next = Next::End;
        }
        Ok(self.page.left > 0)
    }

    #[cold]
    fn end(&mut self, error: Error) -> Error {
        self.page = Page::default();
        self.next = Next::End;
        error
    }
}

/// The buffer of a List: a count, then each key's length and bytes, padded to 4.
#[derive(Default)]
pub(crate) struct Page {
    buffer: Option<Buffer>,
    at: usize,
    left: u32,
}

impl Page {
    fn of(buffer: Buffer) -> Result<Self> {
        let (left, at) = (count_of(buffer.as_slice())?, LIST_HEADER_BYTES);
        Ok(Self { buffer: Some(buffer), at, left })
    }

    /// Keys that were not taken yet.
    pub(crate) const fn left(&self) -> u32 {
        self.left
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<Key> {
        let bytes = self.buffer.as_ref().map_or(&[][..], Buffer::as_slice);
        let (key, behind) = key_at(bytes, self.at)?;
        (self.at, self.left) = (behind, self.left - 1);
        Ok(key)
    }

    fn peek(&self) -> Result<Option<Key>> {
        let bytes = self.buffer.as_ref().map_or(&[][..], Buffer::as_slice);
        if self.left == 0 { Ok(None) } else { key_at(bytes, self.at).map(|(key, _)| Some(key)) }
    }
}

/// Keys in a List buffer.
fn count_of(bytes: &[u8]) -> Result<u32> {
    bytes.first_chunk().map(|count| u32::from_le_bytes(*count)).ok_or_else(short)
}

/// The key at a place in a List buffer, and the next place.
#[inline]
fn key_at(bytes: &[u8], at: usize) -> Result<(Key, usize)> {
    let rest = bytes.get(at..).ok_or_else(short)?;
    let (len, behind) = rest.split_first_chunk::<LIST_ENTRY_HEADER_BYTES>().ok_or_else(short)?;
    let len = usize::from(u16::from_le_bytes(*len));
    let key = match behind.first_chunk::<{ Key::MAX_BYTES }>() {
        Some(field) => Key::from_field(*field, len)?,
        None => Key::new(behind.get(..len).ok_or_else(short)?)?,
    };
    Ok((key, at + list_entry_bytes(len)))
}

#[cold]
fn short() -> Error {
    Error::device(ErrorKind::Protocol, "a list that is shorter than it says")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// All keys of a list.
    fn parse_list(bytes: &[u8]) -> Result<Vec<Key>> {
        let mut at = LIST_HEADER_BYTES;
        let mut next = || {
            let (key, behind) = key_at(bytes, at)?;
            at = behind;
            Ok(key)
        };
        (0..count_of(bytes)?).map(|_| next()).collect()
    }

    #[test]
    fn a_list_is_read_entry_by_entry_with_its_padding() {
        let bytes = [2, 0, 0, 0, 1, 0, b'a', 0, 3, 0, b'x', b'y', b'z', 0, 0, 0, 9];
        let keys = parse_list(&bytes).unwrap();
        assert_eq!(keys.iter().map(Key::as_bytes).collect::<Vec<_>>(), [b"a".as_slice(), b"xyz"]);
    }

    #[test]
    fn keys_are_listed_by_commands_within_the_longest_transfer() {
        let device = crate::embedded::open("ram:64M").unwrap();
        let mut kv = device.kv(None).unwrap();
        (0..3000_u32).for_each(|n| kv.put(&n.to_be_bytes(), b"v").unwrap());
        let mut can = device.capabilities().clone();
        can.limits.transfer_bytes = 4096;
        let mut kv = kv.with_capabilities(&can);
        let page = kv.list(None, LIST_MAX_BYTES).unwrap();
        assert!(page.left as usize <= 4096 / list_entry_bytes(4), "{}", page.left);
        assert_eq!(kv.keys(None).map(Result::unwrap).count(), 3000);
    }

    #[test]
    fn a_list_that_lies_about_its_length_is_refused() {
        assert!(parse_list(&[1, 0, 0]).is_err());
        assert!(parse_list(&[1, 0, 0, 0, 9, 0, b'a', 0]).is_err());
        assert!(parse_list(&[255, 255, 255, 255, 1, 0, b'a', 0]).is_err());
    }
}
