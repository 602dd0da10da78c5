//! The places of the commands on their way: what a queue keeps of each, made with the queue.

use byway::{Buffer, Buffers, Command, Error, ErrorKind, Payload, Result};

use crate::arg::handle;
use crate::buffer::byway_buffer;
use crate::command::{Memory, byway_command, payload};

/// The places of the commands on their way: as many as the queue is deep.
pub(crate) struct Places {
    all: Vec<Place>,
    /// The first that is free.
    free: u32,
}

/// What is kept of a command on its way.
struct Place {
    tag: u64,
    buffer: *mut byway_buffer,
    next: u32,
    /// Of a vectored command: its handles, in order.
    several: Vec<*mut byway_buffer>,
    /// Of no command: what the next vectored one gathers its buffers in.
    spare: Buffers,
}

/// In place of the next free place: there is none.
pub(crate) const NONE: u32 = u32::MAX;
/// In place of the next free place: a command is here.
const TAKEN: u32 = u32::MAX - 1;

// SAFETY: the handles in it are used with the queue alone, which one thread at a time uses by the contract.
unsafe impl Send for Place {}

impl Places {
    pub(crate) fn new(depth: u32) -> Self {
        let place = |index| Place {
            tag: 0,
            buffer: std::ptr::null_mut(),
            next: if index + 1 == depth { NONE } else { index + 1 },
            several: Vec::new(),
            spare: Buffers::NONE,
        };
        Self { all: (0..depth).map(place).collect(), free: 0 }
    }

    #[inline(always)]
    pub(crate) fn first_free(&self) -> Result<u32> {
        if self.free == NONE { Err(full(self.all.len())) } else { Ok(self.free) }
    }

    /// Marks the first free place as taken.
    #[inline(always)]
    pub(crate) fn fill(&mut self, place: u32, tag: u64, buffer: *mut byway_buffer) {
        if let Some(at) = self.all.get_mut(place as usize) {
            self.free = std::mem::replace(&mut at.next, TAKEN);
            (at.tag, at.buffer) = (tag, buffer);
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, tag: u64) -> Result<u32> {
        let place = self.first_free()?;
        self.fill(place, tag, std::ptr::null_mut());
        Ok(place)
    }

    /// The command that a program described, and a place for it.
    ///
    /// # Safety
    /// What it points to is as the contract says.
    pub(crate) unsafe fn prepare(&mut self, described: &byway_command) -> Result<(Command, u32)> {
        // SAFETY: the caller's word.
        let memory = unsafe { described.memory() }?;
        let place = self.take(described.tag)?;
        // SAFETY: the caller's word.
        let made = unsafe {
            match self.gather_any(place, &memory) {
                Ok(memory) => described.with(memory),
                Err(error) => Err((error, Payload::Empty)),
            }
        };
        made.map(|command| (command, place)).map_err(|(error, memory)| {
            let (one, several) = memory.into_buffers();
            self.settle(place, one, several);
            error
        })
    }

    /// # Safety
    /// The handles are NULL or live.
    unsafe fn gather_any(&mut self, place: u32, memory: &Memory<'_>) -> Result<Payload> {
        match memory {
            Memory::None => Ok(Payload::Empty),
            Memory::One(from) => {
                // SAFETY: the caller's word.
                let one = unsafe { handle(*from, "buffer") }?.take()?;
                if let Some(at) = self.all.get_mut(place as usize) {
                    at.buffer = *from;
                }
                Ok(payload(Some(one), Buffers::NONE))
            }
            Memory::Several(from) => {
                // SAFETY: the caller's word.
                unsafe { self.gather(place, from) }.map(|several| payload(None, several))
            }
        }
    }

    /// The memory of several buffers, which the place remembers. On an error it is theirs again.
    ///
    /// # Safety
    /// They are NULL or live handles.
    pub(crate) unsafe fn gather(&mut self, place: u32, from: &[*mut byway_buffer]) -> Result<Buffers> {
        let Some(at) = self.all.get_mut(place as usize) else { return Ok(Buffers::NONE) };
        let mut memory = std::mem::take(&mut at.spare);
        for handle in from {
            // SAFETY: the caller's word.
            match unsafe { self::handle(*handle, "a buffer of several") }.and_then(byway_buffer::take) {
                Ok(part) => {
                    memory.as_vec_mut().push(part);
                    at.several.push(*handle);
                }
                Err(error) => {
                    at.give_back(None, memory);
                    return Err(error);
                }
            }
        }
        Ok(memory)
    }

    /// Frees a place, and gives its buffers their memory back.
    #[inline(always)]
    pub(crate) fn settle(
        &mut self,
        place: u32,
        one: Option<Buffer>,
        several: Buffers,
    ) -> (u64, *mut byway_buffer) {
        let Some(at) = self.all.get_mut(place as usize) else { return lost(one, several) };
        let owner = (at.tag, at.buffer);
        at.next = std::mem::replace(&mut self.free, place);
        at.give_back(one, several);
        owner
    }

    /// The place of the command with this tag.
    pub(crate) fn of(&self, tag: u64) -> Result<u64> {
        let place = self.all.iter().position(|at| at.next == TAKEN && at.tag == tag);
        let said = || Error::host(ErrorKind::NotFound, format!("no command with tag {tag} is outstanding"));
        place.map(|place| place as u64).ok_or_else(said)
    }

    /// Marks the buffers of commands that will never finish.
    pub(crate) fn lose_all(&mut self) {
        for at in self.all.iter_mut().filter(|at| at.next == TAKEN) {
            at.give_back(None, Buffers::NONE);
        }
    }
}

impl Place {
    /// Gives the buffers their memory back; those that none came for are lost.
    #[inline(always)]
    fn give_back(&mut self, one: Option<Buffer>, several: Buffers) {
        let buffer = std::mem::replace(&mut self.buffer, std::ptr::null_mut());
        match one {
            // SAFETY: the handle that this place's command took its memory from.
            Some(memory) if !buffer.is_null() => unsafe { byway_buffer::restore(buffer, memory) },
            one => give_unusual_back(buffer, one),
        }
        if !self.several.is_empty() {
            return self.give_several_back(several);
        }
        // There are none: only commands of several buffers give several back. To look whether one must be dropped costs
        // as much as the rest of this.
        std::mem::forget(several);
    }

    #[cold]
    #[inline(never)]
    fn give_several_back(&mut self, mut memory: Buffers) {
        let mut parts = memory.as_vec_mut().drain(..);
        for handle in self.several.drain(..) {
            match parts.next() {
                // SAFETY: the handle that this part was taken from: they come back in their order.
                Some(part) => unsafe { byway_buffer::restore(handle, part) },
                // SAFETY: as above.
                None => unsafe { byway_buffer::lose(handle) },
            }
        }
        drop(parts);
        self.spare = memory;
    }
}

/// What a command without a buffer of the program's gives back, such as a trim its ranges; or nothing, for a buffer that is
/// then lost.
#[inline(never)]
fn give_unusual_back(buffer: *mut byway_buffer, one: Option<Buffer>) {
    if !buffer.is_null() && one.is_none() {
        // SAFETY: the handle that the command took its memory from.
        unsafe { byway_buffer::lose(buffer) };
    }
}

/// What came for no place.
#[cold]
#[inline(never)]
fn lost(one: Option<Buffer>, several: Buffers) -> (u64, *mut byway_buffer) {
    drop((one, several));
    (0, std::ptr::null_mut())
}

#[cold]
fn full(depth: usize) -> Error {
    Error::host(
        ErrorKind::QueueFull,
        format!("{depth} commands are outstanding, as many as the queue is deep"),
    )
}
