//! Reads awaited as futures, without a runtime: awaited [URI]

use byway::future::{AsyncQueue, block_on_all};
use byway::{Backend, NvmCommand, Result};

const BLOCKS: u64 = 100;

fn main() -> Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "embedded-ram:64M".into());
    let device = byway::open(&uri)?;
    let namespace = device.nvm_namespace(None)?;
    let lba_bytes = device.nvm(Some(namespace.nsid))?.lba_bytes() as usize;
    let queue = AsyncQueue::new(device.default_queue()?);

    let read = async |slba: u64| -> Result<usize> {
        let into = device.buffer(lba_bytes)?;
        let read = NvmCommand::Read { nsid: namespace.nsid, slba, blocks: 1, into };
        let outcome = queue.execute(read.into()).await?;
        Ok(outcome.buffer.map_or(0, |buffer| buffer.len()))
    };
    let read: Vec<Result<usize>> = block_on_all(&queue, (0..BLOCKS).map(read));
    let bytes: usize = read.into_iter().sum::<Result<usize>>()?;
    println!("{BLOCKS} reads, {bytes} bytes");
    Ok(())
}
