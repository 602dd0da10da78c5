//! Completions in a program's own poll(2) loop: events [URI]

use byway::{Backend, BackendQueue, NvmCommand};
use rustix::event::{PollFd, PollFlags, poll};

const DEPTH: u64 = 8;

fn main() -> byway::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "embedded-ram:64M".into());
    let device = byway::open(&uri)?;
    let namespace = device.nvm_namespace(None)?;
    let lba_bytes = device.nvm(Some(namespace.nsid))?.lba_bytes() as usize;
    let mut queue = device.default_queue()?;
    for tag in 0..DEPTH {
        let into = device.buffer(lba_bytes)?;
        queue.submit(NvmCommand::Read { nsid: namespace.nsid, slba: tag, blocks: 1, into }.into(), tag)?;
    }
    queue.start()?;
    let mut left = DEPTH;
    while left > 0 {
        let event = queue.event()?;
        let waited = poll(&mut [PollFd::new(&event, PollFlags::IN)], None);
        waited.map_err(|error| byway::Error::kernel("poll", error.into()))?;
        // Take all there are: the descriptor is signalled once for them.
        while let Some(done) = queue.next_finished()? {
            done.result?;
            left -= 1;
        }
    }
    println!("{DEPTH} reads");
    Ok(())
}
