//! The calls that send a command.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use byway::{
    BackendQueue, Buffer, Buffers, Command, CopyRanges, Error, LbaRange, LbaRanges, Nsid, NvmCommand,
    Payload, RawCommand, Refused, Result,
};

use crate::arg::{handle, invalid};
use crate::buffer::byway_buffer;
use crate::command::{byway_command, byway_range, direction, entry, handles, ranges, raw_data};
use crate::error::{border, count, set_last_error};
use crate::places::NONE;
use crate::queue::byway_queue;
use crate::sized;

/// Reads `blocks` blocks from `slba` on into the buffer, whose length is that of the blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_read(
    queue: *mut byway_queue,
    nsid: u32,
    slba: u64,
    blocks: u32,
    into: *mut byway_buffer,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let queue = unsafe { handle(queue, "queue") }?;
        let nsid = Nsid::new(nsid)?;
        // SAFETY: by the contract.
        unsafe {
            queue.send_with(into, tag, |into| Command::Nvm(NvmCommand::Read { nsid, slba, blocks, into }))
        }
    })
}

/// Writes `blocks` blocks from the buffer, whose length is that of the blocks, at `slba`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_write(
    queue: *mut byway_queue,
    nsid: u32,
    slba: u64,
    blocks: u32,
    from: *mut byway_buffer,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let queue = unsafe { handle(queue, "queue") }?;
        let nsid = Nsid::new(nsid)?;
        // SAFETY: by the contract.
        unsafe {
            queue.send_with(from, tag, |from| {
                Command::Nvm(NvmCommand::Write { nsid, slba, blocks, data: Payload::Buffer(from) })
            })
        }
    })
}

/// As byway_queue_read(), into several buffers, one behind the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_readv(
    queue: *mut byway_queue,
    nsid: u32,
    slba: u64,
    blocks: u32,
    into: *const *mut byway_buffer,
    buffers: u32,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (queue, into) = unsafe { (handle(queue, "queue")?, handles(into, buffers)?) };
        let nsid = Nsid::new(nsid)?;
        // SAFETY: by the contract.
        unsafe {
            queue.send_several(into, tag, |into| {
                Command::Nvm(NvmCommand::ReadVectored { nsid, slba, blocks, into })
            })
        }
    })
}

/// As byway_queue_write(), from several buffers, one behind the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_writev(
    queue: *mut byway_queue,
    nsid: u32,
    slba: u64,
    blocks: u32,
    from: *const *mut byway_buffer,
    buffers: u32,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (queue, from) = unsafe { (handle(queue, "queue")?, handles(from, buffers)?) };
        let nsid = Nsid::new(nsid)?;
        // SAFETY: by the contract.
        unsafe {
            queue.send_several(from, tag, |from| {
                Command::Nvm(NvmCommand::Write { nsid, slba, blocks, data: Payload::Vectored(from) })
            })
        }
    })
}

/// Makes completed writes durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_flush(queue: *mut byway_queue, nsid: u32, tag: u64) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let queue = unsafe { handle(queue, "queue") }?;
        queue.send(Command::Nvm(NvmCommand::Flush { nsid: Nsid::new(nsid)? }), tag)
    })
}

/// Deallocates blocks that are no longer needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_trim(
    queue: *mut byway_queue,
    nsid: u32,
    slba: u64,
    blocks: u32,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let queue = unsafe { handle(queue, "queue") }?;
        let ranges = LbaRanges::new(&[LbaRange { slba, blocks }])?;
        queue.send(Command::Nvm(NvmCommand::Deallocate { nsid: Nsid::new(nsid)?, ranges }), tag)
    })
}

/// Makes blocks read as zeroes; not 0 in `deallocate` lets the device forget them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_write_zeroes(
    queue: *mut byway_queue,
    nsid: u32,
    slba: u64,
    blocks: u32,
    deallocate: c_int,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let queue = unsafe { handle(queue, "queue") }?;
        let (nsid, deallocate) = (Nsid::new(nsid)?, deallocate != 0);
        queue.send(Command::Nvm(NvmCommand::WriteZeroes { nsid, slba, blocks, deallocate }), tag)
    })
}

/// Deallocates blocks of up to 256 ranges that are no longer needed, by one command.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_trim_ranges(
    queue: *mut byway_queue,
    nsid: u32,
    ranges: *const byway_range,
    count: u32,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (queue, ranges) = unsafe { (handle(queue, "queue")?, self::ranges(ranges, count)?) };
        let (nsid, ranges) = (Nsid::new(nsid)?, LbaRanges::new(&ranges)?);
        queue.send(Command::Nvm(NvmCommand::Deallocate { nsid, ranges }), tag)
    })
}

/// Copies blocks of up to 256 ranges to `to`, one behind the other, within the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_copy(
    queue: *mut byway_queue,
    nsid: u32,
    to: u64,
    ranges: *const byway_range,
    count: u32,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (queue, ranges) = unsafe { (handle(queue, "queue")?, self::ranges(ranges, count)?) };
        let (nsid, from) = (Nsid::new(nsid)?, CopyRanges::new(&ranges)?);
        queue.send(Command::Nvm(NvmCommand::Copy { nsid, to, from }), tag)
    })
}

/// Passes a submission queue entry of 64 bytes through; the backend writes its identifier and its data pointer. Bits 1:0
/// of its opcode say which way the buffer's bytes go: 01b to the device, 10b from it. NULL for no data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_raw(
    queue: *mut byway_queue,
    entry: *const c_void,
    data: *mut byway_buffer,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (queue, entry) = unsafe { (handle(queue, "queue")?, self::entry(entry)?) };
        let raw = |memory| Command::Raw(RawCommand { entry, data: raw_data(&entry, memory) });
        if data.is_null() {
            return queue.send(raw(Payload::Empty), tag);
        }
        if direction(&entry).is_none() {
            let opcode = entry.opcode();
            return Err(invalid(format!("opcode {opcode:#04x} says which way no data goes")));
        }
        // SAFETY: by the contract.
        unsafe { queue.send_with(data, tag, |data| raw(Payload::Buffer(data))) }
    })
}

/// Sends `count` commands, under one doorbell or system call where the backend can. Returns how many were taken: fewer
/// than `count` if one was refused, which byway_last_error() describes, or its error's number if that was the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_submit(
    queue: *mut byway_queue,
    commands: *const byway_command,
    count: u32,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let queue = unsafe { handle(queue, "queue") }?;
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: by the contract.
        unsafe { queue.send_all(commands, count) }
    })
}

impl byway_queue {
    /// Sends a command without memory of the program's.
    #[inline]
    pub(crate) fn send(&mut self, command: Command, tag: u64) -> Result<c_int> {
        let place = self.places.take(tag)?;
        self.hand_over(command, place, self.timeout)
    }

    /// Sends a command with a buffer's memory.
    ///
    /// # Safety
    /// `from` is NULL or a live handle.
    #[inline(always)]
    unsafe fn send_with(
        &mut self,
        from: *mut byway_buffer,
        tag: u64,
        command: impl FnOnce(Buffer) -> Command,
    ) -> Result<c_int> {
        let place = self.places.first_free()?;
        // SAFETY: the caller's word.
        let memory = unsafe { handle(from, "buffer") }?.take()?;
        self.places.fill(place, tag, from);
        self.hand_over_with(|| command(memory), place, self.timeout)
    }

    /// Sends a command with the memory of several buffers.
    ///
    /// # Safety
    /// They are NULL or live handles.
    unsafe fn send_several(
        &mut self,
        from: &[*mut byway_buffer],
        tag: u64,
        command: impl FnOnce(Buffers) -> Command,
    ) -> Result<c_int> {
        let place = self.places.take(tag)?;
        // SAFETY: the caller's word.
        match unsafe { self.places.gather(place, from) } {
            Ok(memory) => self.hand_over(command(memory), place, self.timeout),
            Err(error) => {
                self.places.settle(place, None, Buffers::NONE);
                Err(error)
            }
        }
    }

    #[inline]
    fn hand_over(&mut self, command: Command, place: u32, timeout: Option<Duration>) -> Result<c_int> {
        self.hand_over_with(|| command, place, timeout)
    }

    #[inline(always)]
    fn hand_over_with(
        &mut self,
        command: impl FnOnce() -> Command,
        place: u32,
        timeout: Option<Duration>,
    ) -> Result<c_int> {
        let sent = match timeout {
            None => self.queue.submit_with(place.into(), command),
            limit => self.queue.submit_within(command(), place.into(), limit),
        };
        match sent {
            Ok(()) => Ok(0),
            Err(refused) => Err(self.take_back(refused, place)),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_back(&mut self, refused: Refused, place: u32) -> Error {
        let (one, several) = refused.command.into_payload().into_buffers();
        self.places.settle(place, one, several);
        refused.error
    }

    /// Sends a command that a program described, with a time of its own, else the queue's, else `timeout`.
    ///
    /// # Safety
    /// What it points to is as the contract says.
    pub(crate) unsafe fn send_described(
        &mut self,
        described: &byway_command,
        timeout: Option<Duration>,
    ) -> Result<c_int> {
        // SAFETY: the caller's word.
        let (command, place) = unsafe { self.places.prepare(described) }?;
        let own = (described.timeout_ns > 0).then(|| Duration::from_nanos(described.timeout_ns));
        self.hand_over(command, place, own.or(self.timeout).or(timeout))
    }

    /// # Safety
    /// As of [`byway_queue_submit`].
    unsafe fn send_all(&mut self, commands: *const byway_command, count: u32) -> Result<c_int> {
        // SAFETY: the caller's word.
        let described = unsafe { sized::each(commands, count) }?;
        let timed = |one: Result<byway_command>| one.is_ok_and(|one| one.timeout_ns > 0);
        // SAFETY: the caller's word.
        let (taken, stopped) = unsafe {
            match self.timeout.is_some() || described.clone().any(timed) {
                true => self.send_singly(described),
                false => self.send_together(described),
            }
        };
        match stopped {
            Some(error) if taken == 0 => Err(error),
            Some(error) => {
                set_last_error(&error);
                Ok(self::count(taken))
            }
            None => Ok(self::count(taken)),
        }
    }

    /// # Safety
    /// As of [`Self::send_described`].
    unsafe fn send_singly(
        &mut self,
        described: impl Iterator<Item = Result<byway_command>>,
    ) -> (usize, Option<Error>) {
        let mut taken = 0;
        for one in described {
            // SAFETY: the caller's word.
            let sent = one.and_then(|one| unsafe { self.send_described(&one, None) });
            match sent {
                Ok(_) => taken += 1,
                Err(error) => return (taken, Some(error)),
            }
        }
        (taken, None)
    }

    /// # Safety
    /// As of [`Self::send_described`].
    unsafe fn send_together(
        &mut self,
        mut described: impl Iterator<Item = Result<byway_command>>,
    ) -> (usize, Option<Error>) {
        let (mut taken, mut stopped, mut last) = (0, None, NONE);
        let mut commands = std::iter::from_fn(|| {
            // SAFETY: the caller's word.
            match described.next()?.and_then(|one| unsafe { self.places.prepare(&one) }) {
                Ok((command, place)) => {
                    (taken, last) = (taken + 1, place);
                    Some((command, u64::from(place)))
                }
                Err(error) => {
                    stopped = Some(error);
                    None
                }
            }
        });
        if let Err(refused) = self.queue.submit_all(&mut commands) {
            return (taken - 1, Some(self.take_back(refused, last)));
        }
        (taken, stopped)
    }
}
