//! Keeps a queue full: where a completion is taken, the next read is submitted with its buffer: async [URI]

use byway::Backend;

const DEPTH: u64 = 32;
const READS: u64 = 1000;
const BLOCKS: u64 = 8;

fn main() -> byway::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "embedded-ram:64M".into());
    let device = byway::open(&uri)?;
    let mut queue = device.nvm_queue(None)?;
    let (bytes, ranges) = (BLOCKS as usize * queue.lba_bytes() as usize, queue.blocks() / BLOCKS);

    for n in 0..DEPTH {
        queue.read(n % ranges * BLOCKS, device.buffer(bytes)?, n)?;
    }
    let mut submitted = DEPTH;
    while let Some(done) = queue.wait_next()? {
        if let Some(buffer) = done.result?.buffer.filter(|_| submitted < READS) {
            queue.read(submitted % ranges * BLOCKS, buffer, submitted)?;
            submitted += 1;
        }
    }
    println!("{submitted} reads");
    Ok(())
}
