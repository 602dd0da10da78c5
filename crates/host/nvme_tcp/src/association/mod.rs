//! State that the queues of one host at one controller share.
//!
//! One thread, the admin thread, owns the admin queue: it sends admin commands for all callers and Keep Alive. When any
//! connection of the association ends it ends them all, reconnects and hands each queue its new connection. So a queue
//! waits for the network only while its program waits for the queue.
//!
//! All connections end together because a controller that lost one of them may have lost them all, and because a controller
//! of its own distinguishes a new queue from an old one that still has commands.

mod registration;
mod registrations;
mod request;
mod state;

use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use byway_core::identify::Identifies;
use byway_core::layouts::{Layouts, changes_namespaces};
use byway_core::moves::Layout;
use byway_core::{
    AdminCommand, Error, ErrorKind, Failed, Outcome, Payload, Result, check_admin, encode_admin, identify,
};
use byway_fabrics::ControllerId;
use byway_spec::Command as Entry;
use byway_spec::base::admin::{AbortCdw10, AdminOpcode};
use byway_sys::Wakeup;
use parking_lot::{Mutex, MutexGuard};

use state::{Found, State};

use crate::abort::Abort;
use crate::connection::Order;
use crate::facts::Facts;
use crate::line::Line;
use crate::order::{order_of_admin, plain};
use crate::paths::PathPlace;
use crate::peer::Peer;
use crate::result::gone;

pub(crate) use registration::{QueueMessage, Registration};
pub(crate) use request::{Reply, Request};

/// A queue that was opened.
pub(crate) struct Opened {
    pub registration: Arc<Registration>,
    pub line: Line,
    /// Of which connections that line is.
    pub generation: u64,
}

/// What the queues of one host at one controller share.
pub(crate) struct Association {
    pub peer: Peer,
    facts: OnceLock<Arc<Facts>>,
    /// Of the namespaces, shared by all paths.
    pub layouts: Arc<Layouts>,
    /// Which path it is, where there are several.
    pub path: Option<PathPlace>,
    state: Mutex<State>,
    /// Signalled when the admin thread has something to do.
    notifier: Wakeup,
}

impl Association {
    /// Of a controller that is to be found yet.
    pub fn new(peer: Peer, path: Option<PathPlace>, layouts: Arc<Layouts>) -> Result<Self> {
        let notifier =
            Wakeup::new().map_err(|cause| Error::kernel("no descriptor for the connection", cause))?;
        Ok(Self { peer, facts: OnceLock::new(), layouts, path, state: Mutex::default(), notifier })
    }

    /// What the controller said of itself when it was found first.
    pub fn facts(&self) -> &Facts {
        static UNKNOWN: OnceLock<Facts> = OnceLock::new();
        self.facts.get().map_or_else(|| UNKNOWN.get_or_init(Facts::default), Arc::as_ref)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Connects an I/O queue.
    ///
    /// # Errors
    /// When the controller has none left, or cannot be reached.
    pub fn open_queue(&self, depth: u32) -> Result<Opened> {
        let (registration, generation, found) = self.reserve(depth)?;
        let Some(found) = found else {
            self.leave(&registration);
            let said = "the controller is being looked for; there are no new queues meanwhile";
            return Err(Error::host(ErrorKind::Busy, said));
        };
        let connected = registration.connect_when_free(&self.peer, found.controller, &found.facts);
        if connected.is_err() {
            self.leave(&registration);
        }
        Ok(Opened { registration, line: connected?, generation })
    }

    /// Has an I/O queue connected now, or else as soon as the controller is found.
    ///
    /// # Errors
    /// When the controller has none left, or is given up.
    pub fn open_path_queue(&self, depth: u32) -> Result<Opened> {
        let (registration, generation, found) = self.reserve(depth)?;
        let found = found.filter(|_| registration.qid() != 0);
        let connect =
            |found: Found| registration.connect_when_free(&self.peer, found.controller, &found.facts);
        let mut line = match found.map(connect) {
            Some(Ok(line)) => line,
            Some(Err(error)) if error.kind() == ErrorKind::Busy && registration.qid() != 0 => {
                self.leave(&registration);
                return Err(error);
            }
            Some(Err(error)) => {
                self.report(generation, &error.to_string());
                Line::awaited(depth)?
            }
            None => Line::awaited(depth)?,
        };
        line.connection.give_back();
        Ok(Opened { registration, line, generation })
    }

    /// A place for a queue, and the controller that is there for it now, of which generation.
    fn reserve(&self, depth: u32) -> Result<(Arc<Registration>, u64, Option<Found>)> {
        let wakeup = Wakeup::new().map_err(|cause| Error::kernel("no descriptor for a queue", cause))?;
        let mut state = self.state();
        // Read under the lock: the first controller may be found meanwhile.
        let first = self.facts.get().map_or(self.peer.options.queues, |facts| facts.queues());
        let of = |qid| Registration::new(qid, depth, wakeup);
        let registration = state.register(first, self.path.is_some(), of)?;
        Ok((registration, state.generation(), state.controller.clone()))
    }

    /// A queue is closed.
    pub fn leave(&self, registration: &Registration) {
        registration.close();
        self.state().registrations.remove(registration);
    }

    /// Which connections these are: goes up when they are lost.
    pub fn generation(&self) -> u64 {
        self.state().generation()
    }

    /// A queue's connection of this generation has ended.
    pub fn report(&self, generation: u64, why: &str) {
        self.state().report(generation, why);
        self.notifier.raise();
    }

    /// Takes the reason why a queue's connection has ended. A report of an earlier generation is dropped.
    pub fn take_report(&self) -> Option<String> {
        self.state().take_report()
    }

    /// The connections are lost: ends all that are left of them.
    pub fn part(&self) {
        let mut state = self.state();
        state.part();
        let registrations = state.registrations.list();
        drop(state);
        registrations.iter().for_each(|registration| registration.close());
    }

    /// Renumbers the open queues for a controller that grants `granted` of them, and returns those with a number: the first opened.
    pub fn number_queues(&self, granted: u16) -> Vec<Arc<Registration>> {
        let registrations = self.state().registrations.list();
        let numbers = (1..=granted).chain(std::iter::repeat(0));
        registrations.iter().zip(numbers).for_each(|(registration, qid)| registration.set_qid(qid));
        registrations.into_iter().take(granted.into()).collect()
    }

    /// Whether an open queue has no number (0), as the current controller grants too few.
    pub fn has_queues_beyond_grant(&self) -> bool {
        self.state().registrations.has_unnumbered()
    }

    /// Gives up the queues that have no number.
    pub fn give_up_queues_beyond_grant(&self) {
        let mut state = self.state();
        let granted = state.granted().unwrap_or(0);
        let beyond = state.registrations.take_unnumbered();
        drop(state);
        let why = format!(
            "the controller came back granting {granted} I/O queues, fewer than are open: this queue is lost"
        );
        beyond.iter().for_each(|registration| registration.send(QueueMessage::Gone(why.clone())));
    }

    /// There is a controller, the first or again. What namespaces are may have changed meanwhile.
    pub fn set_controller(&self, controller: ControllerId, facts: Facts) {
        let facts = Arc::new(facts);
        // Programs rely on the first answer, so it stays.
        let _ = self.facts.set(Arc::clone(&facts));
        self.layouts.begin_change();
        self.layouts.end_change();
        self.state().controller = Some(Found { controller, facts });
    }

    /// A command's status contradicts the known ANA state: the admin thread reads the states again.
    pub fn mark_states_stale(&self) {
        self.state().are_states_stale = true;
        self.notifier.raise();
    }

    /// Whether the ANA states must be read again; resets the mark.
    pub fn take_stale_states(&self) -> bool {
        std::mem::take(&mut self.state().are_states_stale)
    }

    /// The controller is given up: queues get no connection any more.
    pub fn give_up(&self, why: &str) {
        let mut state = self.state();
        state.gone = Some(why.to_owned());
        let registrations = state.registrations.list();
        drop(state);
        let why = gone(why).to_string();
        registrations.iter().for_each(|registration| registration.send(QueueMessage::Gone(why.clone())));
    }

    /// The last user has closed it.
    pub fn end(&self) {
        self.state().is_over = true;
        self.notifier.raise();
    }

    pub fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// The next admin command for the admin thread.
    pub fn next_request(&self) -> Option<Request> {
        self.state().requests.pop_front()
    }

    /// Signalled when the admin thread has something to do.
    pub fn notifier(&self) -> &Wakeup {
        &self.notifier
    }

    fn ask(&self, request: Request) -> Result<(), Box<(Request, Error)>> {
        let mut state = self.state();
        if let Some(error) = state.refusal(self.path.is_some()) {
            drop(state);
            return Err(Box::new((request, error)));
        }
        state.requests.push_back(request);
        drop(state);
        self.notifier.raise();
        Ok(())
    }

    /// Sends an admin command, and waits for it.
    ///
    /// # Errors
    /// When it fails, or the controller does not answer in time.
    pub fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        check_admin(&command)?;
        self.facts().capabilities.admin.require(&command)?;
        let changes = changes_namespaces(&encode_admin(&command).entry);
        if changes {
            self.layouts.begin_change();
        }
        let result = self.send(order_of_admin(&command, 0), command.into_payload());
        if changes {
            self.layouts.end_change();
        }
        Ok(result?)
    }

    /// Sends an admin command by the admin thread, and waits for it.
    ///
    /// # Errors
    /// When it fails, with its memory, or the controller does not answer in time.
    pub fn send(&self, order: Order, payload: Payload) -> Result<Outcome, Failed> {
        let timeout = self.peer.options.admin_timeout;
        let (caller, answer) = mpsc::sync_channel(1);
        let until = Some(Instant::now() + timeout);
        let request = Request { order, payload, until, reply: Reply::Call(caller) };
        if let Err(refused) = self.ask(request) {
            let (request, error) = *refused;
            return Err(Failed::with_memory(error, request.payload));
        }
        // The admin thread answers every request, at its deadline at the latest.
        let late = || Error::device(ErrorKind::TimedOut, "the controller does not answer");
        answer.recv_timeout(timeout + Duration::from_secs(10)).map_err(|_| late())?
    }

    /// Has a command of a queue aborted, whose connection is of this generation.
    pub fn abort(&self, registration: &Arc<Registration>, cid: u16, generation: u64) -> Arc<Abort> {
        let abort = Arc::new(Abort::new(generation));
        let mut entry = Entry::new(AdminOpcode::ABORT.0, 0, 0);
        entry.cdw10 = AbortCdw10::new().with_sqid(registration.qid()).with_cid(cid).into_bits();
        // Its time begins when it is sent.
        let reply = Reply::Abort(Arc::clone(&abort), Arc::clone(registration));
        let request = Request { order: plain(entry), payload: Payload::Empty, until: None, reply };
        if let Err(refused) = self.ask(request) {
            refused.0.reply.give(Ok(Outcome::default()));
        }
        abort
    }

    /// The layout of a namespace, and the epoch as of which it is known.
    pub fn layout(&self, nsid: u32) -> Result<(u64, Layout)> {
        self.layouts.layout(nsid, || identify::layout(self, nsid))
    }
}

impl Identifies for Association {
    fn identify(&self, command: AdminCommand) -> Result<Outcome> {
        self.admin(command)
    }

    fn identify_buffer(&self, len: usize) -> Result<byway_core::Buffer> {
        byway_core::Buffer::zeroed(len)
    }

    fn reports_command_sets(&self) -> bool {
        self.facts().command_sets
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use byway_fabrics::Nqn;

    use super::*;
    use crate::peer::{TcpOptions, TcpPlace};

    /// Of a controller that is not there.
    pub(crate) fn unreachable() -> Arc<Association> {
        let subsystem = Nqn::new("nqn.2026-11.test:away").unwrap();
        let place = TcpPlace { host: "127.0.0.1".into(), port: 1, subsystem };
        let peer = Peer::new(place, TcpOptions::default()).unwrap();
        Arc::new(Association::new(peer, None, Arc::default()).unwrap())
    }

    impl Association {
        /// A queue of it, without a connection.
        pub(crate) fn registration(&self) -> Arc<Registration> {
            self.reserve(4).unwrap().0
        }
    }
}
