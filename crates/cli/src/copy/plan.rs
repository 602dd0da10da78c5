//! What a copy is to be: where it begins and ends, in which pieces, and whether both sides can do it.

use anyhow::{Result, ensure};
use byway::{Backend, DEPTH_MAX, Depth};
use byway_console::size;

use super::place::{self, Blocks, Place};
use super::verify::Sums;
use crate::opened;

/// Bytes of a piece by default: long enough for any disk's best rate, short enough for its cache.
const PIECE_BYTES: u64 = 256 << 10;
/// Most blocks of one command.
const BLOCKS_MAX: u64 = 1 << 16;
/// Pieces in flight at once without `--depth`.
const DEPTH: Depth = Depth::UpTo(16);

/// What was asked for on the command line.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The source: a URI, a path, or `-` for a stream.
    pub from: String,
    /// The destination: a URI, a path, or `-` for a stream.
    pub to: String,
    /// Bytes of a piece.
    pub piece_bytes: Option<u64>,
    /// Bytes in all.
    pub count: Option<u64>,
    /// First byte there.
    pub skip: u64,
    /// First byte here.
    pub seek: u64,
    /// Pieces on their way at once, on either side.
    pub depth: Option<u32>,
    /// Threads.
    pub jobs: u32,
    /// Zeroes are not sent as data.
    pub sparse: bool,
    /// What was written is read back.
    pub verify: bool,
}

/// How blocks are copied.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Bytes of a piece.
    pub piece_bytes: u64,
    /// Pieces on their way at once.
    pub depth: u32,
    /// Threads.
    pub jobs: u32,
    /// Zeroes are not sent as data.
    pub sparse: bool,
    /// What was written is read back.
    pub verify: bool,
    /// Maximum bytes to copy of a stream.
    pub count: Option<u64>,
    /// The larger of both sides' block sizes, in bytes: pieces and offsets are multiples of it.
    pub unit_bytes: u64,
}

impl How {
    /// Where sums of pieces are kept, if they are.
    pub fn sums(&self, total: Option<u64>) -> Sums {
        Sums::new(self.verify, self.piece_bytes, total)
    }
}

/// A copy that can be made.
pub struct Plan {
    pub how: How,
    pub from: Place,
    pub to: Place,
    /// Bytes, where that is known beforehand.
    pub total: Option<u64>,
    /// A sentence for each depth that is lowered to what queues hold: that of a URI, and the default.
    pub lowered: Vec<String>,
}

impl Plan {
    /// Opens both sides and looks whether they can do what is asked for.
    ///
    /// # Errors
    /// One sentence that says what cannot be, and why.
    pub fn of(asked: &Asked) -> Result<Self> {
        ensure!(asked.depth != Some(0), "a depth of 0 moves nothing");
        let depth = asked.depth.unwrap_or(1);
        ensure!(depth <= DEPTH_MAX, "--depth of {depth} is over the {DEPTH_MAX} that a queue holds");
        ensure!(asked.jobs > 0, "0 jobs move nothing");
        place::differ(&asked.from, &asked.to)?;
        let from = place::open_from(&asked.from, asked.skip)?;
        let total = match &from {
            Place::Blocks(from) => Some(total_of(from, asked)?),
            _ => None,
        };
        let to = place::open_to(&asked.to, asked.seek, total)?;
        let how = how_of(asked, &from, &to)?;
        if let Place::Blocks(to) = &to {
            check_target(asked, to, total)?;
        }
        let lowered = lowered(asked, &how, [&from, &to]);
        Ok(Self { how, from, to, total, lowered })
    }
}

fn total_of(from: &Blocks, asked: &Asked) -> Result<u64> {
    let there = from.size_bytes - from.offset;
    let count = asked.count.unwrap_or(there);
    ensure!(
        count <= there,
        "--count of {count} bytes goes beyond the end: {} has {there} bytes from byte {} on",
        asked.from,
        from.offset
    );
    Ok(count)
}

fn how_of(asked: &Asked, from: &Place, to: &Place) -> Result<How> {
    let sides: Vec<&Blocks> = [from, to].into_iter().filter_map(blocks_of).collect();
    let unit_bytes = sides.iter().map(|side| side.lba_bytes).max().unwrap_or(1);
    let limit = sides.iter().map(|side| longest(side, asked.sparse)).min().unwrap_or(u64::MAX);
    let piece_bytes = asked.piece_bytes.unwrap_or(PIECE_BYTES.min(limit) / unit_bytes * unit_bytes).max(1);
    ensure!(
        asked.piece_bytes != Some(0),
        "--bs of 0 bytes moves nothing: expected is a whole number of blocks of {unit_bytes} bytes"
    );
    ensure!(
        piece_bytes.is_multiple_of(unit_bytes),
        "--bs of {} bytes is no whole number of blocks of {unit_bytes} bytes",
        asked.piece_bytes.unwrap_or(piece_bytes)
    );
    ensure!(
        piece_bytes <= limit,
        "--bs of {} is over the {} that one command moves there",
        size::human(piece_bytes),
        size::human(limit)
    );
    let is_aligned = sides.iter().all(|side| side.offset.is_multiple_of(side.lba_bytes));
    ensure!(is_aligned, "--skip and --seek are whole numbers of blocks of {unit_bytes} bytes");
    ensure!(
        asked.jobs == 1 || sides.len() == 2,
        "a stream is copied by one thread: --jobs means nothing here"
    );
    let depth = depth_of(asked, &sides)?;
    let Asked { jobs, sparse, verify, count, .. } = *asked;
    Ok(How { piece_bytes, depth, jobs, sparse, verify, count, unit_bytes })
}

/// Pieces on their way at once, which queues of both sides hold: by `--depth`, else by `depth=` of a URI.
fn depth_of(asked: &Asked, sides: &[&Blocks]) -> Result<u32> {
    let of_uris = sides.iter().filter_map(|side| opened::depth_of(side.uri())).min();
    let depth = asked.depth.map_or(of_uris.map_or(DEPTH, Depth::UpTo), Depth::Exactly);
    let limits = sides.iter().map(|side| side.device().capabilities().limits.depth_max());
    let depth = limits.min().map_or(depth, |most| depth.capped(most)).commands();
    for side in sides {
        let most = side.device().capabilities().limits.depth_max();
        ensure!(depth <= most, "--depth of {depth} is over the {most} that a queue of {} holds", side.uri());
    }
    Ok(depth)
}

/// Says of each URI whose depth is lowered, or else which side's queue made the default depth less.
fn lowered(asked: &Asked, how: &How, sides: [&Place; 2]) -> Vec<String> {
    let sides: Vec<&Blocks> = sides.into_iter().filter_map(blocks_of).collect();
    let of_uris: Vec<String> =
        sides.iter().filter_map(|side| opened::lowered(side.uri(), side.device())).collect();
    match of_uris.is_empty() {
        true => lowered_default(asked, how, &sides).into_iter().collect(),
        false => of_uris,
    }
}

fn lowered_default(asked: &Asked, how: &How, sides: &[&Blocks]) -> Option<String> {
    let is_of_uri = sides.iter().any(|side| opened::depth_of(side.uri()).is_some());
    if asked.depth.is_some() || is_of_uri || how.depth >= DEPTH.commands() {
        return None;
    }
    let is_limit = |side: &&&Blocks| side.device().capabilities().limits.depth_max() == how.depth;
    let side = sides.iter().find(is_limit)?;
    Some(format!(
        "--depth is {}, not the default {}: a queue of {} holds no more",
        how.depth,
        DEPTH.commands(),
        side.uri()
    ))
}

fn blocks_of(place: &Place) -> Option<&Blocks> {
    match place {
        Place::Blocks(blocks) => Some(blocks),
        _ => None,
    }
}

/// The most bytes of one command: that moves them, or `zeroes` them too.
fn longest(side: &Blocks, zeroes: bool) -> u64 {
    let can = side.device().capabilities();
    let limits = [can.limits.transfer_bytes, if zeroes { can.nvm_limits.write_zeroes_bytes } else { 0 }];
    let most = limits.into_iter().filter(|most| *most > 0).fold(u64::MAX, u64::min);
    most.min(side.lba_bytes * BLOCKS_MAX) / side.lba_bytes * side.lba_bytes
}

fn check_target(asked: &Asked, to: &Blocks, total: Option<u64>) -> Result<()> {
    let room = to.size_bytes.saturating_sub(to.offset);
    let needed = total.or(asked.count).unwrap_or(0);
    ensure!(
        needed <= room && to.offset <= to.size_bytes,
        "{needed} bytes have no room: {} has {room} bytes from byte {} on",
        asked.to,
        to.offset
    );
    ensure!(
        !asked.sparse || to.device().capabilities().nvm.write_zeroes,
        "{} has no command that writes zeroes, which --sparse needs",
        asked.to
    );
    Ok(())
}
