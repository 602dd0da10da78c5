//! A file as ext4 with ordered data has it over a loss of power: pages are written back whenever, sizes in order.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use byway_forgetful::{Power, Random};
use byway_tdm_engine::log::LowerFile;

/// Small, so that files have many.
const PAGE_BYTES: usize = 64;

#[derive(Debug, Clone)]
struct Version {
    content: Vec<u8>,
    /// Made by cutting the file: pages from before and from behind it do not meet.
    is_truncated: bool,
}

pub struct Lower {
    /// What was synced, and every state since.
    versions: RefCell<Vec<Version>>,
    /// How many of these there were when a sync began that is still under way.
    begun: RefCell<usize>,
    pub power: Rc<Power>,
}

pub fn write(content: &mut Vec<u8>, at: u64, data: &[u8]) {
    let (at, end) = (at as usize, at as usize + data.len());
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(data);
}

impl Lower {
    pub fn new(power: Rc<Power>) -> Self {
        Self::with(Vec::new(), power)
    }

    pub fn with(content: Vec<u8>, power: Rc<Power>) -> Self {
        let versions = RefCell::new(vec![Version { content, is_truncated: false }]);
        Self { versions, begun: RefCell::new(0), power }
    }

    pub fn now(&self) -> Vec<u8> {
        self.versions.borrow().last().unwrap().content.clone()
    }

    /// Begins a sync, which covers the present content.
    pub fn begin(&self) {
        *self.begun.borrow_mut() = self.versions.borrow().len() - 1;
    }

    pub fn sync_as_begun(&self) {
        if self.power.event() {
            let begun = self.begun.take();
            self.versions.borrow_mut().drain(..begun);
        }
    }

    pub fn after_a_cut(&self, random: &mut Random) -> Vec<u8> {
        let versions = self.versions.borrow();
        let sized = random.below(versions.len() as u64) as usize;
        let size = versions[sized].content.len();
        // Up to the next cut, and from the last one on: pages of one side.
        let since = (1..=sized).rev().find(|at| versions[*at].is_truncated).unwrap_or(0);
        let until =
            (sized + 1..versions.len()).find(|at| versions[*at].is_truncated).unwrap_or(versions.len());
        // Bytes behind this are in the size only once they are on the disk.
        let ordered_from = versions[since].content.len();
        let mut content = vec![0; size];
        for (page, into) in content.chunks_mut(PAGE_BYTES).enumerate() {
            let at = page * PAGE_BYTES;
            let oldest = if at + into.len() > ordered_from { sized } else { since };
            let version = oldest as u64 + random.below((until - oldest) as u64);
            let from = &versions[version as usize].content;
            let there = from.len().saturating_sub(at).min(into.len());
            into[..there].copy_from_slice(&from[at.min(from.len())..][..there]);
        }
        content
    }

    fn change(&self, is_truncated: bool, change: impl FnOnce(&mut Vec<u8>)) {
        if !self.power.event() {
            return;
        }
        let mut content = self.now();
        change(&mut content);
        self.versions.borrow_mut().push(Version { content, is_truncated });
    }
}

impl LowerFile for Lower {
    fn write_all_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.change(false, |content| write(content, at, data));
        Ok(())
    }

    fn set_size(&self, size_bytes: u64) -> io::Result<()> {
        self.change(true, |content| content.resize(size_bytes as usize, 0));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.power.event() {
            let mut versions = self.versions.borrow_mut();
            let last = versions.len() - 1;
            versions.drain(..last);
            versions[0].is_truncated = false;
            *self.begun.borrow_mut() = 0;
        }
        Ok(())
    }
}

/// Checks that every byte is of one of `states`, and the size that of one of `sized`.
pub fn check(file: &[u8], sized: &[Vec<u8>], states: &[Vec<u8>]) -> Result<(), String> {
    if !sized.iter().any(|state| state.len() == file.len()) {
        let sizes: Vec<usize> = sized.iter().map(Vec::len).collect();
        return Err(format!("{} bytes, which were never its size since it was kept: {sizes:?}", file.len()));
    }
    for (at, byte) in file.iter().enumerate() {
        if !states.iter().any(|state| state.get(at) == Some(byte)) {
            let stood: Vec<Option<&u8>> = states.iter().map(|state| state.get(at)).collect();
            return Err(format!("byte {at} is {byte}, and was {stood:?} since the sync"));
        }
    }
    Ok(())
}
