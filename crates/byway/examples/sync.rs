//! Synchronous reads and writes of blocks: sync [URI]

fn main() -> byway::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "embedded-ram:64M".into());
    let device = byway::open(&uri)?;
    let mut blocks = device.nvm(None)?;
    println!("{} blocks of {} bytes", blocks.blocks(), blocks.lba_bytes());

    let written = vec![0x5a; 8 * blocks.lba_bytes() as usize];
    let mut read = vec![0; written.len()];
    blocks.write(0, &written)?;
    blocks.flush()?;
    blocks.read(0, &mut read)?;
    println!("read {}", if read == written { "what was written" } else { "something else" });

    blocks.trim(0, 8)?;
    blocks.read(0, &mut read)?;
    println!("after trim: {}", read[0]);

    // A range behind the end is refused with a sentence, here or by the device.
    if let Err(error) = blocks.read(blocks.blocks(), &mut read) {
        println!("refused: {error}");
    }
    Ok(())
}
