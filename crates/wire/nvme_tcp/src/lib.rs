//! NVMe/TCP: bytes of a connection to typed PDUs and back, for a controller and for a host.
//!
//! The codec is sans-I/O. Types say which PDUs a peer may send in which phase:
//!
//! | a connection is | a controller has | a host has |
//! |---|---|---|
//! | not yet agreed on | `Reader<IcReq>` | `Reader<Opening>` |
//! | open | `Reader<HostPdu>`, `Writer<ControllerPdu>` | `Reader<ControllerPdu>`, `Writer<HostPdu>` |
//!
//! The second row is made from the first and an [`Agreement`], which only ICReq and ICResp make.
//!
//! ```
//! use byway_nvme_tcp::*;
//!
//! // The host asks.
//! let proposal = IcReq { digests: Digests::BOTH, ..IcReq::default() };
//! let wire = proposal.encode();
//!
//! // The controller answers.
//! let mut opening = Reader::<IcReq>::new();
//! let Some(Incoming::Pdu { pdu: asked, .. }) = opening.next(&mut &wire[..])? else { panic!() };
//! let (answer, agreed) = asked.answer(&Offer::default());
//! let mut controller = opening.open(&agreed);
//!
//! // The host has the same agreement, and sends a command with its data.
//! let mut opening = Reader::<Opening>::new();
//! let Some(Incoming::Pdu { pdu: Opening::Accepted(answer), .. }) = opening.next(&mut &answer.encode()[..])? else { panic!() };
//! let agreed = proposal.accept(&answer)?;
//! let write = byway_spec::Command::new(0x01, 7, 1);
//! let mut wire = Vec::new();
//! Writer::<HostPdu>::new(&agreed).command(&write, &[b"some data"]).append_to(&mut wire);
//!
//! // The reader returns the PDU, its data as slices of the received bytes, and the digest check.
//! let mut received = &wire[..];
//! let Some(Incoming::Pdu { pdu: HostPdu::Command(got), data_bytes: 9 }) = controller.next(&mut received)? else { panic!() };
//! assert_eq!(got, write);
//! assert_eq!(controller.next(&mut received)?, Some(Incoming::Data(b"some data")));
//! assert_eq!(controller.next(&mut received)?, Some(Incoming::End(DataCheck::Intact)));
//! # Ok::<(), Violation>(())
//! ```
//!
//! A protocol error of the peer is a [`Violation`]: it knows the Fatal Error Status and the field for the termination
//! request that answers it ([`Reader::refuse`]). A wrong data digest is no violation: the command fails, and the
//! connection continues.
//!
//! Source: NVMe/TCP Transport Specification 1.1.
#![forbid(unsafe_code)]

mod digest;
mod handshake;
mod ident;
mod layout;
mod pdu;
mod reader;
mod transfer;
mod violation;
mod writer;

pub use digest::{Digest, Digests};
pub use handshake::{Agreement, Alignment, IcReq, IcResp, Offer};
pub use ident::{CommandId, TransferTag};
pub use pdu::{C2hData, C2hEnd, ControllerPdu, Dialect, H2cData, HostPdu, Opening, ReadyToTransfer, TermReq};
pub use reader::{DataCheck, Incoming, Reader};
pub use transfer::{Accepted, Grant, Inbound, Outbound, Solicitations};
pub use violation::{Field, Violation};
pub use writer::{Frame, HEAD_BYTES_MAX, Writer};
