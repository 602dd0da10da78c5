//! io_uring by hand: a ring, a registered file, an array of buffers, one system call to begin and wait.
#![expect(unsafe_code, reason = "a loop on the bare interface, to compare with")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Result, bail};
use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode, types};

use crate::load::{Blocks, Load, Runner};

/// O_DIRECT on this machine.
const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;

struct Bare {
    ring: IoUring,
    /// Page-aligned, `block_bytes` for each command that can be under way.
    memory: Vec<Page>,
    free: Vec<u32>,
    blocks: Blocks,
    writes: bool,
    block_bytes: u32,
    _file: File,
}

#[derive(Clone)]
#[repr(align(4096))]
struct Page([u8; 4096]);

/// With the flags of a ring that any thread may use.
pub fn of_any_thread(load: &Load) -> Result<Box<dyn Runner>> {
    let mut builder = IoUring::builder();
    builder.setup_coop_taskrun().setup_taskrun_flag();
    bare(builder, load)
}

/// With those of a ring that belongs to one.
pub fn of_one_thread(load: &Load) -> Result<Box<dyn Runner>> {
    let mut builder = IoUring::builder();
    builder.setup_coop_taskrun().setup_taskrun_flag().setup_single_issuer().setup_defer_taskrun();
    bare(builder, load)
}

fn bare(mut builder: io_uring::Builder, load: &Load) -> Result<Box<dyn Runner>> {
    let depth = load.depth;
    builder.setup_submit_all().setup_no_sqarray().setup_cqsize(depth.next_power_of_two().max(4));
    let ring = builder.build(depth.next_power_of_two().max(4))?;
    let mut options = File::options();
    options.read(true).write(true).custom_flags(if load.direct { O_DIRECT } else { 0 });
    let file = options.open(&load.path)?;
    ring.submitter().register_files(&[file.as_raw_fd()])?;
    let pages = load.block_bytes.div_ceil(4096) as usize;
    Ok(Box::new(Bare {
        ring,
        memory: vec![Page([0x5a; 4096]); depth as usize * pages],
        free: (0..depth).collect(),
        blocks: load.blocks(),
        writes: load.writes,
        block_bytes: load.block_bytes,
        _file: file,
    }))
}

impl Bare {
    fn push(&mut self, index: u32) -> Result<()> {
        let at = self.blocks.next() * u64::from(self.block_bytes);
        let first = index as usize * self.block_bytes.div_ceil(4096) as usize;
        let start = self.memory[first].0.as_mut_ptr();
        let file = types::Fixed(0);
        let entry = if self.writes {
            opcode::Write::new(file, start, self.block_bytes).offset(at).build()
        } else {
            opcode::Read::new(file, start, self.block_bytes).offset(at).build()
        };
        let entry = entry.user_data(index.into()).flags(Flags::empty());
        // SAFETY: the memory is this command's until its completion was taken, and outlives the ring's use: `run` ends
        // with nothing under way.
        unsafe { self.ring.submission().push(&entry)? };
        Ok(())
    }
}

impl Runner for Bare {
    fn run(&mut self, commands: u32) -> Result<()> {
        let mut left = commands;
        let mut under_way = 0;
        loop {
            while left > 0
                && let Some(index) = self.free.pop()
            {
                self.push(index)?;
                (left, under_way) = (left - 1, under_way + 1);
            }
            if under_way == 0 {
                return Ok(());
            }
            self.ring.submit_and_wait(1)?;
            for completion in self.ring.completion() {
                if completion.result() != self.block_bytes as i32 {
                    bail!("a command ended with {}", completion.result());
                }
                self.free.push(completion.user_data() as u32);
                under_way -= 1;
            }
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // A run that failed leaves commands under way: their memory stays.
        if self.free.len() * (self.block_bytes.div_ceil(4096) as usize) < self.memory.len() {
            std::mem::forget(std::mem::take(&mut self.memory));
        }
    }
}
