//! The controller's side: accepts a host's messages in any order, and provides the messages for the host.

use super::host::{check_length, check_transaction};
use super::response::{Agreed, Asked, Owner};
use super::{
    AuthHash, AuthMessage, AuthSecrets, AuthSuites, AuthenticationError, Challenge, Concatenation, DhGroup,
    Entropy, Negotiate, Parties, Reply, Success1, concatenation,
};
use crate::tls::TlsPsk;

/// A controller's side of the authentications of one queue: the first, and any that the host begins anew.
#[derive(Debug)]
pub struct ControllerAuthentication {
    parties: Parties,
    secrets: AuthSecrets,
    suites: AuthSuites,
    /// The kind of TLS key that a host may request.
    concatenation: Option<Concatenation>,
    /// The host must request one.
    is_required: bool,
    /// The key that was made, until it is taken.
    psk: Option<TlsPsk>,
    state: State,
}

/// State of an authentication after a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In progress.
    GoesOn,
    /// The host is authenticated.
    Authenticated,
    /// It has failed. Where the host is to hear of it, a message waits to be received.
    Failed(AuthenticationError),
}

#[derive(Debug)]
enum State {
    /// Negotiate is awaited.
    Idle,
    /// Challenge is to be received.
    Negotiated(Exchange),
    /// Reply is awaited.
    Challenged(Exchange),
    /// Success1 is to be received.
    Replied { transaction: u16, hash: AuthHash, response: Option<Vec<u8>> },
    /// Success2 is awaited.
    Answered { transaction: u16 },
    /// Failure1 is to be received.
    Failing { transaction: u16, error: AuthenticationError },
    /// Nothing is to be sent any more.
    Failed,
}

/// Parameters of a challenge.
#[derive(Debug)]
struct Exchange {
    transaction: u16,
    hash: AuthHash,
    group: DhGroup,
    entropy: Entropy,
    concatenation: Option<Concatenation>,
}

impl ControllerAuthentication {
    /// Of a host, by the secrets that there are of it and for it. The first suite that is here and that the host offers is used.
    pub fn new(parties: Parties, secrets: AuthSecrets, suites: AuthSuites) -> Self {
        Self {
            parties,
            secrets,
            suites,
            concatenation: None,
            is_required: false,
            psk: None,
            state: State::Idle,
        }
    }

    /// Lets the host have a key of TLS made as well.
    #[must_use]
    pub fn allowing(self, concatenation: Concatenation) -> Self {
        Self { concatenation: Some(concatenation), ..self }
    }

    /// Requires the host to request a TLS key; otherwise it is not authenticated.
    #[must_use]
    pub fn requiring(self, concatenation: Concatenation) -> Self {
        Self { is_required: true, ..self.allowing(concatenation) }
    }

    /// The key of TLS that the last authentication made, once the host is authenticated.
    pub fn take_psk(&mut self) -> Option<TlsPsk> {
        if self.is_under_way() { None } else { self.psk.take() }
    }

    /// Names of host and subsystem.
    pub fn parties(&self) -> &Parties {
        &self.parties
    }

    /// Whether one has begun and is not over.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.state, State::Idle)
    }

    /// Takes the data of an Authentication Send. `entropy` is for the challenge, where this begins an authentication. One that
    /// has failed is not begun anew: a host that guesses needs a connection for each guess.
    pub fn send(&mut self, message: &[u8], entropy: Entropy) -> Verdict {
        let state = match std::mem::replace(&mut self.state, State::Failed) {
            State::Failing { transaction, error } => {
                self.state = State::Failing { transaction, error: error.clone() };
                return Verdict::Failed(error);
            }
            State::Failed => return Verdict::Failed(AuthenticationError::Early { expected: "nothing" }),
            state => state,
        };
        let transaction = state.transaction();
        let taken = match AuthMessage::parse(message) {
            Ok(message) => self.take(state, message, entropy),
            Err(error) => Err(error.into()),
        };
        let error = match taken {
            Ok((state, verdict)) => {
                self.state = state;
                return verdict;
            }
            Err(error) => error,
        };
        // A host that says so knows.
        if !matches!(error, AuthenticationError::Refused(_)) {
            let transaction = transaction.or_else(|| named(message)).unwrap_or_default();
            self.state = State::Failing { transaction, error: error.clone() };
        }
        Verdict::Failed(error)
    }

    /// The data of an Authentication Receive, and the state once the host has it.
    pub fn receive(&mut self) -> (Vec<u8>, Verdict) {
        let (message, state, verdict) = match std::mem::replace(&mut self.state, State::Failed) {
            State::Negotiated(exchange) => {
                let message = exchange.challenge();
                (message, State::Challenged(exchange), Verdict::GoesOn)
            }
            State::Replied { transaction, hash, response } => {
                let (state, verdict) = match response {
                    Some(_) => (State::Answered { transaction }, Verdict::GoesOn),
                    None => (State::Idle, Verdict::Authenticated),
                };
                let hash_bytes = hash.bytes() as u8;
                (AuthMessage::Success1(Success1 { transaction, hash_bytes, response }), state, verdict)
            }
            State::Failing { transaction, error } => {
                let explanation = error.explanation();
                (AuthMessage::Failure1 { transaction, explanation }, State::Failed, Verdict::Failed(error))
            }
            other => {
                let error = AuthenticationError::Early { expected: other.awaited() };
                let (transaction, explanation) = (other.transaction().unwrap_or(0), error.explanation());
                (AuthMessage::Failure1 { transaction, explanation }, State::Failed, Verdict::Failed(error))
            }
        };
        self.state = state;
        (message.encode(), verdict)
    }

    fn take(
        &mut self,
        state: State,
        message: AuthMessage,
        entropy: Entropy,
    ) -> Result<(State, Verdict), AuthenticationError> {
        // Negotiate begins anew, whatever was before.
        if let AuthMessage::Negotiate(negotiate) = &message {
            return Ok((State::Negotiated(self.negotiate(negotiate, entropy)?), Verdict::GoesOn));
        }
        if let AuthMessage::Failure2 { explanation, .. } = message {
            return Err(AuthenticationError::Refused(explanation));
        }
        if let Some(expected) = state.transaction() {
            check_transaction(&message, expected)?;
        }
        match (state, message) {
            (State::Challenged(exchange), AuthMessage::Reply(reply)) => {
                Ok((self.check(&exchange, &reply)?, Verdict::GoesOn))
            }
            (State::Answered { .. }, AuthMessage::Success2 { .. }) => {
                Ok((State::Idle, Verdict::Authenticated))
            }
            (state, other) => {
                Err(AuthenticationError::Order { found: other.id(), expected: state.awaited() })
            }
        }
    }

    fn negotiate(&self, asked: &Negotiate, entropy: Entropy) -> Result<Exchange, AuthenticationError> {
        if !asked.is_dh_hmac_chap {
            return Err(AuthenticationError::Protocol);
        }
        let allowed = self.concatenation.filter(|allowed| allowed.id() == asked.secure_channel);
        let suites = match (asked.secure_channel, allowed) {
            (0, _) if !self.is_required => self.suites.clone(),
            (1.., Some(_)) => Concatenation::suites(&self.suites),
            _ => return Err(AuthenticationError::SecureChannel),
        };
        let hash = suites.hashes.iter().find(|hash| asked.hashes.contains(&hash.id()));
        let group = suites.groups.iter().find(|group| asked.groups.contains(&group.id()));
        Ok(Exchange {
            transaction: asked.transaction,
            hash: *hash.ok_or(AuthenticationError::Hash)?,
            group: *group.ok_or(AuthenticationError::Group)?,
            entropy,
            concatenation: allowed,
        })
    }

    /// Checks the host's response, and computes the controller's if it was challenged.
    fn check(&mut self, exchange: &Exchange, reply: &Reply) -> Result<State, AuthenticationError> {
        let Exchange { transaction, hash, group, entropy, concatenation } = exchange;
        check_length(*hash, reply.response.len())?;
        let mine = entropy.challenge(hash.bytes());
        if reply.challenge.as_deref() == Some(mine) {
            return Err(AuthenticationError::Repeated);
        }
        let exponent = entropy.exponent(group.exponent_bytes());
        let shared = group.agree(&reply.dh_value, exponent).map_err(|_| AuthenticationError::DhValue)?;
        let (transaction, concatenation) = (*transaction, *concatenation);
        let agreed = Agreed { hash: *hash, shared, transaction, concatenation };
        let asked = Asked {
            owner: Owner::Host,
            secret: &self.secrets.host,
            parties: &self.parties,
            challenge: mine,
            sequence: entropy.sequence(),
        };
        if !asked.verify(&agreed, &reply.response) {
            return Err(AuthenticationError::HostSecret);
        }
        let response = self.answer(&agreed, reply)?;
        self.psk = match (&reply.challenge, concatenation) {
            (None, Some(_)) => return Err(AuthenticationError::Unchallenged),
            (None, None) => None,
            (Some(challenge), _) => concatenation::psk(&agreed, &self.parties, mine, challenge),
        };
        Ok(State::Replied { transaction, hash: *hash, response })
    }

    /// The controller's response. A challenge with sequence number 0 is for a secure channel alone, and not answered.
    fn answer(&self, agreed: &Agreed, reply: &Reply) -> Result<Option<Vec<u8>>, AuthenticationError> {
        let Some(challenge) = reply.challenge.as_ref().filter(|_| reply.sequence != 0) else {
            return Ok(None);
        };
        let secret = self.secrets.controller.as_ref().ok_or(AuthenticationError::NoControllerSecret)?;
        let parties = &self.parties;
        let sequence = reply.sequence;
        let asked = Asked { owner: Owner::Controller, secret, parties, challenge, sequence };
        Ok(Some(asked.respond(agreed)))
    }
}

/// The transaction that a message names, if it is long enough for that.
fn named(message: &[u8]) -> Option<u16> {
    message.get(4..6)?.try_into().ok().map(u16::from_le_bytes)
}

impl Exchange {
    fn challenge(&self) -> AuthMessage {
        AuthMessage::Challenge(Challenge {
            transaction: self.transaction,
            hash: self.hash.id(),
            group: self.group.id(),
            sequence: self.entropy.sequence(),
            challenge: self.entropy.challenge(self.hash.bytes()).to_vec(),
            dh_value: self.group.public(self.entropy.exponent(self.group.exponent_bytes())),
        })
    }
}

impl State {
    fn transaction(&self) -> Option<u16> {
        match self {
            Self::Idle | Self::Failed => None,
            Self::Negotiated(exchange) | Self::Challenged(exchange) => Some(exchange.transaction),
            Self::Replied { transaction, .. }
            | Self::Answered { transaction }
            | Self::Failing { transaction, .. } => Some(*transaction),
        }
    }

    /// The message expected next.
    fn awaited(&self) -> &'static str {
        match self {
            Self::Idle => "Negotiate",
            Self::Challenged(_) => "Reply",
            Self::Answered { .. } => "Success2",
            Self::Failed => "nothing",
            Self::Negotiated(_) | Self::Replied { .. } | Self::Failing { .. } => "Authentication Receive",
        }
    }
}
