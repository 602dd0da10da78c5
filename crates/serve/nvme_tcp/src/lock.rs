//! The authentication state of a queue, which locks it for other commands until its host has authenticated.

use byway_fabrics::authentication::{
    AUTH_MESSAGE_BYTES_MAX, AuthenticationError, Concatenation, ControllerAuthentication, Entropy, Parties,
    Verdict,
};
use byway_fabrics::tls::TlsPsk;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::fabrics::{FabricsType, status};
use byway_spec::{Command, Status};

use crate::close_reason::CloseReason;
use crate::discovery::Answer;
use crate::keys::Keys;
use crate::options::TlsPolicy;
use crate::tls_identity::TlsIdentity;

/// The authentication of one queue.
#[derive(Debug)]
pub(crate) struct Lock {
    side: ControllerAuthentication,
    is_authenticated: bool,
    /// A clear-text queue that may only generate a TLS key (secure channel concatenation).
    is_for_key: bool,
    /// That key was generated.
    has_key: bool,
    timeout_ns: u64,
    /// Deadline of the authentication in progress.
    deadline_ns: Option<u64>,
    /// A message to process once the run lock is released.
    stored: Option<AuthCommand>,
}

/// A stored authentication command.
#[derive(Debug)]
pub(crate) enum AuthCommand {
    /// Authentication Send with its message.
    Send(Command, Vec<u8>),
    /// Authentication Receive.
    Receive(Command),
}

impl Lock {
    /// The authentication of a queue; `None` where the subsystem requires none of this host.
    ///
    /// With TLS configured, an admin queue may generate a key for the next connection, or replace the one in use. A connection that
    /// uses a generated key counts as authenticated.
    pub fn of(
        keys: &Keys,
        parties: Parties,
        qid: u16,
        tls: Option<&TlsIdentity>,
        now_ns: u64,
    ) -> Option<Box<Self>> {
        let dhchap = keys.dhchap.as_ref()?;
        let (_, secrets) = dhchap.hosts.iter().find(|(name, _)| *name == parties.host)?;
        let timeout_ns = u64::try_from(dhchap.timeout.as_nanos()).unwrap_or(u64::MAX);
        let mut side = ControllerAuthentication::new(parties, secrets.clone(), dhchap.suites.clone());
        let is_for_key = tls.is_none() && keys.tls_policy() == Some(TlsPolicy::Concatenated);
        side = match (keys.tls_policy(), tls) {
            _ if is_for_key => side.requiring(Concatenation::New),
            (Some(_), None) if qid == 0 => side.allowing(Concatenation::New),
            (Some(_), Some(_)) if qid == 0 => side.allowing(Concatenation::Replacement),
            _ => side,
        };
        let is_authenticated = tls.is_some_and(|tls| tls.by_authentication);
        let deadline_ns = (!is_authenticated).then(|| now_ns.saturating_add(timeout_ns));
        let has_key = false;
        Some(Box::new(Self {
            side,
            is_authenticated,
            is_for_key,
            has_key,
            timeout_ns,
            deadline_ns,
            stored: None,
        }))
    }

    /// The host NQN.
    pub fn host(&self) -> &byway_fabrics::Nqn {
        &self.side.parties().host
    }

    /// Whether the host has authenticated.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Whether the queue may only generate a TLS key.
    pub fn is_for_key(&self) -> bool {
        self.is_for_key
    }

    /// Whether a stored message must be processed before the next command is read.
    pub fn has_stored(&self) -> bool {
        self.stored.is_some()
    }

    /// The end of the connection, if the authentication is past its deadline.
    pub fn overdue(&self, now_ns: u64) -> Option<CloseReason> {
        let is_late = self.deadline_ns.is_some_and(|deadline_ns| deadline_ns < now_ns);
        is_late.then(|| if self.has_key { CloseReason::Clear } else { self.ended(AuthenticationError::Late) })
    }

    /// The status that refuses a command: authentication is required, or a message is too long.
    pub fn refusal(&self, command: &Command) -> Option<Status> {
        let is_message = command.opcode() == AdminOpcode::FABRICS.0
            && matches!(
                FabricsType::of(command),
                FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE
            );
        let is_long = command.sgl1().length_bytes as usize > AUTH_MESSAGE_BYTES_MAX;
        match is_message {
            true => is_long.then(|| Status::INVALID_FIELD.with_dnr()),
            false => (!self.is_authenticated).then(|| status::AUTHENTICATION_REQUIRED.with_dnr()),
        }
    }

    /// Notes a successful authentication; whether that unlocks the queue.
    pub fn prove(&mut self) -> bool {
        if self.is_for_key {
            // The host must reconnect with TLS before the deadline.
            return false;
        }
        self.deadline_ns = None;
        !std::mem::replace(&mut self.is_authenticated, true)
    }

    /// The end of the connection because of a failed authentication.
    pub fn ended(&self, why: AuthenticationError) -> CloseReason {
        CloseReason::NotAuthenticated { host: self.side.parties().host.clone(), why }
    }

    /// Stores a command, to be processed by [`Self::step`] without the run lock.
    pub fn store(&mut self, command: AuthCommand) {
        self.stored = Some(command);
    }

    /// Takes the stored command.
    pub fn take_stored(&mut self) -> Option<AuthCommand> {
        self.stored.take()
    }

    /// Takes the TLS key that the authentication generated.
    pub fn take_psk(&mut self) -> Option<TlsPsk> {
        let psk = self.side.take_psk();
        self.has_key |= psk.is_some();
        psk
    }

    /// Processes a stored command.
    pub fn step(&mut self, command: AuthCommand, now_ns: u64) -> (Command, Answer, Verdict) {
        match command {
            AuthCommand::Send(command, message) => {
                let verdict = match Entropy::of_system() {
                    Ok(entropy) => self.side.send(&message, entropy),
                    Err(_) => Verdict::Failed(AuthenticationError::NoEntropy),
                };
                if self.is_authenticated && self.deadline_ns.is_none() {
                    self.deadline_ns = Some(now_ns.saturating_add(self.timeout_ns));
                }
                (command, Answer::Done(0), verdict)
            }
            AuthCommand::Receive(command) => {
                let (message, verdict) = self.side.receive();
                (command, Answer::Data(message), verdict)
            }
        }
    }
}
