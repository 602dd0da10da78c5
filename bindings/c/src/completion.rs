//! Taking completions: by a callback, or into an array.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use byway::{
    BackendQueue, Deadline, Error, Failed, Finished, Outcome, QueueKind, Result, others_are_outstanding,
};

use crate::arg::{handle, invalid, want};
use crate::buffer::byway_buffer;
use crate::command::byway_command;
use crate::error::{border, byway_error, count};
use crate::queue::byway_queue;
use crate::sized::{self, crossing};

/// A command that has finished, well or not.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_completion {
    /// sizeof(byway_completion): in an array to be filled, that of the first is set by the program. Fields behind it are not
    /// there.
    pub size: usize,
    /// The tag that it was submitted with.
    pub tag: u64,
    /// Its buffer, which is the program's again; NULL if it had none or several.
    pub buffer: *mut byway_buffer,
    /// NULL if it succeeded. Else why it failed: until the callback returns, or until the next completions of this queue
    /// are taken into an array.
    pub error: *const byway_error,
    /// The command's own result: completion dword 0.
    pub dw0: u32,
    /// Completion dword 1.
    pub dw1: u32,
}
crossing!(byway_completion of 40);

/// What is called for each completion. It may submit to the queue and take more completions, and must not close the
/// queue; it returns in the ordinary way, without longjmp or an exception.
pub type byway_completion_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, completion: *const byway_completion)>;

/// What byway_call() calls: the command's own function, with the memory that its tag points to.
pub type byway_call_function =
    Option<unsafe extern "C" fn(call: *mut c_void, completion: *const byway_completion)>;

/// Hands at most `max` completions to `on`, with `context`; never sleeps. Returns how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_poll(
    queue: *mut byway_queue,
    max: u32,
    on: byway_completion_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        want(queue, "queue")?;
        // SAFETY: by the contract; the queue is borrowed for no longer than a step at a time.
        unsafe { Callback::new(on, context)?.poll(queue, max as usize) }.map(count)
    })
}

/// Hands completions to `on` until there were `min`, or none is outstanding, or `timeout_ns` nanoseconds have passed.
/// Returns how many; running out of time is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_wait(
    queue: *mut byway_queue,
    min: u32,
    timeout_ns: u64,
    on: byway_completion_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        want(queue, "queue")?;
        let timeout = Duration::from_nanos(timeout_ns);
        // SAFETY: by the contract, as for `byway_queue_poll`.
        unsafe { wait(queue, Callback::new(on, context)?, min as usize, timeout) }.map(count)
    })
}

/// Hands completions to `on` until none is outstanding. Returns how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_drain(
    queue: *mut byway_queue,
    on: byway_completion_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        want(queue, "queue")?;
        let on = Callback::new(on, context)?;
        let mut taken = 0;
        // SAFETY: by the contract, as for `byway_queue_poll`.
        while unsafe { (*queue).queue.outstanding() } > 0 {
            // SAFETY: as above.
            taken += unsafe { wait(queue, on, 1, Duration::from_secs(1)) }?;
        }
        Ok(count(taken))
    })
}

/// Takes at most `max` completions into an array, of which the first has its `size` set: waits until there are `min`, or
/// none is outstanding, or `timeout_ns` nanoseconds have passed; never sleeps if `min` is 0. Returns how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_reap(
    queue: *mut byway_queue,
    completions: *mut byway_completion,
    max: u32,
    min: u32,
    timeout_ns: u64,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (queue, stride) = unsafe { (handle(queue, "queue")?, sized::stride(completions)?) };
        if !queue.failed.is_empty() {
            queue.failed.clear();
        }
        let max = max.min(c_int::MAX as u32);
        let min = min.min(max);
        let mut into = Array { at: completions, stride, left: max };
        if min == 0 {
            return Ok(queue.reap(&mut into)? as c_int);
        }
        let timeout = Duration::from_nanos(timeout_ns);
        // For one completion no clock is asked, which would cost as much as all else that is done here for a command of `psync`.
        // Nor is one without a device: there is nothing to sleep for.
        let asks = min > 1 && !matches!(queue.queue.kind(), QueueKind::Nil(_));
        let end = asks.then(|| Deadline::after(timeout));
        let Some(first) = queue.queue.next_within(timeout)? else { return Ok(0) };
        queue.push(&mut into, first);
        let taken = 1 + queue.reap(&mut into)?;
        match end {
            Some(end) if taken < min => queue.reap_slowly(into, taken, min, end),
            _ => Ok(taken as c_int),
        }
    })
}

/// Sends one command and waits for it: gives it up after its own time, or the queue's. Refused while others are outstanding,
/// whose completions would have nowhere to go. The completion may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_execute(
    queue: *mut byway_queue,
    command: *const byway_command,
    completion: *mut byway_completion,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (queue, command) = unsafe { (handle(queue, "queue")?, sized::read(command)?) };
        if queue.queue.outstanding() > 0 {
            return Err(others_are_outstanding());
        }
        let timeout = Some(queue.call_timeout);
        // SAFETY: by the contract.
        unsafe { queue.send_described(&command, timeout) }?;
        let finished = loop {
            if let Some(finished) = queue.queue.next_within(Duration::from_secs(1))? {
                break finished;
            }
        };
        let (taken, failed) = queue.completion_of(finished);
        if let Some(error) = failed {
            return Err(queue.queue.explained(error));
        }
        if !completion.is_null() {
            // SAFETY: by the contract.
            unsafe { sized::write(completion, &taken) }?;
        }
        Ok(0)
    })
}

/// A callback for byway_queue_poll(), byway_queue_wait() and byway_queue_drain() that calls each command's own function:
/// the tag of every command is the address of memory that begins with a byway_call_function, which is called with that
/// address. Put such a pointer first in a structure of your own, and its tag is (uint64_t)(uintptr_t)&structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_call(context: *mut c_void, completion: *const byway_completion) {
    let _ = context;
    // SAFETY: a completion of this library's, and the caller's word for its tag.
    unsafe {
        let call = (*completion).tag as usize as *mut c_void;
        if let Some(function) = *call.cast::<byway_call_function>() {
            function(call, completion);
        }
    }
}

/// A callback with its context.
#[derive(Clone, Copy)]
struct Callback {
    on: unsafe extern "C" fn(*mut c_void, *const byway_completion),
    context: *mut c_void,
}

impl Callback {
    fn new(on: byway_completion_callback, context: *mut c_void) -> Result<Self> {
        let on = on.ok_or_else(|| invalid("on is NULL"))?;
        Ok(Self { on, context })
    }

    /// # Safety
    /// `queue` is a live queue; it is borrowed for a step at a time, so that the callback may use it too.
    #[inline]
    unsafe fn poll(self, queue: *mut byway_queue, max: usize) -> Result<usize> {
        let mut taken = 0;
        while taken < max {
            // SAFETY: the caller's word; the borrow ends before the callback is called.
            let next = unsafe { (*queue).queue.next_finished() }?;
            let Some(finished) = next else { break };
            // SAFETY: as above.
            unsafe { self.deliver(queue, finished) };
            taken += 1;
        }
        Ok(taken)
    }

    /// # Safety
    /// As of [`Self::poll`].
    #[inline]
    unsafe fn deliver(self, queue: *mut byway_queue, finished: Finished) {
        // SAFETY: the caller's word; the borrow ends with this line.
        let (mut completion, failed) = unsafe { (*queue).completion_of(finished) };
        let failed = failed.map(|error| byway_error::new(&error));
        completion.error = failed.as_ref().map_or(std::ptr::null(), |error| error);
        // SAFETY: the program's own function, called as it is declared, while nothing here borrows the queue.
        unsafe {
            (*queue).callbacks += 1;
            (self.on)(self.context, &completion);
            (*queue).callbacks -= 1;
        }
    }
}

/// # Safety
/// As of [`Callback::poll`].
unsafe fn wait(queue: *mut byway_queue, on: Callback, min: usize, timeout: Duration) -> Result<usize> {
    // SAFETY: the caller's word.
    let mut taken = unsafe { on.poll(queue, usize::MAX) }?;
    if taken >= min {
        return Ok(taken);
    }
    let end = Deadline::after(timeout);
    // SAFETY: the caller's word.
    while taken < min && unsafe { (*queue).queue.outstanding() } > 0 {
        let left = end.left_or_max();
        // SAFETY: the caller's word.
        match unsafe { (*queue).queue.next_within(left) }? {
            Some(finished) => {
                // SAFETY: the caller's word.
                unsafe { on.deliver(queue, finished) };
                taken += 1;
            }
            None if left.is_zero() => break,
            None => {}
        }
        // SAFETY: the caller's word.
        taken += unsafe { on.poll(queue, usize::MAX) }?;
    }
    Ok(taken)
}

/// An array of a program's that is being filled.
pub(crate) struct Array {
    pub(crate) at: *mut byway_completion,
    pub(crate) stride: usize,
    pub(crate) left: u32,
}

impl Array {
    #[inline(always)]
    pub(crate) fn push(&mut self, completion: byway_completion) {
        // SAFETY: `left` is not zero, so there is room for one more, as long as the first said.
        unsafe {
            if self.stride == size_of::<byway_completion>() {
                // Field by field: of a whole that was just put together, a wide load would wait for the narrow stores.
                let at = self.at;
                (&raw mut (*at).size).write(completion.size);
                (&raw mut (*at).tag).write(completion.tag);
                (&raw mut (*at).buffer).write(completion.buffer);
                (&raw mut (*at).error).write(completion.error);
                (&raw mut (*at).dw0).write(completion.dw0);
                (&raw mut (*at).dw1).write(completion.dw1);
            } else {
                Self::push_other(self.at, self.stride, completion);
            }
            self.at = self.at.byte_add(self.stride);
        }
        self.left -= 1;
    }

    /// For a program of another version.
    ///
    /// # Safety
    /// There is room for one more.
    #[cold]
    #[inline(never)]
    unsafe fn push_other(at: *mut byway_completion, stride: usize, completion: byway_completion) {
        // SAFETY: the caller's word.
        unsafe {
            at.cast::<usize>().write(stride);
            // The size is one that was looked at.
            let _ = sized::write(at, &completion);
        }
    }
}

impl byway_queue {
    /// The completion of a finished command, for the program, to which the buffers return.
    #[inline]
    fn completion_of(&mut self, finished: Finished) -> (byway_completion, Option<Error>) {
        match finished.result {
            Ok(outcome) => (self.succeeded(finished.tag, outcome), None),
            Err(failed) => self.failed(finished.tag, failed),
        }
    }

    #[inline(always)]
    fn succeeded(&mut self, place: u64, outcome: Outcome) -> byway_completion {
        let (tag, buffer) = self.settle(place, outcome.buffer, outcome.vector);
        let (dw0, dw1) = (outcome.answer.dw0, outcome.answer.dw1);
        let size = size_of::<byway_completion>();
        byway_completion { size, tag, buffer, error: std::ptr::null(), dw0, dw1 }
    }

    #[cold]
    #[inline(never)]
    fn failed(&mut self, place: u64, failed: Failed) -> (byway_completion, Option<Error>) {
        let (tag, buffer) = self.settle(place, failed.buffer, failed.vector);
        let size = size_of::<byway_completion>();
        let completion = byway_completion { size, tag, buffer, error: std::ptr::null(), dw0: 0, dw1: 0 };
        (completion, Some(failed.error))
    }

    /// Takes what is there, as much as there is room for.
    #[inline(always)]
    fn reap(&mut self, into: &mut Array) -> Result<u32> {
        let mut taken = 0;
        while into.left > 0 {
            let Some(finished) = self.queue.next_finished()? else { break };
            self.push(into, finished);
            taken += 1;
        }
        Ok(taken)
    }

    #[inline(always)]
    fn push(&mut self, into: &mut Array, finished: Finished) {
        // Destructured in place: moving it whole costs as much as all the rest.
        match finished {
            Finished { tag, result: Ok(outcome) } => into.push(self.succeeded(tag, outcome)),
            Finished { tag, result: Err(failed) } => into.push(self.keep_failed(tag, failed)),
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_failed(&mut self, place: u64, failed: Failed) -> byway_completion {
        let (mut completion, failed) = self.failed(place, failed);
        completion.error = failed.map_or(std::ptr::null(), |error| self.keep(&error));
        completion
    }

    #[cold]
    fn keep(&mut self, error: &Error) -> *const byway_error {
        let kept = Box::new(byway_error::new(error));
        let at = &raw const *kept;
        self.failed.push(kept);
        at
    }

    #[cold]
    #[inline(never)]
    fn reap_slowly(&mut self, mut into: Array, mut taken: u32, min: u32, end: Deadline) -> Result<c_int> {
        while taken < min && self.queue.outstanding() > 0 {
            let left = end.left_or_max();
            match self.queue.next_within(left)? {
                Some(finished) => {
                    self.push(&mut into, finished);
                    taken += 1;
                }
                None if left.is_zero() => break,
                None => {}
            }
            taken += self.reap(&mut into)?;
        }
        Ok(taken as c_int)
    }
}
