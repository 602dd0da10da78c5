//! PDUs of each side as types, and which may come in which phase.

use byway_spec::tcp::{self, CommonHeader, FatalStatus, PduType};
use byway_spec::{Command, Completion};
use zerocopy::FromBytes;

use crate::{CommandId, IcReq, IcResp, TransferTag, Violation};

/// H2CData: part of the data that an R2T requested. The PDU's data gives its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct H2cData {
    /// The command.
    pub command: CommandId,
    /// The R2T.
    pub tag: TransferTag,
    /// Where it belongs, from the start of the command's buffer.
    pub offset_bytes: u32,
    /// The last of that R2T.
    pub last: bool,
}

/// C2HData: part of the data that a command reads. The PDU's data gives its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct C2hData {
    /// The command.
    pub command: CommandId,
    /// Where it belongs, from the start of the command's buffer.
    pub offset_bytes: u32,
    /// What follows this PDU.
    pub end: C2hEnd,
}

/// What follows a C2HData PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum C2hEnd {
    /// More data of the command.
    More,
    /// The command's response: this was the last data.
    Response,
    /// Nothing (SUCCESS): this was the last data, and the command succeeded with result 0. Only for hosts that
    /// disabled flow control in Connect, since no response reports the queue's head to them.
    Success,
}

/// R2T: the controller can take a part of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToTransfer {
    /// The command.
    pub command: CommandId,
    /// Tag that the requested data repeats.
    pub tag: TransferTag,
    /// Where the part begins, from the start of the command's buffer.
    pub offset_bytes: u32,
    /// How much it is; not 0.
    pub bytes: u32,
}

/// H2CTermReq or C2HTermReq: the peer gives the connection up. The data is the header that it found fault with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermReq {
    /// FES.
    pub status: FatalStatus,
    /// FEI: a byte of the header, or the header digest the peer received.
    pub information: u32,
}

/// PDUs of a host on an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPdu {
    /// CapsuleCmd, with its in-capsule data if it has some.
    Command(Command),
    /// H2CData.
    Data(H2cData),
    /// H2CTermReq.
    Terminate(TermReq),
}

/// PDUs of a controller on an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerPdu {
    /// CapsuleResp.
    Response(Completion),
    /// C2HData.
    Data(C2hData),
    /// R2T.
    ReadyToTransfer(ReadyToTransfer),
    /// C2HTermReq.
    Terminate(TermReq),
}

/// PDUs that a controller may send in reply to ICReq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// ICResp.
    Accepted(IcResp),
    /// C2HTermReq.
    Refused(TermReq),
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::IcReq {}
    impl Sealed for super::Opening {}
    impl Sealed for super::HostPdu {}
    impl Sealed for super::ControllerPdu {}
}

/// The PDUs that one side may send in one phase of a connection.
pub trait Dialect: Sized + sealed::Sealed {
    /// The PDU by which the receiver gives the connection up.
    #[doc(hidden)]
    const TERM_REQ: PduType;

    /// Accepts or refuses a PDU type from that side in this phase.
    #[doc(hidden)]
    fn admit(kind: PduType) -> Result<(), Violation>;

    /// Parses a header whose length and digest are right, followed by `data_bytes` of data.
    #[doc(hidden)]
    fn parse(kind: PduType, header: &[u8], data_bytes: u32) -> Result<Self, Violation>;
}

impl Dialect for IcReq {
    const TERM_REQ: PduType = PduType::C2H_TERM_REQ;

    fn admit(kind: PduType) -> Result<(), Violation> {
        match kind {
            PduType::IC_REQ => Ok(()),
            PduType::H2C_TERM_REQ | PduType::CAPSULE_CMD | PduType::H2C_DATA => {
                Err(Violation::OutOfSequence(kind))
            }
            _ => Err(Violation::UnknownType(kind)),
        }
    }

    fn parse(kind: PduType, header: &[u8], _: u32) -> Result<Self, Violation> {
        Self::parse(&raw(kind, header)?)
    }
}

impl Dialect for Opening {
    const TERM_REQ: PduType = PduType::H2C_TERM_REQ;

    fn admit(kind: PduType) -> Result<(), Violation> {
        match kind {
            PduType::IC_RESP | PduType::C2H_TERM_REQ => Ok(()),
            PduType::CAPSULE_RESP | PduType::C2H_DATA | PduType::R2T => Err(Violation::OutOfSequence(kind)),
            _ => Err(Violation::UnknownType(kind)),
        }
    }

    fn parse(kind: PduType, header: &[u8], _: u32) -> Result<Self, Violation> {
        match kind {
            PduType::IC_RESP => IcResp::parse(&raw(kind, header)?).map(Self::Accepted),
            _ => Ok(Self::Refused(term_req(kind, header)?)),
        }
    }
}

impl Dialect for HostPdu {
    const TERM_REQ: PduType = PduType::C2H_TERM_REQ;

    fn admit(kind: PduType) -> Result<(), Violation> {
        match kind {
            PduType::CAPSULE_CMD | PduType::H2C_DATA | PduType::H2C_TERM_REQ => Ok(()),
            PduType::IC_REQ => Err(Violation::OutOfSequence(kind)),
            _ => Err(Violation::UnknownType(kind)),
        }
    }

    fn parse(kind: PduType, header: &[u8], data_bytes: u32) -> Result<Self, Violation> {
        match kind {
            PduType::CAPSULE_CMD => Ok(Self::Command(raw::<tcp::CapsuleCmd>(kind, header)?.sqe)),
            PduType::H2C_DATA => h2c_data(&data(kind, header, data_bytes)?).map(Self::Data),
            _ => Ok(Self::Terminate(term_req(kind, header)?)),
        }
    }
}

impl Dialect for ControllerPdu {
    const TERM_REQ: PduType = PduType::H2C_TERM_REQ;

    fn admit(kind: PduType) -> Result<(), Violation> {
        match kind {
            PduType::CAPSULE_RESP | PduType::C2H_DATA | PduType::R2T | PduType::C2H_TERM_REQ => Ok(()),
            PduType::IC_RESP => Err(Violation::OutOfSequence(kind)),
            _ => Err(Violation::UnknownType(kind)),
        }
    }

    fn parse(kind: PduType, header: &[u8], data_bytes: u32) -> Result<Self, Violation> {
        match kind {
            PduType::CAPSULE_RESP => Ok(Self::Response(raw::<tcp::CapsuleResp>(kind, header)?.cqe)),
            PduType::C2H_DATA => c2h_data(&data(kind, header, data_bytes)?).map(Self::Data),
            PduType::R2T => ready_to_transfer(&raw(kind, header)?).map(Self::ReadyToTransfer),
            _ => Ok(Self::Terminate(term_req(kind, header)?)),
        }
    }
}

/// The header as its structure. Its length is right: [`Layout`](crate::layout::Layout) has checked it.
fn raw<T: FromBytes>(kind: PduType, header: &[u8]) -> Result<T, Violation> {
    T::read_from_bytes(header).map_err(|_| Violation::HeaderLength {
        kind,
        hlen_bytes: header.len() as u8,
        expected_bytes: size_of::<T>() as u8,
    })
}

fn data(kind: PduType, header: &[u8], data_bytes: u32) -> Result<tcp::DataPdu, Violation> {
    let raw: tcp::DataPdu = raw(kind, header)?;
    let datal_bytes = raw.datal_bytes.get();
    if datal_bytes != data_bytes {
        return Err(Violation::DataLength { datal_bytes, data_bytes });
    }
    Ok(raw)
}

fn h2c_data(raw: &tcp::DataPdu) -> Result<H2cData, Violation> {
    Ok(H2cData {
        command: CommandId(raw.cccid.get()),
        tag: TransferTag(raw.ttag.get()),
        offset_bytes: raw.datao_bytes.get(),
        last: raw.common.flags.last(),
    })
}

fn c2h_data(raw: &tcp::DataPdu) -> Result<C2hData, Violation> {
    let end = match (raw.common.flags.last(), raw.common.flags.success()) {
        (true, true) => C2hEnd::Success,
        (true, false) => C2hEnd::Response,
        (false, false) => C2hEnd::More,
        (false, true) => return Err(Violation::SuccessBeforeLast),
    };
    Ok(C2hData { command: CommandId(raw.cccid.get()), offset_bytes: raw.datao_bytes.get(), end })
}

fn ready_to_transfer(raw: &tcp::R2t) -> Result<ReadyToTransfer, Violation> {
    if raw.r2tl_bytes.get() == 0 {
        return Err(Violation::EmptyR2t);
    }
    Ok(ReadyToTransfer {
        command: CommandId(raw.cccid.get()),
        tag: TransferTag(raw.ttag.get()),
        offset_bytes: raw.r2to_bytes.get(),
        bytes: raw.r2tl_bytes.get(),
    })
}

fn term_req(kind: PduType, header: &[u8]) -> Result<TermReq, Violation> {
    let raw: tcp::TermReq = raw(kind, header)?;
    Ok(TermReq { status: FatalStatus(raw.fes.get()), information: raw.fei.get() })
}

/// Whether a connection ends with this PDU.
pub(crate) const fn is_terminal(common: &CommonHeader) -> bool {
    matches!(common.kind, PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ)
}
