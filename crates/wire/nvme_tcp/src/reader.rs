//! The incremental reader: bytes in, PDUs out, data lent from where it was received.

use core::marker::PhantomData;

use byway_spec::tcp::{self, COMMON_HEADER_BYTES, CommonHeader, DIGEST_BYTES};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::layout::{HEADER_BYTES_MAX, Layout, Rules, Shape, common};
use crate::pdu::is_terminal;
use crate::{Agreement, ControllerPdu, Dialect, Digest, HostPdu, IcReq, Opening, Violation};

/// An item read from the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming<'a, P> {
    /// A header. If `data_bytes` is not 0, that much data follows, in any number of pieces, and then an end.
    Pdu {
        /// The PDU.
        pdu: P,
        /// Bytes of data.
        data_bytes: u32,
    },
    /// The next piece of the data, where it was received.
    Data(&'a [u8]),
    /// All data of the PDU was received.
    End(DataCheck),
}

/// Result of the data digest check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataCheck {
    /// The digest matches, or this connection has none.
    Intact,
    /// The digest differs. The command must fail with Transient Transport Error; the connection continues.
    Corrupt {
        /// Digest of the received data.
        computed: u32,
        /// The received digest.
        received: u32,
    },
}

/// What the reader expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The common header.
    Common,
    /// The rest of the header, and its digest.
    Header,
    /// Padding: remaining bytes.
    Padding(u8),
    /// Data: remaining bytes.
    Data(u32),
    /// The data digest.
    DataDigest,
    /// Nothing: all data was returned, and there is no digest.
    End,
    /// Nothing more: the peer gave the connection up.
    Terminated,
    /// Nothing more: the peer broke a rule.
    Broken(Violation),
}

/// Turns bytes into PDUs, for one side of one connection in one phase.
///
/// It keeps one header and never data, whatever a peer says: some 300 bytes a connection.
#[derive(Debug, Clone)]
pub struct Reader<P> {
    rules: Rules,
    state: State,
    /// The header of the current PDU, and its digest.
    head: [u8; HEADER_BYTES_MAX + DIGEST_BYTES],
    head_have: u8,
    /// Bytes of `head`, without the digest, that a termination request can repeat.
    header_bytes: u8,
    layout: Layout,
    data_digest: Digest,
    tail: [u8; DIGEST_BYTES],
    tail_have: u8,
    dialect: PhantomData<P>,
}

impl Reader<IcReq> {
    /// A controller's, at the beginning of a connection.
    #[expect(clippy::new_without_default, reason = "a connection has a beginning, not a default")]
    pub fn new() -> Self {
        Self::with_rules(Rules::OPENING)
    }

    /// The reader of the open connection. Commands may carry 8192 bytes of in-capsule data.
    pub fn open(self, agreed: &Agreement) -> Reader<HostPdu> {
        Reader::with_rules(Rules::of(agreed, agreed.to_controller()))
    }
}

impl Reader<HostPdu> {
    /// Sets the limit of in-capsule data, once Connect has named the queue: IOCCSZ · 16 − 64 for I/O queues. Fabrics
    /// commands may carry 8192 bytes on any queue, so the limit is never below that.
    pub fn set_capsule_data_bytes(&mut self, limit_bytes: u32) {
        self.rules.capsule_data_bytes = limit_bytes.max(tcp::ADMIN_CAPSULE_DATA_BYTES);
    }
}

impl Reader<Opening> {
    /// A host's, at the beginning of a connection.
    #[expect(clippy::new_without_default, reason = "a connection has a beginning, not a default")]
    pub fn new() -> Self {
        Self::with_rules(Rules::OPENING)
    }

    /// What follows.
    pub fn open(self, agreed: &Agreement) -> Reader<ControllerPdu> {
        Reader::with_rules(Rules::of(agreed, agreed.to_host()))
    }
}

impl<P: Dialect> Reader<P> {
    fn with_rules(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Common,
            head: [0; _],
            head_have: 0,
            header_bytes: 0,
            layout: Layout::default(),
            data_digest: Digest::new(),
            tail: [0; _],
            tail_have: 0,
            dialect: PhantomData,
        }
    }

    /// The next item of `input`, which is advanced past the bytes read; `None` once it is empty.
    ///
    /// # Errors
    /// When the peer broke a rule: again and again, since what follows cannot be trusted. [`Self::refuse`] says so to the
    /// peer, and the connection is to be closed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Incoming<'a, P>>, Violation> {
        let next = self.step(input);
        if let Err(violation) = next {
            self.state = State::Broken(violation);
        }
        next
    }

    /// Data bytes still to come for the current PDU, if data comes next. A receiver may receive up to this much
    /// directly into the destination buffer and pass it to [`Self::next`]: it comes out as one piece, without a copy.
    pub fn data_left_bytes(&self) -> u32 {
        match self.state {
            State::Data(left) => left,
            _ => 0,
        }
    }

    /// Whether no PDU is partly received: the connection may end here.
    pub fn is_between_pdus(&self) -> bool {
        match self.state {
            State::Common => self.head_have == 0,
            State::Terminated => true,
            _ => false,
        }
    }

    /// Reads no more, and appends the termination request that says why, with the header of the PDU that was read last.
    ///
    /// Also for violations found by the caller, which knows commands and tags; those end a connection too.
    pub fn refuse(&mut self, violation: &Violation, out: &mut Vec<u8>) {
        self.state = State::Broken(*violation);
        let header = self.head.get(..usize::from(self.header_bytes)).unwrap_or_default();
        let mut raw = tcp::TermReq {
            common: common(P::TERM_REQ, size_of::<tcp::TermReq>()),
            fes: U16::new(violation.status().0),
            fei: U32::new(violation.information()),
            reserved_14: [0; 10],
        };
        raw.common.plen_bytes += header.len() as u32;
        out.extend_from_slice(raw.as_bytes());
        out.extend_from_slice(header);
    }

    fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Incoming<'a, P>>, Violation> {
        if self.state == State::Common && !self.take_common(input)? {
            return Ok(None);
        }
        match self.state {
            State::Header => self.finish_header(input),
            State::Padding(_) | State::Data(_) => Ok(self.data(input)),
            State::DataDigest => Ok(self.finish_data(input)),
            State::End => Ok(Some(self.end(DataCheck::Intact))),
            State::Terminated => {
                *input = &[];
                Ok(None)
            }
            State::Broken(violation) => Err(violation),
            State::Common => Ok(None),
        }
    }

    /// Reads the common header, and the rest of the header if it was received, as it nearly always was: fixed-length
    /// copies are faster. False while bytes of the common header are missing.
    #[inline]
    fn take_common(&mut self, input: &mut &[u8]) -> Result<bool, Violation> {
        match input.split_first_chunk::<COMMON_HEADER_BYTES>() {
            Some((first, rest)) if self.head_have == 0 => {
                *input = rest;
                self.head[..COMMON_HEADER_BYTES].copy_from_slice(first);
                self.head_have = COMMON_HEADER_BYTES as u8;
            }
            _ if !self.fill_head(input, COMMON_HEADER_BYTES) => {
                self.header_bytes = if self.head_have > 0 { self.head_have } else { self.header_bytes };
                return Ok(false);
            }
            _ => {}
        }
        self.header_bytes = COMMON_HEADER_BYTES as u8;
        self.begin()?;
        match self.layout.head_bytes() {
            24 => self.take_rest_of_head::<16>(input),
            28 => self.take_rest_of_head::<20>(input),
            72 => self.take_rest_of_head::<64>(input),
            76 => self.take_rest_of_head::<68>(input),
            _ => {}
        }
        Ok(true)
    }

    #[inline(always)]
    fn take_rest_of_head<const BYTES: usize>(&mut self, input: &mut &[u8]) {
        if let Some((chunk, rest)) = input.split_first_chunk::<BYTES>() {
            *input = rest;
            self.head[COMMON_HEADER_BYTES..][..BYTES].copy_from_slice(chunk);
            self.head_have = (COMMON_HEADER_BYTES + BYTES) as u8;
        }
    }

    /// Judges a PDU by its first eight bytes, before a peer can have it wait for more.
    fn begin(&mut self) -> Result<(), Violation> {
        let common = self.common();
        P::admit(common.kind)?;
        let shape = Shape::of(common.kind).ok_or(Violation::UnknownType(common.kind))?;
        self.layout = Layout::parse(&common, shape, &self.rules)?;
        self.state = State::Header;
        Ok(())
    }

    fn finish_header<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Incoming<'a, P>>, Violation> {
        let head_bytes = self.layout.head_bytes();
        if self.head_have < head_bytes && !self.fill_head(input, usize::from(head_bytes)) {
            return Ok(None);
        }
        self.header_bytes = self.layout.header_bytes;
        let (header, digest) = self.head.split_at(usize::from(self.header_bytes));
        if let (true, Some(digest)) = (self.layout.header_digest, digest.first_chunk()) {
            let (computed, received) = (Digest::of(header).value(), Digest::from_bytes(*digest).value());
            if computed != received {
                return Err(Violation::HeaderDigest { computed, received });
            }
        }
        let data_bytes = self.layout.data_bytes;
        let pdu = P::parse(self.common().kind, header, data_bytes)?;
        self.begin_data();
        Ok(Some(Incoming::Pdu { pdu, data_bytes }))
    }

    fn begin_data(&mut self) {
        if self.layout.data_bytes == 0 {
            self.finish_pdu();
            return;
        }
        self.data_digest = Digest::new();
        self.state = match self.layout.padding_bytes {
            0 => State::Data(self.layout.data_bytes),
            padding => State::Padding(padding),
        };
    }

    /// Skips padding, and lends the data that is here.
    fn data<'a>(&mut self, input: &mut &'a [u8]) -> Option<Incoming<'a, P>> {
        if let State::Padding(left) = self.state {
            let left = left - take(input, usize::from(left)).len() as u8;
            self.state = if left > 0 { State::Padding(left) } else { State::Data(self.layout.data_bytes) };
        }
        let State::Data(left) = self.state else { return None };
        let piece = take(input, left as usize);
        if piece.is_empty() {
            return None;
        }
        if self.layout.data_digest {
            self.data_digest.update(piece);
        }
        self.state = match (left - piece.len() as u32, self.layout.data_digest) {
            (0, true) => State::DataDigest,
            (0, false) => State::End,
            (left, _) => State::Data(left),
        };
        Some(Incoming::Data(piece))
    }

    fn finish_data<'a>(&mut self, input: &mut &'a [u8]) -> Option<Incoming<'a, P>> {
        if !fill(&mut self.tail, &mut self.tail_have, input, DIGEST_BYTES) {
            return None;
        }
        let (computed, received) = (self.data_digest.value(), Digest::from_bytes(self.tail).value());
        let intact = computed == received;
        Some(self.end(if intact { DataCheck::Intact } else { DataCheck::Corrupt { computed, received } }))
    }

    fn end<'a>(&mut self, check: DataCheck) -> Incoming<'a, P> {
        self.finish_pdu();
        Incoming::End(check)
    }

    /// Keeps the header until the next PDU begins: the caller may still refuse it.
    fn finish_pdu(&mut self) {
        self.state = if is_terminal(&self.common()) { State::Terminated } else { State::Common };
        self.head_have = 0;
        self.tail_have = 0;
    }

    fn common(&self) -> CommonHeader {
        let [a, b, c, d, e, f, g, h, ..] = self.head;
        zerocopy::transmute!([a, b, c, d, e, f, g, h])
    }

    fn fill_head(&mut self, input: &mut &[u8], end: usize) -> bool {
        fill(&mut self.head, &mut self.head_have, input, end)
    }
}

/// Moves bytes of `input` to `buffer` until there are `end` of them there.
fn fill(buffer: &mut [u8], have: &mut u8, input: &mut &[u8], end: usize) -> bool {
    let Some(room) = buffer.get_mut(usize::from(*have)..end) else { return true };
    let here = take(input, room.len());
    room[..here.len()].copy_from_slice(here);
    *have += here.len() as u8;
    usize::from(*have) == end
}

/// The first `bytes` of `input`, or all if it has fewer.
fn take<'a>(input: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (first, rest) = input.split_at(bytes.min(input.len()));
    *input = rest;
    first
}
