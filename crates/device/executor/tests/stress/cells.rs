//! What a queue pair's owner has stored: for each key and each block, the values that the device may have.

use byway_kit::pattern;

/// A value: its seed and length give its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    pub seed: u64,
    pub len_bytes: usize,
}

impl Value {
    /// Its bytes.
    pub fn bytes(self) -> Vec<u8> {
        pattern(self.seed, self.len_bytes)
    }
}

/// A key or a block.
#[derive(Debug, Clone)]
struct Cell {
    /// What it may hold; more than one value after a command that was never answered. `None`: no such key, or zeroes.
    may_be: Vec<Option<Value>>,
    is_writing: bool,
    readers: u32,
    /// When a command that changes it was last issued or ended.
    changed: u64,
}

/// Keys or blocks of one owner. Commands of one cell do not overlap, but for reads.
#[derive(Debug, Clone)]
pub struct Cells {
    cells: Vec<Cell>,
    now: u64,
}

impl Cells {
    /// Empty cells.
    pub fn new(count: usize) -> Self {
        let cell = Cell { may_be: vec![None], is_writing: false, readers: 0, changed: 0 };
        Self { cells: vec![cell; count], now: 0 }
    }

    /// Begins to change a cell; false if a command is under way there.
    pub fn begin_write(&mut self, cells: std::ops::Range<usize>) -> bool {
        self.now += 1;
        let now = self.now;
        let Some(cells) = self.cells.get_mut(cells) else { return false };
        if cells.iter().any(|cell| cell.is_writing || cell.readers > 0) {
            return false;
        }
        cells.iter_mut().for_each(|cell| (cell.is_writing, cell.changed) = (true, now));
        true
    }

    /// Begins to read cells; false if a command is changing one.
    pub fn begin_read(&mut self, cells: std::ops::Range<usize>) -> bool {
        let Some(cells) = self.cells.get_mut(cells) else { return false };
        if cells.iter().any(|cell| cell.is_writing) {
            return false;
        }
        cells.iter_mut().for_each(|cell| cell.readers += 1);
        true
    }

    /// A change was acknowledged.
    pub fn written(&mut self, at: usize, value: Option<Value>) {
        self.now += 1;
        let cell = &mut self.cells[at];
        (cell.is_writing, cell.may_be, cell.changed) = (false, vec![value], self.now);
    }

    /// A change may have been made or not, and is not made any more.
    pub fn maybe_written(&mut self, at: usize, value: Option<Value>) {
        self.now += 1;
        let cell = &mut self.cells[at];
        (cell.is_writing, cell.changed) = (false, self.now);
        if !cell.may_be.contains(&value) {
            cell.may_be.push(value);
        }
    }

    /// A read ended; `found` says whether it found the value. From now on the cell is known to hold that.
    pub fn read(&mut self, at: usize, found: impl Fn(Option<Value>) -> bool) {
        let cell = &mut self.cells[at];
        cell.readers -= 1;
        let held = cell.may_be.iter().copied().find(|value| found(*value));
        let Some(held) = held else { panic!("cell {at} holds none of {:?}", cell.may_be) };
        cell.may_be = vec![held];
    }

    /// A read ended, and says only whether the cell holds something.
    pub fn seen(&mut self, at: usize, exists: bool) {
        let cell = &mut self.cells[at];
        cell.readers -= 1;
        cell.may_be.retain(|value| value.is_some() == exists);
        assert!(!cell.may_be.is_empty(), "cell {at}: exists is {exists}");
    }

    /// A read was never answered.
    pub fn unread(&mut self, at: usize) {
        self.cells[at].readers -= 1;
    }

    /// A moment, for [`Self::steady_since`].
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Whether a cell was not changed since the moment, nor a change under way: then whether it exists, if that is known.
    pub fn steady_since(&self, at: usize, then: u64) -> Option<bool> {
        let cell = &self.cells[at];
        let exists = cell.may_be[0].is_some();
        let is_known = cell.may_be.iter().all(|value| value.is_some() == exists);
        (is_known && !cell.is_writing && cell.changed <= then).then_some(exists)
    }

    /// Whether no command is under way.
    pub fn is_at_rest(&self) -> bool {
        self.cells.iter().all(|cell| !cell.is_writing && cell.readers == 0)
    }
}
