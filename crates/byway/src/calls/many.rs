//! Many gets at once: they cross the queue under one doorbell, so the memory they wait for comes at the same time.

use byway_core::{
    BackendQueue, Buffer, Command, Error, ErrorKind, Failed, Finished, Key, KvCommand, PAGE_BYTES, Result,
};

use crate::calls::kv::Kv;
use crate::calls::queue::by_driver;

/// Gets under one doorbell.
const BATCH: usize = 32;

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
        if (1..=PAGE_BYTES).contains(&room_bytes)
            && let Some(read) = self.get_many_by_driver(keys, room_bytes, &mut on)
        {
            return read.map_err(|error| error.doing("get many keys"));
        }
        let batch = BATCH.min(self.queue().depth() as usize).min(keys.len());
        let rooms = (0..batch).map(|_| self.buffer(room_bytes));
        let mut rooms = rooms.collect::<Result<Vec<Buffer>>>()?;
        for (n, keys) in keys.chunks(batch.max(1)).enumerate() {
            self.get_batch(n * batch, keys, &mut rooms, &mut on)?;
        }
        Ok(())
    }

    /// The same by the driver's own call, which makes no command and no buffer for a key; none for other queues.
    fn get_many_by_driver(
        &mut self,
        keys: &[Key],
        room_bytes: usize,
        on: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Option<Result<()>> {
        let nsid = self.nsid();
        let read: Result<Vec<usize>> = by_driver!(self.queue().kind_mut(),
            queue => {
                let (mut room, mut longer) = (vec![0; room_bytes], Vec::new());
                queue
                    .execute_retrieve_many(nsid, keys, &mut room, &mut |at, value| match value {
                        Some(value) if value.whole_bytes > value.bytes.len() => longer.push(at),
                        value => on(at, value.map(|value| value.bytes)),
                    })
                    .map(|()| longer)
            },
            _ => return None);
        Some(read.and_then(|longer| self.get_longer(keys, &longer, on)))
    }

    /// Reads values by themselves that were longer than their room.
    fn get_longer(
        &mut self,
        keys: &[Key],
        longer: &[usize],
        on: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        for at in longer {
            let value = keys.get(*at).map_or(Ok(None), |key| self.get(key.as_bytes()))?;
            on(*at, value.as_deref());
        }
        Ok(())
    }

    fn get_batch(
        &mut self,
        first: usize,
        keys: &[Key],
        rooms: &mut Vec<Buffer>,
        on: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let nsid = self.nsid();
        let retrieve = |(at, (key, into)): (u64, (&Key, Buffer))| {
            (Command::Kv(KvCommand::Retrieve { nsid, key: *key, into }), at)
        };
        let mut commands = (0..).zip(keys.iter().zip(rooms.drain(..keys.len()))).map(retrieve);
        let refused = self.queue().submit_all(&mut commands);
        drop(commands);
        let (mut failed, mut longer) = (refused.err().map(Error::from), Vec::new());
        self.queue().drain(&mut |finished| {
            let at = finished.tag as usize;
            match taken(finished, rooms, |value| on(first + at, value)) {
                Ok(true) => {}
                Ok(false) => longer.push(at),
                Err(error) => failed = failed.take().or(Some(error)),
            }
        })?;
        self.get_longer(keys, &longer, &mut |at, value| on(first + at, value))?;
        failed.map_or(Ok(()), |error| Err(self.queue().explained(error).doing("get many keys")))
    }
}

/// Hands over what a get brought, and keeps its room; whether that was all of the value.
fn taken(finished: Finished, rooms: &mut Vec<Buffer>, on: impl FnOnce(Option<&[u8]>)) -> Result<bool> {
    let (whole, room) = match finished.result {
        Ok(outcome) => (Some(outcome.answer.dw0 as usize), outcome.buffer),
        Err(Failed { error, buffer, .. }) if error.kind() == ErrorKind::KeyNotFound => (None, buffer),
        Err(failed) => return Err(failed.into()),
    };
    let room =
        room.ok_or_else(|| Error::device(ErrorKind::Protocol, "a get whose buffer did not come back"))?;
    let value = whole.map(|len| room.as_slice().get(..len));
    let is_whole = value.is_none_or(|value| value.is_some());
    if is_whole {
        on(value.flatten());
    }
    rooms.push(room);
    Ok(is_whole)
}
