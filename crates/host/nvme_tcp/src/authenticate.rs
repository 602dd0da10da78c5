//! Authenticates this host to a controller, and optionally the controller to this host (DH-HMAC-CHAP), first on each connection.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use byway_core::{Buffer, Deadline, Error, ErrorKind, Result};
use byway_fabrics::authentication::{
    AUTH_MESSAGE_BYTES_MAX, AuthSecrets, AuthSuites, AuthenticationError, Concatenation, Entropy,
    HostFailure, HostNegotiation,
};
use byway_fabrics::tls::TlsPsk;
use byway_fabrics::{Accepted, Authentication, FabricsCommand};
use byway_spec::authentication::AuthFailure;

use crate::connection::{Order, Way};
use crate::line::Line;
use crate::order::order_of;
use crate::peer::Peer;
use crate::result::{NotAttached, checked};

/// Does what a controller that accepted a queue asks for.
///
/// # Errors
/// One sentence says which secret is wrong, or is not there; it would not be another the next time.
pub(crate) fn authenticate(
    peer: &Peer,
    line: &mut Line,
    qid: u16,
    accepted: Accepted,
    deadline: Deadline,
) -> Result<(), NotAttached> {
    let subsystem = &peer.place.subsystem;
    if accepted.secure {
        let said = format!("{subsystem} asks for a secure channel that authentication makes (concat=on)");
        return Err(for_good(ErrorKind::Denied, said));
    }
    match (&peer.options.dhchap, accepted.authenticate) {
        (Some(secrets), true) => converse(peer, secrets, None, line, deadline).map(drop),
        (_, false) if peer.security.is_by_authentication() => Ok(()),
        // A man in the middle could have removed the request. Linux's target requests nothing of I/O queues.
        (Some(AuthSecrets { controller: Some(_), .. }), false) if qid == 0 => Err(for_good(
            ErrorKind::Denied,
            format!("{subsystem} does not show who it is, and there is a secret by which it should"),
        )),
        (_, false) => Ok(()),
        (None, true) => Err(for_good(
            ErrorKind::Denied,
            format!("{subsystem} asks for authentication, and {} has no secret", peer.host),
        )),
    }
}

/// Does what a controller asks for that accepted an admin queue in the clear, and makes the key of TLS of it.
///
/// # Errors
/// As [`authenticate`]; where the controller makes no such key.
pub(crate) fn concatenate(
    peer: &Peer,
    line: &mut Line,
    accepted: Accepted,
    deadline: Deadline,
) -> Result<TlsPsk, NotAttached> {
    let subsystem = &peer.place.subsystem;
    let Some(secrets) = &peer.options.dhchap else {
        let said = format!("{} has no secret to make a key of TLS by", peer.host);
        return Err(for_good(ErrorKind::InvalidArgument, said));
    };
    let makes_none = || {
        let said = format!("{subsystem} makes no key of TLS by authentication (concat=)");
        for_good(ErrorKind::Denied, said)
    };
    if !accepted.authenticate && !accepted.secure {
        return Err(makes_none());
    }
    converse(peer, secrets, Some(Concatenation::New), line, deadline)?.ok_or_else(makes_none)
}

fn for_good(kind: ErrorKind, said: String) -> NotAttached {
    NotAttached { error: Error::device(kind, said), is_final: true }
}

/// Negotiate, Challenge, Reply, Success1, and Success2 where the controller was challenged. The key of TLS, where one is to be made.
fn converse(
    peer: &Peer,
    secrets: &AuthSecrets,
    concatenation: Option<Concatenation>,
    line: &mut Line,
    deadline: Deadline,
) -> Result<Option<TlsPsk>, NotAttached> {
    let entropy = Entropy::of_system().map_err(|cause| Error::kernel("there are no random bytes", cause))?;
    let (parties, secrets, suites) = (peer.parties(), secrets.clone(), AuthSuites::default());
    let (negotiation, negotiate) = match concatenation {
        None => HostNegotiation::begin(parties, secrets, suites, transaction(), entropy),
        Some(asked) => {
            HostNegotiation::concatenating(asked, parties, secrets, &suites, transaction(), entropy)
        }
    };
    send(line, &negotiate, deadline)?;
    let challenge = receive(line, deadline)?;
    let (challenged, reply) =
        negotiation.take(challenge.as_slice()).map_err(|failed| give_up(peer, line, failed, deadline))?;
    send(line, &reply, deadline)?;
    let psk = challenged.psk();
    let success = receive(line, deadline)?;
    let last = challenged.take(success.as_slice()).map_err(|failed| give_up(peer, line, failed, deadline))?;
    last.map_or(Ok(()), |last| send(line, &last, deadline))?;
    Ok(psk)
}

/// Transactions of one controller have different numbers.
fn transaction() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    NEXT.fetch_add(1, Relaxed)
}

fn send(line: &mut Line, message: &[u8], deadline: Deadline) -> Result<()> {
    let send = FabricsCommand::AuthenticationSend(Authentication { bytes: message.len() as u32 });
    let order = order_of(send.encode(0), Way::Out);
    let (completion, _) = line.call(order, Buffer::copy_of(message)?.into(), deadline)?;
    checked(&completion).map(drop)
}

fn receive(line: &mut Line, deadline: Deadline) -> Result<Buffer> {
    let bytes = AUTH_MESSAGE_BYTES_MAX;
    let receive = FabricsCommand::AuthenticationReceive(Authentication { bytes: bytes as u32 });
    // A controller may send as much as its message has, and no more.
    let order = Order { is_whole: false, ..order_of(receive.encode(0), Way::In) };
    let (completion, memory) = line.call(order, Buffer::zeroed(bytes)?.into(), deadline)?;
    checked(&completion)?;
    let (buffer, _) = memory.into_buffers();
    buffer.ok_or_else(|| Error::host(ErrorKind::Protocol, "the message's memory did not come back"))
}

/// Sends the failure to the controller, and returns the reason as a sentence.
#[cold]
fn give_up(peer: &Peer, line: &mut Line, failed: HostFailure, deadline: Deadline) -> NotAttached {
    if let Some(message) = &failed.message {
        // It hears of it by the end of the connection too.
        let _ = send(line, message, deadline);
    }
    let (host, subsystem) = (&peer.host, &peer.place.subsystem);
    let said = match &failed.error {
        AuthenticationError::Refused(AuthFailure::FAILED) => {
            format!("{subsystem} does not accept the secret of {host}")
        }
        AuthenticationError::Refused(AuthFailure::SECURE_CHANNEL_MISMATCH) => {
            format!("{subsystem} makes no key of TLS by authentication (concat=)")
        }
        AuthenticationError::ControllerSecret | AuthenticationError::Unanswered => {
            format!("the target at {} does not know the secret of {subsystem}", peer.shown())
        }
        other => format!("{host} cannot authenticate to {subsystem}: {other}"),
    };
    for_good(ErrorKind::Denied, said)
}
