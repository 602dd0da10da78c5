//! Queues: places for the commands on their way, and the calls that send one.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

use byway::{
    Backend, BackendQueue, Buffer, Buffers, Command, Device, Error, ErrorKind, LbaRange, LbaRanges, Method,
    Nsid, NvmCommand, Payload, Queue, QueueOptions, RawCommand, Refused, Result,
};

use crate::arg::{handle, invalid, put, text_or_none, want};
use crate::buffer::byway_buffer;
use crate::command::{byway_command, direction, entry, handles, raw_data};
use crate::device::byway_device;
use crate::error::{border, byway_error, count, tell};
use crate::places::{NONE, Places};
use crate::sized::{self, crossing};

/// Commands on their way. One thread at a time uses a queue; each thread opens its own.
pub struct byway_queue {
    pub(crate) queue: Queue,
    places: Places,
    timeout: Option<Duration>,
    /// After what time a synchronous call gives its command up.
    pub(crate) call_timeout: Duration,
    /// Errors of the completions that were taken last by `byway_queue_reap`.
    #[expect(clippy::vec_box, reason = "completions point to them: they stay where they are")]
    pub(crate) failed: Vec<Box<byway_error>>,
    /// Callbacks of this queue that have not returned.
    pub(crate) callbacks: u32,
}

/// How a queue shall be. NULL in place of it, or zeroes in it, stand for what the URI says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_queue_options {
    /// sizeof(byway_queue_options).
    pub size: usize,
    /// Most commands outstanding at once.
    pub depth: u32,
    /// Entries of the submission ring, where there is one.
    pub ring_entries: u32,
    /// How payloads cross the link: "prp", "inline", "piggyback"; NULL for what the URI says.
    pub transfer: *const c_char,
    /// After how many nanoseconds byway_queue_execute() gives a command up.
    pub timeout_ns: u64,
}
crossing!(byway_queue_options of 32);

/// Opens a queue of the device's. It may outlive the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_open(
    device: *const byway_device,
    options: *const byway_queue_options,
    queue: *mut *mut byway_queue,
) -> c_int {
    border(|| {
        want(queue, "queue")?;
        // SAFETY: by the contract.
        let device = unsafe { byway_device::shared(device) }?;
        // SAFETY: by the contract.
        let options = unsafe { queue_options(device, options) }?;
        let opened = Box::new(byway_queue::new(Backend::queue(device, options)?, options.timeout));
        // SAFETY: by the contract.
        unsafe { put(queue, Box::into_raw(opened), "queue") }?;
        Ok(0)
    })
}

/// Closes a queue; NULL is none. Waits until every command on its way has finished: their buffers are the program's
/// again, and their completions are lost. Not from a callback of the same queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_close(queue: *mut byway_queue) -> c_int {
    border(|| {
        if queue.is_null() {
            return Ok(0);
        }
        // SAFETY: by the contract.
        let closing = unsafe { handle(queue, "queue") }?;
        if closing.callbacks > 0 {
            return Err(Error::host(ErrorKind::Busy, "a callback of this queue has not returned"));
        }
        let settled = closing.settle_all();
        // SAFETY: `byway_queue_open` made it, and nobody names it again.
        drop(unsafe { Box::from_raw(queue) });
        settled.map(|()| 0)
    })
}

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

/// Tells the device that blocks are no longer needed.
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
/// than `count` if one was refused, which byway_last_error() tells of, or its error's number if that was the first.
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

/// Begins every command that was submitted, for a program that will not look at the queue soon.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_start(queue: *mut byway_queue) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        unsafe { handle(queue, "queue") }?.queue.start().map(|()| 0)
    })
}

/// Asks for the command with this tag to be given up. It still finishes once, cancelled or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_cancel(queue: *mut byway_queue, tag: u64) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let queue = unsafe { handle(queue, "queue") }?;
        let place = queue.places.of(tag)?;
        queue.queue.cancel(place).map(|()| 0)
    })
}

/// Gives commands that are submitted from now on up when they have not finished after this many nanoseconds; 0 for never,
/// as a queue begins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_set_timeout(queue: *mut byway_queue, timeout_ns: u64) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let queue = unsafe { handle(queue, "queue") }?;
        queue.timeout = (timeout_ns > 0).then(|| Duration::from_nanos(timeout_ns));
        Ok(0)
    })
}

/// A descriptor that can be read when completions may be there, for the program's own poll(2) or epoll(7). Whoever was
/// woken takes completions until there are none. It stays the queue's: neither read it nor close it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_event_fd(queue: *mut byway_queue) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let queue = unsafe { handle(queue, "queue") }?;
        queue.queue.event().map(|event| event.as_raw_fd())
    })
}

/// Commands submitted whose completion was not taken yet; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_outstanding(queue: *const byway_queue) -> u32 {
    // SAFETY: by the contract NULL or a queue of this library.
    unsafe { queue.as_ref() }.map_or(0, |queue| queue.queue.outstanding())
}

/// Most commands outstanding at once; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_depth(queue: *const byway_queue) -> u32 {
    // SAFETY: by the contract NULL or a queue of this library.
    unsafe { queue.as_ref() }.map_or(0, |queue| queue.queue.depth())
}

/// # Safety
/// As of [`byway_queue_open`].
unsafe fn queue_options(device: &Device, given: *const byway_queue_options) -> Result<QueueOptions> {
    let mut options = device.queue_options();
    if given.is_null() {
        return Ok(options);
    }
    // SAFETY: by the contract.
    let given = unsafe { sized::read(given) }?;
    // SAFETY: by the contract.
    if let Some(transfer) = unsafe { text_or_none(given.transfer, "byway_queue_options.transfer") }? {
        let method = transfer.parse::<Method>();
        options.transfer = method.map_err(|unknown| invalid(unknown.to_string()))?;
    }
    if given.depth > 0 {
        options.depth = given.depth;
    }
    if given.ring_entries > 0 {
        options.ring_entries = Some(given.ring_entries);
    }
    if given.timeout_ns > 0 {
        options.timeout = Duration::from_nanos(given.timeout_ns);
    }
    Ok(options)
}

impl byway_queue {
    fn new(queue: Queue, call_timeout: Duration) -> Self {
        let places = Places::new(queue.depth());
        Self { queue, places, timeout: None, call_timeout, failed: Vec::new(), callbacks: 0 }
    }

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
            Some(timeout) => self.queue.submit_within(command(), place.into(), timeout),
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
        // SAFETY: by the contract.
        let stride = unsafe { sized::stride(commands) }?;
        // SAFETY: there are `count` of them at this distance, each as long as it says.
        let described =
            (0..count as usize).map(|index| unsafe { sized::read(commands.byte_add(index * stride)) });
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
                tell(&error);
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

    /// Ends what is kept of a finished command: its tag, and its buffer if it has one.
    #[inline(always)]
    pub(crate) fn settle(
        &mut self,
        place: u64,
        one: Option<Buffer>,
        several: Buffers,
    ) -> (u64, *mut byway_buffer) {
        self.places.settle(place as u32, one, several)
    }

    /// Waits for every command, and gives their buffers back.
    fn settle_all(&mut self) -> Result<()> {
        let settled = self.settle_outstanding();
        // What a queue that fails still holds is lost with it.
        self.places.lose_all();
        settled
    }

    fn settle_outstanding(&mut self) -> Result<()> {
        while self.queue.outstanding() > 0 {
            while let Some(finished) = self.queue.next_finished()? {
                let (one, several) = match finished.result {
                    Ok(outcome) => (outcome.buffer, outcome.vector),
                    Err(failed) => (failed.buffer, failed.vector),
                };
                self.settle(finished.tag, one, several);
            }
            if self.queue.outstanding() > 0 {
                self.queue.sleep(Duration::from_secs(1))?;
            }
        }
        Ok(())
    }
}
