//! The driver as a [`Backend`]: queued commands that own their memory.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use byway_core::encode::{self, Data, Encoded};
use byway_core::moves::{Layout, restrict_zeroes};
use byway_core::{
    BackendQueue, Bounced, Buffer, Carried, Command, Error, ErrorKind, Finished, KvCommand, NvmCommand,
    Outcome, Refused, Result,
};
use byway_spec::Command as Entry;
use byway_spec::vendor::{VendorOpcode, has_inline_result, inline_result_max_bytes, result_buffer_bytes};
use byway_sys::{Deadline, Spin};

use crate::bus::{Bus, POLLS_BEFORE_SLEEP};
use crate::mapped::{from_bus, stands_well};
use crate::queue_pair::Queue;
use crate::queue_pair::listening::Listening;
use crate::queue_pair::transfer::{self, Out, Put};
use crate::table::OpIndex;

impl<B: Bus> BackendQueue for Queue<B> {
    /// At its deadline the command is aborted. It fails as timed out, unless the device executes it all
    /// the same; and its memory stays with it until the device has answered, however long that takes.
    #[inline]
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        self.take(command, tag, limit)?;
        if limit.is_some() {
            self.set_alarm();
        }
        Ok(())
    }

    /// Every command begins when it is submitted. What a device that runs in this thread has deferred is done here, if the
    /// program waits by the descriptor.
    fn start(&mut self) -> Result<()> {
        self.check_owner()?;
        if self.event.is_some() { self.prepare_to_sleep() } else { Ok(()) }
    }

    /// The descriptor of the queue's interrupt, and of the next time by which a command is to be done. A device that runs in the thread of its host does its work in `submit`,
    /// `start` and `next_finished`; what it cannot do without the host (a modelled deadline that is still to come) keeps the
    /// descriptor readable, so that its event loop comes back.
    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_owner()?;
        let event = match self.event.take() {
            Some(event) => event,
            None => Listening::to(self.bus.listen(self.qid()).map_err(from_bus)?)?,
        };
        if !self.ready.is_empty() {
            self.bus.call(self.qid());
        }
        event.alarm.set(self.left());
        Ok(self.event.insert(event).alarm.as_fd())
    }

    fn submit_all(&mut self, commands: &mut impl Iterator<Item = (Command, u64)>) -> Result<(), Refused> {
        self.holds_doorbell = true;
        let refused = commands.find_map(|(command, tag)| self.submit(command, tag).err());
        self.holds_doorbell = false;
        self.ring_tail();
        refused.map_or(Ok(()), Err)
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        self.check_owner()?;
        if self.ready.is_empty() {
            self.look()?;
            self.idle_at_second_look()?;
            self.ring_head();
            if self.event.is_some() && self.ready.is_empty() {
                self.prepare_to_sleep()?;
                self.set_alarm();
            }
        }
        Ok(self.take_ready())
    }

    fn poll(&mut self, max: usize, on: &mut impl FnMut(Finished)) -> Result<usize> {
        let mut taken = 0;
        while taken < max
            && let Some(finished) = self.next_finished()?
        {
            on(finished);
            taken += 1;
            // Completions that were found together are taken together.
            while taken < max
                && let Some(finished) = self.take_ready()
            {
                on(finished);
                taken += 1;
            }
        }
        Ok(taken)
    }

    #[inline]
    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        if self.outstanding() == 0 || !self.sleep(timeout)? {
            return Ok(None);
        }
        self.next_finished()
    }

    /// Asks the controller to abort one command of the operation. Fragments that are not sent together with the others
    /// are not sent any more only if the device refuses them.
    fn cancel(&mut self, tag: u64) -> Result<()> {
        self.check_owner()?;
        match self.table.find(tag) {
            Some(cid) => self.abort(cid).map_err(|error| error.doing("cancel")),
            None if self.table.is_kept(tag) => Ok(()),
            None => {
                Err(Error::host(ErrorKind::NotFound, format!("no command with tag {tag} is outstanding")))
            }
        }
    }

    fn outstanding(&self) -> u32 {
        self.table.started()
    }

    fn depth(&self) -> u32 {
        self.table.depth()
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        self.check_owner()?;
        if stands_well::<B>(&command, self.pool()) {
            self.check(&command)?;
            return self.call(command, None);
        }
        let copy = self.copy_for(&command)?;
        let (command, bounced) = command.bounce(copy);
        self.call(command, Some(Box::new(bounced)))
    }

    fn explained(&self, error: Error) -> Error {
        if self.check_owner().is_err() {
            return error;
        }
        self.device.explained(error, self.qid())
    }
}

impl<B: Bus> Queue<B> {
    /// Waits until a finished command can be taken, at most `timeout`; says whether one can be.
    fn sleep(&mut self, timeout: Duration) -> Result<bool> {
        self.check_owner()?;
        if !self.ready.is_empty() || self.table.started() == 0 {
            return Ok(!self.ready.is_empty());
        }
        if self.spin()? || timeout.is_zero() {
            return Ok(!self.ready.is_empty());
        }
        // What wakes may be the interrupt of a completion that was taken before, and a bus may return early.
        let end = Deadline::after(timeout);
        loop {
            let timeout = end.left_or_max();
            self.sleep_for_interrupt(self.left().map_or(timeout, |left| timeout.min(left)))?;
            if self.spin()? || self.table.started() == 0 || end.is_over() {
                return Ok(!self.ready.is_empty());
            }
        }
    }

    /// Sends a command and waits for it.
    fn call(&mut self, command: Command, bounced: Option<Box<Bounced>>) -> Result<Outcome> {
        let op = self.start_call()?;
        let sent = self.send_command(op, &command);
        self.hold(op, command);
        self.table.op(op).set_bounced(bounced);
        if let Err(error) = sent {
            return Err(self.leave(op, error));
        }
        self.await_call(op)?;
        self.conclude_call(op)
    }

    #[inline]
    fn take(&mut self, command: Command, tag: u64, within: Option<Duration>) -> Result<(), Refused> {
        if !stands_well::<B>(&command, self.pool()) {
            return self.submit_bounced(command, tag, within);
        }
        match self.send(&command, tag, within) {
            Ok((op, fault)) => {
                self.keep(op, command, fault);
                Ok(())
            }
            Err(error) => Err(Refused { command, error }),
        }
    }

    /// Takes a command whose memory the device cannot access: it is bounced in pages.
    #[cold]
    fn submit_bounced(
        &mut self,
        command: Command,
        tag: u64,
        within: Option<Duration>,
    ) -> Result<(), Refused> {
        let copy = match self.copy_for(&command) {
            Ok(copy) => copy,
            Err(error) => return Err(Refused { command, error }),
        };
        let (command, bounced) = command.bounce(copy);
        match self.send(&command, tag, within) {
            Ok((op, fault)) => {
                self.table.op(op).set_bounced(Some(Box::new(bounced)));
                self.keep(op, command, fault);
                Ok(())
            }
            Err(error) => Err(Refused { command: command.with_memory(bounced.into_memory()).0, error }),
        }
    }

    /// Sends a command that stays where it is meanwhile. Its operation, and what ended the sending before all of it was
    /// sent.
    #[inline]
    fn send(
        &mut self,
        command: &Command,
        tag: u64,
        within: Option<Duration>,
    ) -> Result<(OpIndex, Option<Error>)> {
        self.check(command)?;
        let op = self.start(tag)?;
        let sent = self.send_command(op, command);
        match sent {
            Err(error) if self.table.op(op).answer.commands == 0 => Err(self.leave(op, error)),
            sent => {
                if let Some(timeout) = within {
                    self.deadlines.set(op, timeout, self.table.depth());
                }
                Ok((op, sent.err()))
            }
        }
    }

    /// Refuses what no device could take, and what this one would take for more than it is.
    #[inline]
    fn check(&mut self, command: &Command) -> Result<()> {
        self.check_owner()?;
        encode::check(command)?;
        let data = encode::data(command);
        if let Command::Nvm(command) = command {
            self.limits().nvm.require(command)?;
        }
        self.check_moves(command, data)?;
        if let Command::Kv(command) = command {
            self.limits().kv.require(command)?;
            if matches!(command, KvCommand::BulkStore { .. }) && self.limits().bulk_max_bytes == 0 {
                return Err(Error::host(ErrorKind::Unsupported, "the device did not announce bulk stores"));
            }
        }
        self.check_len(data.len())
    }

    /// Sends the commands of an operation. The command stays where it is until it was sent.
    fn send_command(&mut self, op: OpIndex, command: &Command) -> Result<()> {
        if let Command::Kv(KvCommand::Store { nsid, key, value, options }) = command {
            let put = Put { nsid: *nsid, key, value: Out::of(value), options: *options };
            return transfer::store(self, op, &put);
        }
        if let Command::Nvm(NvmCommand::CompareAndWrite { data, .. }) = command {
            return transfer::pair::send(self, op, encode::encode(command).entry, Out::of(data));
        }
        if let Command::Kv(KvCommand::Retrieve { nsid, key, .. }) = command {
            self.prefetch_key(*nsid, key);
        }
        let Encoded { mut entry, data } = encode::encode(command);
        if let Command::Nvm(NvmCommand::WriteZeroes { deallocate: true, .. }) = command {
            let layout = self.layout(entry.nsid)?;
            restrict_zeroes(&mut entry, layout);
        }
        match command {
            Command::Raw(_) => {
                self.note_raw_command(op, entry.nsid);
                self.ask_inline_of_raw(&mut entry, data)?;
            }
            Command::Kv(KvCommand::Retrieve { .. } | KvCommand::List { .. }) => self.ask_inline(&mut entry),
            _ => {}
        }
        match data {
            Data::None => self.send_one(op, entry),
            Data::Out(payload) => transfer::send(self, op, || entry, Out::of(payload)),
            Data::In(into) | Data::Both { buffer: into, .. } if into.is_empty() => self.send_one(op, entry),
            // What is sent of such a buffer, the device reads before it writes there.
            Data::In(into) | Data::Both { buffer: into, .. } => {
                let at = self.place_buffer(op, into)?;
                self.send_in(op, entry, at, into.len())
            }
            Data::InVectored(_) => Err(not_in_pages()),
        }
    }

    /// Lets the result of Query Results or Exec stand behind its completion, as that of typed commands.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a command that asks for that, and has no buffer for what the device sends.
    fn ask_inline_of_raw(&mut self, entry: &mut Entry, data: Data<'_>) -> Result<()> {
        let is_untyped =
            matches!(VendorOpcode(entry.opcode()), VendorOpcode::QUERY_RESULTS | VendorOpcode::KV_EXEC);
        let asks = inline_result_max_bytes(entry) > 0 || is_untyped && self.asks_inline();
        // Without the extension the field means nothing.
        if !asks || self.limits().inline_read_max_bytes == 0 || !self.may_have_inline_result(entry)? {
            return Ok(());
        }
        if inline_result_max_bytes(entry) == 0 {
            self.ask_inline(entry);
        }
        let takes = matches!(data, Data::In(_) | Data::Both { .. });
        let taken_bytes = if takes { data.len() } else { 0 };
        if taken_bytes >= result_buffer_bytes(entry) as usize {
            return Ok(());
        }
        let said = "a result behind its completion takes a buffer of as many bytes as the command says";
        Err(Error::host(ErrorKind::InvalidArgument, said))
    }

    /// Whether the result of a raw command can stand behind its completion: in namespaces without keys most such opcodes are those of other
    /// commands, and the field is a part of an address.
    fn may_have_inline_result(&mut self, entry: &Entry) -> Result<bool> {
        let is_results = entry.opcode() == VendorOpcode::QUERY_RESULTS.0;
        Ok(is_results || has_inline_result(entry.opcode()) && self.layout(entry.nsid)? == Layout::Keys)
    }

    /// Memory of the device's pool for a copy of a command's data.
    fn copy_for(&mut self, command: &Command) -> Result<Buffer> {
        self.check(command)?;
        self.take_buffer(command.data().len())
    }

    /// Lets an operation hold its command's buffer until it ends.
    #[inline]
    fn hold(&mut self, op: OpIndex, command: Command) {
        // A copy in staging memory is held already; then the command has no buffer of its own.
        if let Some(buffer) = command.into_buffer() {
            self.table.op(op).hold(Some(buffer), true);
        }
    }

    /// Keeps a command's buffer with its operation, now that it was sent, with the fault that ended the sending.
    #[inline]
    fn keep(&mut self, op: OpIndex, command: Command, fault: Option<Error>) {
        self.hold(op, command);
        let state = self.table.op(op);
        state.sending = false;
        state.fail(fault);
        if state.is_done() {
            // The window's own trouble is found again by the next store through it.
            let _ = self.settle(op);
        }
    }

    /// Lets the device run and takes every completion there is.
    fn look(&mut self) -> Result<()> {
        self.bus().poll();
        while self.step()? {}
        // Completions of commands that were given up make nothing ready, and their results fill the queue all the same.
        self.ring_head_if_near_full();
        self.tend()
    }

    /// The program is going to sleep on the descriptor: it can be read from here on if there is anything to come for.
    fn prepare_to_sleep(&mut self) -> Result<()> {
        // A device that is gone raises no interrupt more.
        self.bus.check().map_err(from_bus)?;
        let qid = self.qid();
        self.bus.clear(qid);
        if self.in_flight() > 0 {
            self.bus.idle(qid);
            self.look()?;
            self.ring_head();
        }
        let waits_for_host = self.in_flight() > 0 && self.bus.waits_for_host();
        if !self.ready.is_empty() || waits_for_host {
            self.bus.call(qid);
        }
        Ok(())
    }

    /// A caller that looks twice and submits nothing in between has nothing else to do.
    fn idle_at_second_look(&mut self) -> Result<()> {
        if self.table.started() == 0 {
            self.bus().keep_up();
            return Ok(());
        }
        if !self.ready.is_empty() {
            return Ok(());
        }
        if std::mem::replace(&mut self.looked, true) {
            self.bus().idle(self.qid());
            self.look()?;
        }
        self.empty_polls = self.empty_polls.wrapping_add(1);
        if self.empty_polls == 0 { self.bus.check().map_err(from_bus) } else { Ok(()) }
    }

    /// Looks for completions for a little while; says whether any operation has finished.
    fn spin(&mut self) -> Result<bool> {
        let mut spin = Spin::polls(POLLS_BEFORE_SLEEP);
        loop {
            self.look()?;
            if !self.ready.is_empty() {
                self.ring_head();
                return Ok(true);
            }
            self.bus().idle(self.qid());
            if !spin.again() {
                return Ok(false);
            }
        }
    }
}

/// For memory that [`Queue::submit_bounced`] should have put into pages before.
#[cold]
fn not_in_pages() -> Error {
    Error::host(ErrorKind::Unsupported, "a device cannot be given memory in several pieces")
}
