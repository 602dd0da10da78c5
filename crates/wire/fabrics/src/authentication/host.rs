//! The host's side: each step is a type that accepts the one message allowed then.

use super::response::{Agreed, Asked, Owner};
use super::{
    AuthHash, AuthMessage, AuthSecrets, AuthSuites, AuthenticationError, Challenge, Concatenation, DhGroup,
    Entropy, MessageError, Negotiate, Parties, Reply, Success1, concatenation,
};
use crate::tls::TlsPsk;

/// Negotiate was sent: Challenge is awaited.
#[derive(Debug)]
pub struct HostNegotiation {
    side: Side,
    suites: AuthSuites,
}

/// Reply was sent: Success1 is awaited.
#[derive(Debug)]
pub struct HostChallenged {
    side: Side,
    agreed: Agreed,
    /// C1.
    asked: Vec<u8>,
    /// C2 and S2, where there was one.
    challenge: Option<(Vec<u8>, u32)>,
}

/// An authentication that has failed.
#[derive(Debug)]
pub struct HostFailure {
    /// The error.
    pub error: AuthenticationError,
    /// The failure message for the controller, unless it already knows.
    pub message: Option<Vec<u8>>,
}

/// What each step needs.
#[derive(Debug)]
struct Side {
    parties: Parties,
    secrets: AuthSecrets,
    transaction: u16,
    entropy: Entropy,
    concatenation: Option<Concatenation>,
}

impl HostNegotiation {
    /// Begins with Negotiate, the first message. The host challenges the controller if it has the controller's
    /// secret.
    pub fn begin(
        parties: Parties,
        secrets: AuthSecrets,
        suites: AuthSuites,
        transaction: u16,
        entropy: Entropy,
    ) -> (Self, Vec<u8>) {
        Self::of(Side { parties, secrets, transaction, entropy, concatenation: None }, suites)
    }

    /// As `begin`, and also derives a TLS key: [`HostChallenged::psk`]. Uses those of `suites` that can produce one.
    pub fn concatenating(
        concatenation: Concatenation,
        parties: Parties,
        secrets: AuthSecrets,
        suites: &AuthSuites,
        transaction: u16,
        entropy: Entropy,
    ) -> (Self, Vec<u8>) {
        let concatenation = Some(concatenation);
        let side = Side { parties, secrets, transaction, entropy, concatenation };
        Self::of(side, Concatenation::suites(suites))
    }

    fn of(side: Side, suites: AuthSuites) -> (Self, Vec<u8>) {
        let negotiate = AuthMessage::Negotiate(Negotiate {
            transaction: side.transaction,
            secure_channel: Concatenation::id_of(side.concatenation),
            hashes: suites.hashes.iter().map(|hash| hash.id()).collect(),
            groups: suites.groups.iter().map(|group| group.id()).collect(),
            is_dh_hmac_chap: true,
        });
        (Self { side, suites }, negotiate.encode())
    }

    /// Takes Challenge; the next message is Reply.
    ///
    /// # Errors
    /// If the controller fails the authentication, or anything in the message is wrong.
    pub fn take(self, message: &[u8]) -> Result<(HostChallenged, Vec<u8>), HostFailure> {
        let Self { side, suites } = self;
        let replied = side.expect(message, "Challenge").and_then(|message| match message {
            AuthMessage::Challenge(challenge) => {
                side.reply(&challenge, &suites).map(|replied| (replied, challenge.challenge))
            }
            other => Err(AuthenticationError::Order { found: other.id(), expected: "Challenge" }),
        });
        match replied {
            Ok(((agreed, challenge, reply), asked)) => {
                Ok((HostChallenged { side, agreed, asked, challenge }, reply))
            }
            Err(error) => Err(side.fail(error)),
        }
    }
}

impl HostChallenged {
    /// Takes Success1: the host is authenticated, and the controller too if it was challenged. Then the last message
    /// is Success2; otherwise there is none.
    ///
    /// # Errors
    /// If the controller fails the authentication, or its response is wrong.
    pub fn take(self, message: &[u8]) -> Result<Option<Vec<u8>>, HostFailure> {
        let checked = self.side.expect(message, "Success1").and_then(|message| match message {
            AuthMessage::Success1(success) => self.check(&success),
            other => Err(AuthenticationError::Order { found: other.id(), expected: "Success1" }),
        });
        checked.map_err(|error| self.side.fail(error))
    }

    /// The TLS key, if one was requested. Valid once the authentication has succeeded.
    pub fn psk(&self) -> Option<TlsPsk> {
        let (challenge, _) = self.challenge.as_ref()?;
        concatenation::psk(&self.agreed, &self.side.parties, &self.asked, challenge)
    }

    fn check(&self, success: &Success1) -> Result<Option<Vec<u8>>, AuthenticationError> {
        check_length(self.agreed.hash, success.hash_bytes.into())?;
        let (Some((challenge, sequence)), Some(secret)) = (&self.challenge, &self.side.secrets.controller)
        else {
            return Ok(None);
        };
        let response = success.response.as_ref().ok_or(AuthenticationError::Unanswered)?;
        let asked = Asked {
            owner: Owner::Controller,
            secret,
            parties: &self.side.parties,
            challenge,
            sequence: *sequence,
        };
        match asked.verify(&self.agreed, response) {
            true => Ok(Some(AuthMessage::Success2 { transaction: self.side.transaction }.encode())),
            false => Err(AuthenticationError::ControllerSecret),
        }
    }
}

/// Result of a challenge: the agreed parameters, C2 and S2 if any, and Reply.
type Replied = (Agreed, Option<(Vec<u8>, u32)>, Vec<u8>);

impl Side {
    /// A message of this transaction, which does not end it.
    fn expect(&self, message: &[u8], expected: &'static str) -> Result<AuthMessage, AuthenticationError> {
        let message = AuthMessage::parse(message)?;
        if let AuthMessage::Failure1 { explanation, .. } = message {
            return Err(AuthenticationError::Refused(explanation));
        }
        check_transaction(&message, self.transaction)?;
        match message {
            AuthMessage::Challenge(_) | AuthMessage::Success1(_) => Ok(message),
            other => Err(AuthenticationError::Order { found: other.id(), expected }),
        }
    }

    fn reply(&self, challenge: &Challenge, suites: &AuthSuites) -> Result<Replied, AuthenticationError> {
        let hash = AuthHash::of(challenge.hash).filter(|hash| suites.hashes.contains(hash));
        let hash = hash.ok_or(AuthenticationError::Hash)?;
        let group = DhGroup::of(challenge.group).filter(|group| suites.groups.contains(group));
        let group = group.ok_or(AuthenticationError::Group)?;
        check_length(hash, challenge.challenge.len())?;
        let exponent = self.entropy.exponent(group.exponent_bytes());
        let shared = group.agree(&challenge.dh_value, exponent).map_err(|_| AuthenticationError::DhValue)?;
        let concatenation = self.concatenation;
        let agreed = Agreed { hash, shared, transaction: self.transaction, concatenation };
        let asked = Asked {
            owner: Owner::Host,
            secret: &self.secrets.host,
            parties: &self.parties,
            challenge: &challenge.challenge,
            sequence: challenge.sequence,
        };
        let (is_asked, challenges) = (self.secrets.controller.is_some(), self.concatenation.is_some());
        // A challenge that is part of a key alone has no number, and is not answered.
        let sequence = if is_asked { self.entropy.sequence() } else { 0 };
        let mine = is_asked || challenges;
        let mine = mine.then(|| (self.entropy.challenge(hash.bytes()).to_vec(), sequence));
        let reply = AuthMessage::Reply(Reply {
            transaction: self.transaction,
            sequence: mine.as_ref().map_or(0, |(_, sequence)| *sequence),
            response: asked.respond(&agreed),
            challenge: mine.as_ref().map(|(challenge, _)| challenge.clone()),
            dh_value: group.public(exponent),
        });
        Ok((agreed, mine, reply.encode()))
    }

    fn fail(&self, error: AuthenticationError) -> HostFailure {
        let is_known = matches!(error, AuthenticationError::Refused(_));
        let transaction = self.transaction;
        let explanation = error.explanation();
        let message = (!is_known).then(|| AuthMessage::Failure2 { transaction, explanation }.encode());
        HostFailure { error, message }
    }
}

/// Checks that a challenge or response has the length of its hash.
pub fn check_length(hash: AuthHash, found: usize) -> Result<(), MessageError> {
    let expected = hash.bytes();
    if found == expected { Ok(()) } else { Err(MessageError::HashLength { found, expected }) }
}

/// A message is of this transaction.
pub fn check_transaction(message: &AuthMessage, expected: u16) -> Result<(), AuthenticationError> {
    match message.transaction() {
        found if found == expected => Ok(()),
        found => Err(AuthenticationError::Transaction { found, expected }),
    }
}
