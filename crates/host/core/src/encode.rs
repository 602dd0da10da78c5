//! Typed commands as submission queue entries: every field but the command identifier and the data pointer, which are
//! the business of the carrier of the command.

use byway_spec::kv::{KvCdw11, KvOpcode};
use byway_spec::nvm::{CopyCdw12, DsmCdw10, DsmCdw11, NvmCdw12, NvmOpcode};
use byway_spec::vendor::{
    KeyRange, ManyCdw10, RESULT_MAX_BYTES, ScanCdw10, ScanCdw11, StoreManyCdw12, VendorOpcode,
};
use byway_spec::{Cdw0, Command as Entry, Key};

use crate::buffer::Buffer;
use crate::command::{Command, KvCommand, ManyKeys, NvmCommand, RawCommand, RawData, StoreOptions, blocks_z};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Nsid;
use crate::payload::Payload;

/// Data of an encoded command: which way it goes, and the memory it goes from or to.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// No data.
    None,
    /// To the device.
    Out(&'a Payload),
    /// From the device, at most the buffer's length.
    In(&'a Buffer),
    /// To the device the buffer's first bytes, then from it, at most the buffer's length.
    Both {
        /// The buffer.
        buffer: &'a Buffer,
        /// Bytes of it that are sent.
        sent_bytes: usize,
    },
    /// From the device into several buffers, at most the sum of their lengths.
    InVectored(&'a [Buffer]),
}

impl<'a> Data<'a> {
    pub(crate) fn of_raw(data: &'a RawData) -> Self {
        match data {
            RawData::None => Self::None,
            RawData::ToDevice(payload) => Self::Out(payload),
            RawData::FromDevice(buffer) => Self::In(buffer),
            RawData::FromDeviceVectored(parts) => Self::InVectored(parts),
            RawData::Both { buffer, sent_bytes } => {
                Self::Both { buffer, sent_bytes: (*sent_bytes).min(buffer.len()) }
            }
        }
    }

    /// Length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Out(payload) => payload.len(),
            Self::In(buffer) | Self::Both { buffer, .. } => buffer.len(),
            Self::InVectored(parts) => parts.iter().map(Buffer::len).sum(),
        }
    }

    /// Whether no byte is moved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A command on its way to the wire. The data stays with the command.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    /// The entry, without identifier and data pointer.
    pub entry: Entry,
    /// Its data.
    pub data: Data<'a>,
}

/// Refuses a command whose fields cannot hold what it says. A raw command is not looked into.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] or [`ErrorKind::TooLarge`].
#[inline]
pub fn check(command: &Command) -> Result<()> {
    match command {
        Command::Nvm(command) => check_blocks(command),
        Command::Kv(command) => match (kv_data(command).len(), command) {
            (len, KvCommand::Scan { .. } | KvCommand::RetrieveMany { .. }) if len > RESULT_MAX_BYTES => {
                Err(too_long(len, RESULT_MAX_BYTES))
            }
            (len, _) if u32::try_from(len).is_err() => Err(too_long(len, u32::MAX as usize)),
            _ => Ok(()),
        },
        Command::Raw(_) => Ok(()),
    }
}

#[cold]
fn too_long(len: usize, most: usize) -> Error {
    let said = format!("data of {len} bytes is over the limit of {most} bytes that a command can say");
    Error::host(ErrorKind::TooLarge, said)
}

#[inline]
fn check_blocks(command: &NvmCommand) -> Result<()> {
    match command {
        NvmCommand::Read { blocks, .. }
        | NvmCommand::ReadVectored { blocks, .. }
        | NvmCommand::Write { blocks, .. }
        | NvmCommand::WriteZeroes { blocks, .. }
        | NvmCommand::Compare { blocks, .. }
        | NvmCommand::CompareAndWrite { blocks, .. }
        | NvmCommand::Verify { blocks, .. } => blocks_z(*blocks).map(drop),
        NvmCommand::Flush { .. } | NvmCommand::Deallocate { .. } | NvmCommand::Copy { .. } => Ok(()),
    }
}

/// Encodes a command that [`check`] has passed. Of two fused commands this is the first, with the data of both; the second is
/// [`fused_with`] it.
#[must_use]
pub fn encode(command: &Command) -> Encoded<'_> {
    match command {
        Command::Nvm(command) => encode_nvm(command),
        Command::Kv(command) => encode_kv(command),
        Command::Raw(RawCommand { entry, data }) => Encoded { entry: *entry, data: Data::of_raw(data) },
    }
}

/// The data of a command, as [`encode`] gives it, for callers that need no entry yet.
#[must_use]
#[inline]
pub fn data(command: &Command) -> Data<'_> {
    match command {
        Command::Nvm(command) => nvm_data(command),
        Command::Kv(command) => kv_data(command),
        Command::Raw(RawCommand { data, .. }) => Data::of_raw(data),
    }
}

#[inline]
fn kv_data(command: &KvCommand) -> Data<'_> {
    match command {
        KvCommand::Store { value: data, .. } | KvCommand::BulkStore { pairs: data, .. } => Data::Out(data),
        KvCommand::Retrieve { into, .. } | KvCommand::List { into, .. } | KvCommand::Scan { into, .. } => {
            Data::In(into)
        }
        KvCommand::RetrieveMany { many, .. } => {
            Data::Both { buffer: &many.buffer, sent_bytes: many.request_bytes as usize }
        }
        KvCommand::Delete { .. } | KvCommand::Exist { .. } | KvCommand::DeleteRange { .. } => Data::None,
    }
}

#[inline]
fn nvm_data(command: &NvmCommand) -> Data<'_> {
    match command {
        NvmCommand::Read { into, .. } => Data::In(into),
        NvmCommand::ReadVectored { into, .. } => Data::InVectored(into),
        NvmCommand::Write { data, .. }
        | NvmCommand::Compare { data, .. }
        | NvmCommand::CompareAndWrite { data, .. } => Data::Out(data),
        NvmCommand::Deallocate { ranges, .. } => Data::Out(&ranges.payload),
        NvmCommand::Copy { from, .. } => Data::Out(&from.payload),
        NvmCommand::Flush { .. } | NvmCommand::WriteZeroes { .. } | NvmCommand::Verify { .. } => Data::None,
    }
}

/// A KV store of `value_bytes` bytes.
#[must_use]
#[inline]
pub fn store(nsid: Nsid, key: &Key, value_bytes: u32, options: StoreOptions) -> Entry {
    let cdw11 = KvCdw11::new()
        .with_must_exist_or_raw(options.must_exist)
        .with_must_not_exist(options.must_not_exist)
        .with_no_compression(options.uncompressed);
    keyed(KvOpcode::STORE, nsid, Some(key), value_bytes, cdw11)
}

/// A KV retrieve of at most `into_bytes` bytes.
#[must_use]
#[inline]
pub fn retrieve(nsid: Nsid, key: &Key, into_bytes: u32) -> Entry {
    keyed(KvOpcode::RETRIEVE, nsid, Some(key), into_bytes, KvCdw11::new())
}

/// A KV delete.
#[must_use]
#[inline]
pub fn delete(nsid: Nsid, key: &Key) -> Entry {
    keyed(KvOpcode::DELETE, nsid, Some(key), 0, KvCdw11::new())
}

/// A KV exist.
#[must_use]
#[inline]
pub fn exist(nsid: Nsid, key: &Key) -> Entry {
    keyed(KvOpcode::EXIST, nsid, Some(key), 0, KvCdw11::new())
}

/// A KV list from `start` of at most `into_bytes` bytes.
#[must_use]
pub fn list(nsid: Nsid, start: Option<&Key>, into_bytes: u32) -> Entry {
    keyed(KvOpcode::LIST, nsid, start, into_bytes, KvCdw11::new())
}

/// A Store Many of `bytes` bytes of pairs (vendor command).
#[must_use]
pub fn bulk_store(nsid: Nsid, bytes: u32, atomic: bool) -> Entry {
    let mut entry = Entry::new(VendorOpcode::KV_BULK_STORE.0, 0, nsid.get());
    entry.cdw10 = bytes;
    entry.cdw12 = StoreManyCdw12::new().with_atomic(atomic).into_bits();
    entry
}

/// A Scan of at most `pairs` pairs (0: as many as fit) into `into_bytes` bytes (vendor command).
#[must_use]
pub fn scan(nsid: Nsid, range: &KeyRange, pairs: u16, value_prefix: u16, into_bytes: u32) -> Entry {
    let mut entry = Entry::new(VendorOpcode::KV_SCAN.0, 0, nsid.get());
    entry.cdw10 = ScanCdw10::new().with_buffer_bytes(into_bytes).with_pairs_low(pairs as u8).into_bits();
    let (most, high) = (ScanCdw11::new().with_value_prefix(value_prefix), (pairs >> 8) as u8);
    entry.cdw11 = most.with_pairs_high(high).into_bits();
    range.write_to(&mut entry);
    entry
}

/// A Delete Range of at most `keys` keys (0: as many as the device likes; vendor command).
#[must_use]
pub fn delete_range(nsid: Nsid, range: &KeyRange, keys: u32) -> Entry {
    let mut entry = Entry::new(VendorOpcode::KV_DELETE_RANGE.0, 0, nsid.get());
    entry.cdw10 = keys;
    range.write_to(&mut entry);
    entry
}

/// A Retrieve Many of the keys in a buffer (vendor command).
fn retrieve_many(nsid: Nsid, many: &ManyKeys, value_prefix: u16) -> Entry {
    let mut entry = Entry::new(VendorOpcode::KV_RETRIEVE_MANY.0, 0, nsid.get());
    entry.cdw10 = ManyCdw10::new().with_buffer_bytes(many.buffer.len() as u32).into_bits();
    entry.cdw11 = ScanCdw11::new().with_value_prefix(value_prefix).into_bits();
    (entry.cdw12, entry.cdw13) = (many.request_bytes, many.count);
    entry
}

/// An NVM command over a range of blocks; `blocks_z` counts from zero.
#[must_use]
#[inline]
pub fn blocks(opcode: NvmOpcode, nsid: Nsid, slba: u64, blocks_z: u16) -> Entry {
    let mut entry = Entry::new(opcode.0, 0, nsid.get());
    entry.set_cdw10_11(slba);
    entry.cdw12 = NvmCdw12::new().with_nlb_z(blocks_z).into_bits();
    entry
}

#[inline]
fn keyed(opcode: KvOpcode, nsid: Nsid, key: Option<&Key>, bytes: u32, cdw11: KvCdw11) -> Entry {
    let mut entry = Entry::new(opcode.0, 0, nsid.get());
    if let Some(key) = key {
        entry.set_key(key.padded());
    }
    entry.cdw10 = bytes;
    entry.cdw11 = cdw11.with_key_len(key.map_or(0, Key::len) as u8).into_bits();
    entry
}

fn encode_kv(command: &KvCommand) -> Encoded<'_> {
    let data = kv_data(command);
    let bytes = data.len() as u32;
    let entry = match command {
        KvCommand::Store { nsid, key, options, .. } => store(*nsid, key, bytes, *options),
        KvCommand::Retrieve { nsid, key, .. } => retrieve(*nsid, key, bytes),
        KvCommand::Delete { nsid, key } => delete(*nsid, key),
        KvCommand::Exist { nsid, key } => exist(*nsid, key),
        KvCommand::List { nsid, start, .. } => list(*nsid, start.as_ref(), bytes),
        KvCommand::BulkStore { nsid, atomic, .. } => bulk_store(*nsid, bytes, *atomic),
        KvCommand::Scan { nsid, range, pairs, value_prefix, .. } => {
            scan(*nsid, range, *pairs, *value_prefix, bytes)
        }
        KvCommand::RetrieveMany { nsid, many, value_prefix } => retrieve_many(*nsid, many, *value_prefix),
        KvCommand::DeleteRange { nsid, range, keys } => delete_range(*nsid, range, *keys),
    };
    Encoded { entry, data }
}

fn encode_nvm(command: &NvmCommand) -> Encoded<'_> {
    let entry = match command {
        NvmCommand::Read { nsid, slba, blocks, .. } | NvmCommand::ReadVectored { nsid, slba, blocks, .. } => {
            range(NvmOpcode::READ, *nsid, *slba, *blocks)
        }
        NvmCommand::Write { nsid, slba, blocks, .. } => range(NvmOpcode::WRITE, *nsid, *slba, *blocks),
        NvmCommand::Compare { nsid, slba, blocks, .. } => range(NvmOpcode::COMPARE, *nsid, *slba, *blocks),
        NvmCommand::CompareAndWrite { nsid, slba, blocks, .. } => {
            let mut entry = range(NvmOpcode::COMPARE, *nsid, *slba, *blocks);
            entry.cdw0.set_fuse(Cdw0::FUSE_FIRST);
            entry
        }
        NvmCommand::Flush { nsid } => Entry::new(NvmOpcode::FLUSH.0, 0, nsid.get()),
        NvmCommand::WriteZeroes { nsid, slba, blocks, deallocate } => {
            let mut entry = range(NvmOpcode::WRITE_ZEROES, *nsid, *slba, *blocks);
            entry.cdw12 |= NvmCdw12::new().with_deac(*deallocate).into_bits();
            entry
        }
        NvmCommand::Verify { nsid, slba, blocks } => range(NvmOpcode::VERIFY, *nsid, *slba, *blocks),
        NvmCommand::Deallocate { nsid, ranges } => {
            let mut entry = Entry::new(NvmOpcode::DATASET_MANAGEMENT.0, 0, nsid.get());
            entry.cdw10 = DsmCdw10::new().with_nr_z((ranges.count - 1) as u8).into_bits();
            entry.cdw11 = DsmCdw11::new().with_ad(true).into_bits();
            entry
        }
        NvmCommand::Copy { nsid, to, from } => {
            let mut entry = Entry::new(NvmOpcode::COPY.0, 0, nsid.get());
            entry.set_cdw10_11(*to);
            entry.cdw12 = CopyCdw12::new().with_nr_z((from.count - 1) as u8).into_bits();
            entry
        }
    };
    Encoded { entry, data: nvm_data(command) }
}

/// The Write that is fused with a Compare, of the same blocks (Base 2.1, section 3.4.2). It goes right behind it, on the same
/// queue.
#[must_use]
pub fn fused_with(compare: &Entry) -> Entry {
    let mut write = *compare;
    write.cdw0.set_opcode(NvmOpcode::WRITE.0);
    write.cdw0.set_fuse(Cdw0::FUSE_SECOND);
    write
}

/// A command over a range that [`check`] has passed.
fn range(opcode: NvmOpcode, nsid: Nsid, slba: u64, count: u32) -> Entry {
    blocks(opcode, nsid, slba, count.wrapping_sub(1) as u16)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::{LbaRange, LbaRanges};

    fn key(text: &str) -> Key {
        Key::try_from(text).unwrap()
    }

    #[test]
    fn a_store_carries_its_key_length_and_conditions() {
        let options = StoreOptions { must_not_exist: true, ..StoreOptions::NONE };
        let entry = store(Nsid::FIRST, &key("0041"), 32, options);
        assert_eq!((entry.opcode(), entry.nsid, entry.cdw10), (KvOpcode::STORE.0, 1, 32));
        assert_eq!(entry.cdw11, 4 | 2 << 8);
        assert_eq!(entry.to_bytes()[8..12], *b"0041");
    }

    #[test]
    fn counts_of_blocks_are_zero_based_on_the_wire_and_bounded_before_it() {
        let verify = |blocks| Command::from(NvmCommand::Verify { nsid: Nsid::FIRST, slba: 7 << 33, blocks });
        let entry = encode(&verify(65536)).entry;
        assert_eq!((entry.cdw12, entry.cdw10_11()), (0xffff, 7 << 33));
        for blocks in [0, 65537] {
            assert!(check(&verify(blocks)).unwrap_err().to_string().contains("1 to 65536 blocks"));
        }
    }

    #[test]
    fn two_fused_commands_are_of_the_same_blocks() {
        let data = Payload::copy_of(&[7; 1024]).unwrap();
        let command = NvmCommand::CompareAndWrite { nsid: Nsid::FIRST, slba: 9, blocks: 1, data }.into();
        let Encoded { entry, data } = encode(&command);
        let second = fused_with(&entry);
        assert_eq!((entry.to_bytes()[0], entry.to_bytes()[1]), (5, 1));
        assert_eq!((second.to_bytes()[0], second.to_bytes()[1]), (1, 2));
        assert_eq!(second.to_bytes()[4..], entry.to_bytes()[4..]);
        assert_eq!(data.len(), 1024);
    }

    #[test]
    fn ranges_to_deallocate_are_sent_as_the_device_reads_them() {
        let ranges = LbaRanges::new(&[LbaRange { slba: 9, blocks: 3 }]).unwrap();
        let command = NvmCommand::Deallocate { nsid: Nsid::FIRST, ranges }.into();
        let encoded = encode(&command);
        assert_eq!((encoded.entry.cdw10, encoded.entry.cdw11), (0, 4));
        let Data::Out(payload) = encoded.data else { panic!("a deallocate sends its ranges") };
        assert_eq!(payload.contiguous().unwrap(), [0, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert!(LbaRanges::new(&[]).is_err());
    }
}
