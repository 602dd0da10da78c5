//! Several threads that write blocks of one device until they are killed, and what they must leave.

use std::path::Path;

use byway::Nvm;
use byway_kit::{Random, tagged};

use crate::writers::{KEYS as BLOCKS, Versions, WRITERS};

/// Bytes of a block, as leases take them.
const BLOCK_BYTES: usize = 4096;
/// Every so many versions of a block deallocate it.
const TRIMMED_EVERY: u64 = 23;
/// Every so many versions are written with the block behind, by one command.
const PAIRED_EVERY: u64 = 5;
/// Every so many writes a writer flushes, which needs the device for itself.
const FLUSHED_EVERY: u64 = 1000;

/// What a version leaves in a block.
fn content(writer: u32, number: u32, version: u64) -> Vec<u8> {
    match version {
        0 => vec![0; BLOCK_BYTES],
        _ if version.is_multiple_of(TRIMMED_EVERY) => vec![0; BLOCK_BYTES],
        _ => tagged(version, u64::from(writer * BLOCKS + number), BLOCK_BYTES),
    }
}

/// Blocks of all writers lie between each other.
fn lba(blocks: &Nvm, writer: u32, number: u32) -> u64 {
    let block = u64::from(number / 2 * 2 * WRITERS + writer * 2 + number % 2);
    block * (BLOCK_BYTES as u64 / u64::from(blocks.lba_bytes()))
}

/// Writes by several threads to the device of a URI, without end; `on_open` is called when they begin.
///
/// # Errors
/// What the device or the system says.
pub fn write(uri: &str, versions: &Path, on_open: impl FnOnce()) -> Result<(), String> {
    let versions = Versions::open(versions)?;
    let device = byway::embedded::open(uri).map_err(|error| error.to_string())?;
    on_open();
    std::thread::scope(|scope| {
        let (device, versions) = (&device, &versions);
        let one = move |writer| write_one(device, versions, writer);
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || one(writer))).collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().map_err(|_| "a writer panicked".to_owned())?)
    })
}

fn write_one(
    device: &byway::embedded::EmbeddedDevice,
    versions: &Versions,
    writer: u32,
) -> Result<(), String> {
    let said = |error: byway::Error| error.to_string();
    let mut blocks = device.nvm(None).map_err(said)?;
    let mut random = Random::new(versions.word(Versions::place(writer, 0))? ^ u64::from(writer) << 40);
    for step in 1.. {
        let number = random.below(BLOCKS.into()) as u32;
        let is_pair = step % PAIRED_EVERY == 0 && number.is_multiple_of(2);
        let numbers = number..=number + u32::from(is_pair);
        let mut data = Vec::new();
        let mut is_trim = false;
        for number in numbers.clone() {
            let at = Versions::place(writer, number);
            let version = versions.word(at)?.max(versions.word(at + 8)?) + 1;
            versions.set(at, version)?;
            is_trim = !is_pair && version.is_multiple_of(TRIMMED_EVERY);
            data.extend(content(writer, number, version));
        }
        let at = lba(&blocks, writer, number);
        if is_trim {
            let count = BLOCK_BYTES as u32 / blocks.lba_bytes();
            blocks.trim(at, count).map_err(said)?;
        } else {
            blocks.write(at, &data).map_err(said)?;
        }
        for number in numbers {
            let at = Versions::place(writer, number);
            versions.set(at + 8, versions.word(at)?)?;
        }
        if step % FLUSHED_EVERY == 0 {
            blocks.flush().map_err(said)?;
        }
    }
    Ok(())
}

/// Opens what is left, and compares each block with the versions. How many versions were acknowledged.
///
/// # Errors
/// What is lost, torn, or older than what was acknowledged; what the device says.
pub fn verify(uri: &str, versions: &Path) -> Result<u64, String> {
    let versions = Versions::open(versions)?;
    let said = |error: byway::Error| error.to_string();
    let mut blocks = byway::open(uri).and_then(|device| device.nvm(None)).map_err(said)?;
    let mut acknowledged = 0;
    let mut found = vec![1; BLOCK_BYTES];
    for (writer, number) in (0..WRITERS).flat_map(|writer| (0..BLOCKS).map(move |block| (writer, block))) {
        let at = Versions::place(writer, number);
        let (begun, done) = (versions.word(at)?, versions.word(at + 8)?);
        blocks.read(lba(&blocks, writer, number), &mut found).map_err(said)?;
        if !(done..=begun).any(|version| content(writer, number, version) == found) {
            return Err(format!(
                "block {number} of writer {writer} has none of the versions {done} to {begun}"
            ));
        }
        acknowledged += done;
    }
    Ok(acknowledged)
}
