//! The admin ring: several commands on their way at once, each found again by its ticket.

use std::sync::Arc;

use byway_core::encode::Data;
use byway_core::layouts::{Layouts, changes_namespaces};
use byway_core::{
    AdminCommand, Answer, Bounced, Buffer, BufferPool, Buffers, Carried, Error, ErrorKind, Failed, Outcome,
    Payload, RawData, RefusedAdmin, Result, encode_admin,
};
use byway_dma::BusAddr;
use byway_queue::DoorbellIndex;
use byway_spec::base::admin::{AbortCdw10, AdminOpcode};
use byway_spec::{Command as Entry, Completion, Status};
use byway_sys::ProcessLocal;

use crate::bus::Bus;
use crate::mapped::{from_bus, is_gone, pages_of, prepared_at, stands_well};
use crate::prps::Prps;
use crate::rings::Rings;

/// Entries of the admin rings: one more than commands can be on their way.
const ENTRIES: u32 = 64;

/// The admin queue of one controller.
pub(crate) struct AdminQueue<B: Bus> {
    bus: ProcessLocal<Arc<B>>,
    rings: Rings<B>,
    layouts: Arc<Layouts>,
    /// Commands on their way, by their identifiers.
    sent: Vec<Option<Sent>>,
    /// Aborts that the controller takes at once: ACL + 1.
    abort_limit: usize,
}

/// An outstanding command, by its identifier: its owner takes the answer or abandons it.
#[derive(Debug)]
pub(crate) struct Ticket(u16);

impl Ticket {
    /// The identifier, for an Abort.
    pub(crate) fn cid(&self) -> u16 {
        self.0
    }
}

/// A command on its way, with all memory that the device may touch for it.
struct Sent {
    command: AdminCommand,
    /// The program's memory, where the command has a copy of it.
    bounced: Option<Bounced>,
    placed: Placed,
    /// Whether namespaces may be others once it has completed.
    changes_namespaces: bool,
    is_abort: bool,
    /// The answer is dropped.
    is_left: bool,
    answer: Option<Completion>,
}

/// Where the data of a command was placed.
#[derive(Default)]
struct Placed {
    /// A copy of a payload that is held in its command.
    staged: Option<Buffer>,
    lists: Option<Buffer>,
    /// Where the buffer was mapped for this command alone.
    mapped: Option<BusAddr>,
}

impl<B: Bus> AdminQueue<B> {
    /// Rings that the device does not know yet.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub(crate) fn new(bus: &Arc<B>, entries_max: u32, layouts: Arc<Layouts>) -> Result<Self> {
        let rings = Rings::new(bus, ENTRIES.min(entries_max))?;
        let sent = (1..rings.entries()).map(|_| None).collect();
        Ok(Self { bus: Arc::clone(bus).into(), rings, layouts, sent, abort_limit: 1 })
    }

    /// Keeps how many Aborts the controller takes at once.
    pub(crate) fn set_abort_limit(&mut self, limit: usize) {
        self.abort_limit = limit;
    }

    /// Entries of each ring.
    pub(crate) fn entries(&self) -> u32 {
        self.rings.entries()
    }

    /// Where the device sees the submission queue and the completion queue.
    pub(crate) fn bus_addrs(&self) -> (BusAddr, BusAddr) {
        self.rings.bus_addrs()
    }

    /// Sends a command.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`] when as many are on their way as can be, or as many Aborts; when the data cannot be mapped.
    pub(crate) fn begin(&mut self, command: AdminCommand, pool: &BufferPool) -> Result<Ticket, RefusedAdmin> {
        let Some(cid) = self.sent.iter().position(Option::is_none).filter(|_| self.rings.free() > 0) else {
            return Err(RefusedAdmin { command, error: full() });
        };
        let is_abort = encode_admin(&command).entry.opcode() == AdminOpcode::ABORT.0;
        if is_abort && self.aborts() >= self.abort_limit {
            return Err(RefusedAdmin { command, error: too_many_aborts(self.abort_limit) });
        }
        let (command, bounced) = in_pages::<B>(command, pool)?;
        let mut entry = encode_admin(&command).entry;
        let placed = match self.place(&command, &mut entry, pool) {
            Ok(placed) => placed,
            Err(error) => return Err(RefusedAdmin { command: joined(command, bounced), error }),
        };
        let changes_namespaces = changes_namespaces(&entry);
        if changes_namespaces {
            self.layouts.begin_change();
        }
        let is_left = false;
        let sent = Sent { command, bounced, placed, changes_namespaces, is_abort, is_left, answer: None };
        self.send(cid as u16, entry, sent);
        Ok(Ticket(cid as u16))
    }

    /// Aborts that the controller has not answered.
    fn aborts(&self) -> usize {
        self.sent.iter().flatten().filter(|sent| sent.is_abort && sent.answer.is_none()).count()
    }

    fn send(&mut self, cid: u16, mut entry: Entry, sent: Sent) {
        if let Some(place) = self.sent.get_mut(usize::from(cid)) {
            *place = Some(sent);
        }
        entry.cdw0.set_cid(cid);
        let placed = self.rings.place(&entry, &[], 0);
        debug_assert!(placed, "room was looked for before");
        self.bus.ring(DoorbellIndex::submission(0), self.rings.tail());
    }

    /// Points the entry at the command's data.
    fn place(&self, command: &AdminCommand, entry: &mut Entry, pool: &BufferPool) -> Result<Placed> {
        let data = encode_admin(command).data;
        let mut placed = Placed { staged: stage(data, pool)?, ..Placed::default() };
        let Some(buffer) = placed.staged.as_ref().or_else(|| buffer_of(data)) else { return Ok(placed) };
        let at = match prepared_at(buffer, pool) {
            Some(at) => at,
            None => *placed.mapped.insert(self.bus.map(pages_of(buffer)?).map_err(from_bus)?),
        };
        match Prps::new(at, buffer.len(), pool) {
            Ok(prps) => {
                entry.set_prps(prps.first, prps.second);
                placed.lists = prps.lists;
                Ok(placed)
            }
            Err(error) => {
                self.unplace(&placed);
                Err(error)
            }
        }
    }

    fn unplace(&self, placed: &Placed) {
        if let Some(at) = placed.mapped {
            // A bus that cannot unmap has lost its device; no device is left to touch the memory.
            let _ = self.bus.unmap(at);
        }
    }

    /// Takes the completions that have come.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] when one reports an impossible head.
    pub(crate) fn look(&mut self) -> Result<()> {
        while let Some(completion) = self.rings.take()? {
            self.bus.ring(DoorbellIndex::completion(0), self.rings.head());
            // One of a command that was never sent says nothing of those that were.
            let Some(place) = self.sent.get_mut(usize::from(completion.cid)) else { continue };
            let Some(sent) = place.as_mut().filter(|sent| sent.answer.is_none()) else { continue };
            sent.answer = Some(completion);
            if sent.changes_namespaces {
                self.layouts.end_change();
            }
            if sent.is_left
                && let Some(sent) = place.take()
            {
                self.unplace(&sent.placed);
            }
        }
        Ok(())
    }

    /// What came of a command, once its completion was taken. The ticket is used up then.
    pub(crate) fn take(&mut self, ticket: &Ticket) -> Option<Result<Outcome, Failed>> {
        let place = self.sent.get_mut(usize::from(ticket.0))?;
        let completion = place.as_ref()?.answer?;
        let sent = place.take()?;
        self.unplace(&sent.placed);
        Some(outcome(sent, &completion))
    }

    /// Whether answers wait to be taken.
    pub(crate) fn has_answers(&self) -> bool {
        self.sent.iter().flatten().any(|sent| sent.answer.is_some())
    }

    /// The caller stopped waiting for a command. Its memory is kept until the device has answered.
    pub(crate) fn leave(&mut self, ticket: &Ticket) {
        let Some(place) = self.sent.get_mut(usize::from(ticket.0)) else { return };
        match place.as_mut() {
            Some(sent) if sent.answer.is_none() => sent.is_left = true,
            _ => {
                if let Some(sent) = place.take() {
                    self.unplace(&sent.placed);
                }
            }
        }
    }
}

impl<B: Bus> Drop for AdminQueue<B> {
    fn drop(&mut self) {
        if !self.bus.owner().is_current() || !is_gone(&**self.bus) {
            // The device may still write what it has not answered; it is kept for ever.
            let unanswered =
                |sent: &&mut Option<Sent>| sent.as_ref().is_some_and(|sent| sent.answer.is_none());
            self.sent.iter_mut().filter(unanswered).for_each(|sent| std::mem::forget(sent.take()));
        }
    }
}
/// The command with its data in pages, and the program's memory if a copy travels for it.
fn in_pages<B: Bus>(
    command: AdminCommand,
    pool: &BufferPool,
) -> Result<(AdminCommand, Option<Bounced>), RefusedAdmin> {
    if stands_well::<B>(&command, pool) {
        return Ok((command, None));
    }
    match pool.take(command.data().len()) {
        Ok(copy) => {
            let (command, bounced) = command.bounce(copy);
            Ok((command, Some(bounced)))
        }
        Err(error) => Err(RefusedAdmin { command, error }),
    }
}

/// The command with the memory that the program gave it.
fn joined(command: AdminCommand, bounced: Option<Bounced>) -> AdminCommand {
    match bounced {
        Some(bounced) => command.with_memory(bounced.into_memory()).0,
        None => command,
    }
}

/// What a program gets for a completion.
fn outcome(sent: Sent, completion: &Completion) -> Result<Outcome, Failed> {
    let Sent { command, bounced, .. } = sent;
    let buffer = command.into_buffer();
    if !completion.status().is_success() {
        let error = Error::status(completion.status());
        return Err(match bounced {
            Some(bounced) => Failed::with_memory(error, bounced.into_memory()),
            None => Failed { error, buffer, vector: Buffers::NONE },
        });
    }
    let answer = Answer { dw0: completion.dw0, dw1: completion.dw1, commands: 1, slots: 1 };
    let mut outcome = Outcome { answer, buffer, vector: Buffers::NONE };
    if let Some(bounced) = bounced {
        bounced.rejoin(&mut outcome);
    }
    Ok(outcome)
}

/// The buffer of a command's data, if it has any.
fn buffer_of(data: Data<'_>) -> Option<&Buffer> {
    match data {
        Data::In(buffer) | Data::Out(Payload::Buffer(buffer)) | Data::Both { buffer, .. } => {
            Some(buffer).filter(|buffer| !buffer.is_empty())
        }
        Data::None | Data::InVectored(_) | Data::Out(_) => None,
    }
}

/// A copy, in memory of the pool, of a payload that is held in its command.
fn stage(data: Data<'_>, pool: &BufferPool) -> Result<Option<Buffer>> {
    let Data::Out(Payload::Small(small)) = data else { return Ok(None) };
    let mut buffer = pool.take(small.as_slice().len())?;
    buffer.as_mut_slice().copy_from_slice(small.as_slice());
    Ok(Some(buffer))
}

#[cold]
fn full() -> Error {
    Error::host(ErrorKind::QueueFull, "as many admin commands are on their way as the admin queue holds")
}

#[cold]
fn too_many_aborts(limit: usize) -> Error {
    let said = format!("{limit} Aborts are outstanding, as many as the controller takes at once (ACL)");
    Error::host(ErrorKind::QueueFull, said)
}

/// An Abort of command `cid` of queue `sqid`.
pub(crate) fn abort_of(sqid: u16, cid: u16) -> AdminCommand {
    let mut entry = Entry::new(AdminOpcode::ABORT.0, 0, 0);
    entry.cdw10 = AbortCdw10::new().with_sqid(sqid).with_cid(cid).into_bits();
    AdminCommand::raw(entry, RawData::None)
}

/// Whether the controller refused an Abort because it has as many as it takes at once: the Abort is to be sent again.
pub(crate) fn is_over_abort_limit(answer: &Result<Outcome, Failed>) -> bool {
    let status = answer.as_ref().err().and_then(|failed| failed.error.nvme_status());
    status.is_some_and(|status| status.is(Status::ABORT_LIMIT_EXCEEDED))
}
