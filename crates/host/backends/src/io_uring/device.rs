//! A file or block device behind io_uring.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{
    Buffer, BufferPool, Capabilities, Error, ErrorKind, Memory, QueueOptions, Result, Unprepared,
};
use byway_sys::Transfer;
use byway_sys::uring::{Ending, Operation, Uring};

use super::queue::IoUringQueue;
use crate::io_uring_options::IoUringOptions;
use crate::over::{Interface, Over};
use crate::ring::buffers;
use crate::target::Target;

/// How long the trial of a polled read may take.
const TRIAL: Duration = Duration::from_secs(10);

/// Rings that the kernel shares, as they were asked for.
#[derive(Debug, Clone)]
pub struct Rings {
    options: IoUringOptions,
    pool: Option<BufferPool>,
}

/// A file or block device behind io_uring.
pub type IoUring = Over<Target, Rings>;

impl IoUring {
    /// The interface's name.
    pub const NAME: &str = "io_uring";

    /// Commands go to `target`, as `options` say.
    ///
    /// # Errors
    /// When an option cannot be honoured, or the system has no io_uring for this process.
    pub fn new(target: Arc<Target>, options: IoUringOptions) -> Result<Self> {
        options.check_with(&target)?;
        let mut trial = ring(&target, options, 1)?;
        if options.iopoll {
            try_polling(&target, &mut trial)?;
        }
        let polls = options.iopoll;
        let capabilities = Capabilities { event: !polls, ..target.capabilities(true, !polls) };
        let pool = (options.registered_buffers > 0).then(|| buffers::pool(options.registered_buffers));
        Ok(Self::with(Self::NAME, target, capabilities, Rings { options, pool }))
    }
}

/// A ring over the target's file.
fn ring<T: Copy>(target: &Arc<Target>, options: IoUringOptions, depth: u32) -> Result<Uring<Memory, T>> {
    Uring::new(Arc::clone(target) as _, options.ring(depth)).map_err(|cause| refused(options, cause))
}

pub(crate) fn refused(options: IoUringOptions, cause: io::Error) -> Error {
    let said = match cause.kind() {
        io::ErrorKind::PermissionDenied => "this process may not use io_uring",
        io::ErrorKind::Unsupported => "this system has no io_uring",
        io::ErrorKind::InvalidInput if options.sqpoll_cpu.is_some() => {
            "the kernel's polling thread cannot be on that processor"
        }
        io::ErrorKind::InvalidInput if options.one_thread => {
            "this kernel has no rings of one thread (Linux 6.1)"
        }
        io::ErrorKind::OutOfMemory if options.registered_buffers > 0 => {
            "the kernel has no memory for a ring with registered buffers"
        }
        _ => "setting an io_uring up failed",
    };
    Error::kernel(said, cause)
}

/// Reads the first block, to see whether completions can be polled for.
fn try_polling(target: &Target, ring: &mut Uring<Memory, ()>) -> Result<()> {
    let failed = |cause| Error::kernel("trying to poll for completions failed", cause);
    let block = Buffer::zeroed(target.lba_bytes() as usize)?;
    let _ = ring.push(Memory::Buffer(block), (), Operation::Transfer(Transfer::Read { at: 0 }), None, None);
    let begun = Instant::now();
    let ending = loop {
        if let Some(completed) = ring.next_completed().map_err(failed)? {
            break completed.ending;
        }
        if begun.elapsed() > TRIAL {
            return Err(Error::host(ErrorKind::TimedOut, "a polled read did not finish"));
        }
        ring.sleep(1, Some(TRIAL)).map_err(failed)?;
    };
    match ending {
        Ending::Failed(cause) if cause.kind() == io::ErrorKind::Unsupported => {
            let said = format!(
                "completions cannot be polled for on {}: its device has no queues for that, or its file system \
                 passes none on (iopoll)",
                target.path().display()
            );
            Err(Error::host(ErrorKind::Unsupported, said).with_source(cause))
        }
        Ending::Failed(cause) => Err(failed(cause)),
        Ending::Done(_) | Ending::Cancelled | Ending::TimedOut => Ok(()),
    }
}

impl Interface<Target> for Rings {
    type Queue = IoUringQueue;

    fn queue(&self, target: &Arc<Target>, options: QueueOptions) -> Result<IoUringQueue> {
        // One more, for a synchronous call at full depth.
        let ring = ring(target, self.options, options.depth.commands() + 1)?;
        Ok(IoUringQueue::new(Arc::clone(target), ring, self.pool.clone(), options, self.options.iopoll))
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        buffers::zeroed(self.pool.as_ref(), len)
    }

    fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        buffers::prepared(self.pool.as_ref(), brought)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::target::TargetOptions;

    fn refusal(direct: bool, options: IoUringOptions) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocks");
        let target = TargetOptions { create_bytes: Some(1 << 20), direct, ..TargetOptions::default() };
        let target = Arc::new(Target::open(&path, target).unwrap());
        IoUring::new(target, options).unwrap_err().to_string()
    }

    #[test]
    fn options_that_cannot_be_are_refused_with_the_reason() {
        let options = IoUringOptions::default();
        let no_time = Some(Duration::ZERO);
        let refused = [
            (IoUringOptions { registered_buffers: 20_000, ..options }, "16384 buffers at most, not 20000"),
            (IoUringOptions { sqpoll: no_time, ..options }, "a millisecond at least"),
            (IoUringOptions { sqpoll_cpu: Some(0), ..options }, "no such thread (sqpoll)"),
            (IoUringOptions { iopoll: true, ..options }, "past the page cache alone (direct)"),
        ];
        for (options, wanted) in refused {
            let said = refusal(false, options);
            assert!(said.contains(wanted), "{said}");
        }
        let sqpoll = Some(Duration::from_millis(10));
        let said = refusal(false, IoUringOptions { sqpoll, sqpoll_cpu: Some(4000), ..options });
        assert!(said.contains("cannot be on that processor"), "{said}");
    }
}
