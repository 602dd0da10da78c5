//! Responses to challenges (Base 2.1, sections 8.3.5.5.4 and 8.3.5.5.5).

use zeroize::Zeroizing;

use super::{AuthHash, Concatenation, DhchapSecret, Parties};

/// What both sides agreed on before challenges are answered.
#[derive(Debug)]
pub struct Agreed {
    /// The hash.
    pub hash: AuthHash,
    /// The secret of the exchange, as many bytes as the group has; none in the NULL group.
    pub shared: Zeroizing<Vec<u8>>,
    /// The transaction.
    pub transaction: u16,
    /// The kind of TLS key to derive, if any.
    pub concatenation: Option<Concatenation>,
}

/// The side that responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The host's, R1.
    Host,
    /// The controller's, R2.
    Controller,
}

impl Owner {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Host => b"HostHost",
            Self::Controller => b"Controller",
        }
    }
}

/// A challenge, and the side that must answer it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The side that answers.
    pub owner: Owner,
    /// The secret.
    pub secret: &'a DhchapSecret,
    /// Both names.
    pub parties: &'a Parties,
    /// C1 or C2.
    pub challenge: &'a [u8],
    /// S1 or S2.
    pub sequence: u32,
}

impl Asked<'_> {
    /// The response.
    pub fn respond(&self, agreed: &Agreed) -> Vec<u8> {
        self.with(agreed, |key, parts| agreed.hash.hmac(key, parts).to_vec())
    }

    /// Whether `found` is the response.
    pub fn verify(&self, agreed: &Agreed, found: &[u8]) -> bool {
        self.with(agreed, |key, parts| agreed.hash.verify(key, parts, found))
    }

    /// The key, and what its HMAC is of.
    fn with<T>(&self, agreed: &Agreed, with: impl FnOnce(&[u8], &[&[u8]]) -> T) -> T {
        let Parties { host, subsystem } = self.parties;
        let (first, second) = match self.owner {
            Owner::Host => (host, subsystem),
            Owner::Controller => (subsystem, host),
        };
        let challenge = augmented(agreed, self.challenge);
        let (sequence, transaction) = (self.sequence.to_le_bytes(), agreed.transaction.to_le_bytes());
        let parts: [&[u8]; 8] = [
            &challenge,
            &sequence,
            &transaction,
            &[Concatenation::id_of(agreed.concatenation)],
            self.owner.label(),
            first.as_str().as_bytes(),
            &[0],
            second.as_str().as_bytes(),
        ];
        with(&self.secret.key(first), &parts)
    }
}

/// The augmented challenge: mixed with the secret of the Diffie-Hellman exchange, if there is one.
fn augmented(agreed: &Agreed, challenge: &[u8]) -> Zeroizing<Vec<u8>> {
    match agreed.shared.is_empty() {
        true => Zeroizing::new(challenge.to_vec()),
        false => agreed.hash.hmac(&agreed.hash.digest(&agreed.shared), &[challenge]),
    }
}
