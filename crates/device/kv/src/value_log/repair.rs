//! Flipped bits of records that no flash page has a checksum of yet: each record has its own, by which one bit can be found.

use byway_sys::checksum::{crc32c, flipped_bit};

use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::record::{PREAMBLE_MAX_BYTES, Preamble, Stand};

impl ValueLog {
    /// Sets right the one flipped bit of a record that begins at `address`, if it is in memory; whether there was one.
    pub(crate) fn repair_record_at<S: PageStore>(&mut self, store: &mut S, address: u64) -> bool {
        let place = self.place_in_stream(address);
        place.is_some_and(|(stream, position)| self.repair_record(store, stream, position))
    }

    /// Sets right the one flipped bit of a record that begins at `position`, if it is in memory; whether there was one.
    pub(crate) fn repair_record<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        position: u64,
    ) -> bool {
        let Some(mut bytes) = self.span_to_repair(store, stream, position) else { return false };
        let stand = Stand::new(stream as u8, position);
        let Some(bit) = flipped_in(&mut bytes, stand) else { return false };
        self.flip(store, stream, position + bit as u64 / 8, 1 << (bit % 8))
    }

    /// Sets right a bit that was flipped amid padding, if it is in memory; whether there was one.
    pub(crate) fn repair_padding<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        from: u64,
        to: u64,
    ) -> bool {
        let Some(bytes) = self.span_to_repair(store, stream, from) else { return false };
        match bytes.get(..(to - from) as usize) {
            Some([flipped, rest @ ..]) if flipped.is_power_of_two() && rest.iter().all(|b| *b == 0) => {
                self.flip(store, stream, from, *flipped)
            }
            _ => false,
        }
    }

    /// What is committed from `position` on: as much as a record in memory may have.
    fn span_to_repair<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        position: u64,
    ) -> Option<Vec<u8>> {
        let s = self.streams.get(stream)?;
        let (tail, most) = (s.tail(), s.ring().bytes());
        let end = tail.min(position.checked_add(most)?);
        let (page_bytes, mut at) = (self.layout.page_bytes as u64, position);
        let (mut bytes, mut page) = (Vec::new(), vec![0; page_bytes as usize]);
        while at < end {
            let (number, within) = (at / page_bytes, at % page_bytes);
            self.read_stream_page(store, stream, number, &mut page, byway_flash::Cause::Metadata, &mut 0)
                .ok()?;
            let until = page_bytes.min(within + (end - at));
            bytes.extend_from_slice(page.get(within as usize..until as usize)?);
            at += until - within;
        }
        Some(bytes)
    }

    /// Flips bits of a byte of a stream; false where that is not in memory.
    fn flip<S: PageStore>(&mut self, store: &mut S, stream: usize, position: u64, bits: u8) -> bool {
        let Some(s) = self.streams.get(stream) else { return false };
        if !s.holds(s.page_of(position)) {
            return false;
        }
        let (at, _) = s.ring().pieces(position, 1);
        if s.ring().in_window {
            let mut byte = [0];
            store.read_window(&self.home, at.start, &mut byte);
            store.write_window(&self.home, at.start, &[byte[0] ^ bits]);
        } else {
            store.state(&self.home)[at.start] ^= bits;
        }
        true
    }
}

/// The one bit that makes `bytes` begin with a whole record; `None` where they do, or one bit is not all.
fn flipped_in(bytes: &mut [u8], stand: Stand) -> Option<usize> {
    if let Some((at, value, value_crc)) = parts_of(bytes, stand) {
        let bit = flipped_bit(value.len(), crc32c(value) ^ value_crc)?;
        return Some(at * 8 + bit);
    }
    (0..bytes.len().min(PREAMBLE_MAX_BYTES) * 8).find(|bit| {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let is_whole = parts_of(bytes, stand).is_some_and(|(_, value, crc)| crc32c(value) == crc);
        bytes[bit / 8] ^= 1 << (bit % 8);
        is_whole
    })
}

/// Where the value of the record begins that `bytes` begin with, the value, and its checksum.
fn parts_of(bytes: &[u8], stand: Stand) -> Option<(usize, &[u8], u32)> {
    let preamble = Preamble::decode(bytes.get(..PREAMBLE_MAX_BYTES).unwrap_or(bytes), stand)?;
    let at = preamble.shape.preamble_bytes();
    let value = bytes.get(at..preamble.shape.record_bytes() as usize)?;
    Some((at, value, preamble.value_crc))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::engine::KvEngine;
    use crate::layout::KvFormat;
    use crate::options::KvOptions;
    use crate::value_log::record::{Kind, Shape};
    use crate::value_log::segment::Use;
    use byway_flash::{Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec};
    use byway_spec::Key;

    /// A row of the segment table of a damaged image can name any stream.
    #[test]
    fn records_of_a_stream_that_is_not_there_are_not_repaired() {
        let profile = byway_link::Profile::by_name("cosmos").unwrap().flash;
        let spec = NamespaceSpec { nsid: None, kind: NamespaceKind::Kv, size_bytes: 12 << 20 };
        let mut flash = Flash::create(FlashOptions::new(32 << 20, profile, MediaKind::Ram), &[spec]).unwrap();
        let namespace = flash.namespace(1).unwrap().clone();
        let made = KvEngine::create(&mut flash, &namespace, &KvFormat::default(), KvOptions::default());
        let mut log = made.unwrap().into_log();
        let home = log.home.clone();
        for stream in [log.streams.len() as u8, u8::MAX] {
            let segment = log.segments.take(&mut flash, &home, Use::Log { stream, ordinal: 0 }, 0).unwrap();
            let address = u64::from(segment) << log.layout.segment_shift;
            assert!(!log.repair_record_at(&mut flash, address));
            assert!(!log.repair_padding(&mut flash, stream.into(), 0, 8));
        }
    }

    #[test]
    fn any_flipped_bit_of_a_record_is_found_and_two_are_not() {
        let value: Vec<u8> = (0..100).collect();
        let (key, stand) = (Key::new(b"a key").unwrap(), Stand::new(1, 4096));
        let preamble =
            Preamble { shape: Shape::new(Kind::Value, 5, 100), value_crc: crc32c(&value), seq: 7, key };
        let mut bytes = preamble.encode(stand)[..preamble.shape.preamble_bytes()].to_vec();
        bytes.extend(value);
        bytes.extend([9; 50]);
        assert_eq!(flipped_in(&mut bytes, stand), None);
        for bit in 0..preamble.shape.record_bytes() as usize * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(flipped_in(&mut bytes, stand), Some(bit));
            if bit != 7 {
                bytes[0] ^= 0x80;
                assert_eq!(flipped_in(&mut bytes, stand), None, "bit {bit}");
                bytes[0] ^= 0x80;
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
