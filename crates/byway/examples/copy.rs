//! Copies the blocks of one device to another, several pieces at a time: copy [FROM TO]
//!
//! Without arguments it copies a device in memory to another.

use std::time::Duration;

use byway::{Backend, BackendQueue, Device, Finished, NvmCommand, Queue, Result};

const PIECE_BYTES: u64 = 64 << 10;
const DEPTH: u64 = 8;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (from, to) = match (arguments.next(), arguments.next()) {
        (Some(from), Some(to)) => (byway::open_to_read(&from)?, byway::open(&to)?),
        _ => (byway::open("embedded-ram:64M")?, byway::open("embedded-ram:64M")?),
    };
    println!("{} bytes", copy(&from, &to)?);
    Ok(())
}

fn copy(from: &Device, to: &Device) -> Result<u64> {
    let (source, target) = (from.nvm_namespace(None)?, to.nvm_namespace(None)?);
    let (lba_bytes, blocks) = {
        let nvm = from.nvm(Some(source.nsid))?;
        (u64::from(nvm.lba_bytes()), nvm.blocks())
    };
    let each = (PIECE_BYTES / lba_bytes).max(1);
    let (mut reads, mut writes) = (from.default_queue()?, to.default_queue()?);
    let mut next = 0;
    let mut read_next = |reads: &mut Queue| -> Result<()> {
        let here = each.min(blocks - next);
        if here > 0 {
            let into = from.buffer((here * lba_bytes) as usize)?;
            let read = NvmCommand::Read { nsid: source.nsid, slba: next, blocks: here as u32, into };
            reads.submit(read.into(), next)?;
            next += here;
        }
        Ok(())
    };
    for _ in 0..DEPTH {
        read_next(&mut reads)?;
    }
    while reads.outstanding() + writes.outstanding() > 0 {
        for Finished { tag: slba, result } in finished(&mut reads)? {
            let Some(buffer) = result?.buffer else { continue };
            let blocks = (buffer.len() as u64 / lba_bytes) as u32;
            let write = NvmCommand::Write { nsid: target.nsid, slba, blocks, data: buffer.into() };
            writes.submit(write.into(), slba)?;
        }
        for written in finished(&mut writes)? {
            written.result?;
            read_next(&mut reads)?;
        }
    }
    to.nvm(Some(target.nsid))?.flush()?;
    Ok(blocks * lba_bytes)
}

/// What has finished, once something has.
fn finished(queue: &mut Queue) -> Result<Vec<Finished>> {
    let mut finished = Vec::new();
    queue.wait(1, Duration::from_secs(1), &mut |one| finished.push(one))?;
    Ok(finished)
}
