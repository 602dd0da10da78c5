//! In-band authentication messages, and a host with a wrong secret.

use byway_fabrics::Nqn;
use byway_fabrics::authentication::{
    AuthHash, AuthMessage, AuthSecrets, AuthSuites, ControllerAuthentication, DhGroup, DhchapSecret, Entropy,
    HostNegotiation, Parties, Verdict,
};

use crate::input::Input;

const SECRET: &str = "DHHC-1:00:OQmBqENm7JeUZcaf95IgU6vDcimlMupTz9ZK2y86loTRAW5M3VwFQrHqufr636yrWHm06A==:";
const WRONG: &str = "DHHC-1:00:3SE8LEh6fuQLu2wrUF6in01zfvvn2LYoW7ZZ4Rg4ke+NkvJ7S+3b+jBHaUOA8dKj5X/5SQ==:";

/// The first byte selects: the rest is one message, or changes to a conversation.
pub fn authentication(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, message)) => parse(message),
        Some((_, rest)) => converse(&mut Input::new(rest)),
        None => {}
    }
}

fn parse(bytes: &[u8]) {
    if let Ok(message) = AuthMessage::parse(bytes) {
        let written = message.encode();
        assert_eq!(AuthMessage::parse(&written), Ok(message));
    }
}

/// A host with a wrong secret sends its messages, changed or not, and others, in any order.
fn converse(input: &mut Input<'_>) {
    let mut controller = ControllerAuthentication::new(parties(), secrets(SECRET), suites());
    let mut host = None;
    let mut message = Vec::new();
    let mut received = Vec::new();
    while !input.is_empty() {
        match input.byte() % 5 {
            0 => {
                let (negotiation, negotiate) = begin();
                (host, message) = (Some(negotiation), negotiate);
            }
            1 => message = host.take().map_or(Vec::new(), |host| reply(host, &received)),
            2 => message = input.bytes(usize::from(input.clone().byte())).to_vec(),
            3 => change(&mut message, input),
            _ => {
                let (got, verdict) = controller.receive();
                assert_ne!(verdict, Verdict::Authenticated, "without the secret");
                assert!(AuthMessage::parse(&got).is_ok());
                received = got;
                continue;
            }
        }
        let verdict = controller.send(&message, entropy(1));
        assert_ne!(verdict, Verdict::Authenticated, "without the secret");
    }
}

/// Reply, or Failure2.
fn reply(host: HostNegotiation, received: &[u8]) -> Vec<u8> {
    match host.take(received) {
        Ok((_, reply)) => reply,
        Err(failure) => failure.message.unwrap_or_default(),
    }
}

fn change(message: &mut [u8], input: &mut Input<'_>) {
    let (at, by) = (usize::from(input.word()), input.byte());
    let at = at % message.len().max(1);
    message.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= by);
}

fn begin() -> (HostNegotiation, Vec<u8>) {
    HostNegotiation::begin(parties(), secrets(WRONG), suites(), 1, entropy(2))
}

fn parties() -> Parties {
    let name = |name| Nqn::new(name).expect("it is a name");
    Parties { host: name("nqn.2026-11.example:host"), subsystem: name("nqn.2026-11.example:disk") }
}

fn secrets(text: &str) -> AuthSecrets {
    let secret: DhchapSecret = text.parse().expect("it is a secret");
    AuthSecrets { host: secret.clone(), controller: Some(secret) }
}

/// The group that costs nothing, so that many inputs are tried.
fn suites() -> AuthSuites {
    AuthSuites { hashes: AuthHash::ALL.to_vec(), groups: vec![DhGroup::Null] }
}

fn entropy(seed: u8) -> Entropy {
    Entropy::of_bytes(std::array::from_fn(|at| at as u8 ^ seed))
}
