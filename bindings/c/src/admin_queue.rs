//! Admin commands that go on while the program does something else.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use byway::spec::Command as Entry;
use byway::spec::base::admin::AdminOpcode;
use byway::{
    AdminCommand, AdminQueue, Buffer, Deadline, Device, Finished, Outcome, Payload, RawCommand, Result,
};
use byway_core::scatter;

use crate::admin::{check_way, sent};
use crate::arg::{handle, put, want};
use crate::buffer::byway_buffer;
use crate::command::{entry, handles, raw_data};
use crate::completion::{Array, byway_completion};
use crate::device::byway_device;
use crate::error::{border, byway_error, count};
use crate::places::Places;
use crate::sized;

/// Most commands outstanding at once.
const DEPTH: u32 = 64;

/// Admin commands on their way: on a ring of the device's or the kernel's, or done one after the other by a thread of the
/// library's. One thread at a time uses it.
pub struct byway_admin {
    commands: Box<dyn AdminQueue>,
    device: Arc<Device>,
    places: Places,
    /// What is kept of each command beside its place.
    held: Vec<Held>,
    /// Errors of the completions that were taken last.
    #[expect(clippy::vec_box, reason = "completions point to them: they stay where they are")]
    failed: Vec<Box<byway_error>>,
}

/// What is kept of a command.
#[derive(Default)]
struct Held {
    /// The program's memory: a command that fails may not give back what it was sent with, so that is a copy.
    memory: Payload,
    /// It is answered when something happens, which may be never.
    waits_for_event: bool,
}

/// Opens the way for admin commands that go on by themselves. The device cannot be closed before it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_admin_open(
    device: *const byway_device,
    admin: *mut *mut byway_admin,
) -> c_int {
    border(|| {
        want(admin, "admin")?;
        // SAFETY: by the contract.
        let device = unsafe { byway_device::kept(device) }?;
        let opened = Box::new(byway_admin {
            commands: device.admin_queue()?,
            device,
            places: Places::new(DEPTH),
            held: (0..DEPTH).map(|_| Held::default()).collect(),
            failed: Vec::new(),
        });
        // SAFETY: by the contract.
        unsafe { put(admin, Box::into_raw(opened), "admin") }?;
        Ok(0)
    })
}

/// Closes it; NULL is none. Cancels requests for asynchronous events, and waits until every command on its way has finished:
/// their completions are lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_admin_close(admin: *mut byway_admin) -> c_int {
    border(|| {
        if admin.is_null() {
            return Ok(0);
        }
        // SAFETY: `byway_admin_open` made it, and the program does not use it again.
        let mut closing = unsafe { Box::from_raw(admin) };
        let settled = closing.device.check_owner().and_then(|()| closing.settle_all());
        closing.places.lose_all();
        settled.map(|()| 0)
    })
}

/// Sends an admin command, a submission queue entry of 64 bytes. Bits 1:0 of its opcode say which way the buffer's bytes go:
/// 01b to the device, 10b from it. NULL for no data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_admin_submit(
    admin: *mut byway_admin,
    entry: *const c_void,
    data: *mut byway_buffer,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (admin, entry) = unsafe { (handle(admin, "admin")?, self::entry(entry)?) };
        check_way(&entry, !data.is_null())?;
        let place = admin.places.first_free()?;
        let memory = if data.is_null() {
            Payload::Empty
        } else {
            // SAFETY: by the contract.
            Payload::Buffer(unsafe { handle(data, "data") }?.take()?)
        };
        admin.places.fill(place, tag, data);
        admin.send(entry, memory, place)
    })
}

/// As byway_admin_submit(), with several buffers, one behind the other. The completion names none of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_admin_submitv(
    admin: *mut byway_admin,
    entry: *const c_void,
    data: *const *mut byway_buffer,
    buffers: u32,
    tag: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (admin, entry) = unsafe { (handle(admin, "admin")?, self::entry(entry)?) };
        // SAFETY: by the contract.
        let from = unsafe { handles(data, buffers) }?;
        check_way(&entry, true)?;
        let place = admin.places.take(tag)?;
        // SAFETY: by the contract.
        match unsafe { admin.places.gather(place, from) } {
            Ok(memory) => admin.send(entry, Payload::Vectored(memory), place),
            Err(error) => {
                admin.give_back(place.into(), None);
                Err(error)
            }
        }
    })
}

/// Takes completions into an array, as byway_queue_reap().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_admin_reap(
    admin: *mut byway_admin,
    completions: *mut byway_completion,
    max: u32,
    min: u32,
    timeout_ns: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (admin, stride) = unsafe { (handle(admin, "admin")?, sized::stride(completions)?) };
        admin.failed.clear();
        let array = Array { at: completions, stride, left: max };
        let taken = admin.reap(array, min.min(max), Duration::from_nanos(timeout_ns))?;
        Ok(count(taken as usize))
    })
}

/// Asks for the command with this tag to be given up. It still finishes once, cancelled or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_admin_cancel(admin: *mut byway_admin, tag: u64) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let admin = unsafe { handle(admin, "admin") }?;
        let place = admin.places.of(tag)?;
        admin.commands.cancel(place).map(|()| 0)
    })
}

/// A descriptor that can be read when completions may be there, as byway_queue_event_fd().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_admin_event_fd(admin: *mut byway_admin) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        unsafe { handle(admin, "admin") }?.commands.event().map(|event| event.as_raw_fd())
    })
}

/// Commands submitted whose completion was not taken yet; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_admin_outstanding(admin: *const byway_admin) -> u32 {
    // SAFETY: by the contract NULL or a handle of this library.
    unsafe { admin.as_ref() }.map_or(0, |admin| admin.commands.outstanding())
}

impl byway_admin {
    /// Sends a command with a copy of the memory that its place has.
    fn send(&mut self, entry: Entry, memory: Payload, place: u32) -> Result<c_int> {
        let copy = sent(&self.device, memory.parts(), memory.len());
        if let Some(at) = self.held.get_mut(place as usize) {
            at.memory = memory;
        }
        match copy {
            Ok(copy) => self.hand_over(RawCommand { entry, data: raw_data(&entry, copy) }, place),
            Err(error) => {
                self.give_back(place.into(), None);
                Err(error)
            }
        }
    }

    fn hand_over(&mut self, command: RawCommand, place: u32) -> Result<c_int> {
        if let Some(at) = self.held.get_mut(place as usize) {
            at.waits_for_event = command.entry.opcode() == AdminOpcode::ASYNC_EVENT_REQUEST.0;
        }
        match self.commands.submit(AdminCommand::Raw(command), place.into()) {
            Ok(()) => Ok(0),
            Err(refused) => {
                self.give_back(place.into(), None);
                Err(refused.error)
            }
        }
    }

    fn reap(&mut self, mut into: Array, min: u32, timeout: Duration) -> Result<u32> {
        let end = Deadline::after(timeout);
        let mut taken = 0;
        loop {
            while into.left > 0
                && let Some(finished) = self.commands.next_finished()?
            {
                into.push(self.completion_of(finished));
                taken += 1;
            }
            let left = end.left_or_max();
            if taken >= min || self.commands.outstanding() == 0 || left.is_zero() {
                return Ok(taken);
            }
            self.commands.sleep(left)?;
        }
    }

    /// The completion of a finished command, for the program, to which the buffer returns.
    fn completion_of(&mut self, finished: Finished) -> byway_completion {
        let (dw0, dw1, received, failed) = match finished.result {
            Ok(Outcome { answer, buffer, .. }) => (answer.dw0, answer.dw1, buffer, None),
            Err(failed) => (0, 0, None, Some(failed.error)),
        };
        let (tag, buffer) = self.give_back(finished.tag, received.as_ref());
        let error = failed.map_or(std::ptr::null(), |error| {
            let kept = Box::new(byway_error::new(&error));
            let at = &raw const *kept;
            self.failed.push(kept);
            at
        });
        byway_completion { size: size_of::<byway_completion>(), tag, buffer, error, dw0, dw1 }
    }

    /// Gives a command's buffer back, with what came for it.
    fn give_back(&mut self, place: u64, received: Option<&Buffer>) -> (u64, *mut byway_buffer) {
        let held = self.held.get_mut(place as usize).map(std::mem::take).unwrap_or_default();
        let mut memory = held.memory;
        if let Some(received) = received {
            scatter(received.as_slice(), memory.buffers_mut());
        }
        let (one, several) = memory.into_buffers();
        self.places.settle(place as u32, one, several)
    }

    fn settle_all(&mut self) -> Result<()> {
        for (place, _) in self.held.iter().enumerate().filter(|(_, held)| held.waits_for_event) {
            self.commands.cancel(place as u64)?;
        }
        while self.commands.outstanding() > 0 {
            while let Some(finished) = self.commands.next_finished()? {
                self.give_back(finished.tag, None);
            }
            if self.commands.outstanding() > 0 {
                self.commands.sleep(Duration::from_secs(1))?;
            }
        }
        Ok(())
    }
}
