//! Executing and completing gathered commands.

use byway_dma::{DmaFault, HostMemory};
use byway_flash::{Flash, StallCause};
use byway_kv::{Key, PREFETCH_GROUP};
use byway_link::Class;
use byway_queue::CompletionPermit;
use byway_spec::base::completion::COMPLETION_BYTES;
use byway_spec::{Completion, Status};

use super::leases::{QueueLeases, is_leasable};
use super::unlocked::permit;
use super::{DelegatedHabits, DelegatedQueue, ERRORS_KEPT, Gathering, ManyLookup, Place, What, Work};
use crate::admin::note;
use crate::counting::{Executed, QueueKind, QueueOf, Typed};
use crate::data_pointer;
use crate::error::CommandError;
use crate::namespace::kv::{Lookups, StoreIf};
use crate::namespace::media::check_whole;
use crate::namespace::{Namespace, NvmNamespace, write_error};
use crate::opcode::FIRST_VENDOR_OPCODE;
use crate::outcome::Outcome;
use crate::port::Port;
use crate::subsystem::{Attempts, BlockPermit, OVERTAKEN, Subsystem};

impl DelegatedQueue {
    /// Whether every gathered command was executed.
    #[inline]
    pub fn is_executed(&self) -> bool {
        self.gathered.iter().all(|gathering| gathering.is_done)
    }

    /// Executes the gathered commands that [`Self::execute_unlocked`] and [`Self::execute_shared`] have left, by groups, of which each is prefetched first.
    pub fn execute(&mut self, subsystem: &mut Subsystem) {
        self.execute_until(subsystem, false);
    }

    /// The same, but only up to a write that has renewed the lease for those behind it: they need the run lock no more.
    pub fn execute_to_renew(&mut self, subsystem: &mut Subsystem) {
        self.execute_until(subsystem, true);
    }

    fn execute_until(&mut self, subsystem: &mut Subsystem, renewed: bool) {
        subsystem.note_wait(StallCause::FullRing, std::mem::take(&mut self.full_ring_ns));
        self.uncounted.settle(subsystem);
        self.note_batch(subsystem);
        let stores_alone = self.has_leased_stores_alone();
        for at in 0..self.gathered.len() {
            if at % PREFETCH_GROUP == 0 {
                self.prefetch_group(subsystem, at);
            }
            // The first of them renews the lease for the others.
            if !(stores_alone && !self.gathered[at].is_done && self.put_by_lease(at).is_some()) {
                let is_write = !self.gathered[at].is_done && self.gathered[at].work.what == What::Write;
                self.execute_one(subsystem, at);
                if renewed && stores_alone && is_write {
                    return;
                }
            }
        }
    }

    /// Prefetches memory for the lookups of the group that begins at `at`, of the namespace of its first command.
    #[inline]
    pub(super) fn prefetch_group(&self, subsystem: &Subsystem, at: usize) {
        let group = self.gathered.get(at..).unwrap_or_default();
        let [first, _, ..] = group else { return };
        if let Some(Namespace::Kv(kv)) = subsystem.namespace(first.nsid) {
            let group = group.iter().take(PREFETCH_GROUP);
            kv.prefetch(
                subsystem.flash(),
                group.filter(|one| one.nsid == first.nsid).filter_map(Gathering::lookup),
            );
        }
    }

    #[inline]
    fn execute_one(&mut self, subsystem: &mut Subsystem, at: usize) {
        let Self { qid, gathered, payloads, many, habits, leases, blocks, .. } = self;
        let Some(gathering) = gathered.get_mut(at).filter(|gathering| !gathering.is_done) else { return };
        gathering.is_done = true;
        subsystem.note_command(gathering.counted);
        if gathering.result.is_ok() {
            let room = (payloads.as_mut_slice(), &mut many.lookups);
            let permit = permit(blocks, gathering.nsid).filter(|_| is_leasable(blocks, gathering));
            let Gathering { nsid, work, .. } = gathering;
            gathering.result = perform_whole(subsystem, habits, (leases, permit), *nsid, work, room);
        }
        if gathering.work.what == What::GetMany {
            gathering.work.value.len = many.lookups.result_bytes();
        }
        subsystem.count_stall(QueueOf { controller: habits.id, qid: *qid }, gathering.nsid);
        let bytes = moved_bytes(gathering);
        count_host(subsystem, gathering, bytes);
        if subsystem.counts_commands() {
            count(subsystem, gathering, bytes);
        }
    }

    /// Writes the completions of the executed commands, each after the value that it read.
    pub fn complete(&mut self, port: &mut Port<'_>) {
        let mut gathered = std::mem::take(&mut self.gathered);
        for (at, Gathering { ticket, work, result, .. }) in gathered.drain(..).enumerate() {
            let behind = self.result_behind(at, &work, &result);
            let result = match (work.what, result) {
                (What::Get, Ok(value_bytes)) if behind.is_some() => Ok(value_bytes),
                (What::Get, Ok(value_bytes)) => self.send(port, at, work.value, value_bytes),
                (What::GetMany, Ok(values)) => self.send_many(port).map(|()| values),
                (What::Read, Ok(_)) => self.send(port, at, work.value, work.value.len as u32).map(|_| 0),
                (_, result) => result,
            };
            let (status, dw0) = match result {
                Ok(dw0) => (Status::SUCCESS, dw0),
                Err(error) => (self.note_error(ticket.cid, &error), error.dw0),
            };
            let head = self.sq.ring.head();
            self.sq.reported_head = head;
            let entry = Completion::new(self.qid, head, ticket.cid, status).with_result(dw0.into());
            let stored = match behind {
                None => self.post(port, ticket.permit, entry),
                Some(result) => self.post_with_result(port, ticket.permit, entry, result),
            };
            // The host may have unmapped the completion queue: then no interrupt could say anything.
            let is_stored = stored.is_ok();
            self.broken |= !is_stored;
            self.unannounced |= is_stored;
            if !self.habits.coalesce_interrupts {
                self.announce(port);
            }
        }
        // Keeps the vector's capacity.
        self.gathered = gathered;
        (self.payload_end, self.result_entries) = (0, 0);
        self.many.is_gathered = false;
        self.announce(port);
    }

    #[inline]
    fn post(
        &mut self,
        port: &mut Port<'_>,
        permit: CompletionPermit,
        entry: Completion,
    ) -> Result<(), DmaFault> {
        port.meter.posted_write(Class::Completion, COMPLETION_BYTES as u64);
        let place = self.cq.ring.post(permit);
        let entry = entry.with_phase(place.phase).to_bytes();
        port.memory.store_completion(self.cq.slot(place.index), &entry)
    }

    /// Moves what was read to the host's buffer of the command gathered at `at`.
    fn send(
        &mut self,
        port: &mut Port<'_>,
        at: usize,
        into: Place,
        value_bytes: u32,
    ) -> Result<u32, CommandError> {
        let moved = into.len.min(value_bytes as usize);
        let Self { room, payloads, habits, commands, .. } = self;
        let command = &commands[at];
        let data = data_pointer::map_buffer(
            port,
            &mut room.mapped,
            command,
            into.len,
            moved,
            habits.whole_page_prp,
        )?;
        let mut sink = data.sink(&mut room.stage)?;
        sink.put(port, &payloads[into.at..into.at + moved])?;
        sink.finish(port)?;
        Ok(value_bytes)
    }

    /// Moves the result of the Retrieve Many to its host's buffer.
    fn send_many(&mut self, port: &mut Port<'_>) -> Result<(), CommandError> {
        let Self { many: ManyLookup { lookups, mapped, .. }, room, .. } = self;
        let sent = lookups.send(port, mapped, &mut room.stage);
        lookups.trim();
        sent
    }

    fn note_error(&mut self, cid: u16, error: &CommandError) -> Status {
        let (status, noted) = note(self.qid, cid, error);
        if let Some(noted) = noted {
            if self.errors.len() == ERRORS_KEPT {
                self.errors.remove(0);
            }
            self.errors.push(noted);
        }
        status
    }

    fn announce(&mut self, port: &mut Port<'_>) {
        if std::mem::take(&mut self.unannounced)
            && let Some(vector) = self.habits.vector
        {
            port.meter.interrupt();
            port.interrupts.raise(vector);
        }
    }
}

impl Gathering {
    /// The key that it looks up. A store looks up none.
    #[inline]
    fn lookup(&self) -> Option<Key> {
        if self.work.what == What::Put { None } else { self.work.key() }
    }
}

/// Bytes of data that a command moves, if its host's buffer is mapped.
#[inline]
fn moved_bytes(gathering: &Gathering) -> usize {
    let Gathering { work, result, .. } = gathering;
    match (work.what, result) {
        (What::Get, Ok(value_bytes)) => work.value.len.min(*value_bytes as usize),
        _ => work.value.len,
    }
}

/// Counts a command for SMART. A value in the command's own dwords is counted separately.
#[inline]
fn count_host(subsystem: &mut Subsystem, gathering: &Gathering, bytes: usize) {
    let is_done = gathering.result.is_ok();
    subsystem.count_host(gathering.counted.opcode(), if is_done { bytes } else { 0 });
    if is_done && gathering.work.what == What::Put && gathering.counted.opcode() >= FIRST_VENDOR_OPCODE {
        subsystem.count_value(bytes);
    }
}

/// Counts a command by its type.
fn count(subsystem: &mut Subsystem, gathering: &Gathering, bytes: usize) {
    let Gathering { counted, nsid, result, .. } = gathering;
    let typed = Typed { queue: QueueKind::Io, nsid: *nsid, opcode: counted.opcode() };
    let result = result.clone().map(Outcome::with);
    subsystem.count_by_type(&Executed { typed, result: &result, changes: false, bytes });
}

/// Executes one command, unless the image was truncated before it or meanwhile.
#[inline]
fn perform_whole(
    subsystem: &mut Subsystem,
    habits: &DelegatedHabits,
    (leases, permit): (&mut QueueLeases, Option<&BlockPermit>),
    nsid: u32,
    work: &Work,
    room: (&mut [u8], &mut Lookups),
) -> Result<u32, CommandError> {
    check_whole(subsystem.flash(), work.what.access())?;
    let (payloads, lookups) = room;
    let mut attempts = Attempts::default();
    let result = loop {
        let leases = (&mut *leases, permit);
        let done = perform(subsystem, habits, leases, nsid, work, (&mut *payloads, &mut *lookups));
        if !subsystem.is_overtaken(nsid, work.what.access(), &done, &mut attempts) {
            break done?;
        }
        if work.what == What::GetMany {
            // Its keys are answered already.
            return Err(OVERTAKEN);
        }
    };
    check_whole(subsystem.flash(), work.what.access())?;
    Ok(result)
}

/// Executes one command; its result's dword 0.
#[inline]
fn perform(
    subsystem: &mut Subsystem,
    habits: &DelegatedHabits,
    (leases, permit): (&mut QueueLeases, Option<&BlockPermit>),
    nsid: u32,
    work: &Work,
    (payloads, lookups): (&mut [u8], &mut Lookups),
) -> Result<u32, CommandError> {
    let is_counted = subsystem.counts_commands();
    let (namespace, flash) = subsystem.admit(nsid, habits.id, work.what.access())?;
    let value = work.value.at..work.value.at + work.value.len;
    let Some(key) = work.key() else {
        let blocks = &mut payloads[value];
        return match work.what {
            What::Read => {
                // A write before it in the group may wait.
                flash.take_in_writes();
                namespace.nvm()?.read_at(flash, work.at, blocks, &mut 0).map(|()| 0)
            }
            What::Write => write(namespace.nvm()?, flash, (leases, permit), work.at, blocks).map(|()| 0),
            What::GetMany => {
                namespace.kv()?.look_up_at(flash, lookups, &mut 0);
                Ok(lookups.values())
            }
            _ => Ok(0),
        };
    };
    let kv = namespace.kv()?;
    match work.what {
        What::Put if work.when == StoreIf::Any && !is_counted => {
            leases.store(nsid, kv, flash, &key, &payloads[value]).map(|()| 0)
        }
        What::Put => kv.put_at(flash, &key, &payloads[value], work.when, &mut 0).map(|()| 0),
        What::Get => kv.get_at(flash, &key, false, &mut payloads[value], &mut 0),
        What::Delete => kv.delete_at(flash, &key, &mut 0).map(|()| 0),
        What::Exist => kv.exist_at(flash, &key, &mut 0).map(|()| 0),
        What::GetMany | What::Read | What::Write | What::Nothing => Ok(0),
    }
}

/// Writes blocks: by the lease of the queue, which is renewed first, if the write is for one.
fn write(
    namespace: &NvmNamespace,
    flash: &mut Flash,
    (leases, permit): (&mut QueueLeases, Option<&BlockPermit>),
    at: u64,
    data: &[u8],
) -> Result<(), CommandError> {
    if let Some(permit) = permit
        && let Some(lease) = leases.open_for_blocks(flash)
    {
        flash.renew_block_lease(lease).map_err(write_error)?;
        if permit.write(lease, at, data) {
            return Ok(());
        }
    }
    flash.take_in_writes();
    namespace.write_at(flash, at, data, &mut 0)
}
