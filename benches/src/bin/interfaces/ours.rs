//! The same loads through Byway's queues, whatever is behind them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use byway_backends::{IoUring, IoUringOptions, Target, TargetOptions};
use byway_core::{Backend, BackendQueue, Buffer, Command, Finished, Nsid, NvmCommand, Payload, QueueOptions};

use crate::load::{Blocks, Load, Runner};

pub fn io_uring(load: &Load) -> Result<Box<dyn Runner>> {
    runner(&IoUring::new(target(load)?, IoUringOptions::default())?, load)
}

pub fn io_uring_of_one_thread(load: &Load) -> Result<Box<dyn Runner>> {
    let options = IoUringOptions::default().one_thread(true);
    runner(&IoUring::new(target(load)?, options)?, load)
}

fn target(load: &Load) -> Result<Arc<Target>> {
    let options = TargetOptions::default().direct(load.direct).lba_bytes(load.block_bytes.min(4096));
    Ok(Arc::new(Target::open(&load.path, options)?))
}

/// A queue of any backend under a load.
struct Ours<Q> {
    queue: Q,
    free: Vec<Buffer>,
    blocks: Blocks,
    writes: bool,
    /// Logical blocks of a command.
    count: u32,
}

fn runner<B: Backend>(backend: &B, load: &Load) -> Result<Box<dyn Runner>>
where
    B::Queue: 'static,
{
    let queue = backend.queue(QueueOptions::default().depth(load.depth))?;
    let buffers = (0..load.depth).map(|_| {
        let mut buffer = backend.buffer(load.block_bytes as usize)?;
        buffer.as_mut_slice().fill(0x5a);
        Ok(buffer)
    });
    Ok(Box::new(Ours {
        queue,
        free: buffers.collect::<byway_core::Result<_>>()?,
        blocks: load.blocks(),
        writes: load.writes,
        count: load.block_bytes.div_ceil(4096),
    }))
}

impl<Q: BackendQueue> Ours<Q> {
    #[inline]
    fn command(&mut self, buffer: Buffer) -> Command {
        let (nsid, blocks) = (Nsid::FIRST, self.count);
        let slba = self.blocks.next() * u64::from(blocks);
        if self.writes {
            NvmCommand::Write { nsid, slba, blocks, data: Payload::Buffer(buffer) }.into()
        } else {
            NvmCommand::Read { nsid, slba, blocks, into: buffer }.into()
        }
    }
}

impl<Q: BackendQueue> Runner for Ours<Q> {
    fn run(&mut self, commands: u32) -> Result<()> {
        let mut left = commands;
        loop {
            while left > 0
                && let Some(buffer) = self.free.pop()
            {
                let command = self.command(buffer);
                self.queue.submit(command, 0).map_err(|refused| refused.error)?;
                left -= 1;
            }
            if self.queue.outstanding() == 0 {
                return Ok(());
            }
            let mut failed = None;
            let free = &mut self.free;
            self.queue.wait(1, Duration::MAX, &mut |Finished { result, .. }| match result {
                Ok(outcome) => free.extend(outcome.buffer),
                Err(cause) => failed = Some(cause.error),
            })?;
            failed.map_or(Ok(()), Err)?;
        }
    }
}
