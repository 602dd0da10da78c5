//! An NVMe namespace behind commands that an io_uring carries.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use byway_core::{
    Buffer, BufferPool, Capabilities, Error, ErrorKind, Memory, QueueOptions, Result, Unprepared,
};
use byway_sys::uring::Uring;
use byway_sys::{NodeKind, NvmeCommand, NvmeNode};

use super::admin::IoUringCmdAdmin;
use super::queue::IoUringCmdQueue;
use crate::io_uring::IoUringOptions;
use crate::nvme::NvmeTarget;
use crate::over::{Interface, Over};
use crate::ring::{RingQueue, buffers};
use crate::synchronous::Synchronous;

/// How many queues of the NVMe driver are there to be polled.
const POLL_QUEUES: &str = "/sys/module/nvme/parameters/poll_queues";

/// Rings that carry commands, as they were asked for.
#[derive(Debug, Clone)]
pub struct CommandRings {
    options: IoUringOptions,
    pool: Option<BufferPool>,
}

/// An NVMe namespace behind commands that an io_uring carries.
pub type IoUringCmd = Over<NvmeTarget, CommandRings>;

impl IoUringCmd {
    /// The interface's name.
    pub const NAME: &str = "io_uring_cmd";

    /// Commands go to `target`, as `options` say.
    ///
    /// # Errors
    /// For a node that takes none from a ring, when an option cannot be honoured, and where the kernel has no such rings.
    pub fn new(target: Arc<NvmeTarget>, options: IoUringOptions) -> Result<Self> {
        check_kind(&target)?;
        options.check()?;
        if options.iopoll {
            check_polling()?;
        }
        // Shows whether the kernel grants such a ring.
        let _: Uring<Memory, (), NvmeCommand> = ring(target.node_shared(), options, 1)?;
        let capabilities = Capabilities { event: !options.iopoll, ..target.capabilities(true, false) };
        let pool = (options.registered_buffers > 0).then(|| buffers::pool(options.registered_buffers));
        Ok(Self::with(Self::NAME, target, capabilities, CommandRings { options, pool }))
    }

    /// Admin commands that go on by themselves, several at once, by a ring over the controller's own node.
    ///
    /// # Errors
    /// When the controller's node is not there or may not be opened.
    pub fn admin_commands(&self) -> Result<IoUringCmdAdmin> {
        let target = Arc::clone(self.device());
        let none = || {
            let said = format!("{} has no controller with a node of its own", target.name());
            Error::host(ErrorKind::NotFound, said)
        };
        let path = target.node().controller().ok_or_else(none)?;
        let node = NvmeNode::open(&path, false)
            .map_err(|cause| Error::kernel(format!("opening {}", path.display()), cause))?;
        let ring = ring(Arc::new(node), IoUringOptions::default(), IoUringCmdAdmin::DEPTH)?;
        Ok(IoUringCmdAdmin::new(target, ring))
    }
}

/// A ring over a node.
fn ring<T: Copy, N: AsFd + Send + Sync + 'static>(
    node: Arc<N>,
    options: IoUringOptions,
    depth: u32,
) -> Result<Uring<Memory, T, NvmeCommand>> {
    Uring::new(node, options.ring(depth)).map_err(|cause| match cause.kind() {
        io::ErrorKind::InvalidInput if options == IoUringOptions::default() => {
            Error::kernel("this kernel has no rings that carry commands (Linux 5.19)", cause)
        }
        _ => crate::io_uring::refused(options, cause),
    })
}

fn check_kind(target: &NvmeTarget) -> Result<()> {
    match target.kind() {
        NodeKind::Generic { .. } | NodeKind::Controller => Ok(()),
        NodeKind::Block { nsid } => {
            let said = format!(
                "{} is a block device, and rings carry commands to character devices alone: namespace {nsid} has \
                 one, /dev/ng…",
                target.name()
            );
            Err(Error::host(ErrorKind::Unsupported, said))
        }
        NodeKind::Partition | NodeKind::Other => {
            let said = format!("{} is no character device of an NVMe namespace", target.name());
            Err(Error::host(ErrorKind::Unsupported, said))
        }
    }
}

/// Refuses to poll where the driver has no queues for polling.
fn check_polling() -> Result<()> {
    let queues = std::fs::read_to_string(POLL_QUEUES).unwrap_or_default();
    if queues.trim() == "0" {
        let said = "the NVMe driver has no queues to be polled (iopoll): nvme.poll_queues is 0";
        return Err(Error::host(ErrorKind::Unsupported, said));
    }
    Ok(())
}

impl Interface<NvmeTarget> for CommandRings {
    type Queue = IoUringCmdQueue;

    fn queue(&self, target: &Arc<NvmeTarget>, options: QueueOptions) -> Result<IoUringCmdQueue> {
        // One more, for a synchronous call at full depth.
        let ring = ring(target.node_shared(), self.options, options.depth.commands() + 1)?;
        Ok(RingQueue::new(Arc::clone(target), ring, self.pool.clone(), options, self.options.iopoll))
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        buffers::zeroed(self.pool.as_ref(), len)
    }

    fn prepare(&self, brought: Buffer) -> Result<Buffer, Unprepared> {
        buffers::prepared(self.pool.as_ref(), brought)
    }
}
