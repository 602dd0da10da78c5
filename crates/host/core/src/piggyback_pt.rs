//! The commands of `piggyback-pt`, the pass-through form of a store, for their senders: the driver by its own rings,
//! backends by what a kernel passes on.
//!
//! A kernel's interface carries dwords 2, 3 and 10 to 15 of a command, and may move its caller to another queue. So the
//! write command has 11 bytes of the value; if there are more, its completion names the payload, and each transfer command
//! brings 28 bytes with the payload and their place in it: any queue, any order. The one that comes last carries the
//! store's status.

use std::ops::Range;

use byway_spec::Command as Entry;
use byway_spec::vendor::{
    TRANSFER_PT_BYTES, TransferPt, VendorOpcode, WRITE_PT_BYTES, pack_transfer_pt, pack_write_pt,
    transfers_pt,
};

/// Longest value whose every place a transfer command can say, whatever a device announces.
pub const VALUE_MAX_BYTES: u64 = WRITE_PT_BYTES as u64 + TRANSFER_PT_BYTES as u64 * (1 << 16);

/// The write command in place of `store`, a standard Store without options, with the value's first bytes: as many of
/// `first` as it has room for.
#[must_use]
#[inline]
pub fn write(store: &Entry, first: &[u8]) -> Entry {
    let mut entry = *store;
    entry.cdw0.set_opcode(VendorOpcode::KV_WRITE_PT.0);
    pack_write_pt(&mut entry, first.get(..WRITE_PT_BYTES).unwrap_or(first));
    entry
}

/// The transfer command that brings `bytes`, at most 28, to place `fragment` of the payload that the device named.
#[must_use]
#[inline]
pub fn transfer(nsid: u32, payload: u16, fragment: u16, bytes: &[u8]) -> Entry {
    let mut entry = Entry::new(VendorOpcode::KV_TRANSFER_PT.0, 0, nsid);
    pack_transfer_pt(&mut entry, TransferPt::new().with_payload(payload).with_fragment(fragment), bytes);
    entry
}

/// Number of commands for a value of `value_bytes`.
#[must_use]
#[inline]
pub const fn commands(value_bytes: usize) -> usize {
    1 + transfers_pt(value_bytes)
}

/// Where in a value the bytes are that command `index` of its store brings, the write being command 0. Empty behind the last.
#[must_use]
#[inline]
pub fn place(value_bytes: usize, index: usize) -> Range<usize> {
    let ends_at = |commands: usize| (WRITE_PT_BYTES + commands * TRANSFER_PT_BYTES).min(value_bytes);
    match index.checked_sub(1) {
        None => 0..ends_at(0),
        Some(fragment) => ends_at(fragment)..ends_at(index),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::encode;
    use crate::{Key, Nsid, StoreOptions};
    use byway_spec::vendor::{unpack_transfer_pt, unpack_write_pt};

    #[test]
    fn the_commands_of_a_value_bring_each_of_its_bytes_once_and_in_order() {
        for value_bytes in [0, 1, 10, 11, 12, 38, 39, 40, 67, 68, 1000] {
            let places: Vec<_> = (0..commands(value_bytes)).map(|index| place(value_bytes, index)).collect();
            assert_eq!(places.iter().map(|place| place.len()).sum::<usize>(), value_bytes);
            assert!(places.windows(2).all(|pair| pair[0].end == pair[1].start && !pair[1].is_empty()));
            assert!(place(value_bytes, commands(value_bytes)).is_empty());
        }
    }

    #[test]
    fn a_write_is_the_store_with_value_bytes_in_it_and_needs_the_passed_dwords_alone() {
        let key = Key::new(b"0123456789abcdef").unwrap();
        let store = encode::store(Nsid::FIRST, &key, 40, StoreOptions::NONE);
        let bytes: Vec<u8> = (1..=40).collect();
        let write = write(&store, &bytes);
        assert_eq!((write.opcode(), write.nsid, write.cdw10, write.cdw11 & 0xff), (0x88, 1, 40, 16));
        let key_dwords = |entry: &Entry| [entry.cdw2, entry.cdw3, entry.cdw14, entry.cdw15];
        assert_eq!(key_dwords(&write), key_dwords(&store));
        assert_eq!(unpack_write_pt(&write), bytes[..11]);
        let transfer = transfer(1, 0xbeef, 1, &bytes[39..]);
        assert_eq!((write.mptr, write.dptr, transfer.mptr, transfer.dptr), (0, [0; 2], 0, [0; 2]));
        let (to, carried) = unpack_transfer_pt(&transfer);
        assert_eq!((to.payload(), to.fragment(), carried[0], carried[1]), (0xbeef, 1, 40, 0));
    }
}
