//! Queues: opened, closed, and what is done to all of their commands at once.

use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;
use std::time::Duration;

use byway::{
    AdaptivePolicy, Backend, BackendQueue, Buffer, Buffers, Device, Error, ErrorKind, Method, Queue,
    QueueOptions, Result,
};

use crate::arg::{handle, invalid, put, shared, text_or_none, want};
use crate::buffer::byway_buffer;
use crate::device::byway_device;
use crate::error::{border, byway_error};
use crate::places::Places;
use crate::sized::{self, crossing};

/// Commands on their way. One thread at a time uses a queue; each thread opens its own.
pub struct byway_queue {
    pub(crate) queue: Queue,
    pub(crate) places: Places,
    /// After what time commands that were given none of their own are given up.
    pub(crate) timeout: Option<Duration>,
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
    /// Most commands outstanding at once: refused where the device's queues hold fewer. 0 for what the URI says, or for as
    /// many as they hold where that is less: byway_queue_depth() has it.
    pub depth: u32,
    /// Entries of the submission ring, where there is one.
    pub ring_entries: u32,
    /// How payloads cross the link: "prp", "inline", "piggyback"; NULL for what the URI says.
    pub transfer: *const c_char,
    /// After how many nanoseconds byway_queue_execute() gives a command up.
    pub timeout_ns: u64,
    /// By what transfer method "adaptive" chooses: "bytes", "time", "threshold"; NULL for what the URI says.
    pub policy: *const c_char,
    /// Policy "threshold": what is taken for short values; NULL for "piggyback".
    pub below: *const c_char,
    /// Policy "threshold": above 1 for less traffic, below 1 for less latency; 0 for 1.
    pub alpha: f64,
    /// Policy "threshold": from how many bytes on "prp" is as quick.
    pub tau_bytes: u32,
    /// 0.
    pub reserved: u32,
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
        let settled = closing.queue.check_owner().and_then(|()| closing.settle_all());
        // SAFETY: `byway_queue_open` made it, and the program does not use it again.
        drop(unsafe { Box::from_raw(queue) });
        settled.map(|()| 0)
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

/// A descriptor that can be read when completions may be there, for the program's own poll(2) or epoll(7). When it is
/// readable, take completions until there are none. It stays the queue's: neither read it nor close it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_event_fd(queue: *mut byway_queue) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let queue = unsafe { handle(queue, "queue") }?;
        queue.queue.event().map(|event| event.as_raw_fd())
    })
}

/// Asks the device for its words about a command of this queue that it refused ("the namespace is full"), which taking
/// completions never does; of several that failed alike, the newest. byway_last_error() is then the error with them, or as
/// it was where the device has none; the number of its kind is returned. Calls that wait for their command have asked
/// already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_explain(queue: *mut byway_queue, error: *const byway_error) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (queue, error) = unsafe { (handle(queue, "queue")?, shared(error, "error")?) };
        match error.nvme_status() {
            Some(status) => Err(queue.queue.explained(Error::status(status))),
            None => Ok(error.set_last_again()),
        }
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
        options.depth = given.depth.into();
    }
    if given.ring_entries > 0 {
        options.ring_entries = Some(given.ring_entries);
    }
    if given.timeout_ns > 0 {
        options.timeout = Duration::from_nanos(given.timeout_ns);
    }
    // SAFETY: by the contract.
    if let Some(policy) = unsafe { policy(&given) }? {
        options.policy = policy;
    }
    Ok(options)
}

/// By what "adaptive" chooses, where it is said.
///
/// # Safety
/// Its texts are as [`text_or_none`] wants them.
unsafe fn policy(given: &byway_queue_options) -> Result<Option<AdaptivePolicy>> {
    // SAFETY: the caller's word.
    let (policy, below) = unsafe {
        let policy = text_or_none(given.policy, "byway_queue_options.policy")?;
        (policy, text_or_none(given.below, "byway_queue_options.below")?)
    };
    let is_plain = below.is_none() && given.alpha == 0.0 && given.tau_bytes == 0;
    match policy {
        None if is_plain => Ok(None),
        Some("bytes") if is_plain => Ok(Some(AdaptivePolicy::Bytes)),
        Some("time") if is_plain => Ok(Some(AdaptivePolicy::Time)),
        Some("threshold") if given.tau_bytes > 0 => {
            let below = below.map_or(Ok(Method::Piggyback), str::parse);
            let below = below.map_err(|unknown| invalid(unknown.to_string()))?;
            let alpha = if given.alpha == 0.0 { 1.0 } else { given.alpha as f32 };
            Ok(Some(AdaptivePolicy::Threshold { tau_bytes: given.tau_bytes, alpha, below }))
        }
        Some("threshold") => Err(invalid("policy threshold needs tau_bytes")),
        Some("bytes" | "time") | None => Err(invalid("tau_bytes, alpha and below are of policy threshold")),
        Some(other) => Err(invalid(format!("policy {other:?}: expected bytes, time or threshold"))),
    }
}

impl byway_queue {
    fn new(queue: Queue, call_timeout: Duration) -> Self {
        let places = Places::new(queue.depth());
        Self { queue, places, timeout: None, call_timeout, failed: Vec::new(), callbacks: 0 }
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
            if let Some(finished) = self.queue.next_within(Duration::from_secs(1))? {
                let (one, several) = match finished.result {
                    Ok(outcome) => (outcome.buffer, outcome.vector),
                    Err(failed) => (failed.buffer, failed.vector),
                };
                self.settle(finished.tag, one, several);
            }
        }
        Ok(())
    }
}
