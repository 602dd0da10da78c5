//! Keeps a queue full: where a completion is taken, the next command is submitted with its buffer: async [URI]

use std::time::Duration;

use byway::{Backend, BackendQueue, Buffer, NvmCommand};

const DEPTH: u32 = 32;
const TOTAL: u64 = 1000;
const BLOCKS: u32 = 8;

fn main() -> byway::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "ram:64M".into());
    let device = byway::open(&uri)?;
    let namespace = device.nvm_namespace(None)?;
    let blocks = device.nvm(Some(namespace.nsid))?;
    let ranges = blocks.blocks() / u64::from(BLOCKS);
    let mut queue = device.default_queue()?;

    let read = |tag: u64, into: Buffer| NvmCommand::Read {
        nsid: namespace.nsid,
        slba: tag % ranges * u64::from(BLOCKS),
        blocks: BLOCKS,
        into,
    };
    for tag in 0..u64::from(DEPTH) {
        let into = device.buffer((BLOCKS * blocks.lba_bytes()) as usize)?;
        queue.submit(read(tag, into).into(), tag)?;
    }
    let (mut submitted, mut finished) = (u64::from(DEPTH), 0);
    while queue.outstanding() > 0 {
        let Some(taken) = queue.next_finished()? else {
            queue.sleep(Duration::from_secs(1))?;
            continue;
        };
        finished += 1;
        let buffer = taken.result?.buffer;
        if let Some(buffer) = buffer.filter(|_| submitted < TOTAL) {
            queue.submit(read(submitted, buffer).into(), submitted)?;
            submitted += 1;
        }
    }
    println!("{finished} reads");
    Ok(())
}
