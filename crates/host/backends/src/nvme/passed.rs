//! A command in the form in which it is passed through, and what its answer means.

use std::io;
use std::time::Duration;

use byway_core::encode::{Data, Encoded};
use byway_core::{Answer, Error, ErrorKind, Memory, Outcome, Result};
use byway_spec::Status;
use byway_spec::base::command::DataPointer;
use byway_sys::{NvmeAnswer, NvmeCommand, NvmeQueue};

use super::pieces::Pieces;
use crate::target::TRANSFER_MAX_BYTES;

/// A command in the form in which it is passed through. Its data stays with the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// What the kernel is given.
    pub(crate) command: NvmeCommand,
    /// Whether the data comes from the device.
    pub(crate) receives: bool,
    /// Whether it is a store that may go in pieces: it has no conditions, for which pieces have no room.
    pub(crate) can_go_in_pieces: bool,
    /// Whether the command needs an enabled feature, which is enabled again if the device has lost it.
    pub(crate) needs_enabling: bool,
    /// How far it has come, if it goes in pieces.
    pub(crate) pieces: Option<Pieces>,
}

impl Passed {
    /// A command on its way to this queue.
    ///
    /// # Errors
    /// What the kernel does not pass on: metadata, fused commands, data that goes another way than the opcode says.
    pub(crate) fn of(encoded: &Encoded<'_>, queue: NvmeQueue) -> Result<Self> {
        let entry = &encoded.entry;
        if entry.mptr != 0 {
            return Err(not_passed_on("a metadata pointer names memory that the kernel does not know"));
        }
        if entry.cdw0.fuse() != 0 || entry.cdw0.psdt() != DataPointer::Prp {
            return Err(not_passed_on(
                "the kernel passes on neither fused commands nor data pointers of one's own",
            ));
        }
        check_direction(entry.opcode(), encoded.data)?;
        let len = encoded.data.len() as u64;
        if len > TRANSFER_MAX_BYTES {
            let said = format!("{len} bytes are over the limit of {TRANSFER_MAX_BYTES} bytes");
            return Err(Error::host(ErrorKind::TooLarge, said));
        }
        let command = NvmeCommand {
            queue,
            opcode: entry.opcode(),
            nsid: entry.nsid,
            cdw2: entry.cdw2,
            cdw3: entry.cdw3,
            cdw10_15: [entry.cdw10, entry.cdw11, entry.cdw12, entry.cdw13, entry.cdw14, entry.cdw15],
            keeps_data: false,
            timeout_ms: 0,
        };
        let receives = matches!(encoded.data, Data::In(_) | Data::InVectored(_));
        Ok(Self { command, receives, can_go_in_pieces: false, needs_enabling: false, pieces: None })
    }

    /// Whether an answer may not be its last.
    #[inline]
    pub(crate) fn may_go_on(&self) -> bool {
        self.needs_enabling || self.pieces.is_some()
    }

    /// The same, given up after `timeout`: the kernel counts milliseconds.
    pub(crate) fn within(mut self, timeout: Duration) -> Self {
        self.command.timeout_ms = millis(timeout);
        self.pieces = self.pieces.map(|pieces| pieces.within(timeout));
        self
    }

    /// What came of the command by the device's answer.
    pub(crate) fn answered(self, answer: NvmeAnswer) -> Result<Answer> {
        let status = Status(answer.status);
        if status.is_success() {
            let (dw0, dw1) = (answer.result as u32, (answer.result >> 32) as u32);
            return Ok(Answer { dw0, dw1, commands: 1, slots: 1 });
        }
        let error = Error::status(status);
        // No other code aborts it on the device.
        let is_late = self.command.timeout_ms != 0 && error.kind() == ErrorKind::Cancelled;
        Err(if is_late { error.with_kind(ErrorKind::TimedOut) } else { error })
    }

    /// What an error of the kernel's means.
    #[cold]
    pub(crate) fn not_sent(self, cause: io::Error) -> Error {
        match cause.raw_os_error() {
            // The driver took it back from the device: after its time, or with a reset.
            Some(EINTR) => {
                let said = "the kernel gave the command up; whether the device did it is unknown";
                Error::kernel(said, cause).with_kind(ErrorKind::TimedOut)
            }
            Some(ENODEV | ENXIO) => {
                Error::kernel("the device is gone", cause).with_kind(ErrorKind::DeviceLost)
            }
            Some(EPERM | EACCES) => {
                let said = format!("this user may not pass opcode {:#04x} through", self.command.opcode);
                Error::kernel(said, cause)
            }
            Some(ENOTTY | EOPNOTSUPP) => {
                let said = "the kernel passes no such command through by this node";
                Error::kernel(said, cause).with_kind(ErrorKind::Unsupported)
            }
            _ => Error::kernel(
                format!("the kernel did not pass opcode {:#04x} through", self.command.opcode),
                cause,
            ),
        }
    }
}

const EPERM: i32 = 1;
const EINTR: i32 = 4;
const ENXIO: i32 = 6;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;
const ENOTTY: i32 = 25;
const EOPNOTSUPP: i32 = 95;

/// A time as the kernel counts it: 0 would be its own.
pub(super) fn millis(timeout: Duration) -> u32 {
    let millis = timeout.as_nanos().div_ceil(1_000_000);
    u32::try_from(millis).unwrap_or(u32::MAX).max(1)
}

/// Success with this answer, of a command that had this memory.
pub(crate) fn outcome(answer: Answer, memory: Memory) -> Outcome {
    let (buffer, vector) = memory.into_buffers();
    Outcome { answer, buffer, vector }
}

/// The kernel sends the data of opcodes with the lowest bit set, and receives that of others.
fn check_direction(opcode: u8, data: Data<'_>) -> Result<()> {
    let sends = opcode & 1 != 0;
    let fits = match data {
        _ if data.is_empty() => true,
        Data::Out(_) => sends,
        Data::None | Data::In(_) | Data::InVectored(_) => !sends,
        Data::Both { .. } => {
            return Err(not_passed_on(
                "the kernel maps data for one direction, and this command has it both ways",
            ));
        }
    };
    if fits {
        return Ok(());
    }
    let way = if sends { "sends" } else { "receives" };
    let said = format!(
        "the kernel {way} the data of opcode {opcode:#04x}, by its lowest bit; this goes the other way"
    );
    Err(Error::host(ErrorKind::InvalidArgument, said))
}

#[cold]
fn not_passed_on(said: &'static str) -> Error {
    Error::host(ErrorKind::Unsupported, said)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use byway_core::encode::encode;
    use byway_core::{
        Buffer, Command, Key, KvCommand, Nsid, NvmCommand, Origin, Payload, RawCommand, RawData, StoreOptions,
    };
    use byway_spec::Command as Entry;

    use super::*;

    fn passed(command: impl Into<Command>) -> Result<Passed> {
        Passed::of(&encode(&command.into()), NvmeQueue::Io)
    }

    #[test]
    fn typed_commands_of_both_command_sets_are_passed_with_every_dword() {
        let into = Buffer::zeroed(4096).unwrap();
        let read = NvmCommand::Read { nsid: Nsid::FIRST, slba: 7 << 32 | 5, blocks: 8, into };
        let read = passed(read).unwrap();
        assert_eq!((read.command.opcode, read.command.nsid, read.receives), (2, 1, true));
        assert_eq!(read.command.cdw10_15, [5, 7, 7, 0, 0, 0]);
        let (key, value) = (Key::new(b"0123456789abcdef").unwrap(), Payload::copy_of(b"value").unwrap());
        let store = KvCommand::Store { nsid: Nsid::FIRST, key, value, options: StoreOptions::NONE };
        let store = passed(store).unwrap().command;
        assert_eq!((store.opcode, store.cdw10_15[0], store.cdw10_15[1]), (1, 5, 16));
        let dwords = [store.cdw2, store.cdw3, store.cdw10_15[4], store.cdw10_15[5]];
        assert_ne!(dwords, [0; 4], "the key is in dwords 2, 3, 14 and 15");
        assert_eq!(store.timeout_ms, 0);
    }

    #[test]
    fn commands_the_kernel_cannot_pass_are_refused_in_a_sentence() {
        let raw = |entry, data| passed(RawCommand { entry, data }).unwrap_err().to_string();
        let mut entry = Entry::new(0x02, 0, 1);
        entry.mptr = 4096;
        assert!(raw(entry, RawData::None).contains("metadata pointer"));
        let mut entry = Entry::new(0x02, 0, 1);
        entry.cdw0.set_fuse(1);
        assert!(raw(entry, RawData::None).contains("neither fused commands"));
        let sent = RawData::ToDevice(Payload::copy_of(b"four").unwrap());
        assert!(raw(Entry::new(0x82, 0, 1), sent).contains("the kernel receives the data of opcode 0x82"));
        let both = RawData::Both { buffer: Buffer::zeroed(4).unwrap(), sent_bytes: 4 };
        assert!(raw(Entry::new(0x83, 0, 1), both).contains("both ways"));
        let received = RawData::FromDevice(Buffer::zeroed(4).unwrap());
        assert!(raw(Entry::new(0x81, 0, 1), received).contains("the kernel sends the data of opcode 0x81"));
    }

    #[test]
    fn times_are_whole_milliseconds_and_never_the_kernels_own_measure() {
        let flush = passed(NvmCommand::Flush { nsid: Nsid::FIRST }).unwrap();
        let millis = |timeout| flush.within(timeout).command.timeout_ms;
        assert_eq!(millis(Duration::ZERO), 1);
        assert_eq!(millis(Duration::from_nanos(1_000_001)), 2);
        assert_eq!(millis(Duration::MAX), u32::MAX);
    }

    #[test]
    fn a_devices_status_and_a_kernels_error_are_distinguished() {
        let status = Status::LBA_OUT_OF_RANGE.with_dnr();
        let flush = passed(NvmCommand::Flush { nsid: Nsid::FIRST }).unwrap();
        let device = flush.answered(NvmeAnswer { status: status.0, result: 0 }).unwrap_err();
        assert_eq!((device.origin(), device.kind()), (Origin::Device, ErrorKind::OutOfRange));
        assert_eq!(device.nvme_status(), Some(status));
        let aborted = NvmeAnswer { status: Status::ABORT_REQUESTED.0, result: 0 };
        assert_eq!(flush.answered(aborted).unwrap_err().kind(), ErrorKind::Cancelled);
        let timed = flush.within(Duration::from_secs(1));
        assert_eq!(timed.answered(aborted).unwrap_err().kind(), ErrorKind::TimedOut);
        let kinds = [
            (EINTR, ErrorKind::TimedOut),
            (ENODEV, ErrorKind::DeviceLost),
            (EACCES, ErrorKind::Denied),
            (ENOTTY, ErrorKind::Unsupported),
            (22, ErrorKind::InvalidArgument),
        ];
        for (errno, kind) in kinds {
            let error = flush.not_sent(io::Error::from_raw_os_error(errno));
            assert_eq!((error.origin(), error.kind()), (Origin::Kernel, kind), "{error}");
            assert_eq!(error.nvme_status(), None);
        }
        let answer = flush.answered(NvmeAnswer { status: 0, result: 7 << 32 | 9 }).unwrap();
        assert_eq!((answer.dw0, answer.dw1), (9, 7));
    }
}
