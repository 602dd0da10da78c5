//! The admin queue: one command at a time, each waited for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::encode::{Data, Encoded};
use byway_core::{
    AdminCommand, Answer, Buffer, BufferPool, Carried, Error, ErrorKind, Outcome, Payload, Result,
    encode_admin,
};
use byway_dma::BusAddr;
use byway_queue::DoorbellIndex;
use byway_spec::{Command, Completion};

use crate::bus::Bus;
use crate::mapped::{from_bus, is_gone, pages_of};
use crate::rings::Rings;
use crate::transfer::prp::Prps;

/// Entries of the admin rings. One command is in flight at a time; the rest is for those that were given up.
const ENTRIES: u32 = 64;

/// How often a waiting host looks and lets the device run before it sleeps.
const LOOKS: u32 = 1024;

/// The longest sleep before the clock is looked at again.
const NAP: Duration = Duration::from_millis(10);

/// The admin queue of one controller.
pub(crate) struct AdminQueue<B: Bus> {
    bus: Arc<B>,
    rings: Rings<B>,
    next_cid: u16,
    timeout: Duration,
    /// Commands that were given up, with the memory that the device may still write.
    given_up: Vec<(u16, Memory)>,
}

/// Memory of one command: its buffer, a copy of its small payload, and its PRP lists.
type Memory = [Option<Buffer>; 3];

impl<B: Bus> AdminQueue<B> {
    /// Rings that the device does not know yet.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub(crate) fn new(bus: &Arc<B>, entries_max: u32, timeout: Duration) -> Result<Self> {
        let rings = Rings::new(bus, ENTRIES.min(entries_max))?;
        Ok(Self { bus: Arc::clone(bus), rings, next_cid: 0, timeout, given_up: Vec::new() })
    }

    /// Entries of each ring.
    pub(crate) fn entries(&self) -> u32 {
        self.rings.entries()
    }

    /// Where the device sees the submission queue and the completion queue.
    pub(crate) fn bus_addrs(&self) -> (BusAddr, BusAddr) {
        self.rings.bus_addrs()
    }

    /// Sends a command and waits for it.
    ///
    /// # Errors
    /// The device's status; [`ErrorKind::TimedOut`]; when the data cannot be mapped.
    pub(crate) fn execute(&mut self, command: AdminCommand, pool: &BufferPool) -> Result<Outcome> {
        if command.is_in_pages() {
            return self.execute_in_pages(command, pool);
        }
        let copy = pool.take(command.data().len())?;
        let (command, apart) = command.apart(copy);
        let mut outcome = self.execute_in_pages(command, pool)?;
        apart.rejoin(&mut outcome);
        Ok(outcome)
    }

    fn execute_in_pages(&mut self, command: AdminCommand, pool: &BufferPool) -> Result<Outcome> {
        let Encoded { mut entry, data } = encode_admin(&command);
        let staged = stage(data, pool)?;
        let mut mapped = None;
        let mut lists = None;
        if let Some(buffer) = staged.as_ref().or_else(|| buffer_of(data)) {
            let at = match buffer.token(pool) {
                Some(at) => BusAddr(at),
                None => *mapped.insert(self.bus.map(pages_of(buffer)?).map_err(from_bus)?),
            };
            let prps = Prps::new(at, buffer.len(), pool)?;
            entry.set_prps(prps.first, prps.second);
            lists = prps.lists;
        }
        let completion = match self.send(&mut entry).and_then(|()| self.wait_for(entry.cid())) {
            Ok(completion) => completion,
            Err(error) => {
                self.given_up.push((entry.cid(), [command.into_buffer(), staged, lists]));
                return Err(error);
            }
        };
        if let Some(at) = mapped {
            self.bus.unmap(at).map_err(from_bus)?;
        }
        if !completion.status().is_success() {
            return Err(Error::status(completion.status()));
        }
        let answer = Answer { dw0: completion.dw0, dw1: completion.dw1, commands: 1, slots: 1 };
        Ok(Outcome { answer, buffer: command.into_buffer(), vector: Vec::new() })
    }

    fn send(&mut self, entry: &mut Command) -> Result<()> {
        let busy = |cid| self.given_up.iter().any(|(given_up, _)| *given_up == cid);
        let cid = (0..=u16::MAX).map(|step| self.next_cid.wrapping_add(step)).find(|cid| !busy(*cid));
        let cid = cid.unwrap_or_default();
        self.next_cid = cid.wrapping_add(1);
        entry.cdw0.set_cid(cid);
        if !self.rings.place(entry, &[], 0) {
            return Err(Error::device(
                ErrorKind::TimedOut,
                "the admin queue is full of commands without an answer",
            ));
        }
        self.bus.ring(DoorbellIndex::submission(0), self.rings.tail());
        Ok(())
    }

    fn wait_for(&mut self, cid: u16) -> Result<Completion> {
        let (mut looks, mut since) = (0, None);
        loop {
            while let Some(completion) = self.rings.take()? {
                self.bus.ring(DoorbellIndex::completion(0), self.rings.head());
                if completion.cid == cid {
                    return Ok(completion);
                }
                self.given_up.retain(|(given_up, _)| *given_up != completion.cid);
            }
            looks += 1;
            self.bus.idle(0);
            self.bus.poll();
            if looks < LOOKS {
                continue;
            }
            let since = *since.get_or_insert_with(Instant::now);
            if since.elapsed() > self.timeout {
                let said = format!("no answer to an admin command within {:?}", self.timeout);
                return Err(Error::device(ErrorKind::TimedOut, said));
            }
            self.bus.wait(0, NAP).map_err(from_bus)?;
        }
    }
}

impl<B: Bus> Drop for AdminQueue<B> {
    fn drop(&mut self) {
        if !is_gone(&*self.bus) {
            // The device may still write what was given up; it is kept for ever.
            std::mem::forget(std::mem::take(&mut self.given_up));
        }
    }
}

/// The buffer that a command's data stands in, if it has bytes.
fn buffer_of(data: Data<'_>) -> Option<&Buffer> {
    match data {
        Data::In(buffer) | Data::Out(Payload::Buffer(buffer)) => {
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
