//! An independent model of greedy garbage collection, to hold the device's figures against.
//!
//! It knows units, blocks and nothing else: one block open for what hosts write, one for what moves, and when fewer
//! than so many blocks are free, the full block with least live data is moved and erased whole. It shares no code with
//! the device's translation layer.

use super::Wear;

/// The array that is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks of the array.
    pub blocks: u32,
    /// 4 KiB units in a block.
    pub units_per_block: u32,
    /// Logical units that are ever written.
    pub logical_units: u32,
    /// Blocks kept free: on the average, what a device keeps in half-filled open blocks and in reserve.
    pub kept_free: u32,
}

const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    live: u32,
    written: u32,
    erases: u32,
}

/// The model at work.
#[derive(Debug)]
pub struct Greedy {
    shape: Shape,
    blocks: Vec<Block>,
    /// The logical unit last written to each physical one.
    owner: Vec<u32>,
    /// Where each logical unit is.
    place: Vec<u32>,
    free: Vec<u32>,
    open_host: u32,
    open_moved: u32,
    /// Units written by hosts.
    pub written: u64,
    /// Units moved.
    pub moved: u64,
}

impl Greedy {
    /// An empty array.
    pub fn new(shape: Shape) -> Self {
        let physical = shape.blocks as usize * shape.units_per_block as usize;
        let mut free: Vec<u32> = (0..shape.blocks).rev().collect();
        let (open_host, open_moved) = (free.pop().unwrap_or(0), free.pop().unwrap_or(0));
        Self {
            shape,
            blocks: vec![Block::default(); shape.blocks as usize],
            owner: vec![NOWHERE; physical],
            place: vec![NOWHERE; shape.logical_units as usize],
            free,
            open_host,
            open_moved,
            written: 0,
            moved: 0,
        }
    }

    /// Writes a logical unit.
    pub fn write(&mut self, unit: u32) {
        while self.free.len() < self.shape.kept_free as usize && self.collect() {}
        self.written += 1;
        self.open_host = self.put(unit, self.open_host);
    }

    /// Puts a unit into an open block; says the block that is open after it.
    fn put(&mut self, unit: u32, open: u32) -> u32 {
        if let Some(old) =
            self.blocks.get_mut((self.place[unit as usize] / self.shape.units_per_block) as usize)
        {
            old.live -= 1;
        }
        let block = &mut self.blocks[open as usize];
        let at = open * self.shape.units_per_block + block.written;
        block.written += 1;
        block.live += 1;
        self.owner[at as usize] = unit;
        self.place[unit as usize] = at;
        if block.written < self.shape.units_per_block { open } else { self.take_free() }
    }

    /// The free block with fewest erases.
    fn take_free(&mut self) -> u32 {
        let youngest = (0..self.free.len()).min_by_key(|at| self.blocks[self.free[*at] as usize].erases);
        youngest.map_or(NOWHERE, |at| self.free.swap_remove(at))
    }

    /// Moves and erases the full block with least live data; false when there is none worth it.
    fn collect(&mut self) -> bool {
        let full = self.shape.units_per_block;
        let victim = (0..self.shape.blocks)
            .filter(|at| self.blocks[*at as usize].written == full)
            .min_by_key(|at| (self.blocks[*at as usize].live, self.blocks[*at as usize].erases));
        let Some(victim) = victim.filter(|at| self.blocks[*at as usize].live < full) else { return false };
        for at in victim * full..(victim + 1) * full {
            let unit = self.owner[at as usize];
            if self.place[unit as usize] == at {
                self.moved += 1;
                self.open_moved = self.put(unit, self.open_moved);
            }
        }
        let erases = self.blocks[victim as usize].erases + 1;
        self.blocks[victim as usize] = Block { erases, ..Block::default() };
        self.free.push(victim);
        true
    }

    /// Erases of its blocks.
    pub fn wear(&self) -> Wear {
        let erases = || self.blocks.iter().map(|block| block.erases);
        let count = self.blocks.len() as f64;
        let mean = erases().map(f64::from).sum::<f64>() / count;
        let squares: f64 = erases().map(|erases| (f64::from(erases) - mean).powi(2)).sum();
        let variation = if mean > 0.0 { (squares / count).sqrt() / mean } else { 0.0 };
        Wear { min: erases().min().unwrap_or(0), mean, max: erases().max().unwrap_or(0), variation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_written_in_order_moves_nothing() {
        let mut model =
            Greedy::new(Shape { blocks: 32, units_per_block: 16, logical_units: 400, kept_free: 3 });
        for round in 0..10 {
            (0..400).for_each(|unit| model.write(unit));
            assert_eq!(model.moved, 0, "round {round}");
        }
        assert_eq!(model.written, 4000);
    }

    #[test]
    fn less_spare_room_moves_more() {
        let moved = |logical_units| {
            let mut model =
                Greedy::new(Shape { blocks: 64, units_per_block: 64, logical_units, kept_free: 3 });
            let mut random = byway_measure::random::Random::new(1);
            (0..20_000).for_each(|_| model.write(random.below(u64::from(logical_units)) as u32));
            model.moved
        };
        assert!(moved(3600) > moved(3200) && moved(3200) > moved(2600));
    }
}
