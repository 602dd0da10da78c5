//! Blocks to blocks: pieces that are read, and written as they are, many at once and in any order.

use std::ops::Range;

use anyhow::{Context, Result, anyhow};
use byway::{Backend, BackendQueue, Buffer, Failed, Finished, Outcome};
use slab::Slab;

use super::place::Blocks;
use super::plan::How;
use super::side::{CopySide, wait_for_either};
use super::verify::Sums;
use super::{LOOK_EVERY, Shared};

/// How a copy ended.
pub struct Ended {
    /// Bytes from the first on that are there without a gap.
    pub whole_bytes: u64,
    /// The error that ended it; `None` after an interrupt.
    pub failed: Option<anyhow::Error>,
}

impl Ended {
    /// To the end, or up to an interrupt.
    pub fn well(whole_bytes: u64) -> Self {
        Self { whole_bytes, failed: None }
    }
}

/// Copies `total` bytes.
///
/// # Errors
/// When a side gives no queue or no memory. What they say later is in [`Ended`], with the byte where it was.
pub fn copy(
    how: &How,
    from: &mut Blocks,
    to: &mut Blocks,
    total: u64,
    sums: &Sums,
    shared: &Shared<'_>,
) -> Result<Ended> {
    let whole = total / how.unit_bytes * how.unit_bytes;
    let jobs = parts(whole, how).map(|part| Job::new(how, from, to, part, sums, shared));
    let ended = run_all(jobs.collect::<Result<_>>()?, whole);
    if shared.is_over() || ended.failed.is_some() {
        return Ok(ended);
    }
    let failed = copy_rest(how, from, to, whole..total, sums, shared).err();
    Ok(Ended { whole_bytes: if failed.is_none() { total } else { whole }, failed })
}

/// What fills no block at the end.
fn copy_rest(
    how: &How,
    from: &mut Blocks,
    to: &mut Blocks,
    rest: Range<u64>,
    sums: &Sums,
    shared: &Shared<'_>,
) -> Result<()> {
    if rest.is_empty() {
        return Ok(());
    }
    // Summed together with what is before it in its piece.
    let piece = rest.start / how.piece_bytes * how.piece_bytes;
    let mut bytes = vec![0; (rest.end - piece) as usize];
    from.read_any(piece, &mut bytes)?;
    sums.keep(piece, &bytes);
    let bytes = bytes.get((rest.start - piece) as usize..).unwrap_or_default();
    to.write_any(rest.start, bytes)?;
    shared.add(rest.end - rest.start);
    Ok(())
}

/// The range cut into a part for each thread, at ends of pieces.
fn parts(whole: u64, how: &How) -> impl Iterator<Item = Range<u64>> + use<> {
    let (piece, jobs) = (how.piece_bytes, u64::from(how.jobs));
    let pieces = whole.div_ceil(piece);
    let at = move |job: u64| (u128::from(pieces) * u128::from(job) / u128::from(jobs)) as u64 * piece;
    (0..jobs).map(move |job| at(job).min(whole)..at(job + 1).min(whole)).filter(|part| !part.is_empty())
}

/// Runs every part to its end; what is there without a gap is what the parts before the first unfinished one are.
fn run_all(jobs: Vec<Job<'_>>, whole: u64) -> Ended {
    let ends: Vec<u64> = jobs.iter().map(|job| job.end).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = jobs.into_iter().map(|job| scope.spawn(move || job.run())).collect();
        let mut all = Ended { whole_bytes: whole, failed: None };
        for (thread, end) in threads.into_iter().zip(ends) {
            let panicked = |_| Ended { whole_bytes: 0, failed: Some(anyhow!("a thread of the copy failed")) };
            let ended = thread.join().unwrap_or_else(panicked);
            if ended.whole_bytes < end {
                all.whole_bytes = all.whole_bytes.min(ended.whole_bytes);
            }
            all.failed = all.failed.or(ended.failed);
        }
        all
    })
}

/// A piece on its way.
struct Piece {
    at: u64,
    len: usize,
    /// Its memory, while it is made zeroes: no command has it then.
    buffer: Option<Buffer>,
}

/// One thread's part of a copy.
struct Job<'a> {
    from: CopySide,
    to: CopySide,
    how: How,
    sums: &'a Sums,
    shared: &'a Shared<'a>,
    begin: u64,
    end: u64,
    /// The next byte that is to be read.
    next: u64,
    /// By tag, the same on both sides.
    pieces: Slab<Piece>,
    /// Memory that no piece has; the number of buffers bounds the pieces.
    free: Vec<Buffer>,
    /// The first byte that was given up.
    lost: Option<u64>,
    failed: Option<anyhow::Error>,
}

impl<'a> Job<'a> {
    fn new(
        how: &How,
        from: &Blocks,
        to: &Blocks,
        part: Range<u64>,
        sums: &'a Sums,
        shared: &'a Shared<'a>,
    ) -> Result<Self> {
        let pieces = (part.end - part.start).div_ceil(how.piece_bytes).min(how.depth.into());
        // Memory that the one side knows beforehand is any memory to the other: what has a controller is asked first.
        let giver = if to.device().as_embedded().is_some() { to } else { from };
        let buffer = |_| giver.device().buffer(how.piece_bytes as usize);
        Ok(Self {
            from: from.side(how.depth)?,
            to: to.side(how.depth)?,
            how: *how,
            sums,
            shared,
            begin: part.start,
            end: part.end,
            next: part.start,
            free: (0..pieces).map(buffer).collect::<byway::Result<_>>()?,
            pieces: Slab::with_capacity(pieces as usize),
            lost: None,
            failed: None,
        })
    }

    /// Copies the part, up to its end or as far as it goes.
    fn run(mut self) -> Ended {
        match self.work() {
            Ok(()) => {
                let whole_bytes = self.lost.map_or(self.next, |lost| lost.min(self.next));
                Ended { whole_bytes, failed: self.failed }
            }
            // A failed queue reports nothing of its outstanding commands.
            Err(error) => {
                self.shared.end();
                Ended { whole_bytes: self.begin, failed: Some(error) }
            }
        }
    }

    fn work(&mut self) -> Result<()> {
        loop {
            if self.shared.is_over() {
                self.give_up();
            }
            self.begin_reads()?;
            let taken = self.take_reads()? + self.take_writes()?;
            if self.pieces.is_empty() && (self.next >= self.end || self.lost.is_some()) {
                return Ok(());
            }
            if taken == 0 {
                wait_for_either(&mut self.from, &mut self.to, LOOK_EVERY)?;
            }
        }
    }

    /// Submits no more reads, and cancels those that are outstanding.
    fn give_up(&mut self) {
        if self.lost.is_some() {
            return;
        }
        self.lost = Some(self.next);
        for (tag, _) in &self.pieces {
            // What cannot be cancelled finishes by itself.
            let _ = self.from.queue.cancel(tag as u64);
        }
    }

    fn lose(&mut self, at: u64) {
        self.lost = Some(self.lost.map_or(at, |lost| lost.min(at)));
    }

    /// Reads the next pieces into what memory is free, all by one call.
    fn begin_reads(&mut self) -> Result<()> {
        let Self { from, pieces, free, next, end, how, lost, .. } = self;
        let addresses = from.blocks;
        let mut commands = std::iter::from_fn(|| {
            if *next >= *end || lost.is_some() {
                return None;
            }
            let mut into = free.pop()?;
            let (at, len) = (*next, how.piece_bytes.min(*end - *next) as usize);
            into.set_len(len);
            *next += len as u64;
            let index = pieces.insert(Piece { at, len, buffer: None });
            Some((addresses.read(at, into), index as u64))
        });
        from.queue.submit_all(&mut commands).map_err(byway::Error::from).context("read")
    }

    fn take_reads(&mut self) -> Result<usize> {
        let finished = self.from.take()?;
        let taken = finished.len();
        for Finished { tag, result } in finished {
            let index = tag as usize;
            match result {
                Ok(outcome) => self.write(index, outcome)?,
                Err(failed) => self.fail(index, failed, "read"),
            }
        }
        Ok(taken)
    }

    /// Has a piece that was read written, or made zeroes where that is all it is.
    fn write(&mut self, index: usize, outcome: Outcome) -> Result<()> {
        let Some(piece) = self.pieces.get_mut(index) else { return Ok(()) };
        let buffer = outcome.buffer.context("a read gave no buffer back")?;
        self.sums.keep(piece.at, buffer.as_slice());
        let command = if self.how.sparse && is_zero(buffer.as_slice()) {
            self.shared.add_zeroes(piece.len as u64);
            piece.buffer = Some(buffer);
            self.to.blocks.zero(piece.at, piece.len)
        } else {
            self.to.blocks.write(piece.at, buffer)
        };
        self.to.queue.submit(command, index as u64).map_err(byway::Error::from).context("write")
    }

    fn take_writes(&mut self) -> Result<usize> {
        let finished = self.to.take()?;
        let taken = finished.len();
        for Finished { tag, result } in finished {
            let index = tag as usize;
            match result {
                Ok(outcome) => self.finish_piece(index, outcome.buffer),
                Err(failed) => self.fail(index, failed, "write"),
            }
        }
        Ok(taken)
    }

    fn finish_piece(&mut self, index: usize, buffer: Option<Buffer>) {
        let Some(piece) = self.pieces.try_remove(index) else { return };
        self.free.extend(buffer.or(piece.buffer));
        self.shared.add(piece.len as u64);
    }

    /// Keeps the first failure, and ends the copy everywhere.
    fn fail(&mut self, index: usize, failed: Failed, doing: &str) {
        let Some(piece) = self.pieces.try_remove(index) else { return };
        self.free.extend(failed.buffer.or(piece.buffer));
        let at = piece.at;
        self.lose(at);
        if self.shared.is_over() && failed.error.kind() == byway::ErrorKind::Cancelled {
            return;
        }
        self.shared.end();
        self.failed.get_or_insert(
            anyhow::Error::from(failed.error).context(format!("{doing} at byte {at} of the copy")),
        );
    }
}

/// Whether every byte is zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|word| *word == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}
