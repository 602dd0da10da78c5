//! A command's payload as the controller sees it, wherever it lies.
//!
//! PRP and SGL payloads lie in mapped host memory; an inline payload has come in with the command's ring slots, a
//! capsule's with its capsule, a piggybacked one was put together from command fields. Command code reads and
//! writes all of them through [`Source`] and [`Sink`].

use byway_dma::{BusAddr, Segment, SegmentList};
use byway_link::{Class, Work};

use crate::error::CommandError;
use crate::limits::PAGE_BYTES;
use crate::port::Port;

/// Where a command's payload is.
#[derive(Debug, Clone, Copy)]
pub enum HostData<'a> {
    /// The command moves no data.
    None,
    /// Bytes that came with the command: ring chunks, capsule, command fields.
    Carried(&'a [u8]),
    /// Mapped host memory.
    Mapped(&'a Mapped),
}

/// Mapped host memory named by PRPs or SGLs.
#[derive(Debug, Default)]
pub struct Mapped {
    /// The pieces, in payload order.
    pub segments: SegmentList,
    /// Their total in bytes.
    pub len_bytes: usize,
    /// The controller moves whole host pages (profile habit), as Cosmos+ does for PRPs.
    pub whole_pages: bool,
}

impl<'a> HostData<'a> {
    /// A reader over the payload from its first byte.
    #[inline]
    pub fn source(self, stage: &'a mut Stage) -> Source<'a> {
        self.source_of_first(usize::MAX, stage)
    }

    /// A reader over the first bytes of the payload, which moves no byte behind them.
    #[inline]
    pub fn source_of_first(self, bytes: usize, stage: &'a mut Stage) -> Source<'a> {
        stage.clear();
        Source { data: self, stage, segment: 0, within: 0, left: bytes }
    }

    /// A writer into the payload from its first byte.
    pub fn sink(self, stage: &'a mut Stage) -> Result<Sink<'a>, CommandError> {
        stage.clear();
        match self {
            HostData::Mapped(mapped) => {
                Ok(Sink { mapped: Some(mapped), stage, segment: 0, within: 0, left: mapped.len_bytes })
            }
            HostData::None => Ok(Sink { mapped: None, stage, segment: 0, within: 0, left: 0 }),
            HostData::Carried(_) => {
                Err(CommandError::invalid_field("an inline payload only goes to the device"))
            }
        }
    }
}

/// One host page of device memory, where a piece waits whose place is not contiguous.
///
/// A link transaction must not be cut where a flash page happens to end, so pieces are moved in steps of whole
/// pages of the host's buffer and staged here when their destination or origin is smaller.
#[derive(Debug)]
pub struct Stage {
    bytes: Box<[u8; PAGE_BYTES]>,
    start: usize,
    end: usize,
}

impl Default for Stage {
    fn default() -> Self {
        Self { bytes: Box::new([0; PAGE_BYTES]), start: 0, end: 0 }
    }
}

impl Stage {
    #[inline]
    fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    fn take(&mut self, into: &mut [u8]) -> usize {
        let n = into.len().min(self.end - self.start);
        into[..n].copy_from_slice(&self.bytes[self.start..self.start + n]);
        self.start += n;
        n
    }
}

/// Reads a payload from its first byte to its last.
#[derive(Debug)]
pub struct Source<'a> {
    data: HostData<'a>,
    stage: &'a mut Stage,
    segment: usize,
    within: usize,
    /// Bytes that may still be moved.
    left: usize,
}

impl Source<'_> {
    /// Fills `into` with the next bytes of the payload; a payload that ends first is an error.
    pub fn fill(&mut self, port: &mut Port<'_>, into: &mut [u8]) -> Result<(), CommandError> {
        match self.data {
            HostData::None if into.is_empty() => Ok(()),
            HostData::None => Err(CommandError::data_length("the command brought no data")),
            HostData::Carried(bytes) => self.fill_carried(bytes, into),
            HostData::Mapped(mapped) => self.fill_mapped(mapped, port, into),
        }
    }

    fn fill_carried(&mut self, bytes: &[u8], into: &mut [u8]) -> Result<(), CommandError> {
        let end = self.within + into.len();
        let from = bytes.get(self.within..end).ok_or(ENDS_FIRST)?;
        into.copy_from_slice(from);
        self.within = end;
        Ok(())
    }

    fn fill_mapped(
        &mut self,
        mapped: &Mapped,
        port: &mut Port<'_>,
        mut into: &mut [u8],
    ) -> Result<(), CommandError> {
        while !into.is_empty() {
            let staged = self.stage.take(into);
            into = &mut into[staged..];
            if into.is_empty() {
                break;
            }
            let moved = self.next_step(mapped, port, into)?;
            into = &mut into[moved..];
        }
        Ok(())
    }

    /// Moves the next step straight into `into` if it fits there, else into the stage. Returns what went to `into`.
    fn next_step(
        &mut self,
        mapped: &Mapped,
        port: &mut Port<'_>,
        into: &mut [u8],
    ) -> Result<usize, CommandError> {
        let segment = self.current(mapped)?;
        if self.left == 0 {
            return Err(ENDS_FIRST);
        }
        let at = BusAddr(segment.addr.0 + self.within as u64);
        let in_page = if mapped.whole_pages { at.0 as usize % PAGE_BYTES } else { 0 };
        let step = (segment.len_bytes as usize - self.within).min(PAGE_BYTES - in_page).min(self.left);
        self.within += step;
        self.left -= step;
        if let Some(into) = into.get_mut(..step) {
            read_step(mapped, port, at, into)?;
            return Ok(step);
        }
        read_step(mapped, port, at, &mut self.stage.bytes[..step])?;
        (self.stage.start, self.stage.end) = (0, step);
        Ok(0)
    }

    fn current(&mut self, mapped: &Mapped) -> Result<Segment, CommandError> {
        loop {
            let segment = mapped.segments.as_slice().get(self.segment).copied().ok_or(ENDS_FIRST)?;
            if self.within < segment.len_bytes as usize {
                return Ok(segment);
            }
            self.segment += 1;
            self.within = 0;
        }
    }
}

/// One read on the link: of the step's bytes, or of the page that they lie in.
#[inline]
fn read_step(mapped: &Mapped, port: &mut Port<'_>, at: BusAddr, into: &mut [u8]) -> Result<(), CommandError> {
    if mapped.whole_pages {
        port.read_page(Class::DataRead, at, into)?;
        port.meter.work(Work::PrpPage);
    } else {
        port.read(Class::DataRead, at, into)?;
    }
    Ok(())
}

/// Writes a payload from its first byte on; bytes past the payload's end are an error.
#[derive(Debug)]
pub struct Sink<'a> {
    mapped: Option<&'a Mapped>,
    stage: &'a mut Stage,
    segment: usize,
    within: usize,
    /// Bytes of the payload that are still to come.
    left: usize,
}

impl Sink<'_> {
    /// Writes the next bytes of the payload. What does not fill a step, and is not the last, waits until [`Sink::finish`].
    #[inline(always)]
    pub fn put(&mut self, port: &mut Port<'_>, from: &[u8]) -> Result<(), CommandError> {
        match self.only_step(from.len()) {
            Some(at) => {
                self.left = 0;
                Ok(port.write(Class::DataWrite, at, from)?)
            }
            None => self.put_steps(port, from),
        }
    }

    /// Where all of the payload goes, if its `bytes` come together and are one step.
    #[inline]
    fn only_step(&self, bytes: usize) -> Option<BusAddr> {
        let [segment, ..] = self.mapped?.segments.as_slice() else { return None };
        let is_step = bytes > 0 && bytes <= PAGE_BYTES.min(segment.len_bytes as usize);
        let is_all = self.within == 0 && self.segment == 0 && self.left == bytes && self.stage.end == 0;
        (is_step && is_all && !segment.discard).then_some(segment.addr)
    }

    fn put_steps(&mut self, port: &mut Port<'_>, mut from: &[u8]) -> Result<(), CommandError> {
        while !from.is_empty() {
            let step = self.step()?;
            let waiting = self.stage.end;
            let n = from.len().min(step - waiting);
            let is_last = n == self.left;
            self.left = self.left.saturating_sub(n);
            if waiting == 0 && (n == step || is_last) {
                self.flush(port, &from[..n])?;
            } else {
                self.stage.bytes[waiting..waiting + n].copy_from_slice(&from[..n]);
                self.stage.end += n;
                self.flush_full(port, step)?;
            }
            from = &from[n..];
        }
        Ok(())
    }

    /// Writes out what still waits.
    #[inline]
    pub fn finish(mut self, port: &mut Port<'_>) -> Result<(), CommandError> {
        let waiting = self.stage.end;
        self.flush_full(port, waiting)
    }

    fn flush_full(&mut self, port: &mut Port<'_>, step: usize) -> Result<(), CommandError> {
        if self.stage.end < step || step == 0 {
            return Ok(());
        }
        if let Some(at) = self.place(step)? {
            port.write(Class::DataWrite, at, &self.stage.bytes[..step])?;
        }
        self.stage.clear();
        Ok(())
    }

    fn flush(&mut self, port: &mut Port<'_>, bytes: &[u8]) -> Result<(), CommandError> {
        match self.place(bytes.len())? {
            Some(at) => Ok(port.write(Class::DataWrite, at, bytes)?),
            None => Ok(()),
        }
    }

    /// Where the next `bytes` go; nowhere for those of a bit bucket.
    fn place(&mut self, bytes: usize) -> Result<Option<BusAddr>, CommandError> {
        let segment = self.mapped.and_then(|m| m.segments.as_slice().get(self.segment).copied());
        let segment = segment.ok_or(CommandError::data_length("data longer than the host's buffer"))?;
        let at = BusAddr(segment.addr.0 + self.within as u64);
        self.within += bytes;
        Ok((!segment.discard).then_some(at))
    }

    /// Bytes up to the end of the step that the next byte belongs to.
    fn step(&mut self) -> Result<usize, CommandError> {
        let mapped = self.mapped.ok_or(CommandError::data_length("the command brought no buffer"))?;
        loop {
            let segment = mapped
                .segments
                .as_slice()
                .get(self.segment)
                .copied()
                .ok_or(CommandError::data_length("data longer than the host's buffer"))?;
            if self.within < segment.len_bytes as usize {
                return Ok((segment.len_bytes as usize - self.within).min(PAGE_BYTES));
            }
            self.segment += 1;
            self.within = 0;
        }
    }
}

const ENDS_FIRST: CommandError = CommandError::data_length("payload shorter than the command says");
