//! The writer: PDUs in, bytes out, with data copied or left where it is.

use core::marker::PhantomData;

use byway_spec::tcp::{self, CommonHeader, DIGEST_BYTES, PduFlags, PduType};
use byway_spec::{Command, Completion};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{Immutable, IntoBytes};

use crate::layout::Shape;
use crate::pdu::C2hEnd;
use crate::{
    Agreement, Alignment, C2hData, ControllerPdu, Digest, Digests, H2cData, HostPdu, ReadyToTransfer,
};

/// Most bytes before the data of a PDU: a command and its digest, padded to 72 bytes and so to twice as much.
pub const HEAD_BYTES_MAX: usize = longest_head();

const fn longest_head() -> usize {
    let (mut longest, mut dwords) = (0, 1);
    while dwords <= 32 {
        let head_bytes = (size_of::<tcp::CapsuleCmd>() + DIGEST_BYTES).next_multiple_of(4 * dwords);
        if head_bytes > longest {
            longest = head_bytes;
        }
        dwords += 1;
    }
    longest
}

/// PDUs in, bytes out, for one side of an open connection.
///
/// PLEN has 32 bits: data of 4 GiB in one PDU is a fault of the caller's, and panics.
#[derive(Debug, Clone, Copy)]
pub struct Writer<P> {
    digests: Digests,
    /// Bytes before the data of a command and of a data PDU: multiples of the other side's alignment.
    command_head_bytes: u8,
    data_head_bytes: u8,
    side: PhantomData<P>,
}

impl Writer<HostPdu> {
    /// A host's.
    pub const fn new(agreed: &Agreement) -> Self {
        Self::aligned(agreed.digests(), agreed.to_controller())
    }

    /// CapsuleCmd, with `data` as its in-capsule data.
    pub fn command<'d>(&self, command: &Command, data: &'d [&'d [u8]]) -> Frame<'d> {
        let (common, parts) = self.plan(PduType::CAPSULE_CMD, data);
        parts.finish(&tcp::CapsuleCmd { common, sqe: *command })
    }

    /// H2CData. Data that is empty says nothing, and a controller refuses it.
    pub fn data<'d>(&self, at: &H2cData, data: &'d [&'d [u8]]) -> Frame<'d> {
        let (mut common, parts) = self.plan(PduType::H2C_DATA, data);
        common.flags.set_last(at.last);
        parts.finish(&tcp::DataPdu {
            common,
            cccid: U16::new(at.command.0),
            ttag: U16::new(at.tag.0),
            datao_bytes: U32::new(at.offset_bytes),
            datal_bytes: U32::new(parts.data_bytes),
            reserved_20: [0; 4],
        })
    }
}

impl Writer<ControllerPdu> {
    /// A controller's.
    pub const fn new(agreed: &Agreement) -> Self {
        Self::aligned(agreed.digests(), agreed.to_host())
    }

    /// CapsuleResp.
    pub fn response(&self, completion: &Completion) -> Frame<'static> {
        let (common, parts) = self.plan(PduType::CAPSULE_RESP, &[]);
        parts.finish(&tcp::CapsuleResp { common, cqe: *completion })
    }

    /// C2HData. Data that is empty says nothing, and a host refuses it.
    pub fn data<'d>(&self, at: &C2hData, data: &'d [&'d [u8]]) -> Frame<'d> {
        let (mut common, parts) = self.plan(PduType::C2H_DATA, data);
        common.flags.set_last(at.end != C2hEnd::More);
        common.flags.set_success(at.end == C2hEnd::Success);
        parts.finish(&tcp::DataPdu {
            common,
            cccid: U16::new(at.command.0),
            ttag: U16::ZERO,
            datao_bytes: U32::new(at.offset_bytes),
            datal_bytes: U32::new(parts.data_bytes),
            reserved_20: [0; 4],
        })
    }

    /// R2T.
    pub fn ready_to_transfer(&self, asked: &ReadyToTransfer) -> Frame<'static> {
        let (common, parts) = self.plan(PduType::R2T, &[]);
        parts.finish(&tcp::R2t {
            common,
            cccid: U16::new(asked.command.0),
            ttag: U16::new(asked.tag.0),
            r2to_bytes: U32::new(asked.offset_bytes),
            r2tl_bytes: U32::new(asked.bytes),
            reserved_20: [0; 4],
        })
    }
}

impl<P> Writer<P> {
    const fn aligned(digests: Digests, alignment: Alignment) -> Self {
        let digest_bytes = if digests.header { DIGEST_BYTES } else { 0 };
        let alignment_bytes = alignment.bytes() as usize;
        let command = (size_of::<tcp::CapsuleCmd>() + digest_bytes).next_multiple_of(alignment_bytes);
        let data = (size_of::<tcp::DataPdu>() + digest_bytes).next_multiple_of(alignment_bytes);
        Self { digests, command_head_bytes: command as u8, data_head_bytes: data as u8, side: PhantomData }
    }

    /// Bytes before the data of a data PDU: for data that is made where it is sent from.
    #[inline]
    pub fn data_head_bytes(&self) -> usize {
        usize::from(self.data_head_bytes)
    }

    /// Whether data has a digest.
    #[inline]
    pub fn digests_data(&self) -> bool {
        self.digests.data
    }

    #[inline]
    fn plan<'d>(&self, kind: PduType, data: &'d [&'d [u8]]) -> (CommonHeader, Parts<'d>) {
        let header_bytes = Shape::of(kind).map_or(0, |shape| usize::from(shape.header_bytes));
        let bare_bytes = header_bytes + if self.digests.header { DIGEST_BYTES } else { 0 };
        let data_bytes: usize = data.iter().map(|piece| piece.len()).sum();
        let has_data = data_bytes > 0;
        let digest = has_data && self.digests.data;
        let head_bytes = match (has_data, kind) {
            (true, PduType::CAPSULE_CMD) => usize::from(self.command_head_bytes),
            (true, _) => usize::from(self.data_head_bytes),
            (false, _) => bare_bytes,
        };
        let plen_bytes = head_bytes + data_bytes + if digest { DIGEST_BYTES } else { 0 };
        let common = CommonHeader {
            kind,
            flags: PduFlags::new().with_header_digest(self.digests.header).with_data_digest(digest),
            hlen_bytes: header_bytes as u8,
            pdo_bytes: if has_data { head_bytes as u8 } else { 0 },
            plen_bytes: U32::new(u32::try_from(plen_bytes).expect("a PDU has less than 4 GiB")),
        };
        let data_bytes = data_bytes as u32;
        (
            common,
            Parts { head_bytes, data, data_bytes, header_digest: self.digests.header, data_digest: digest },
        )
    }
}

/// The parts of a PDU.
#[derive(Clone, Copy)]
struct Parts<'d> {
    head_bytes: usize,
    data: &'d [&'d [u8]],
    data_bytes: u32,
    header_digest: bool,
    data_digest: bool,
}

impl<'d> Parts<'d> {
    #[inline]
    fn finish<H: IntoBytes + Immutable>(self, header: &H) -> Frame<'d> {
        let header = header.as_bytes();
        let mut head = [0; HEAD_BYTES_MAX];
        let (front, behind) = head.split_at_mut(header.len());
        front.copy_from_slice(header);
        if self.header_digest {
            behind[..DIGEST_BYTES].copy_from_slice(&Digest::of(header).to_bytes());
        }
        Frame { head, head_bytes: self.head_bytes as u8, data: self.data, data_digest: self.data_digest }
    }
}

/// One PDU, ready to be sent: its head, its data where it lies, and the digest of that.
///
/// Digests are computed on demand. A small PDU is best appended to the send buffer, in one pass that copies and
/// digests. A large one is best sent from its place by a gathering system call.
#[derive(Debug, Clone)]
pub struct Frame<'d> {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    data: &'d [&'d [u8]],
    data_digest: bool,
}

impl<'d> Frame<'d> {
    /// Header, header digest and padding.
    #[inline]
    pub fn head(&self) -> &[u8] {
        self.head.get(..usize::from(self.head_bytes)).unwrap_or_default()
    }

    /// The data.
    pub const fn data(&self) -> &'d [&'d [u8]] {
        self.data
    }

    /// The data digest, if the connection has one: reads the data.
    pub fn tail(&self) -> Option<[u8; DIGEST_BYTES]> {
        self.data_digest.then(|| {
            let mut digest = Digest::new();
            self.data.iter().for_each(|piece| digest.update(piece));
            digest.to_bytes()
        })
    }

    /// As [`Self::tail`], for a digest that may be known already.
    pub fn tail_by(&self, known: Option<Digest>) -> Option<[u8; DIGEST_BYTES]> {
        match known {
            Some(digest) if self.data_digest => Some(digest.to_bytes()),
            _ => self.tail(),
        }
    }

    /// Appends the whole PDU: the data is read once, for the copy and the digest.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head());
        if !self.data_digest {
            self.data.iter().for_each(|piece| out.extend_from_slice(piece));
            return;
        }
        let mut digest = Digest::new();
        self.data.iter().for_each(|piece| digest.append(piece, out));
        out.extend_from_slice(&digest.to_bytes());
    }
}
