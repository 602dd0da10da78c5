//! Authentication messages as types, parsed and encoded.

use byway_spec::authentication::{
    AuthFailure, AuthHeader, AuthId, AuthType, ChallengeHeader, DhGroupId, Failure, HashId, IDS_MAX,
    NegotiateHeader, PROTOCOL_DH_HMAC_CHAP, ProtocolDescriptor, ReplyHeader, Success1Header, Success2,
};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// A message. Reserved fields, and bytes behind its end, are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthMessage {
    /// A host proposes hashes and groups.
    Negotiate(Negotiate),
    /// A controller challenges the host.
    Challenge(Challenge),
    /// The host's response.
    Reply(Reply),
    /// The host is authenticated, and the controller's response.
    Success1(Success1),
    /// The controller is authenticated.
    Success2 {
        /// The transaction.
        transaction: u16,
    },
    /// The controller ends the authentication.
    Failure1 {
        /// The transaction.
        transaction: u16,
        /// The reason.
        explanation: AuthFailure,
    },
    /// The host does.
    Failure2 {
        /// The transaction.
        transaction: u16,
        /// The reason.
        explanation: AuthFailure,
    },
}

/// AUTH_Negotiate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiate {
    /// The transaction.
    pub transaction: u16,
    /// SC_C: the secure channel requested; 0 for none.
    pub secure_channel: u8,
    /// Hashes, the preferred first; nothing where DH-HMAC-CHAP is not among the protocols.
    pub hashes: Vec<HashId>,
    /// Groups, the preferred first.
    pub groups: Vec<DhGroupId>,
    /// DH-HMAC-CHAP is among the protocols.
    pub is_dh_hmac_chap: bool,
}

/// DH-HMAC-CHAP_Challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The transaction.
    pub transaction: u16,
    /// The hash that is used.
    pub hash: HashId,
    /// The group that is used.
    pub group: DhGroupId,
    /// S1.
    pub sequence: u32,
    /// C1.
    pub challenge: Vec<u8>,
    /// The controller's DH value.
    pub dh_value: Vec<u8>,
}

/// DH-HMAC-CHAP_Reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The transaction.
    pub transaction: u16,
    /// S2. 0 where the controller is not to answer.
    pub sequence: u32,
    /// R1.
    pub response: Vec<u8>,
    /// C2, where the controller is challenged.
    pub challenge: Option<Vec<u8>>,
    /// The host's DH value.
    pub dh_value: Vec<u8>,
}

/// DH-HMAC-CHAP_Success1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Success1 {
    /// The transaction.
    pub transaction: u16,
    /// HL: length of a response, even if there is none.
    pub hash_bytes: u8,
    /// R2, where the controller was challenged.
    pub response: Option<Vec<u8>>,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// It ends too soon.
    #[error("a message of authentication has {found} bytes and needs {needed}")]
    Short {
        /// Bytes that there are.
        found: usize,
        /// Bytes that it says it has.
        needed: usize,
    },
    /// None that is known.
    #[error("message {id} of type {kind} is not known")]
    Unknown {
        /// AUTH_TYPE of the message.
        kind: AuthType,
        /// Which it is.
        id: AuthId,
    },
    /// More identifiers than fit.
    #[error("a list of {0} identifiers is longer than its room")]
    Identifiers(u8),
    /// CVALID or RVALID is neither 0 nor 1.
    #[error("a flag is {0}, neither 0 nor 1")]
    Flag(u8),
    /// A challenge or a response of another length than its hash has.
    #[error("a challenge or response has {found} bytes where its hash has {expected}")]
    HashLength {
        /// The length found.
        found: usize,
        /// That of the hash.
        expected: usize,
    },
}

impl AuthMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// If it is none, or ends too soon.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let header: AuthHeader = Cursor(bytes).take()?;
        let transaction = header.t_id;
        let mut cursor = Cursor(bytes);
        match (header.auth_type, header.auth_id) {
            (AuthType::COMMON, AuthId::NEGOTIATE) => Negotiate::parse(&mut cursor).map(Self::Negotiate),
            (AuthType::DH_HMAC_CHAP, AuthId::CHALLENGE) => Challenge::parse(&mut cursor).map(Self::Challenge),
            (AuthType::DH_HMAC_CHAP, AuthId::REPLY) => Reply::parse(&mut cursor).map(Self::Reply),
            (AuthType::DH_HMAC_CHAP, AuthId::SUCCESS1) => Success1::parse(&mut cursor).map(Self::Success1),
            (AuthType::DH_HMAC_CHAP, AuthId::SUCCESS2) => {
                cursor.take::<Success2>().map(|_| Self::Success2 { transaction })
            }
            (AuthType::COMMON, AuthId::FAILURE1) => cursor
                .take::<Failure>()
                .map(|failure| Self::Failure1 { transaction, explanation: failure.explanation }),
            (AuthType::COMMON, AuthId::FAILURE2) => cursor
                .take::<Failure>()
                .map(|failure| Self::Failure2 { transaction, explanation: failure.explanation }),
            (kind, id) => Err(MessageError::Unknown { kind, id }),
        }
    }

    /// Which it is.
    pub const fn id(&self) -> AuthId {
        match self {
            Self::Negotiate(_) => AuthId::NEGOTIATE,
            Self::Challenge(_) => AuthId::CHALLENGE,
            Self::Reply(_) => AuthId::REPLY,
            Self::Success1(_) => AuthId::SUCCESS1,
            Self::Success2 { .. } => AuthId::SUCCESS2,
            Self::Failure1 { .. } => AuthId::FAILURE1,
            Self::Failure2 { .. } => AuthId::FAILURE2,
        }
    }

    /// Transaction identifier.
    pub const fn transaction(&self) -> u16 {
        match self {
            Self::Negotiate(Negotiate { transaction, .. })
            | Self::Challenge(Challenge { transaction, .. })
            | Self::Reply(Reply { transaction, .. })
            | Self::Success1(Success1 { transaction, .. })
            | Self::Success2 { transaction }
            | Self::Failure1 { transaction, .. }
            | Self::Failure2 { transaction, .. } => *transaction,
        }
    }

    /// The message as it is sent.
    pub fn encode(&self) -> Vec<u8> {
        let auth_type = match self {
            Self::Negotiate(_) | Self::Failure1 { .. } | Self::Failure2 { .. } => AuthType::COMMON,
            _ => AuthType::DH_HMAC_CHAP,
        };
        let header = AuthHeader { auth_type, auth_id: self.id(), reserved_2: 0, t_id: self.transaction() };
        match self {
            Self::Negotiate(negotiate) => negotiate.encode(header),
            Self::Challenge(challenge) => challenge.encode(header),
            Self::Reply(reply) => reply.encode(header),
            Self::Success1(success) => success.encode(header),
            Self::Success2 { .. } => Success2 { header, reserved_6: [0; 10] }.as_bytes().to_vec(),
            Self::Failure1 { explanation, .. } | Self::Failure2 { explanation, .. } => {
                Failure { header, reason: 1, explanation: *explanation }.as_bytes().to_vec()
            }
        }
    }
}

impl Negotiate {
    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, MessageError> {
        let head: NegotiateHeader = cursor.take()?;
        let mut parsed = Self {
            transaction: head.header.t_id,
            secure_channel: head.sc_c,
            hashes: Vec::new(),
            groups: Vec::new(),
            is_dh_hmac_chap: false,
        };
        for _ in 0..head.napd {
            let descriptor: ProtocolDescriptor = cursor.take()?;
            if descriptor.authid == PROTOCOL_DH_HMAC_CHAP && !parsed.is_dh_hmac_chap {
                parsed.is_dh_hmac_chap = true;
                parsed.hashes = listed(&descriptor.hashes, descriptor.halen)?;
                parsed.groups = listed(&descriptor.groups, descriptor.dhlen)?;
            }
        }
        Ok(parsed)
    }

    fn encode(&self, header: AuthHeader) -> Vec<u8> {
        let napd = self.is_dh_hmac_chap.into();
        let mut bytes = NegotiateHeader { header, sc_c: self.secure_channel, napd }.as_bytes().to_vec();
        if self.is_dh_hmac_chap {
            let mut descriptor = ProtocolDescriptor::new_zeroed();
            descriptor.authid = PROTOCOL_DH_HMAC_CHAP;
            descriptor.halen = list(&mut descriptor.hashes, &self.hashes);
            descriptor.dhlen = list(&mut descriptor.groups, &self.groups);
            bytes.extend_from_slice(descriptor.as_bytes());
        }
        bytes
    }
}

/// The first `count` of a list.
fn listed<T: Copy>(list: &[T; IDS_MAX], count: u8) -> Result<Vec<T>, MessageError> {
    list.get(..count.into()).map(<[T]>::to_vec).ok_or(MessageError::Identifiers(count))
}

/// Fills a list, and says how many it has.
fn list<T: Copy>(list: &mut [T; IDS_MAX], with: &[T]) -> u8 {
    list.iter_mut().zip(with).for_each(|(to, from)| *to = *from);
    with.len().min(IDS_MAX) as u8
}

impl Challenge {
    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, MessageError> {
        let head: ChallengeHeader = cursor.take()?;
        Ok(Self {
            transaction: head.header.t_id,
            hash: head.hash,
            group: head.group,
            sequence: head.seqnum,
            challenge: cursor.bytes(head.hl.into())?,
            dh_value: cursor.bytes(head.dhvlen.into())?,
        })
    }

    fn encode(&self, header: AuthHeader) -> Vec<u8> {
        let head = ChallengeHeader {
            header,
            hl: self.challenge.len() as u8,
            reserved_7: 0,
            hash: self.hash,
            group: self.group,
            dhvlen: self.dh_value.len() as u16,
            seqnum: self.sequence,
        };
        [head.as_bytes(), &self.challenge, &self.dh_value].concat()
    }
}

impl Reply {
    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, MessageError> {
        let head: ReplyHeader = cursor.take()?;
        let is_challenge = flag(head.cvalid)?;
        let response = cursor.bytes(head.hl.into())?;
        // The field is present even without a challenge.
        let challenge = cursor.bytes(head.hl.into())?;
        Ok(Self {
            transaction: head.header.t_id,
            sequence: head.seqnum,
            response,
            challenge: is_challenge.then_some(challenge),
            dh_value: cursor.bytes(head.dhvlen.into())?,
        })
    }

    fn encode(&self, header: AuthHeader) -> Vec<u8> {
        let head = ReplyHeader {
            header,
            hl: self.response.len() as u8,
            reserved_7: 0,
            cvalid: self.challenge.is_some().into(),
            reserved_9: 0,
            dhvlen: self.dh_value.len() as u16,
            seqnum: self.sequence,
        };
        let mut challenge = self.challenge.clone().unwrap_or_default();
        challenge.resize(self.response.len(), 0);
        [head.as_bytes(), &self.response, &challenge, &self.dh_value].concat()
    }
}

impl Success1 {
    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, MessageError> {
        let head: Success1Header = cursor.take()?;
        let response = match flag(head.rvalid)? {
            true => Some(cursor.bytes(head.hl.into())?),
            false => None,
        };
        Ok(Self { transaction: head.header.t_id, hash_bytes: head.hl, response })
    }

    fn encode(&self, header: AuthHeader) -> Vec<u8> {
        let head = Success1Header {
            header,
            hl: self.hash_bytes,
            reserved_7: 0,
            rvalid: self.response.is_some().into(),
            reserved_9: [0; 7],
        };
        [head.as_bytes(), self.response.as_deref().unwrap_or_default()].concat()
    }
}

fn flag(byte: u8) -> Result<bool, MessageError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(MessageError::Flag(other)),
    }
}

/// The unparsed rest of a message.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<T: FromBytes + Immutable + KnownLayout>(&mut self) -> Result<T, MessageError> {
        let short = MessageError::Short { found: self.0.len(), needed: size_of::<T>() };
        let (head, rest) = T::read_from_prefix(self.0).map_err(|_| short)?;
        self.0 = rest;
        Ok(head)
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, MessageError> {
        let short = MessageError::Short { found: self.0.len(), needed: count };
        let (taken, rest) = self.0.split_at_checked(count).ok_or(short)?;
        self.0 = rest;
        Ok(taken.to_vec())
    }
}
