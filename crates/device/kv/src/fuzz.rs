//! Entry points for fuzzers: recompute checksums over changed bytes, so that damage gets past them.
//!
//! A checksum finds accidents. An image can also be made on purpose, and opening one must not panic either.

use crate::index;
use crate::layout::{FIRST_WINDOW, HEADER_USED_BYTES, Layout, ROOT_AT};
use crate::sealed;
use crate::sealed::SEALED_MAX;
use crate::value_log::record::{Preamble, Shape, Stand};
use crate::value_log::region::TABLE_ROWS;
use crate::value_log::stream::{TABLE_AT, TAGS_AT};
use byway_spec::Key;

/// Recomputes every checksum of a state area: header, root, streams, segment table, manifests, and the records that
/// stand in the rings.
pub fn reseal_state(state: &mut [u8]) {
    if state.len() < ROOT_AT {
        return;
    }
    let crc = crc32c::crc32c(&state[..HEADER_USED_BYTES]);
    state[HEADER_USED_BYTES..HEADER_USED_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
    let Ok(layout) = Layout::read_header(state) else { return };
    reseal_words(state, ROOT_AT, 1);
    for stream in 0..layout.streams() {
        let at = layout.stream_block_at(stream);
        reseal_words(state, at, 1);
        reseal_words(state, at + TABLE_AT, TABLE_ROWS);
        reseal_words(state, at + TAGS_AT, (layout.ring_bytes.max(layout.window_bytes)) / layout.page_bytes);
    }
    for segment in 0..layout.segments {
        reseal_words(state, layout.segment_row_at(segment), 1);
    }
    for slot in 0..2 {
        let at = layout.manifest_at(slot);
        index::manifest::reseal(&mut state[at..at + layout.manifest_bytes()]);
    }
    (0..FIRST_WINDOW).for_each(|stream| reseal_records(state, &layout, stream));
}

/// Makes the checksum of an index page fit.
pub fn reseal_page(page: &mut [u8]) {
    index::page::reseal(page);
}

fn word(state: &[u8], at: usize) -> u64 {
    state.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(std::array::from_fn(|i| bytes[i])))
}

/// Words of zeroes were never written and stay so.
fn reseal_words(state: &mut [u8], at: usize, count: usize) {
    for at in (at..).step_by(8).take(count) {
        let found = word(state, at);
        if found != 0
            && let Some(place) = state.get_mut(at..at + 8)
        {
            place.copy_from_slice(&sealed::seal(found & SEALED_MAX, at).to_le_bytes());
        }
    }
}

/// Records from the ring's oldest byte to the write pointer.
fn reseal_records(state: &mut [u8], layout: &Layout, stream: usize) {
    let ring = layout.ring_at(stream);
    let mask = layout.ring_bytes - 1;
    let wp = word(state, layout.stream_block_at(stream)) & SEALED_MAX;
    let mut position = wp - wp.min(layout.ring_bytes as u64);
    while position < wp {
        let at = |offset: usize| ring + ((position as usize + offset) & mask);
        // Most places hold nothing, or the middle of a value.
        if state.get(at(0)).is_none_or(|first| *first == 0) {
            position += 1;
            continue;
        }
        let bytes: [u8; 36] = std::array::from_fn(|i| state.get(at(i)).copied().unwrap_or(0));
        let number = |from: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[from + i]));
        let shape = Shape::from_bits(number(0));
        let key = shape.and_then(|shape| Key::new(&bytes[20..20 + shape.key_len()]).ok());
        let Some((shape, key)) = shape.zip(key) else {
            position += 1;
            continue;
        };
        let seq = u64::from(number(12)) | u64::from(number(16)) << 32;
        let preamble = Preamble { shape, value_crc: number(8), seq, key };
        let sealed = preamble.encode(Stand::new(stream as u8, position));
        for (i, byte) in sealed.into_iter().enumerate().take(8) {
            if let Some(place) = state.get_mut(at(i)) {
                *place = byte;
            }
        }
        position += shape.record_bytes();
    }
}
