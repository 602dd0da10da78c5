//! Hosts that have to show who they are: what is let through until they have, and what comes of the messages with which they do.
//!
//! What is computed takes milliseconds in the large groups, so it is not done where the message is read, with the device in hand, but
//! when the device has been given back: other threads go on meanwhile.

use byway_fabrics::Authentication;
use byway_fabrics::authentication::{
    AUTH_MESSAGE_BYTES_MAX, AuthenticationError, Concatenation, ControllerAuthentication, Entropy, Parties,
    Verdict,
};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::sgl::SglKind;
use byway_spec::fabrics::{FabricsType, status};
use byway_spec::{Command, Status};

use crate::association::Association;
use crate::discovery::Answer;
use crate::ended::Ended;
use crate::keys::Keys;
use crate::options::{TlsPolicy, Told};
use crate::outbox::Outbox;
use crate::queue::Queue;
use crate::session::{Open, Secured};

/// A queue whose host has to show who it is.
#[derive(Debug)]
pub(crate) struct Lock {
    side: ControllerAuthentication,
    is_proven: bool,
    /// It is in the clear, where its host may have a key of TLS made, and nothing else.
    is_for_key: bool,
    /// It has that key.
    has_key: bool,
    timeout_ns: u64,
    /// When the authentication that is under way must be over.
    deadline_ns: Option<u64>,
    /// What was asked for and is still to be done.
    asked: Option<Asked>,
}

/// A command of authentication.
#[derive(Debug)]
enum Asked {
    /// A message of the host.
    Send(Command, Vec<u8>),
    /// A message for the host.
    Receive(Command),
}

impl Lock {
    /// That of a queue, if there is one: authentication is asked for of the subsystem's hosts.
    ///
    /// A host may have a key of TLS made on its admin queue, where TLS is spoken: to come by it anew, or in place of the one that it
    /// came by. One that came by such a key has shown who it is.
    pub fn of(
        keys: &Keys,
        parties: Parties,
        qid: u16,
        secured: Option<&Secured>,
        now_ns: u64,
    ) -> Option<Box<Self>> {
        let dhchap = keys.dhchap.as_ref()?;
        let (_, secrets) = dhchap.hosts.iter().find(|(name, _)| *name == parties.host)?;
        let timeout_ns = u64::try_from(dhchap.timeout.as_nanos()).unwrap_or(u64::MAX);
        let mut side = ControllerAuthentication::new(parties, secrets.clone(), dhchap.suites.clone());
        let is_for_key = secured.is_none() && keys.tls_policy() == Some(TlsPolicy::Concatenated);
        side = match (keys.tls_policy(), secured) {
            _ if is_for_key => side.requiring(Concatenation::New),
            (Some(_), None) if qid == 0 => side.allowing(Concatenation::New),
            (Some(_), Some(_)) if qid == 0 => side.allowing(Concatenation::Replacement),
            _ => side,
        };
        let is_proven = secured.is_some_and(|secured| secured.by_authentication);
        let deadline_ns = (!is_proven).then(|| now_ns.saturating_add(timeout_ns));
        let has_key = false;
        Some(Box::new(Self { side, is_proven, is_for_key, has_key, timeout_ns, deadline_ns, asked: None }))
    }

    /// Whether the host has shown who it is.
    pub fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Whether a key of TLS is all that its host may have of it.
    pub fn is_for_key(&self) -> bool {
        self.is_for_key
    }

    /// Whether something is to be done before the next command is read.
    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// That an authentication takes too long.
    pub fn overdue(&self, now_ns: u64) -> Option<Ended> {
        let is_late = self.deadline_ns.is_some_and(|deadline_ns| deadline_ns < now_ns);
        is_late.then(|| if self.has_key { Ended::Clear } else { self.ended(AuthenticationError::Late) })
    }

    /// Why a command is not taken: its host has not shown who it is, or it is a message that is too long.
    pub fn refusal(&self, command: &Command) -> Option<Status> {
        let is_message = command.opcode() == AdminOpcode::FABRICS.0
            && matches!(
                FabricsType::of(command),
                FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE
            );
        let is_long = command.sgl1().length_bytes as usize > AUTH_MESSAGE_BYTES_MAX;
        match is_message {
            true => is_long.then(|| Status::INVALID_FIELD.with_dnr()),
            false => (!self.is_proven).then(|| status::AUTHENTICATION_REQUIRED.with_dnr()),
        }
    }

    /// Its host has shown who it is; whether it may do more than before by that.
    fn prove(&mut self) -> bool {
        if self.is_for_key {
            // In the time that it has for that, it is to leave and come by TLS.
            return false;
        }
        self.deadline_ns = None;
        !std::mem::replace(&mut self.is_proven, true)
    }

    fn ended(&self, why: AuthenticationError) -> Ended {
        Ended::NotAuthenticated { host: self.side.parties().host.clone(), why }
    }

    /// Does what was asked for.
    fn step(&mut self, asked: Asked, now_ns: u64) -> (Command, Answer, Verdict) {
        match asked {
            Asked::Send(command, message) => {
                let verdict = match Entropy::of_system() {
                    Ok(entropy) => self.side.send(&message, entropy),
                    Err(_) => Verdict::Failed(AuthenticationError::NoEntropy),
                };
                if self.is_proven && self.deadline_ns.is_none() {
                    self.deadline_ns = Some(now_ns.saturating_add(self.timeout_ns));
                }
                (command, Answer::Done(0), verdict)
            }
            Asked::Receive(command) => {
                let (message, verdict) = self.side.receive();
                (command, Answer::Data(message), verdict)
            }
        }
    }
}

impl Open {
    /// Takes a message of the host; it is looked into when the device has been given back.
    pub(crate) fn take_message(
        &mut self,
        command: &Command,
        sent: Authentication,
        data: Option<&[u8]>,
    ) -> Result<(), Status> {
        let message = data.filter(|data| data.len() == sent.bytes as usize);
        let message = message.ok_or_else(|| Status::INVALID_FIELD.with_dnr())?;
        let lock = self.lock.as_mut().ok_or_else(|| Status::INVALID_OPCODE.with_dnr())?;
        lock.asked = Some(Asked::Send(*command, message.to_vec()));
        Ok(())
    }

    /// Is asked for a message; it is made when the device has been given back.
    pub(crate) fn ask_message(
        &mut self,
        command: &Command,
        asked: Authentication,
        data: Option<&[u8]>,
    ) -> Result<(), Status> {
        let descriptor = command.sgl1();
        if data.is_some() || asked.bytes != descriptor.length_bytes {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        if descriptor.kind != SglKind::TRANSPORT_DATA_BLOCK {
            return Err(Status::SGL_TYPE_INVALID.with_dnr());
        }
        let lock = self.lock.as_mut().ok_or_else(|| Status::INVALID_OPCODE.with_dnr())?;
        lock.asked = Some(Asked::Receive(*command));
        Ok(())
    }

    /// Does what was asked for, and answers it. It needs no device.
    ///
    /// # Errors
    /// The host is not who it says, or something went wrong: the connection ends once the host has been told.
    pub(crate) fn authenticate(&mut self, out: &mut Outbox, now_ns: u64) -> Result<(), Ended> {
        let Some(lock) = &mut self.lock else { return Ok(()) };
        let Some(asked) = lock.asked.take() else { return Ok(()) };
        let (command, answer, verdict) = lock.step(asked, now_ns);
        let is_told = match (&answer, &verdict) {
            (Answer::Data(_), _) => true,
            // The host knows, or there is nothing that it could be told.
            (_, Verdict::Failed(AuthenticationError::Refused(_) | AuthenticationError::NoEntropy)) => true,
            _ => false,
        };
        let ended = match verdict {
            Verdict::Failed(why) if is_told => Some(lock.ended(why)),
            Verdict::Failed(_) | Verdict::GoesOn => None,
            Verdict::Authenticated => {
                if let Some(psk) = lock.side.take_psk() {
                    self.premises.directory.add_key(psk);
                    lock.has_key = true;
                }
                if lock.prove() {
                    self.queue.prove();
                    self.tell_came();
                }
                None
            }
        };
        self.answer(&command, answer, command.sgl1().length_bytes as usize, out);
        ended.map_or(Ok(()), Err)
    }

    /// Tells that a host has come: with the Connect of its admin queue, or once it has shown who it is.
    pub(crate) fn tell_came(&self) {
        let Queue::Device(queue) = &self.queue else { return };
        if queue.qid > 0 || self.lock.as_ref().is_some_and(|lock| !lock.is_proven) {
            return;
        }
        let Association { host, subsystem, controller, .. } = &*queue.association;
        let (host, subsystem) = (host.clone(), subsystem.clone());
        (self.premises.tell)(Told::HostCame {
            host,
            subsystem,
            controller: controller.0,
            from: self.place.from,
        });
    }
}
