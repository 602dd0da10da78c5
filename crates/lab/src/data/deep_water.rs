//! A time step of the Deep Water Impact set (xRAGE, LA-UR-17-21595): volume fractions of water and of the asteroid on a grid.
//!
//! 300 × 300 × 300 cells, x first, then y, then height. The schema is that of the facts, the types and row groups are those of
//! the Wildfire set; the crater, its rim and the debris are made up.

use std::ops::Range;

use anyhow::Result;
use arrow_array::ArrayRef;
use parquet::basic::Compression;

use super::noise::{Noise, wave};
use super::table::{Batches, Layout, Predicate, Sample, Table, floats, integers};

/// Cells along an axis.
const CELLS: u64 = 300;
/// Rows of a whole file.
pub const ROWS: u64 = CELLS * CELLS * CELLS;
/// Rows of a row group, of nine.
const ROW_GROUP_ROWS: usize = 3_000_000;

const SCHEMA: &str = "message schema {
    required int32 rowid (INTEGER(32,true));
    required float v02;
    required float v03;
}";

/// Level of the sea, and the crater's radius and depth, in parts of the grid's edge.
const SEA: f64 = 0.4;
const CRATER_RADIUS: f64 = 0.15;
const CRATER_DEPTH: f64 = 0.1;
/// Height of the rim, and of the splash above it.
const RIM: f64 = 0.04;
const SPLASH: f64 = 0.2;
/// Radius of the asteroid's debris.
const DEBRIS_RADIUS: f64 = 0.06;

/// Surface and spray, by the part of a cell that is water.
pub const SURFACE: &str = "v02 > 0.1 AND v02 < 0.9";
/// The asteroid, by the part of a cell that it is.
pub const DEBRIS: &str = "v03 > 0.1";

/// The set as it is generated.
pub struct DeepWater {
    drops: Noise,
    debris: Noise,
    impact: [f64; 2],
    phase: f64,
    sample: Sample,
    batches: Batches,
    rows: u64,
    surface: Predicate,
    debris_rows: Predicate,
}

#[derive(Clone, Copy)]
struct Cell {
    water: f32,
    asteroid: f32,
}

impl DeepWater {
    /// An even sample of `rows` cells of the grid of a seed.
    pub fn new(rows: u64, seed: u64) -> Self {
        let start = Noise::new(seed, 0);
        Self {
            drops: Noise::new(seed, 1),
            debris: Noise::new(seed, 2),
            impact: [0.5 + 0.1 * start.signed(0), 0.5 + 0.1 * start.signed(1)],
            phase: start.unit(2),
            sample: Sample::new(rows, ROWS, Noise::new(seed, 3)),
            batches: Batches::of(rows),
            rows,
            surface: Predicate::new("surface and spray", SURFACE),
            debris_rows: Predicate::new("asteroid", DEBRIS),
        }
    }

    fn cells(&self, rows: Range<u64>) -> Vec<Cell> {
        rows.map(|row| self.cell(self.sample.point(row))).collect()
    }

    fn cell(&self, number: u64) -> Cell {
        let along = |cells: u64| (cells % CELLS) as f64 / CELLS as f64;
        let (x, y, height) = (along(number), along(number / CELLS), along(number / CELLS / CELLS));
        let (x, y) = (x - self.impact[0], y - self.impact[1]);
        let from_impact = (x * x + y * y).sqrt();
        Cell {
            water: self.water(number, from_impact, height) as f32,
            asteroid: self.asteroid(number, from_impact, height) as f32,
        }
    }

    fn water(&self, number: u64, from_impact: f64, height: f64) -> f64 {
        let surface = self.surface(from_impact);
        let full = ((surface - height) * CELLS as f64 + 0.5).clamp(0.0, 1.0);
        let above = (height - surface) / SPLASH;
        let over_rim = (from_impact - CRATER_RADIUS).abs() < 0.2 * CRATER_RADIUS;
        if full == 0.0 && over_rim && above < 1.0 {
            return self.drops.unit(number) * (1.0 - above);
        }
        full
    }

    /// Height of the sea: a bowl, a rim, and ripples that fade with the distance.
    fn surface(&self, from_impact: f64) -> f64 {
        let part = from_impact / CRATER_RADIUS;
        if part < 1.0 {
            return SEA + RIM * part - CRATER_DEPTH * (1.0 - part * part);
        }
        SEA + RIM * wave(0.25 + self.phase * (part - 1.0) + (part - 1.0) / 2.0) / (part * part)
    }

    fn asteroid(&self, number: u64, from_impact: f64, height: f64) -> f64 {
        let down = height - (SEA - CRATER_DEPTH);
        let distance = (from_impact * from_impact + down * down).sqrt() / DEBRIS_RADIUS;
        if distance < 1.0 { (1.0 - distance) * self.debris.unit(number) } else { 0.0 }
    }
}

impl Table for DeepWater {
    fn layout(&self) -> Result<Layout> {
        Layout::plain(SCHEMA, Compression::UNCOMPRESSED, ROW_GROUP_ROWS)
    }

    fn expected_rows(&self) -> u64 {
        self.rows
    }

    fn columns(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        let Some(rows) = self.batches.next() else {
            return Ok(None);
        };
        let cells = self.cells(rows.clone());
        self.surface.count(&cells, |cell| f64::from(cell.water) > 0.1 && f64::from(cell.water) < 0.9);
        self.debris_rows.count(&cells, |cell| f64::from(cell.asteroid) > 0.1);
        Ok(Some(vec![
            integers(rows.map(|row| row as i32)),
            floats(cells.iter().map(|cell| cell.water)),
            floats(cells.iter().map(|cell| cell.asteroid)),
        ]))
    }

    fn predicates(&self) -> Vec<Predicate> {
        vec![self.surface.clone(), self.debris_rows.clone()]
    }
}
