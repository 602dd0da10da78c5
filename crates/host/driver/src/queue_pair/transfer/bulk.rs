//! Bulk store, a comparator (as KV-CSD does): the host packs many pairs into one payload, one command stores them.
//!
//! The payload: a count, then for each pair key length, value length, key and value, the last two padded to 4 bytes.

use byway_core::{Answer, Buffer, BufferPool, Error, ErrorKind, Key, Nsid, Result, encode};
use byway_spec::vendor::{BULK_COUNT_BYTES, BulkPair};
use zerocopy::IntoBytes;

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::{self, Out};

impl<B: Bus> Queue<B> {
    /// Stores many pairs by one command, whose payload goes by the queue's method.
    ///
    /// # Errors
    /// When the device has no bulk store, the pairs are more than it takes at once, or it refuses one.
    pub fn execute_bulk_store(&mut self, nsid: Nsid, pairs: &[(Key, &[u8])]) -> Result<Answer> {
        let payload = pack(pairs, self.limits().bulk_max_bytes, self.pool())?;
        let op = self.start_call()?;
        let out = Out { bytes: payload.as_slice(), buffer: Some(&payload) };
        let sent = transfer::send(self, op, || encode::bulk_store(nsid, payload.len() as u32, false), out);
        self.table.op(op).hold(Some(payload), false);
        self.finish_sent_call(op, sent)
    }
}

/// Packs pairs into a buffer of the pool.
fn pack(pairs: &[(Key, &[u8])], max_bytes: u64, pool: &BufferPool) -> Result<Buffer> {
    if max_bytes == 0 {
        return Err(Error::host(ErrorKind::Unsupported, "the device did not announce bulk stores"));
    }
    let sizes = pairs.iter().map(|(key, value)| BulkPair::bytes(key.len(), value.len()));
    let bytes = BULK_COUNT_BYTES + sizes.sum::<usize>();
    if bytes as u64 > max_bytes {
        let said = format!("a bulk store of {bytes} bytes is over the device's limit of {max_bytes} bytes");
        return Err(Error::host(ErrorKind::TooLarge, said));
    }
    let mut payload = pool.take(bytes)?;
    write_pairs(pairs, payload.as_mut_slice());
    Ok(payload)
}

fn write_pairs(pairs: &[(Key, &[u8])], into: &mut [u8]) {
    let mut rest = put(into, &(pairs.len() as u32).to_le_bytes());
    for (key, value) in pairs {
        let head =
            BulkPair { key_len: key.len() as u8, value_len: value.len() as u32, ..BulkPair::default() };
        rest = put(rest, head.as_bytes());
        rest = put(rest, key.as_bytes());
        rest = put(rest, value);
    }
}

/// Puts bytes and their padding, as far as there is room; returns what comes after.
fn put<'a>(into: &'a mut [u8], bytes: &[u8]) -> &'a mut [u8] {
    let here = bytes.len().next_multiple_of(4).min(into.len());
    let (field, rest) = into.split_at_mut(here);
    for (to, from) in field.iter_mut().zip(bytes.iter().chain(std::iter::repeat(&0))) {
        *to = *from;
    }
    rest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pairs_are_padded_to_four_bytes() {
        let pairs = [(Key::new(b"a").unwrap(), b"12345".as_slice()), (Key::new(b"four").unwrap(), b"")];
        let mut payload = vec![0xee; 4 + BulkPair::bytes(1, 5) + BulkPair::bytes(4, 0)];
        write_pairs(&pairs, &mut payload);
        let expected = [
            [2, 0, 0, 0].as_slice(),
            &[1, 0, 0, 0, 5, 0, 0, 0],
            b"a\0\0\x0012345\0\0\0",
            &[4, 0, 0, 0, 0, 0, 0, 0],
            b"four",
        ];
        assert_eq!(payload, expected.concat());
    }
}
