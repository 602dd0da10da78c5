//! Copies with a stream on one side or on both: in order, by one thread.

use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, Result, ensure};
use byway::{Backend, BackendQueue, Buffer};

use super::place::Blocks;
use super::plan::How;
use super::reader::Reader;
use super::side::CopySide;
use super::verify::Sums;
use super::{LOOK_EVERY, Shared};

/// Blocks to a stream; returns how many bytes were written.
///
/// # Errors
/// What either side says.
pub fn from_blocks(
    how: &How,
    from: &mut Blocks,
    to: &mut dyn Write,
    total: u64,
    shared: &Shared<'_>,
) -> Result<u64> {
    let whole = total / how.unit_bytes * how.unit_bytes;
    let mut written = 0;
    Reader::new(from, how, 0..whole)?.each(shared, |_, bytes| {
        to.write_all(bytes)?;
        written += bytes.len() as u64;
        shared.add(bytes.len() as u64);
        Ok(())
    })?;
    if written == whole && whole < total {
        let mut rest = vec![0; (total - whole) as usize];
        from.read_any(whole, &mut rest)?;
        to.write_all(&rest)?;
        written = total;
        shared.add(rest.len() as u64);
    }
    to.flush()?;
    Ok(written)
}

/// A stream to blocks; returns how many bytes of it are there without a gap.
///
/// # Errors
/// What either side says; a stream that has more than there is room for.
pub fn to_blocks(
    how: &How,
    from: &mut dyn Read,
    to: &mut Blocks,
    sums: &Sums,
    shared: &Shared<'_>,
) -> Result<u64> {
    let room = to.size_bytes - to.offset;
    let mut writer = Writer::new(to.side(how.depth)?);
    let mut at = 0;
    let rest = loop {
        if shared.is_over() {
            break Vec::new();
        }
        let mut buffer = writer.buffer(how, to)?;
        let len = fill(from, buffer.as_mut_slice(), how.count.map(|count| count - at), shared)?;
        ensure!(len as u64 <= room - at, "the stream has more than the {room} bytes that there is room for");
        let bytes = buffer.as_slice().get(..len).unwrap_or_default();
        sums.keep(at, bytes);
        let whole = len as u64 / to.lba_bytes * to.lba_bytes;
        let rest = bytes.get(whole as usize..).unwrap_or_default().to_vec();
        buffer.set_len(whole as usize);
        writer.write(at, buffer, how.sparse, shared)?;
        at += whole;
        if len < how.piece_bytes as usize {
            break rest;
        }
    };
    writer.finish()?;
    if !rest.is_empty() {
        to.write_any(at, &rest)?;
        at += rest.len() as u64;
        shared.add(rest.len() as u64);
    }
    Ok(at)
}

/// Reads until the buffer is full, or `most` bytes are there, or the stream or the copy ends.
fn fill(from: &mut dyn Read, into: &mut [u8], most: Option<u64>, shared: &Shared<'_>) -> Result<usize> {
    let most = most.map_or(into.len(), |most| into.len().min(usize::try_from(most).unwrap_or(usize::MAX)));
    let mut filled = 0;
    while let Some(room) = into.get_mut(filled..most).filter(|room| !room.is_empty()) {
        match from.read(room) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted && shared.is_over() => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("read the stream"),
        }
    }
    Ok(filled)
}

/// A stream to a stream, as a file is written that does not exist yet; returns how many bytes.
///
/// # Errors
/// What either side says.
pub fn plain(how: &How, from: &mut dyn Read, to: &mut dyn Write, shared: &Shared<'_>) -> Result<u64> {
    let mut piece = vec![0; how.piece_bytes as usize];
    let mut at = 0;
    while !shared.is_over() {
        let len = fill(from, &mut piece, how.count.map(|count| count - at), shared)?;
        to.write_all(piece.get(..len).unwrap_or_default())?;
        at += len as u64;
        shared.add(len as u64);
        if len < piece.len() {
            break;
        }
    }
    to.flush()?;
    Ok(at)
}

/// Writes on their way, and the buffers that are free.
struct Writer {
    side: CopySide,
    free: Vec<Buffer>,
    made: u32,
}

impl Writer {
    fn new(side: CopySide) -> Self {
        Self { side, free: Vec::new(), made: 0 }
    }

    /// Memory for the next piece, as soon as there is some.
    fn buffer(&mut self, how: &How, to: &Blocks) -> Result<Buffer> {
        if self.free.is_empty() && self.made < how.depth {
            self.made += 1;
            return Ok(to.device().buffer(how.piece_bytes as usize)?);
        }
        loop {
            if let Some(mut buffer) = self.free.pop() {
                buffer.set_len(how.piece_bytes as usize);
                return Ok(buffer);
            }
            self.take()?;
        }
    }

    fn write(&mut self, at: u64, buffer: Buffer, sparse: bool, shared: &Shared<'_>) -> Result<()> {
        let len = buffer.len();
        if len == 0 {
            self.free.push(buffer);
            return Ok(());
        }
        let is_zero = sparse && super::blocks::is_zero(buffer.as_slice());
        let command = if is_zero {
            shared.add_zeroes(len as u64);
            self.free.push(buffer);
            self.side.blocks.zero(at, len)
        } else {
            self.side.blocks.write(at, buffer)
        };
        while self.side.queue.outstanding() >= self.side.queue.depth() {
            self.take()?;
        }
        self.side.queue.submit(command, at).map_err(byway::Error::from).context("write")?;
        self.side.queue.start()?;
        shared.add(len as u64);
        Ok(())
    }

    /// Waits for a while for what has finished.
    fn take(&mut self) -> Result<()> {
        self.side.wait(LOOK_EVERY)?;
        for one in self.side.take()? {
            let outcome = one.result.map_err(byway::Error::from);
            let outcome = outcome.with_context(|| format!("write at byte {} of the copy", one.tag))?;
            self.free.extend(outcome.buffer);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        while self.side.queue.outstanding() > 0 {
            self.take()?;
        }
        Ok(())
    }
}
