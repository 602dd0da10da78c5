//! Many commands by one call, completions handed to a closure: batch [URI]

use byway::{Backend, BackendQueue, Command, NvmCommand, Payload};

const COUNT: u8 = 16;

fn main() -> byway::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "embedded-ram:64M".into());
    let device = byway::open(&uri)?;
    let namespace = device.nvm_namespace(None)?;
    let (nsid, lba_bytes) = (namespace.nsid, device.nvm(Some(namespace.nsid))?.lba_bytes() as usize);
    let mut queue = device.default_queue()?;

    let write = |n: u8| -> byway::Result<(Command, u64)> {
        let data = Payload::copy_of(&vec![n; lba_bytes])?;
        Ok((NvmCommand::Write { nsid, slba: n.into(), blocks: 1, data }.into(), n.into()))
    };
    let read = |n: u8| -> byway::Result<(Command, u64)> {
        let into = device.buffer(lba_bytes)?;
        Ok((NvmCommand::Read { nsid, slba: n.into(), blocks: 1, into }.into(), n.into()))
    };

    let writes = (0..COUNT).map(write).collect::<byway::Result<Vec<_>>>()?;
    queue.submit_all(&mut writes.into_iter())?;
    let mut failed = 0;
    queue.drain(&mut |done| failed += u32::from(done.result.is_err()))?;

    let reads = (0..COUNT).map(read).collect::<byway::Result<Vec<_>>>()?;
    queue.submit_all(&mut reads.into_iter())?;
    let mut wrong = 0;
    queue.drain(&mut |done| {
        let read = done.result.ok().and_then(|outcome| outcome.buffer);
        let is_right =
            read.is_some_and(|buffer| buffer.as_slice().iter().all(|byte| u64::from(*byte) == done.tag));
        wrong += u32::from(!is_right);
    })?;
    println!("{COUNT} writes, {COUNT} reads, {failed} failed, {wrong} wrong");
    Ok(())
}
