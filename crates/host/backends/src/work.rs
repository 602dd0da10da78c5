//! A request done by system calls in the caller's thread: all of the synchronous backends, and what an asynchronous
//! interface has no operation for.

use std::io;

use byway_core::{Answer, Buffer, Error, ErrorKind, Failed, Memory, Outcome, Result};
use byway_sys::RangeChange;

use crate::request::{Request, Span, copy_ranges, dsm_ranges};
use crate::target::{Shape, Target};

/// Bytes that a comparison, a check or a copy moves at a time.
const CHUNK_BYTES: u64 = 256 << 10;

/// Bytes at offsets, read and written by calls that return when they are done.
pub(crate) trait Medium {
    /// What commands are checked against.
    fn shape(&self) -> Shape;

    /// Reads; returns how much was read, which may be less, and nothing at the end.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes; returns how much was written, which may be less.
    fn write_at(&self, at: u64, from: &[u8]) -> io::Result<usize>;

    /// Makes completed writes durable.
    fn sync(&self) -> io::Result<()>;

    /// Changes a range without its bytes; `Unsupported` where that cannot be.
    fn change(&self, at: u64, len_bytes: u64, change: RangeChange) -> io::Result<()>;

    /// For an end where there was data.
    fn ended(&self, at: u64) -> Error;
}

impl Medium for Target {
    fn shape(&self) -> Shape {
        self.shape()
    }

    #[inline]
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file().read_at(at, into)
    }

    #[inline]
    fn write_at(&self, at: u64, from: &[u8]) -> io::Result<usize> {
        self.file().write_at(at, from)
    }

    fn sync(&self) -> io::Result<()> {
        self.file().sync()
    }

    fn change(&self, at: u64, len_bytes: u64, change: RangeChange) -> io::Result<()> {
        self.file().change(at, len_bytes, change)
    }

    fn ended(&self, at: u64) -> Error {
        ended(self, at)
    }
}

/// Does `request` to a file or block device, with a command's memory.
#[inline(always)]
pub(crate) fn run(target: &Target, request: Request, memory: Memory) -> Result<Outcome, Failed> {
    run_over(target, request, memory)
}

/// Does `request` to any medium, with a command's memory.
#[inline(always)]
pub(crate) fn run_over(
    medium: &impl Medium,
    request: Request,
    mut memory: Memory,
) -> Result<Outcome, Failed> {
    match perform(medium, request, &mut memory) {
        Ok(()) => Ok(outcome(memory)),
        Err(error) => Err(Failed::with_memory(error, memory)),
    }
}

/// Success of a command that had this memory.
#[inline]
pub(crate) fn outcome(memory: Memory) -> Outcome {
    let (buffer, vector) = memory.into_buffers();
    Outcome { answer: Answer { commands: 1, ..Answer::default() }, buffer, vector }
}

#[inline(always)]
fn perform(medium: &impl Medium, request: Request, memory: &mut Memory) -> Result<()> {
    match (request, memory) {
        // What nearly all commands are, where they stand.
        (Request::Read(span), Memory::Buffer(into)) => read_whole(medium, span.at, into.as_mut_slice()),
        (Request::Write { to, fua: false }, Memory::Buffer(from)) => {
            write_whole(medium, to.at, from.as_slice())
        }
        (request, memory) => perform_any(medium, request, memory),
    }
}

#[inline(never)]
fn perform_any(medium: &impl Medium, request: Request, memory: &mut Memory) -> Result<()> {
    match request {
        Request::Read(span) => read_into(medium, span, memory),
        Request::Write { to, fua } => {
            write_from(medium, to, memory)?;
            if fua { sync(medium) } else { Ok(()) }
        }
        Request::Flush => sync(medium),
        Request::WriteZeroes { of, free } => write_zeroes(medium, of, free),
        Request::Deallocate { ranges } => deallocate(medium, memory, ranges),
        Request::Hint => Ok(()),
        Request::Compare(span) => compare(medium, span, memory),
        Request::Verify(span) => each_chunk(medium, span, |_| Ok(())),
        Request::Copy { to, ranges } => copy(medium, to, memory, ranges),
    }
}

fn read_into(medium: &impl Medium, span: Span, memory: &mut Memory) -> Result<()> {
    let mut at = span.at;
    for part in memory.buffers_mut() {
        read_whole(medium, at, part.as_mut_slice())?;
        at += part.len() as u64;
    }
    Ok(())
}

fn write_from(medium: &impl Medium, span: Span, memory: &Memory) -> Result<()> {
    let mut at = span.at;
    for part in memory.parts() {
        write_whole(medium, at, part)?;
        at += part.len() as u64;
    }
    Ok(())
}

/// Reads until `into` is full: a signal or a boundary may end one call early.
#[inline(always)]
fn read_whole(medium: &impl Medium, at: u64, into: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match medium.read_at(at + done as u64, rest) {
            Ok(0) => return Err(medium.ended(at + done as u64)),
            Ok(read) => done += read,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(failed("reading", at, into.len(), cause)),
        }
    }
    Ok(())
}

#[inline(always)]
fn write_whole(medium: &impl Medium, at: u64, from: &[u8]) -> Result<()> {
    let mut done = 0;
    while let Some(rest) = from.get(done..).filter(|rest| !rest.is_empty()) {
        match medium.write_at(at + done as u64, rest) {
            Ok(0) => return Err(medium.ended(at + done as u64)),
            Ok(written) => done += written,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(failed("writing", at, from.len(), cause)),
        }
    }
    Ok(())
}

fn sync(medium: &impl Medium) -> Result<()> {
    medium.sync().map_err(|cause| Error::kernel("syncing failed", cause))
}

fn write_zeroes(medium: &impl Medium, of: Span, free: bool) -> Result<()> {
    let change = if free { RangeChange::ZeroAndFree } else { RangeChange::Zero };
    match medium.change(of.at, of.len, change) {
        Err(cause) if cause.kind() == io::ErrorKind::Unsupported => write_zeroes_by_hand(medium, of),
        done => done.map_err(|cause| failed("zeroing", of.at, of.len as usize, cause)),
    }
}

fn write_zeroes_by_hand(medium: &impl Medium, of: Span) -> Result<()> {
    let zeroes = Buffer::zeroed(of.len.min(CHUNK_BYTES) as usize)?;
    for chunk in chunks(of) {
        write_whole(medium, chunk.at, zeroes.as_slice().get(..chunk.len as usize).unwrap_or_default())?;
    }
    Ok(())
}

fn deallocate(medium: &impl Medium, memory: &Memory, ranges: usize) -> Result<()> {
    let shape = medium.shape();
    for range in dsm_ranges(memory.contiguous().unwrap_or_default()).take(ranges) {
        let span = shape.byte_range(range.slba, range.nlb.into())?;
        match medium.change(span.at, span.len, RangeChange::Free) {
            // What is no longer needed may be kept.
            Err(cause) if cause.kind() == io::ErrorKind::Unsupported => {}
            done => done.map_err(|cause| failed("deallocating", span.at, span.len as usize, cause))?,
        }
    }
    Ok(())
}

fn compare(medium: &impl Medium, span: Span, memory: &Memory) -> Result<()> {
    let mut parts = memory.parts();
    let mut rest: &[u8] = &[];
    each_chunk(medium, span, |mut chunk| {
        while !chunk.is_empty() {
            if rest.is_empty() {
                rest = parts.next().unwrap_or_default();
            }
            let here = rest.len().min(chunk.len());
            let (wanted, is) = (rest.get(..here), chunk.get(..here));
            if wanted != is || here == 0 {
                return Err(Error::host(ErrorKind::Mismatch, "the blocks hold other data"));
            }
            (rest, chunk) = (rest.get(here..).unwrap_or_default(), chunk.get(here..).unwrap_or_default());
        }
        Ok(())
    })
}

fn copy(medium: &impl Medium, to: u64, memory: &Memory, ranges: usize) -> Result<()> {
    let shape = medium.shape();
    // Read whole before anything is written: the ranges may overlap what they are copied to.
    let mut data = Vec::new();
    for range in copy_ranges(memory.contiguous().unwrap_or_default()).take(ranges) {
        let span = shape.byte_range(range.slba, u64::from(range.nlb_z) + 1)?;
        let mut part = Buffer::zeroed(span.len as usize)?;
        read_whole(medium, span.at, part.as_mut_slice())?;
        data.push(part);
    }
    let mut at = to;
    for part in &data {
        write_whole(medium, at, part.as_slice())?;
        at += part.len() as u64;
    }
    Ok(())
}

/// Reads a span chunk by chunk.
fn each_chunk(medium: &impl Medium, span: Span, mut on: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut buffer = Buffer::zeroed(span.len.min(CHUNK_BYTES) as usize)?;
    for chunk in chunks(span) {
        buffer.set_len(chunk.len as usize);
        read_whole(medium, chunk.at, buffer.as_mut_slice())?;
        on(buffer.as_slice())?;
    }
    Ok(())
}

fn chunks(span: Span) -> impl Iterator<Item = Span> {
    let end = span.at + span.len;
    (span.at..end).step_by(CHUNK_BYTES as usize).map(move |at| Span { at, len: CHUNK_BYTES.min(end - at) })
}

/// The end of a file came at byte `at` or before, where there was data when it was opened.
#[cold]
pub(crate) fn ended(target: &Target, at: u64) -> Error {
    let end = target.file().len_bytes().map_or(at, |len| len.min(at));
    let said = format!("{} ends at byte {end}: it was cut after it was opened", target.path().display());
    Error::device(ErrorKind::Media, said)
}

/// Error of a transfer with this result: a failure, or fewer bytes than requested.
#[inline]
pub(crate) fn wrong(target: &Target, request: Request, result: io::Result<usize>) -> Option<Error> {
    match (result, request) {
        (Ok(moved), Request::Read(span) | Request::Write { to: span, .. }) if (moved as u64) < span.len => {
            Some(ended(target, span.at + moved as u64))
        }
        (Ok(_), _) => None,
        (Err(cause), request) => Some(refused(request, cause)),
    }
}

/// What the system answered to a request.
#[cold]
pub(crate) fn refused(request: Request, cause: io::Error) -> Error {
    match request {
        Request::Read(span) => failed("reading", span.at, span.len as usize, cause),
        Request::Write { to, .. } => failed("writing", to.at, to.len as usize, cause),
        Request::WriteZeroes { of, .. } => failed("zeroing", of.at, of.len as usize, cause),
        Request::Flush => Error::kernel("syncing failed", cause),
        _ => Error::kernel("deallocating failed", cause),
    }
}

/// What a system call on a range answered.
#[cold]
pub(crate) fn failed(doing: &str, at: u64, len: usize, cause: io::Error) -> Error {
    Error::kernel(format!("{doing} {len} bytes at byte {at} failed"), cause)
}
