//! Synchronous calls with borrowed payloads: the fast path.
//!
//! The payload is copied once, to where the device reads it: ring slots, command fields, device memory, a bounce page.
//! So the borrow may end with the call whatever becomes of the command. A call that is given up leaves its operation in
//! the table until the device has answered.

use byway_core::{
    Answer, Buffer, Error, ErrorKind, Key, Nsid, PAGE_BYTES, Result, StoreOptions, blocks_z, encode,
};
use byway_dma::BusAddr;
use byway_link::Method;
use byway_spec::Command as Entry;
use byway_spec::nvm::NvmOpcode;

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::queue_pair::transfer::{self, Out, Put, prp, sgl};
use crate::table::OpIndex;

impl<B: Bus> Queue<B> {
    /// Stores a value.
    ///
    /// # Errors
    /// When the value or the options do not fit the queue's transfer method, or the device refuses the store.
    #[inline]
    pub fn execute_store(
        &mut self,
        nsid: Nsid,
        key: &Key,
        value: &[u8],
        options: StoreOptions,
    ) -> Result<Answer> {
        self.check_len(value.len())?;
        let op = self.start_call()?;
        let put = Put { nsid, key, value: Out { bytes: value, buffer: None }, options };
        let sent = transfer::store(self, op, &put);
        self.finish_sent_call(op, sent)
    }

    /// Reads a value into `into`; the answer's dword 0 is the length of the whole value in bytes, of which at most
    /// `into.len()` are read.
    ///
    /// # Errors
    /// [`ErrorKind::KeyNotFound`], and whatever else the device answers.
    pub fn execute_retrieve(&mut self, nsid: Nsid, key: &Key, into: &mut [u8]) -> Result<Answer> {
        self.check_owner()?;
        self.prefetch_key(nsid, key);
        self.check_len(into.len())?;
        let mut entry = encode::retrieve(nsid, key, into.len() as u32);
        self.ask_inline(&mut entry);
        // The device fills no more than the value has; what is copied beyond is what the memory held.
        self.execute_in(entry, into, |answer, len| (answer.dw0 as usize).min(len))
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// Whatever the device answers; that the key was not there is an error only if the namespace is set so.
    pub fn execute_delete(&mut self, nsid: Nsid, key: &Key) -> Result<Answer> {
        self.execute_plain(encode::delete(nsid, key))
    }

    /// Says whether a key exists.
    ///
    /// # Errors
    /// Whatever else the device answers.
    pub fn execute_exist(&mut self, nsid: Nsid, key: &Key) -> Result<bool> {
        match self.execute_plain(encode::exist(nsid, key)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::KeyNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes `data`, a whole number of blocks of `lba_bytes`, at block `slba`.
    ///
    /// # Errors
    /// When `data` is not 1 to 65536 whole blocks, or the device refuses the write.
    #[inline]
    pub fn execute_write(&mut self, nsid: Nsid, slba: u64, lba_bytes: u32, data: &[u8]) -> Result<Answer> {
        self.check_len(data.len())?;
        let nlb_z = whole_blocks_z(data.len(), lba_bytes)?;
        let op = self.start_call()?;
        let entry = || encode::blocks(NvmOpcode::WRITE, nsid, slba, nlb_z);
        let sent = transfer::send(self, op, entry, Out { bytes: data, buffer: None });
        self.finish_sent_call(op, sent)
    }

    /// Reads whole blocks of `lba_bytes` from block `slba` on into `into`.
    ///
    /// # Errors
    /// When `into` is not 1 to 65536 whole blocks, or the device refuses the read.
    pub fn execute_read(&mut self, nsid: Nsid, slba: u64, lba_bytes: u32, into: &mut [u8]) -> Result<Answer> {
        self.check_owner()?;
        self.check_len(into.len())?;
        let entry = encode::blocks(NvmOpcode::READ, nsid, slba, whole_blocks_z(into.len(), lba_bytes)?);
        self.execute_in(entry, into, |_, len| len)
    }

    /// Makes completed writes durable.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn execute_flush(&mut self, nsid: Nsid) -> Result<Answer> {
        self.execute_plain(Entry::new(NvmOpcode::FLUSH.0, 0, nsid.get()))
    }

    /// Sends a command without data.
    #[inline]
    fn execute_plain(&mut self, entry: Entry) -> Result<Answer> {
        let op = self.start_call()?;
        let sent = self.send_one(op, entry);
        self.finish_sent_call(op, sent)
    }

    /// Sends a command that fills `into`, of which `filled` says how much.
    #[inline]
    fn execute_in(
        &mut self,
        entry: Entry,
        into: &mut [u8],
        filled: impl Fn(&Answer, usize) -> usize,
    ) -> Result<Answer> {
        if into.is_empty() {
            return self.execute_plain(entry);
        }
        let op = self.start_call()?;
        if into.len() > PAGE_BYTES {
            return self.execute_in_staged(op, entry, into, filled);
        }
        let page = self.take_bounce(op).map_err(|error| self.leave(op, error))?;
        let sent = self.send_in(op, entry, self.bounce.bus_addr(page), into.len());
        if let Err(error) = sent.and_then(|()| self.await_call(op)) {
            return Err(self.leave_if_sent(op, error));
        }
        // The page is read before it is given back.
        if self.table.op(op).failed.is_none() {
            let answer = self.answer_so_far(op);
            let len = filled(&answer, into.len());
            self.bounce.copy_out(page, into.get_mut(..len).unwrap_or_default());
        }
        self.table.op(op).take_bounce();
        self.bounce.give_back(page);
        match self.table.take_plain(op) {
            Some(answer) => Ok(answer),
            None => Ok(self.conclude_call(op)?.answer),
        }
    }

    /// The same for what does not fit a page: by a buffer of the device's pool.
    fn execute_in_staged(
        &mut self,
        op: OpIndex,
        entry: Entry,
        into: &mut [u8],
        filled: impl Fn(&Answer, usize) -> usize,
    ) -> Result<Answer> {
        let staged = self.take_buffer(into.len()).and_then(|staging| self.hold_staging(op, staging));
        let at = staged.map_err(|error| self.leave(op, error))?;
        self.table.op(op).give_back = true;
        let sent = self.send_in(op, entry, at, into.len());
        if let Err(error) = sent.and_then(|()| self.await_call(op)) {
            return Err(self.leave_if_sent(op, error));
        }
        let outcome = self.conclude_call(op)?;
        let len = filled(&outcome.answer, into.len());
        let from = outcome.buffer.as_ref().map_or(&[][..], Buffer::as_slice);
        if let (Some(to), Some(from)) = (into.get_mut(..len), from.get(..len)) {
            to.copy_from_slice(from);
        }
        Ok(outcome.answer)
    }

    /// Sends a command that reads from the device.
    #[inline]
    pub(crate) fn send_in(&mut self, op: OpIndex, mut entry: Entry, at: BusAddr, len: usize) -> Result<()> {
        self.point_in(op, &mut entry, at, len)?;
        self.send_one(op, entry)
    }

    /// Points a command that reads from the device at the memory that it fills.
    #[inline(always)]
    pub(crate) fn point_in(&mut self, op: OpIndex, entry: &mut Entry, at: BusAddr, len: usize) -> Result<()> {
        match self.method() {
            Method::Sgl => sgl::point(self, entry, at, len),
            // Exact to the byte, where the device can: never dearer.
            Method::Adaptive if self.limits().methods.contains(Method::Sgl) => {
                sgl::point(self, entry, at, len)
            }
            _ => prp::point(self, op, entry, at, len)?,
        }
        self.note_inline(op, entry);
        Ok(())
    }

    /// Ends a call whose commands were sent, or could not be.
    #[inline(always)]
    pub(crate) fn finish_sent_call(&mut self, op: OpIndex, sent: Result<()>) -> Result<Answer> {
        match sent {
            Ok(()) => self.finish_call(op),
            Err(error) => Err(self.leave(op, error)),
        }
    }

    /// Leaves an operation after an error, unless waiting for it has done so already.
    #[cold]
    fn leave_if_sent(&mut self, op: OpIndex, error: Error) -> Error {
        match self.table.op(op).waiter {
            crate::table::Waiter::Call => self.leave(op, error),
            _ => error,
        }
    }

    /// Refuses a length over what one command may move.
    #[inline]
    pub(crate) fn check_len(&self, len: usize) -> Result<()> {
        let max = self.limits().transfer_max_bytes.min(u64::from(u32::MAX));
        if len as u64 <= max {
            return Ok(());
        }
        Err(over_transfer_limit(len, max))
    }
}

#[cold]
fn over_transfer_limit(len: usize, max: u64) -> Error {
    Error::host(ErrorKind::TooLarge, format!("data of {len} bytes is over the device's limit of {max} bytes"))
}

/// A length in blocks, zero-based.
#[inline]
fn whole_blocks_z(len: usize, lba_bytes: u32) -> Result<u16> {
    let blocks = (len as u64).checked_div(lba_bytes.into()).unwrap_or(0);
    if blocks * u64::from(lba_bytes) != len as u64 || blocks > u64::from(u32::MAX) {
        let said = format!("{len} bytes are no whole number of blocks of {lba_bytes} bytes");
        return Err(Error::host(ErrorKind::InvalidArgument, said));
    }
    blocks_z(blocks as u32)
}
