//! What a command costs over no device, 4 KiB reads at depth 1: perf [COMMANDS] [URI]

use std::time::{Duration, Instant};

use byway::{Backend, BackendQueue, NvmCommand};

fn main() -> byway::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let commands = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(10_000u32);
    let uri = arguments.next().unwrap_or_else(|| "null-backend:1G".into());
    let device = byway::open(&uri)?;
    let namespace = device.nvm_namespace(None)?;
    let blocks = 4096 / device.nvm(Some(namespace.nsid))?.lba_bytes();
    let mut queue = device.default_queue()?;
    let mut buffer = device.buffer(4096)?;

    let begun = Instant::now();
    for tag in 0..u64::from(commands) {
        let read = NvmCommand::Read { nsid: namespace.nsid, slba: 0, blocks, into: buffer };
        queue.submit(read.into(), tag)?;
        let finished = loop {
            if let Some(finished) = queue.next_within(Duration::from_secs(1))? {
                break finished;
            }
        };
        buffer = match finished.result?.buffer {
            Some(buffer) => buffer,
            None => device.buffer(4096)?,
        };
    }
    println!("{:.1} ns a command", begun.elapsed().as_nanos() as f64 / f64::from(commands));
    Ok(())
}
