//! A command of the NVM command set as a request to a file: the one place that distinguishes opcodes.

use byway_core::encode::{self, Data};
use byway_core::{Buffer, Command, Error, ErrorKind, Memory, Nsid, NvmCommand, Payload, Refused, Result};
use byway_spec::nvm::{CopyCdw12, CopyRange, DsmCdw10, DsmCdw11, DsmRange, NvmCdw12, NvmOpcode};
use byway_spec::{Cdw0, Command as Entry};
use byway_sys::Transfer;
use zerocopy::FromBytes;

use crate::target::Shape;

/// A range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub at: u64,
    /// Length in bytes.
    pub len: u64,
}

/// What a command asks of a file. Its data stays with the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Reads the span into the command's memory.
    Read(Span),
    /// Writes the command's memory to the span; with `fua`, durably.
    Write { to: Span, fua: bool },
    /// Makes completed writes durable.
    Flush,
    /// Makes the span read as zeroes; with `free`, giving its space back.
    WriteZeroes { of: Span, free: bool },
    /// Gives the space of the first ranges in the command's data back.
    Deallocate { ranges: usize },
    /// Does nothing: a hint that a file has no use for.
    Hint,
    /// Compares the span with the command's memory.
    Compare(Span),
    /// Reads the span to see that it can be.
    Verify(Span),
    /// Copies the first ranges in the command's data to a byte offset on.
    Copy { to: u64, ranges: usize },
}

impl Request {
    /// What `command` asks of a namespace of this shape.
    ///
    /// # Errors
    /// What an NVMe controller would refuse: another command set, a range outside the namespace, data whose length is
    /// not that of the range; and what the system would: memory that is not aligned as direct reads and writes need.
    #[inline]
    pub(crate) fn of(command: &Command, shape: &Shape) -> Result<Self> {
        match command {
            Command::Nvm(NvmCommand::Read { nsid, slba, blocks, into }) => {
                shape.read(*nsid, *slba, *blocks, into)
            }
            Command::Nvm(NvmCommand::Write { nsid, slba, blocks, data: Payload::Buffer(data) }) => {
                shape.write(*nsid, *slba, *blocks, data)
            }
            other => Self::of_entry(other, shape),
        }
    }

    /// What `command` asks, and its memory, if `admit` has no objection; that is asked first, and given the command's
    /// one buffer.
    ///
    /// A read or write is parsed before anything else looks at it: a command that was built where it is submitted
    /// then never has to be in memory as a whole.
    ///
    /// # Errors
    /// As [`Request::of`]; the command is given back.
    #[inline(always)]
    pub(crate) fn take<T>(
        command: Command,
        shape: &Shape,
        admit: impl FnOnce(Option<&Buffer>) -> Result<T>,
    ) -> Result<(Self, Memory, T), Refused> {
        match command {
            Command::Nvm(NvmCommand::Read { nsid, slba, blocks, into }) => {
                match with(admit(Some(&into)), shape.read(nsid, slba, blocks, &into)) {
                    Ok((request, admitted)) => Ok((request, Memory::Buffer(into), admitted)),
                    Err(error) => Err(refuse(NvmCommand::Read { nsid, slba, blocks, into }.into(), error)),
                }
            }
            Command::Nvm(NvmCommand::Write { nsid, slba, blocks, data: Payload::Buffer(data) }) => {
                match with(admit(Some(&data)), shape.write(nsid, slba, blocks, &data)) {
                    Ok((request, admitted)) => Ok((request, Memory::Buffer(data), admitted)),
                    Err(error) => {
                        let data = Payload::Buffer(data);
                        Err(refuse(NvmCommand::Write { nsid, slba, blocks, data }.into(), error))
                    }
                }
            }
            other => match with(admit(None), Self::of_entry(&other, shape)) {
                Ok((request, admitted)) => Ok((request, other.into_memory(), admitted)),
                Err(error) => Err(refuse(other, error)),
            },
        }
    }

    /// The same as a transfer, where it is one: what every asynchronous interface of the kernel can do.
    #[inline]
    pub fn transfer(self) -> Option<Transfer> {
        match self {
            Self::Read(span) => Some(Transfer::Read { at: span.at }),
            Self::Write { to, fua } => Some(Transfer::Write { at: to.at, durable: fua }),
            Self::Flush => Some(Transfer::Sync),
            _ => None,
        }
    }

    /// By the command's encoding: every other command, typed or passed through.
    #[inline(never)]
    fn of_entry(command: &Command, shape: &Shape) -> Result<Self> {
        if let Command::Kv(_) = command {
            let said = "a namespace of blocks takes no commands of the Key Value command set";
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        encode::check(command)?;
        let encoded = encode::encode(command);
        let entry = &encoded.entry;
        if entry.cdw0.fuse() != Cdw0::FUSE_NONE {
            return Err(fused());
        }
        let opcode = NvmOpcode(entry.opcode());
        let request = match opcode {
            NvmOpcode::READ => Self::Read(shape.span_of(entry)?),
            NvmOpcode::WRITE => {
                let fua = NvmCdw12::from_bits(entry.cdw12).fua();
                Self::Write { to: shape.span_of(entry)?, fua }
            }
            NvmOpcode::COMPARE => Self::Compare(shape.span_of(entry)?),
            NvmOpcode::VERIFY => Self::Verify(shape.span_of(entry)?),
            NvmOpcode::WRITE_ZEROES => {
                let free = NvmCdw12::from_bits(entry.cdw12).deac();
                Self::WriteZeroes { of: shape.span_of(entry)?, free }
            }
            NvmOpcode::FLUSH => Self::Flush,
            NvmOpcode::DATASET_MANAGEMENT => shape.deallocate(entry, encoded.data)?,
            NvmOpcode::COPY => shape.copy(entry, encoded.data)?,
            _ => {
                let said = format!("files and block devices take no command with opcode {:02x}h", opcode.0);
                return Err(Error::host(ErrorKind::Unsupported, said));
            }
        };
        request.check_data(encoded.data, shape)?;
        Ok(request)
    }

    fn check_data(self, data: Data<'_>, shape: &Shape) -> Result<()> {
        match (self, data) {
            (Self::Read(span), Data::In(into)) => {
                shape.check_memory(span, into.len(), std::slice::from_ref(into))
            }
            (Self::Read(span), Data::InVectored(into)) => shape.check_memory(span, data.len(), into),
            (Self::Write { to: span, .. } | Self::Compare(span), Data::Out(payload)) => {
                if !matches!(self, Self::Compare(_)) {
                    shape.check_writable()?;
                }
                let parts = match payload {
                    Payload::Buffer(buffer) => std::slice::from_ref(buffer),
                    Payload::Vectored(parts) => parts,
                    Payload::Empty | Payload::Small(_) => &[],
                };
                shape.check_memory(span, payload.len(), parts)
            }
            (Self::WriteZeroes { .. } | Self::Deallocate { .. } | Self::Copy { .. }, _) => {
                shape.check_writable()
            }
            (Self::Flush | Self::Verify(_) | Self::Hint, _) => Ok(()),
            (Self::Read(_) | Self::Write { .. } | Self::Compare(_), _) => {
                Err(Error::host(ErrorKind::InvalidArgument, "the command's data goes the other way"))
            }
        }
    }
}

#[inline(always)]
fn with<T>(admitted: Result<T>, request: Result<Request>) -> Result<(Request, T)> {
    let admitted = admitted?;
    Ok((request?, admitted))
}

#[cold]
fn refuse(command: Command, error: Error) -> Refused {
    Refused { command, error }
}

impl Shape {
    #[inline(always)]
    fn read(&self, nsid: Nsid, slba: u64, blocks: u32, into: &Buffer) -> Result<Request> {
        let span = self.span(nsid, slba, blocks)?;
        self.check_memory(span, into.len(), std::slice::from_ref(into))?;
        Ok(Request::Read(span))
    }

    #[inline(always)]
    fn write(&self, nsid: Nsid, slba: u64, blocks: u32, data: &Buffer) -> Result<Request> {
        let span = self.span(nsid, slba, blocks)?;
        self.check_memory(span, data.len(), std::slice::from_ref(data))?;
        self.check_writable()?;
        Ok(Request::Write { to: span, fua: false })
    }

    #[inline]
    fn span_of(&self, entry: &Entry) -> Result<Span> {
        let blocks = u32::from(NvmCdw12::from_bits(entry.cdw12).nlb_z()) + 1;
        self.span(Nsid::new(entry.nsid)?, entry.cdw10_11(), blocks)
    }

    /// The bytes of a range of blocks.
    #[inline(always)]
    pub(crate) fn span(&self, nsid: Nsid, slba: u64, blocks: u32) -> Result<Span> {
        let inside = slba.checked_add(blocks.into()).is_some_and(|end| end <= self.blocks);
        if nsid != Nsid::FIRST || !inside || blocks.wrapping_sub(1) > u32::from(u16::MAX) {
            return Err(self.outside(nsid, slba, blocks));
        }
        let len = u64::from(blocks) << self.lba_shift;
        if len > self.transfer_max_bytes {
            let said = format!("{len} bytes are over the limit of {} bytes", self.transfer_max_bytes);
            return Err(Error::host(ErrorKind::TooLarge, said));
        }
        Ok(Span { at: slba << self.lba_shift, len })
    }

    #[cold]
    fn outside(&self, nsid: Nsid, slba: u64, blocks: u32) -> Error {
        if nsid != Nsid::FIRST {
            let said = format!("there is no namespace {nsid}; a file is namespace 1");
            return Error::host(ErrorKind::NotFound, said);
        }
        if let Err(wrong) = byway_core::blocks_z(blocks) {
            return wrong;
        }
        let said =
            format!("{blocks} blocks from {slba} on are outside a namespace of {} blocks", self.blocks);
        Error::host(ErrorKind::OutOfRange, said)
    }

    /// Refuses memory of another length than the span's, or that direct reads and writes cannot use.
    #[inline(always)]
    fn check_memory(&self, span: Span, len: usize, parts: &[Buffer]) -> Result<()> {
        if len as u64 != span.len {
            let said = format!("{len} bytes of data for {} bytes of blocks", span.len);
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        let mask = self.align_bytes as usize - 1;
        if mask != 0 && parts.iter().any(|part| (part.as_ptr().addr().get() | part.len()) & mask != 0) {
            let said = format!(
                "a buffer begins or ends off a multiple of {} bytes, which reading and writing past the page cache needs",
                self.align_bytes
            );
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        Ok(())
    }

    #[inline]
    fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::host(ErrorKind::Denied, "it was opened for reading alone"));
        }
        Ok(())
    }

    fn deallocate(&self, entry: &Entry, data: Data<'_>) -> Result<Request> {
        if !DsmCdw11::from_bits(entry.cdw11).ad() {
            return Ok(Request::Hint);
        }
        let ranges = usize::from(DsmCdw10::from_bits(entry.cdw10).nr_z()) + 1;
        let mut given = 0;
        for range in dsm_ranges(ranges_of(data)?).take(ranges) {
            self.byte_range(range.slba, range.nlb.into())?;
            given += 1;
        }
        check_given(ranges, given)?;
        Ok(Request::Deallocate { ranges })
    }

    fn copy(&self, entry: &Entry, data: Data<'_>) -> Result<Request> {
        let cdw12 = CopyCdw12::from_bits(entry.cdw12);
        if cdw12.desfmt() != 0 {
            return Err(Error::host(ErrorKind::Unsupported, "a copy's ranges are in descriptor format 0"));
        }
        let ranges = usize::from(cdw12.nr_z()) + 1;
        let (mut given, mut blocks) = (0, 0);
        for range in copy_ranges(ranges_of(data)?).take(ranges) {
            self.byte_range(range.slba, u64::from(range.nlb_z) + 1)?;
            blocks += u64::from(range.nlb_z) + 1;
            given += 1;
        }
        check_given(ranges, given)?;
        Ok(Request::Copy { to: self.byte_range(entry.cdw10_11(), blocks)?.at, ranges })
    }

    /// The bytes of a range of any number of blocks.
    pub(crate) fn byte_range(&self, slba: u64, blocks: u64) -> Result<Span> {
        if slba.checked_add(blocks).is_none_or(|end| end > self.blocks) {
            let said =
                format!("{blocks} blocks from {slba} on are outside a namespace of {} blocks", self.blocks);
            return Err(Error::host(ErrorKind::OutOfRange, said));
        }
        Ok(Span { at: slba << self.lba_shift, len: blocks << self.lba_shift })
    }
}

/// The ranges of a Dataset Management command.
pub(crate) fn dsm_ranges(bytes: &[u8]) -> impl Iterator<Item = DsmRange> {
    bytes.chunks_exact(size_of::<DsmRange>()).filter_map(|range| DsmRange::read_from_bytes(range).ok())
}

/// The ranges of a Copy command.
pub(crate) fn copy_ranges(bytes: &[u8]) -> impl Iterator<Item = CopyRange> {
    bytes.chunks_exact(size_of::<CopyRange>()).filter_map(|range| CopyRange::read_from_bytes(range).ok())
}

/// A file has no operation for two fused commands.
#[cold]
fn fused() -> Error {
    Error::host(ErrorKind::Unsupported, "files and block devices do no two commands as one (fused)")
}

fn ranges_of(data: Data<'_>) -> Result<&[u8]> {
    let wrong = || Error::host(ErrorKind::InvalidArgument, "the ranges stand in one piece of memory");
    match data {
        Data::Out(payload) => payload.contiguous().ok_or_else(wrong),
        Data::None | Data::In(_) | Data::InVectored(_) | Data::Both { .. } => Err(wrong()),
    }
}

fn check_given(announced: usize, given: usize) -> Result<()> {
    if given < announced {
        let said = format!("the command announces {announced} ranges and brings {given}");
        return Err(Error::host(ErrorKind::InvalidArgument, said));
    }
    Ok(())
}
