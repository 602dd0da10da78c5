//! How many bytes a command moves, as far as its own fields give it: for backends that hand a device the addresses of
//! memory, where a device that goes beyond them meets memory of others.
//!
//! What cannot be known (vendor commands, commands that this library does not know) is [`None`]: then the caller that passes the
//! command through answers for the length of its data.

use byway_spec::Command as Entry;
use byway_spec::base::admin::{AdminOpcode, SelectCdw10};
use byway_spec::base::identify::IDENTIFY_BYTES;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::{CopyCdw12, CopyRange, DsmCdw10, DsmRange, NvmCdw12, NvmNamespace, NvmOpcode};

use crate::capability::{NvmCommands, NvmLimits};
use crate::command::{Command, CopyRanges, NvmCommand};
use crate::encode::Encoded;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Nsid;

/// What the commands of a namespace mean: its command set, with what their lengths are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Logical blocks.
    Blocks {
        /// Bytes that one block is on its way, metadata that goes with it included.
        bytes: u32,
        /// What commands may ask of them.
        options: BlockOptions,
    },
    /// Keys and values.
    Keys,
    /// A command set that this library does not know.
    Other,
}

/// What a namespace of blocks announced that commands may ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockOptions {
    /// Write Zeroes may deallocate (DEAC; DLFEAT bit 3).
    pub zeroes_deallocate: bool,
    /// Most source ranges of a Copy (MSRC), 0 for no limit.
    pub copy_ranges: u16,
    /// Most blocks of one source range (MSSRL), 0 for no limit.
    pub copy_range_blocks: u16,
    /// Most blocks of a Copy (MCL), 0 for no limit.
    pub copy_blocks: u32,
}

impl BlockOptions {
    /// What a namespace announces in its Identify structure.
    #[must_use]
    pub fn of(namespace: &NvmNamespace) -> Self {
        Self {
            zeroes_deallocate: namespace.dlfeat & NvmNamespace::DLFEAT_ZEROES_DEALLOCATE != 0,
            copy_ranges: u16::from(namespace.msrc_z) + 1,
            copy_range_blocks: namespace.mssrl,
            copy_blocks: namespace.mcl,
        }
    }

    /// Most blocks that a Copy of one range moves (MSSRL, MCL); `None` for no limit.
    #[must_use]
    pub fn one_range_blocks(&self) -> Option<u64> {
        let limits = [u64::from(self.copy_range_blocks), u64::from(self.copy_blocks)];
        limits.into_iter().filter(|most| *most > 0).min()
    }
}

/// Bytes that an I/O command moves at most, in a namespace of this layout.
#[must_use]
pub fn io_bytes(entry: &Entry, layout: Layout) -> Option<u64> {
    match layout {
        Layout::Blocks { bytes, .. } => nvm_bytes(entry, bytes),
        Layout::Keys => kv_bytes(entry),
        Layout::Other => None,
    }
}

fn nvm_bytes(entry: &Entry, block_bytes: u32) -> Option<u64> {
    match NvmOpcode(entry.opcode()) {
        NvmOpcode::READ | NvmOpcode::WRITE | NvmOpcode::COMPARE => {
            let blocks = u64::from(NvmCdw12::from_bits(entry.cdw12).nlb_z()) + 1;
            Some(blocks * u64::from(block_bytes))
        }
        NvmOpcode::DATASET_MANAGEMENT => {
            let ranges = u64::from(DsmCdw10::from_bits(entry.cdw10).nr_z()) + 1;
            Some(ranges * size_of::<DsmRange>() as u64)
        }
        // Every descriptor format has entries of this size.
        NvmOpcode::COPY => {
            let ranges = u64::from(CopyCdw12::from_bits(entry.cdw12).nr_z()) + 1;
            Some(ranges * size_of::<CopyRange>() as u64)
        }
        NvmOpcode::FLUSH | NvmOpcode::WRITE_UNCORRECTABLE | NvmOpcode::WRITE_ZEROES | NvmOpcode::VERIFY => {
            Some(0)
        }
        _ => reservation_bytes(entry),
    }
}

fn kv_bytes(entry: &Entry) -> Option<u64> {
    match KvOpcode(entry.opcode()) {
        KvOpcode::STORE | KvOpcode::RETRIEVE | KvOpcode::LIST => Some(entry.cdw10.into()),
        KvOpcode::FLUSH | KvOpcode::DELETE | KvOpcode::EXIST => Some(0),
        _ => reservation_bytes(entry),
    }
}

/// The same in every command set (Base 2.1, section 7).
fn reservation_bytes(entry: &Entry) -> Option<u64> {
    match NvmOpcode(entry.opcode()) {
        NvmOpcode::RESERVATION_REGISTER | NvmOpcode::RESERVATION_ACQUIRE => Some(16),
        NvmOpcode::RESERVATION_RELEASE => Some(8),
        NvmOpcode::RESERVATION_REPORT => Some(dwords(entry.cdw10)),
        _ => None,
    }
}

/// Bytes that an admin command moves at most. A feature is a page at most.
#[must_use]
pub fn admin_bytes(entry: &Entry) -> Option<u64> {
    match AdminOpcode(entry.opcode()) {
        AdminOpcode::NAMESPACE_MANAGEMENT
            if SelectCdw10::from_bits(entry.cdw10).sel() == SelectCdw10::DELETE =>
        {
            Some(0)
        }
        AdminOpcode::IDENTIFY | AdminOpcode::NAMESPACE_MANAGEMENT | AdminOpcode::NAMESPACE_ATTACHMENT => {
            Some(IDENTIFY_BYTES as u64)
        }
        AdminOpcode::GET_LOG_PAGE => Some(dwords((entry.cdw11 & 0xffff) << 16 | entry.cdw10 >> 16)),
        AdminOpcode::FIRMWARE_DOWNLOAD | AdminOpcode::DIRECTIVE_SEND | AdminOpcode::DIRECTIVE_RECEIVE => {
            Some(dwords(entry.cdw10))
        }
        AdminOpcode::SECURITY_SEND | AdminOpcode::SECURITY_RECEIVE => Some(entry.cdw11.into()),
        AdminOpcode::GET_LBA_STATUS => Some(dwords(entry.cdw12)),
        AdminOpcode::ABORT
        | AdminOpcode::ASYNC_EVENT_REQUEST
        | AdminOpcode::KEEP_ALIVE
        | AdminOpcode::FIRMWARE_COMMIT
        | AdminOpcode::FORMAT_NVM
        | AdminOpcode::SANITIZE
        | AdminOpcode::SELF_TEST => Some(0),
        _ => None,
    }
}

/// Refuses a command on blocks whose data is not as long as they are.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]; also where the namespace is not one of blocks.
#[inline]
pub fn check_blocks(nsid: Nsid, blocks: u32, len: u64, layout: Layout) -> Result<()> {
    match layout {
        Layout::Blocks { bytes, .. } if u64::from(blocks) * u64::from(bytes) == len => Ok(()),
        Layout::Blocks { bytes, .. } => Err(of_another_length(len, blocks, bytes)),
        Layout::Keys | Layout::Other => Err(no_blocks(nsid)),
    }
}

/// Refuses a command whose data is not twice as long as its blocks are: what they are compared with, and what is written.
///
/// # Errors
/// As [`check_blocks`].
pub fn check_two(nsid: Nsid, blocks: u32, len: u64, layout: Layout) -> Result<()> {
    match layout {
        Layout::Blocks { bytes, .. } if 2 * u64::from(blocks) * u64::from(bytes) != len => {
            let said = format!("data of {len} bytes for two times {blocks} blocks of {bytes} bytes");
            Err(Error::host(ErrorKind::InvalidArgument, said))
        }
        Layout::Blocks { .. } => Ok(()),
        Layout::Keys | Layout::Other => Err(no_blocks(nsid)),
    }
}

/// Refuses data that is shorter than what the device will move, as far as that is known.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`].
#[inline]
pub fn check_length(len: u64, moved: Option<u64>) -> Result<()> {
    match moved {
        Some(moved) if moved > len => Err(too_short(len, moved)),
        _ => Ok(()),
    }
}

/// Admits a command to a device that can do this, and leaves out of its entry what its namespace did not announce.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] where its data is not as long as what the device will move; [`ErrorKind::Unsupported`] for a
/// command that was not announced, or of another command set than its namespace's; and `layout`'s.
pub fn admit(
    command: &Command,
    encoded: &mut Encoded<'_>,
    can: &NvmCommands,
    limits: &NvmLimits,
    layout: impl FnOnce(u32) -> Result<Layout>,
) -> Result<()> {
    let (entry, len) = (&mut encoded.entry, encoded.data.len() as u64);
    if let Command::Nvm(command) = command {
        can.require(command)?;
    }
    match command {
        Command::Nvm(
            NvmCommand::Read { nsid, blocks, .. }
            | NvmCommand::ReadVectored { nsid, blocks, .. }
            | NvmCommand::Write { nsid, blocks, .. }
            | NvmCommand::Compare { nsid, blocks, .. },
        ) => check_blocks(*nsid, *blocks, len, layout(entry.nsid)?),
        Command::Nvm(NvmCommand::CompareAndWrite { nsid, blocks, .. }) => {
            check_two(*nsid, *blocks, len, layout(entry.nsid)?)
        }
        Command::Nvm(
            nvm
            @ (NvmCommand::WriteZeroes { .. } | NvmCommand::Verify { .. } | NvmCommand::Deallocate { .. }),
        ) => {
            let layout = layout(entry.nsid)?;
            restrict_zeroes(entry, layout);
            check_limits(nvm, limits, layout)
        }
        Command::Nvm(NvmCommand::Copy { from, .. }) => check_copy(from, layout(entry.nsid)?),
        Command::Kv(_) => check_keys(entry.nsid, layout(entry.nsid)?),
        // A typed command says the length of its data; opcodes say by their low bits whether they have some.
        Command::Raw(_) if entry.opcode() & 3 != 0 => check_length(len, io_bytes(entry, layout(entry.nsid)?)),
        Command::Nvm(_) | Command::Raw(_) => Ok(()),
    }
}

/// Leaves deallocation out of a Write Zeroes where the namespace did not announce it (DLFEAT bit 3): its blocks read as zeroes
/// either way.
pub fn restrict_zeroes(entry: &mut Entry, layout: Layout) {
    if NvmOpcode(entry.opcode()) != NvmOpcode::WRITE_ZEROES {
        return;
    }
    if matches!(layout, Layout::Blocks { options, .. } if options.zeroes_deallocate) {
        return;
    }
    entry.cdw12 = NvmCdw12::from_bits(entry.cdw12).with_deac(false).into_bits();
}

/// Refuses a command without data over the limits of its controller.
///
/// # Errors
/// [`ErrorKind::TooLarge`].
pub fn check_limits(command: &NvmCommand, limits: &NvmLimits, layout: Layout) -> Result<()> {
    match layout {
        Layout::Blocks { bytes, .. } => limits.check(command, bytes),
        Layout::Keys | Layout::Other => Ok(()),
    }
}

/// Refuses a Copy over the limits of its namespace.
///
/// # Errors
/// [`ErrorKind::TooLarge`], with the limit and its field.
pub fn check_copy(from: &CopyRanges, layout: Layout) -> Result<()> {
    let Layout::Blocks { options, .. } = layout else { return Ok(()) };
    let limits = [
        ("source ranges", u64::from(from.count), u64::from(options.copy_ranges), "MSRC"),
        ("blocks of one range", from.longest.into(), options.copy_range_blocks.into(), "MSSRL"),
        ("blocks", from.blocks, options.copy_blocks.into(), "MCL"),
    ];
    match limits.into_iter().find(|(_, has, most, _)| *most > 0 && has > most) {
        None => Ok(()),
        Some((what, has, most, field)) => {
            let said = format!("a copy in this namespace is of at most {most} {what} ({field}), not {has}");
            Err(Error::host(ErrorKind::TooLarge, said))
        }
    }
}

/// The opcodes of the Key Value command set move blocks in other namespaces.
fn check_keys(nsid: u32, layout: Layout) -> Result<()> {
    if layout == Layout::Keys {
        return Ok(());
    }
    let said = format!("namespace {nsid} takes no commands of the Key Value command set");
    Err(Error::host(ErrorKind::Unsupported, said))
}

#[cold]
fn of_another_length(len: u64, blocks: u32, block_bytes: u32) -> Error {
    let said = format!("data of {len} bytes for {blocks} blocks of {block_bytes} bytes");
    Error::host(ErrorKind::InvalidArgument, said)
}

#[cold]
fn too_short(len: u64, moved: u64) -> Error {
    let said = format!("the command moves {moved} bytes, its data has {len}");
    Error::host(ErrorKind::InvalidArgument, said)
}

#[cold]
fn no_blocks(nsid: Nsid) -> Error {
    Error::host(ErrorKind::InvalidArgument, format!("namespace {nsid} is not one of blocks"))
}

/// Bytes of a zero-based count of dwords.
fn dwords(count_z: u32) -> u64 {
    (u64::from(count_z) + 1) * 4
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{AdminCommand, Buffer, Nsid, encode, encode_admin};

    fn blocks_of(bytes: u32) -> Layout {
        Layout::Blocks { bytes, options: BlockOptions::default() }
    }

    #[test]
    fn deletion_of_a_namespace_moves_no_data_and_creation_its_structure() {
        let managed = |select: u8| {
            let mut entry = Entry::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, 1);
            entry.cdw10 = select.into();
            admin_bytes(&entry)
        };
        assert_eq!((managed(SelectCdw10::CREATE), managed(SelectCdw10::DELETE)), (Some(4096), Some(0)));
    }

    #[test]
    fn copy_of_one_range_is_limited_by_the_smaller_of_both_fields() {
        let most = |copy_range_blocks, copy_blocks| {
            BlockOptions { copy_range_blocks, copy_blocks, ..BlockOptions::default() }.one_range_blocks()
        };
        assert_eq!(
            (most(16, 24), most(0, 24), most(16, 0), most(0, 0)),
            (Some(16), Some(24), Some(16), None)
        );
    }

    #[test]
    fn blocks_are_counted_from_zero_and_in_the_bytes_of_the_namespace() {
        let read = encode::blocks(NvmOpcode::READ, Nsid::FIRST, 7, 0xffff);
        assert_eq!(io_bytes(&read, blocks_of(4096)), Some(1 << 28));
        assert_eq!(io_bytes(&read, blocks_of(520)), Some(520 << 16));
        assert_eq!(io_bytes(&read, Layout::Other), None);
    }

    #[test]
    fn the_same_opcode_moves_what_the_command_set_says() {
        let write = encode::blocks(NvmOpcode::WRITE, Nsid::FIRST, 100_000, 0);
        assert_eq!(io_bytes(&write, blocks_of(512)), Some(512));
        assert_eq!(io_bytes(&write, Layout::Keys), Some(100_000));
    }

    #[test]
    fn a_log_moves_the_dwords_that_it_says() {
        let into = Buffer::zeroed(1 << 20).unwrap();
        let command =
            AdminCommand::GetLog { log: 2, csi: 0, nsid: None, retain_event: false, offset_bytes: 0, into };
        assert_eq!(admin_bytes(&encode_admin(&command).entry), Some(1 << 20));
    }
}
