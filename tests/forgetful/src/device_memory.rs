//! Device memory under power loss: stores that were flushed and fenced survive. Every other aligned 8-byte word keeps
//! its old value or any value stored there since.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use byway_tdm_region::{Memory, MemoryError, Point};

use crate::power::Power;
use byway_kit::Random;

const LINE_WORDS: u64 = 8;

/// The step that a test removes from the code under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// Flushes at this place, and drains.
    Flush(Point),
    /// Fences at this place.
    Fence(Point),
}

/// A word whose value after a cut is uncertain: the values stored there, oldest first, and how many of them the next
/// fence makes durable.
#[derive(Debug, Clone, Default)]
struct Unsettled {
    stored: Vec<u64>,
    flushed: usize,
}

#[derive(Debug)]
struct State {
    now: Vec<u64>,
    kept: Vec<u64>,
    unsettled: BTreeMap<usize, Unsettled>,
    /// Words that were streamed and are not drained.
    streamed: Vec<usize>,
}

/// The memory.
#[derive(Debug)]
pub struct ForgetfulMemory {
    state: RefCell<State>,
    power: Rc<Power>,
    left_out: Option<LeftOut>,
    streams: bool,
}

impl ForgetfulMemory {
    /// Memory with `words` durable, as long as `power` is on.
    #[must_use]
    pub fn new(words: Vec<u64>, power: Rc<Power>, left_out: Option<LeftOut>) -> Self {
        let state =
            State { now: words.clone(), kept: words, unsettled: BTreeMap::new(), streamed: Vec::new() };
        Self { state: RefCell::new(state), power, left_out, streams: false }
    }

    /// Uses non-temporal stores, for callers that request them.
    #[must_use]
    pub const fn streaming(mut self) -> Self {
        self.streams = true;
        self
    }

    /// The memory's content after a power loss.
    #[must_use]
    pub fn after_a_cut(&self, random: &mut Random) -> Vec<u64> {
        let state = self.state.borrow();
        let mut words = state.kept.clone();
        for (word, unsettled) in &state.unsettled {
            let choice = random.below(unsettled.stored.len() as u64 + 1) as usize;
            if let Some(stored) = choice.checked_sub(1) {
                words[*word] = unsettled.stored[stored];
            }
        }
        words
    }

    fn range(&self, at: u64, len_bytes: u64) -> Result<(), MemoryError> {
        let memory_bytes = self.len_bytes();
        if at.checked_add(len_bytes).is_some_and(|end| end <= memory_bytes) {
            return Ok(());
        }
        Err(MemoryError::Outside { at, len_bytes, memory_bytes })
    }
}

impl State {
    fn put(&mut self, word: usize, value: u64) {
        self.now[word] = value;
        self.unsettled.entry(word).or_default().stored.push(value);
    }

    fn flush(&mut self, words: std::ops::Range<usize>) {
        for (_, unsettled) in self.unsettled.range_mut(words) {
            unsettled.flushed = unsettled.stored.len();
        }
    }

    fn drain(&mut self) {
        for word in std::mem::take(&mut self.streamed) {
            self.flush(word..word + 1);
        }
    }

    fn fence(&mut self) {
        let kept = &mut self.kept;
        self.unsettled.retain(|word, unsettled| {
            if let Some(last) = unsettled.flushed.checked_sub(1) {
                kept[*word] = unsettled.stored[last];
                unsettled.stored.drain(..unsettled.flushed);
                unsettled.flushed = 0;
            }
            !unsettled.stored.is_empty()
        });
    }
}

impl Memory for ForgetfulMemory {
    fn len_bytes(&self) -> u64 {
        self.state.borrow().now.len() as u64 * 8
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        self.range(at, into.len() as u64)?;
        let state = self.state.borrow();
        for (i, byte) in into.iter_mut().enumerate() {
            let at = at as usize + i;
            *byte = state.now[at / 8].to_le_bytes()[at % 8];
        }
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.range(at, from.len() as u64)?;
        if from.is_empty() || !self.power.event() {
            return Ok(());
        }
        let mut state = self.state.borrow_mut();
        let (first, end) = (at as usize, at as usize + from.len());
        for word in first / 8..end.div_ceil(8) {
            let mut bytes = state.now[word].to_le_bytes();
            for (i, byte) in bytes.iter_mut().enumerate() {
                if let Some(from) = (word * 8 + i).checked_sub(first).and_then(|i| from.get(i)) {
                    *byte = *from;
                }
            }
            state.put(word, u64::from_le_bytes(bytes));
        }
        Ok(())
    }

    fn stream(&self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        assert!(at.is_multiple_of(16) && from.len().is_multiple_of(16), "{} bytes at {at}", from.len());
        self.write(at, from)?;
        if self.streams {
            let words = (at / 8) as usize..(at as usize + from.len()) / 8;
            self.state.borrow_mut().streamed.extend(words);
        }
        Ok(())
    }

    fn streams(&self) -> bool {
        self.streams
    }

    fn drain(&self, point: Point) {
        if self.streams && self.power.event() && self.left_out != Some(LeftOut::Flush(point)) {
            self.state.borrow_mut().drain();
        }
    }

    fn load(&self, at: u64) -> Result<u64, MemoryError> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn store(&self, at: u64, value: u64) -> Result<(), MemoryError> {
        self.write(at, &value.to_le_bytes())
    }

    fn exchange(&self, at: u64, from: u64, to: u64) -> Result<bool, MemoryError> {
        let is_it = self.load(at)? == from;
        if is_it {
            self.store(at, to)?;
        }
        Ok(is_it)
    }

    fn flush(&self, at: u64, len_bytes: u64, point: Point) -> Result<(), MemoryError> {
        self.range(at, len_bytes)?;
        if !self.power.event() || self.left_out == Some(LeftOut::Flush(point)) {
            return Ok(());
        }
        let line = |byte: u64| byte / (LINE_WORDS * 8);
        let end = (line(at + len_bytes.max(1) - 1) + 1) * LINE_WORDS;
        self.state.borrow_mut().flush((line(at) * LINE_WORDS) as usize..end as usize);
        Ok(())
    }

    fn fence(&self, point: Point) {
        if self.power.event() && self.left_out != Some(LeftOut::Fence(point)) {
            self.state.borrow_mut().fence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Point = Point("here");

    fn memory(left_out: Option<LeftOut>) -> ForgetfulMemory {
        ForgetfulMemory::new(vec![0; 32], Rc::new(Power::stays()), left_out)
    }

    /// Values of a word over many cuts.
    fn found(memory: &ForgetfulMemory, word: usize) -> Vec<u64> {
        let mut random = Random::new(1);
        let mut found: Vec<u64> = (0..100).map(|_| memory.after_a_cut(&mut random)[word]).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    #[test]
    fn only_flushed_and_fenced_stores_are_durable() {
        let memory = memory(None);
        memory.store(8, 1).unwrap();
        memory.store(8, 2).unwrap();
        assert_eq!(found(&memory, 1), [0, 1, 2]);
        memory.flush(8, 8, HERE).unwrap();
        memory.store(8, 3).unwrap();
        assert_eq!(found(&memory, 1), [0, 1, 2, 3]);
        memory.fence(HERE);
        assert_eq!(found(&memory, 1), [2, 3]);
    }

    #[test]
    fn a_flush_takes_the_whole_line_and_a_fence_alone_nothing() {
        let memory = memory(None);
        memory.write(60, &[9; 8]).unwrap();
        memory.fence(HERE);
        assert_eq!(found(&memory, 7).len(), 2);
        memory.flush(0, 1, HERE).unwrap();
        memory.fence(HERE);
        assert_eq!((found(&memory, 7).len(), found(&memory, 8).len()), (1, 2));
    }

    #[test]
    fn streamed_stores_are_durable_after_drain_and_fence() {
        let memory = memory(None).streaming();
        memory.stream(16, &[1; 16]).unwrap();
        memory.fence(HERE);
        assert_eq!(found(&memory, 2).len(), 2);
        memory.drain(HERE);
        memory.fence(HERE);
        assert_eq!((found(&memory, 2).len(), found(&memory, 3).len()), (1, 1));
    }

    #[test]
    fn left_out_step_is_skipped() {
        for left_out in [LeftOut::Flush(HERE), LeftOut::Fence(HERE)] {
            let memory = memory(Some(left_out));
            memory.store(0, 1).unwrap();
            memory.flush(0, 8, HERE).unwrap();
            memory.fence(HERE);
            assert_eq!(found(&memory, 0), [0, 1], "{left_out:?}");
        }
    }

    #[test]
    fn nothing_happens_without_power() {
        let memory = ForgetfulMemory::new(vec![0; 32], Rc::new(Power::until(1)), None);
        memory.store(0, 1).unwrap();
        memory.store(8, 1).unwrap();
        assert_eq!(found(&memory, 1), [0]);
        assert_eq!(found(&memory, 0), [0, 1]);
    }
}
