//! A time step of a wildfire: shape and schema of the files of `lanl-ocs/wildfire-dataset-1` (FIRETEC, LA-UR-21-30892).
//!
//! A grid of 600 × 500 × 61 points over a hill, x first, then y, then the level. Fuel is in the lowest tenth of the levels; where
//! there is none, or it is burnt, a floor of 1e-6 remains near the ground, and 0 above.

use std::ops::Range;

use anyhow::Result;
use arrow_array::ArrayRef;
use parquet::basic::Compression;

use super::noise::Noise;
use super::table::{Batches, Layout, Predicate, Sample, Table, floats, integers};

/// Points along x, y and z.
const POINTS: [u64; 3] = [600, 500, 61];
/// Rows of a whole file.
pub const ROWS: u64 = POINTS[0] * POINTS[1] * POINTS[2];
/// Rows of a row group, of six.
const ROW_GROUP_ROWS: usize = 3_050_000;

const SCHEMA: &str = "message schema {
    required int32 rowid (INTEGER(32,true));
    required float rhof_1;
    required float x;
    required float y;
    required float z;
}";

/// Density of fuel in kg/m³ that stands for none.
const FLOOR: f32 = 1e-6;
/// Density of trees, the most.
const TREE: f32 = 0.6;
/// Levels with the floor.
const FLOOR_LEVELS: u64 = 11;
/// Height of the hill and of the top of the grid, in metres; the hill's half width.
const HILL: f64 = 190.0;
const TOP: f64 = 930.0;
const HILL_RADIUS: f64 = 450.0;
/// Radius in metres of what is burnt.
const BURNT_RADIUS: f64 = 50.0;

/// Points with fuel.
pub const WITH_FUEL: &str = "rhof_1 > 1e-06";

/// The set as it is generated.
pub struct Wildfire {
    fuel: Noise,
    height: Noise,
    fire: [f64; 2],
    sample: Sample,
    batches: Batches,
    rows: u64,
    with_fuel: Predicate,
}

#[derive(Clone, Copy)]
struct Cell {
    rhof: f32,
    at: [f64; 3],
}

impl Wildfire {
    /// An even sample of `rows` points of the grid of a seed.
    pub fn new(rows: u64, seed: u64) -> Self {
        let start = Noise::new(seed, 0);
        Self {
            fuel: Noise::new(seed, 1),
            height: Noise::new(seed, 2),
            fire: [300.0 * start.signed(0), 300.0 * start.signed(1)],
            sample: Sample::new(rows, ROWS, Noise::new(seed, 3)),
            batches: Batches::of(rows),
            rows,
            with_fuel: Predicate::new("points with fuel", WITH_FUEL),
        }
    }

    fn cells(&self, rows: Range<u64>) -> Vec<Cell> {
        rows.map(|row| self.cell(self.sample.point(row))).collect()
    }

    fn cell(&self, point: u64) -> Cell {
        let (x, y) = (-498.0 + 2.0 * (point % 600) as f64, -500.0 + 2.0 * (point / 600 % 500) as f64);
        let level = point / (POINTS[0] * POINTS[1]);
        let column = point % (POINTS[0] * POINTS[1]);
        Cell { rhof: self.rhof([x, y], column, level, point), at: [x, y, height(x, y, level)] }
    }

    fn rhof(&self, at: [f64; 2], column: u64, level: u64, point: u64) -> f32 {
        let floor = if level < FLOOR_LEVELS { FLOOR } else { 0.0 };
        let from_fire = distance_squared(at, self.fire);
        if from_fire < BURNT_RADIUS * BURNT_RADIUS {
            return floor;
        }
        match self.vegetation(column) {
            Vegetation::Tree { levels } if level < levels => TREE,
            Vegetation::Grass { levels } if level < levels => {
                let thinner = 1.0 - level as f64 / 8.0;
                (0.1 + 0.49 * thinner * self.fuel.unit(point)) as f32
            }
            _ => floor,
        }
    }

    /// What grows in a column: one tenth trees of 6 to 13 levels, else 5 or 6 levels; 6.1 of the 61 on average.
    fn vegetation(&self, column: u64) -> Vegetation {
        let bits = self.height.bits(column);
        match bits % 1000 {
            0..100 => Vegetation::Tree { levels: 6 + (bits >> 32) % 8 },
            100..810 => Vegetation::Grass { levels: 6 },
            _ => Vegetation::Grass { levels: 5 },
        }
    }
}

enum Vegetation {
    Tree { levels: u64 },
    Grass { levels: u64 },
}

impl Table for Wildfire {
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
        self.with_fuel.count(&cells, |cell| f64::from(cell.rhof) > 1e-6);
        let at = |axis: usize| floats(cells.iter().map(move |cell| cell.at[axis] as f32));
        Ok(Some(vec![
            integers(rows.map(|row| row as i32)),
            floats(cells.iter().map(|cell| cell.rhof)),
            at(0),
            at(1),
            at(2),
        ]))
    }

    fn predicates(&self) -> Vec<Predicate> {
        vec![self.with_fuel.clone()]
    }
}

fn distance_squared(one: [f64; 2], other: [f64; 2]) -> f64 {
    let [x, y] = [0, 1].map(|axis| one[axis] - other[axis]);
    x * x + y * y
}

/// Height of a point in metres: levels stretched by a cubic, over the hill, flat again at the top.
fn height(x: f64, y: f64, level: u64) -> f64 {
    let level = level as f64;
    let over_ground = 0.75 + 1.5 * level + 0.0037 * level * level * level;
    let part = 1.0 - distance_squared([x, y], [250.0, 0.0]) / (HILL_RADIUS * HILL_RADIUS);
    let ground = HILL * part.max(0.0) * part.max(0.0);
    over_ground + ground * (1.0 - over_ground / TOP)
}
