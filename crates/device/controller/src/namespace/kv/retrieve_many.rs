//! Retrieve Many: the values of many keys in one result (vendor; layout in `byway_spec::vendor::ManyCdw10`).

use std::mem;

use byway_flash::{Flash, FlashReads};
use byway_kv::TryGet;
use byway_spec::vendor::{FoundValue, MANY_KEY_MAX_BYTES, ManyCdw10, ScanCdw11, ScanHeader, WHOLE_VALUE};
use byway_spec::{Command, Key};

use super::lookups::{Lookup, Lookups};
use super::{KvNamespace, NO_SUCH_KEY};
use crate::error::CommandError;
use crate::limits::{RESULT_MAX_BYTES, RETRIEVE_MANY_MAX};
use crate::namespace::media::timed;
use crate::namespace::{Execution, Outcome};
use crate::subsystem::{OVERTAKEN, READS};

/// A Retrieve Many command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetrieveMany {
    /// The host's buffer: request, then result.
    pub buffer_bytes: usize,
    /// Bytes of the request.
    pub request_bytes: usize,
    /// Keys of the request.
    pub keys: usize,
    /// Most bytes of each value.
    pub prefix_bytes: usize,
}

impl RetrieveMany {
    /// Reads a submission queue entry.
    pub fn parse(command: &Command) -> Result<Self, CommandError> {
        let buffer_bytes = ManyCdw10::from_bits(command.cdw10).buffer_bytes() as usize;
        let (request_bytes, keys) = (command.cdw12 as usize, command.cdw13 as usize);
        if buffer_bytes > RESULT_MAX_BYTES {
            return Err(LONG_BUFFER);
        }
        if !(1..=RETRIEVE_MANY_MAX).contains(&keys) {
            return Err(KEY_COUNT);
        }
        if request_bytes > buffer_bytes.min(keys * MANY_KEY_MAX_BYTES) {
            return Err(LONG_REQUEST);
        }
        if buffer_bytes < size_of::<ScanHeader>() + keys * size_of::<FoundValue>() {
            return Err(SHORT_BUFFER);
        }
        let prefix_bytes = match ScanCdw11::from_bits(command.cdw11).value_prefix() {
            WHOLE_VALUE => usize::MAX,
            bytes => usize::from(bytes),
        };
        Ok(Self { buffer_bytes, request_bytes, keys, prefix_bytes })
    }
}

impl KvNamespace {
    /// Brings the values of many keys. DW0 is the number of values.
    pub fn retrieve_many(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let mut lookups = mem::take(&mut self.lookups);
        let done = self.retrieve_all(execution, command, &mut lookups);
        lookups.trim();
        self.lookups = lookups;
        done
    }

    fn retrieve_all(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        lookups: &mut Lookups,
    ) -> Result<Outcome, CommandError> {
        let Execution { flash, port, room, carried, whole_pages, .. } = execution;
        let place = (&mut room.mapped, &mut room.stage);
        lookups.receive(port, place, command, *carried, *whole_pages)?;
        timed(port, |now_ps| self.look_up_at(flash, lookups, now_ps));
        lookups.send(port, &mut room.mapped, &mut room.stage)?;
        Ok(Outcome::with(lookups.values()))
    }

    /// Looks up what is left of `lookups`, from modelled time `at_ps` on, which moves to the end of the last. Reads of the
    /// flash overlap where they are on different dies.
    pub(crate) fn look_up_at(&mut self, flash: &mut Flash, lookups: &mut Lookups, at_ps: &mut u64) {
        let from_ps = *at_ps;
        loop {
            let group = lookups.next_group();
            let keys = group.len();
            if keys == 0 {
                return;
            }
            self.prefetch(flash, group.iter().copied());
            for _ in 0..keys {
                let mut now_ps = from_ps;
                lookups.answer(|key, into| Some(self.look_up(flash, key, into, &mut now_ps)));
                *at_ps = now_ps.max(*at_ps);
            }
        }
    }

    #[inline]
    fn look_up(&mut self, flash: &mut Flash, key: &Key, into: &mut [u8], at_ps: &mut u64) -> Lookup {
        let mut found = self.get_at(flash, key, true, into, at_ps);
        if found.as_ref().is_err_and(|error| error.status != NO_SUCH_KEY.status) && flash.is_following() {
            found = self.get_beside(flash, key, into, at_ps);
        }
        match found {
            Ok(len) => Lookup::Value { len },
            Err(error) if error.status == NO_SUCH_KEY.status => Lookup::Absent,
            Err(_) => Lookup::Unreadable,
        }
    }

    /// As [`get_at`](Self::get_at) until the writer of the image changes nothing of it meanwhile.
    #[cold]
    fn get_beside(
        &mut self,
        flash: &mut Flash,
        key: &Key,
        into: &mut [u8],
        at_ps: &mut u64,
    ) -> Result<u32, CommandError> {
        for _ in 0..READS {
            let was_behind = self.is_behind(flash);
            self.follow(flash)?;
            match self.get_at(flash, key, false, into, at_ps) {
                Err(error) if error.status != NO_SUCH_KEY.status && (was_behind || self.is_behind(flash)) => {
                }
                found => return found,
            }
        }
        Err(OVERTAKEN)
    }

    /// As [`look_up_at`](Self::look_up_at), by shared reference: as far as that is possible. Whether nothing is left.
    pub(crate) fn try_look_up(&self, flash: &Flash, lookups: &mut Lookups, reads: &mut FlashReads) -> bool {
        loop {
            let group = lookups.next_group();
            let keys = group.len();
            if keys == 0 {
                return true;
            }
            self.prefetch(flash, group.iter().copied());
            for _ in 0..keys {
                if lookups.answer(|key, into| self.try_look_up_one(flash, key, into, reads)).is_none() {
                    return false;
                }
            }
        }
    }

    #[inline]
    fn try_look_up_one(
        &self,
        flash: &Flash,
        key: &Key,
        into: &mut [u8],
        reads: &mut FlashReads,
    ) -> Option<Lookup> {
        match self.try_get_at(flash, key, true, into) {
            TryGet::Found { len_bytes, reads: read } => {
                *reads += read;
                Some(Lookup::Value { len: len_bytes })
            }
            TryGet::Absent => Some(Lookup::Absent),
            TryGet::Unknown => None,
        }
    }
}

const LONG_BUFFER: CommandError =
    CommandError::invalid_field("the result buffer is over the announced limit").at_byte(40);
const SHORT_BUFFER: CommandError =
    CommandError::invalid_field("the result buffer has no room for what became of each key").at_byte(40);
const LONG_REQUEST: CommandError =
    CommandError::invalid_field("the request is longer than its buffer, or than its keys can be").at_byte(48);
const KEY_COUNT: CommandError =
    CommandError::invalid_field("no keys, or more than the announced limit").at_byte(52);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn command(buffer_bytes: u32, request_bytes: u32, keys: u32) -> Command {
        let mut command = Command::new(0xb3, 1, 1);
        command.cdw10 = ManyCdw10::new().with_buffer_bytes(buffer_bytes).into_bits();
        command.cdw11 = ScanCdw11::new().with_value_prefix(9).into_bits();
        (command.cdw12, command.cdw13) = (request_bytes, keys);
        command
    }

    #[test]
    fn retrieve_many_names_buffer_request_keys_and_prefix() {
        let expected = RetrieveMany { buffer_bytes: 100, request_bytes: 34, keys: 2, prefix_bytes: 9 };
        assert_eq!(RetrieveMany::parse(&command(100, 34, 2)).ok(), Some(expected));
    }

    #[test]
    fn retrieve_many_over_its_limits_is_an_invalid_field() {
        let over = (RETRIEVE_MANY_MAX + 1) as u32;
        for (buffer_bytes, request_bytes, keys, error) in [
            (RESULT_MAX_BYTES as u32 + 1, 2, 1, LONG_BUFFER),
            (100, 0, 0, KEY_COUNT),
            (1 << 20, 100, over, KEY_COUNT),
            (1 << 20, 100, u32::MAX, KEY_COUNT),
            (100, 35, 2, LONG_REQUEST),
            (28, 29, 20, LONG_REQUEST),
            (100, u32::MAX, 2, LONG_REQUEST),
            (16 + 23, 4, 2, SHORT_BUFFER),
            (0, 0, 1, SHORT_BUFFER),
        ] {
            let refused = RetrieveMany::parse(&command(buffer_bytes, request_bytes, keys)).unwrap_err();
            assert_eq!((refused.status, refused.cause), (error.status, error.cause));
        }
    }
}
