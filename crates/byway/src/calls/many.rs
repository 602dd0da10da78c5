//! Many keys at once: by one Retrieve Many, or by commands that cross the queue under one doorbell, so that the memory they wait
//! for comes at the same time.

use byway_core::results::ResultReader;
use byway_core::{
    BackendQueue, Buffer, Command, Error, ErrorKind, Failed, Finished, Key, KvCommand, ManyKeys, PAGE_BYTES,
    Payload, Result, Retry, StoreOptions,
};
use byway_spec::vendor::{Found, FoundValue, ScanHeader, WHOLE_VALUE};

use crate::calls::kv::Kv;
use crate::calls::page::wrong;
use crate::calls::queue::by_driver;

/// Commands under one doorbell.
const BATCH: usize = 32;

/// Bytes of the longest result of one Retrieve Many.
const RESULT_BYTES: usize = 256 * 1024;

/// The first bytes of a value, and its length.
pub(crate) struct Head<'a> {
    pub len: usize,
    pub bytes: &'a [u8],
}

impl Kv {
    /// Reads the values of many keys and hands each to `on` with the number of its key; `None` where there is no such
    /// key. Values of up to `room_bytes` come together; a longer one is read by itself.
    ///
    /// # Errors
    /// What the device says of the first get that failed; some values were handed over by then.
    pub fn get_many(
        &mut self,
        keys: &[Key],
        room_bytes: usize,
        mut on: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut longer = Vec::new();
        self.get_heads(keys, room_bytes, |at, head| match head {
            Some(head) if head.bytes.len() < head.len => longer.push(at),
            head => on(at, head.map(|head| head.bytes)),
        })?;
        for at in longer {
            let value = keys.get(at).map_or(Ok(None), |key| self.get(key.as_bytes()))?;
            on(at, value.as_deref());
        }
        Ok(())
    }

    /// Stores many pairs, in any order; how many. Not atomic: on an error, some are stored.
    ///
    /// # Errors
    /// As [`Kv::put`].
    pub fn put_many<V: AsRef<[u8]>>(&mut self, pairs: impl IntoIterator<Item = (Key, V)>) -> Result<u64> {
        if self.bulk_bytes() > 0 {
            return self.load(pairs);
        }
        let (nsid, mut count) = (self.nsid(), 0);
        let stores = pairs.into_iter().map(|(key, value)| {
            count += 1;
            let (value, options) = (Payload::copy_of(value.as_ref())?, StoreOptions::NONE);
            Ok(KvCommand::Store { nsid, key, value, options }.into())
        });
        self.pipeline(stores).map_err(|error| error.doing("put many pairs"))?;
        Ok(count)
    }

    /// Reads up to `room_bytes` of the value of each key, and hands them over in any order.
    pub(crate) fn get_heads(
        &mut self,
        keys: &[Key],
        room_bytes: usize,
        mut on: impl FnMut(usize, Option<Head<'_>>),
    ) -> Result<()> {
        let at_once = self.keys_of_one_command(room_bytes);
        if at_once > 1 && keys.len() > 1 {
            return self.retrieve_many(keys, room_bytes, at_once, &mut on);
        }
        if (1..=PAGE_BYTES).contains(&room_bytes)
            && let Some(read) = self.get_heads_by_driver(keys, room_bytes, &mut on)
        {
            return read.map_err(|error| error.doing("get many keys"));
        }
        let batch = BATCH.min(self.queue().depth() as usize).min(keys.len());
        let rooms = (0..batch).map(|_| self.buffer(room_bytes));
        let mut rooms = rooms.collect::<Result<Vec<Buffer>>>()?;
        for (n, keys) in keys.chunks(batch.max(1)).enumerate() {
            self.get_batch(keys, &mut rooms, &mut |at, head| on(n * batch + at, head))?;
        }
        Ok(())
    }

    /// The same by the driver's own call, which makes no command and no buffer for a key; none for other queues.
    fn get_heads_by_driver(
        &mut self,
        keys: &[Key],
        room_bytes: usize,
        on: &mut impl FnMut(usize, Option<Head<'_>>),
    ) -> Option<Result<()>> {
        let nsid = self.nsid();
        by_driver!(self.queue().kind_mut(),
            queue => Some(queue.execute_retrieve_many(nsid, keys, &mut vec![0; room_bytes], &mut |at, value| {
                on(at, value.map(|value| Head { len: value.whole_bytes, bytes: value.bytes }));
            })),
            _ => None)
    }

    /// Keys that one Retrieve Many takes where each value has so much room; 0 on a device without it.
    fn keys_of_one_command(&self, room_bytes: usize) -> usize {
        let result_bytes = RESULT_BYTES.min(self.result_max_bytes()) - size_of::<ScanHeader>();
        (result_bytes / entry_bytes(room_bytes)).min(self.retrieve_many_max())
    }

    fn retrieve_many(
        &mut self,
        keys: &[Key],
        room_bytes: usize,
        at_once: usize,
        on: &mut impl FnMut(usize, Option<Head<'_>>),
    ) -> Result<()> {
        for (n, some) in keys.chunks(at_once).enumerate() {
            let result =
                self.retrieve_some(some, room_bytes).map_err(|error| error.doing("get many keys"))?;
            self.hand_over(some, room_bytes, result.as_slice(), &mut |at, head| on(n * at_once + at, head))?;
            self.keep_many(result);
        }
        Ok(())
    }

    /// The result of one Retrieve Many. After a lost connection it is sent once more from here, with a new request: a part of the values
    /// may have replaced the former one.
    fn retrieve_some(&mut self, keys: &[Key], room_bytes: usize) -> Result<Buffer> {
        let bytes = size_of::<ScanHeader>() + keys.len() * entry_bytes(room_bytes);
        let value_prefix = u16::try_from(room_bytes).unwrap_or(WHOLE_VALUE);
        let mut is_first = true;
        loop {
            let (nsid, many) = (self.nsid(), ManyKeys::new(keys, self.many_buffer(bytes)?)?);
            let command = KvCommand::RetrieveMany { nsid, many, value_prefix };
            match self.execute(command.into()) {
                Ok(outcome) => {
                    let buffer = outcome.buffer;
                    return buffer.ok_or_else(|| wrong("a Retrieve Many whose buffer did not come back"));
                }
                Err(error) if is_first && error.retry() == Retry::Once => is_first = false,
                Err(error) => return Err(error),
            }
        }
    }

    fn hand_over(
        &mut self,
        keys: &[Key],
        room_bytes: usize,
        result: &[u8],
        on: &mut impl FnMut(usize, Option<Head<'_>>),
    ) -> Result<()> {
        let mut reader = ResultReader::new(result)?;
        for (at, key) in keys.iter().enumerate() {
            let entry =
                reader.next_found(result)?.ok_or_else(|| wrong("fewer values than keys were asked for"))?;
            match entry.found {
                Found::VALUE => on(at, Some(Head { len: entry.value_len, bytes: entry.value })),
                Found::ABSENT => on(at, None),
                // A Retrieve says why.
                _ => {
                    let value = self.get(key.as_bytes())?;
                    on(
                        at,
                        value.as_deref().map(|value| Head {
                            len: value.len(),
                            bytes: &value[..value.len().min(room_bytes)],
                        }),
                    );
                }
            }
        }
        Ok(())
    }

    fn get_batch(
        &mut self,
        keys: &[Key],
        rooms: &mut Vec<Buffer>,
        on: &mut impl FnMut(usize, Option<Head<'_>>),
    ) -> Result<()> {
        let nsid = self.nsid();
        let retrieve = |(at, (key, into)): (u64, (&Key, Buffer))| {
            (Command::Kv(KvCommand::Retrieve { nsid, key: *key, into }), at)
        };
        let mut commands = (0..).zip(keys.iter().zip(rooms.drain(..keys.len()))).map(retrieve);
        let refused = self.queue().submit_all(&mut commands);
        drop(commands);
        let mut failed = refused.err().map(Error::from);
        self.queue().drain(&mut |finished| {
            let at = finished.tag as usize;
            if let Err(error) = taken(finished, rooms, |head| on(at, head)) {
                failed = failed.take().or(Some(error));
            }
        })?;
        failed.map_or(Ok(()), |error| Err(self.queue().explained(error).doing("get many keys")))
    }

    /// Sends commands without results at the queue's depth. A key that is not there is none to delete.
    pub(crate) fn pipeline(&mut self, commands: impl Iterator<Item = Result<Command>>) -> Result<()> {
        let batch = BATCH.min(self.queue().depth() as usize).max(1);
        let mut commands = commands.peekable();
        while commands.peek().is_some() {
            let some = commands.by_ref().take(batch).collect::<Result<Vec<_>>>()?;
            let refused = self.queue().submit_all(&mut some.into_iter().zip(0..));
            let mut failed = refused.err().map(Error::from);
            self.queue().drain(&mut |finished| match finished.result {
                Err(Failed { error, .. }) if error.kind() != ErrorKind::KeyNotFound => {
                    failed = failed.take().or(Some(error));
                }
                _ => {}
            })?;
            if let Some(error) = failed {
                return Err(self.queue().explained(error));
            }
        }
        Ok(())
    }
}

/// Bytes of one key in the result of a Retrieve Many, at most; the request is shorter.
const fn entry_bytes(room_bytes: usize) -> usize {
    // A key and its length take no more in the request.
    let bytes = size_of::<FoundValue>() + room_bytes.next_multiple_of(4);
    if bytes < REQUEST_BYTES { REQUEST_BYTES } else { bytes }
}

/// Bytes of one key in a request, at most.
const REQUEST_BYTES: usize = 1 + Key::MAX_BYTES;

/// Hands over what a get brought, and keeps its room.
fn taken(finished: Finished, rooms: &mut Vec<Buffer>, on: impl FnOnce(Option<Head<'_>>)) -> Result<()> {
    let (len, room) = match finished.result {
        Ok(outcome) => (Some(outcome.answer.dw0 as usize), outcome.buffer),
        Err(Failed { error, buffer, .. }) if error.kind() == ErrorKind::KeyNotFound => (None, buffer),
        Err(failed) => return Err(failed.into()),
    };
    let room =
        room.ok_or_else(|| Error::device(ErrorKind::Protocol, "a get whose buffer did not come back"))?;
    let bytes = room.as_slice();
    on(len.map(|len| Head { len, bytes: &bytes[..len.min(bytes.len())] }));
    rooms.push(room);
    Ok(())
}
