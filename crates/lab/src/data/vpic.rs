//! Particles of one rank of a VPIC run: schema, layout and ranges of the sample of LANL's `c2-parquet-writer`.
//!
//! Particles are in the order of their numbers. Momenta have normal distributions (sums of twelve uniform numbers), and `ke` is what
//! VPIC's tools compute of them: √(1 + ux² + uy² + uz²) - 1.

use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;
use arrow_array::{ArrayRef, UInt64Array};
use parquet::basic::Compression;

use super::noise::Noise;
use super::table::{Batches, Layout, Predicate, Table, floats};

/// Rows by default: the smaller of the published runs has 1.6 million particles a rank.
pub const ROWS: u64 = 1_600_000;
/// Most rows: all 512 ranks of the larger run.
pub const MOST_ROWS: u64 = 512 * 8_000_000;
/// Rows of a row group: 1 MiB of plain columns.
const ROW_GROUP_ROWS: usize = 43_520;

const SCHEMA: &str = "message particle {
    required int64 ID (INTEGER(64,false));
    required float x;
    required float y;
    required float z;
    required float ke;
}";

/// Standard deviation of a momentum, in units of the rest mass: energies up to 0.49, as in the sample.
const THERMAL: f64 = 0.25;
/// Streams of random numbers of a particle: positions, then momenta.
const POSITIONS: u64 = 3;
const SUMMANDS: u64 = 12;

/// Particles of much energy.
pub const THRESHOLD: &str = "ke > 0.4";
/// Particles of about one energy.
pub const BAND: &str = "ke >= 0.2 AND ke < 0.21";

/// The set as it is generated.
pub struct Vpic {
    positions: Noise,
    momenta: Noise,
    batches: Batches,
    rows: u64,
    /// The particle whose trajectory is asked for.
    followed: u64,
    threshold: Predicate,
    band: Predicate,
    trajectory: Predicate,
}

#[derive(Clone, Copy)]
struct Particle {
    id: u64,
    at: [f32; 3],
    ke: f32,
}

impl Vpic {
    /// The particles of a seed.
    pub fn new(rows: u64, seed: u64) -> Self {
        let followed = rows / 2;
        Self {
            positions: Noise::new(seed, 0),
            momenta: Noise::new(seed, 1),
            batches: Batches::of(rows),
            rows,
            followed,
            threshold: Predicate::new("energy threshold", THRESHOLD),
            band: Predicate::new("energy band", BAND),
            trajectory: Predicate::new("trajectory", format!("ID = {followed}")),
        }
    }

    fn particles(&self, rows: Range<u64>) -> Vec<Particle> {
        rows.map(|id| self.particle(id)).collect()
    }

    fn particle(&self, id: u64) -> Particle {
        let [x, y, z] = [0, 1, 2].map(|axis| self.positions.unit(id * POSITIONS + axis));
        let square = |axis: u64| {
            let u = THERMAL * self.normal(id * 3 + axis);
            u * u
        };
        let ke = (1.0 + square(0) + square(1) + square(2)).sqrt() - 1.0;
        let at = [-6.8 + 12.6 * x, 16.0 * y, 16.0 * z].map(|at| at as f32);
        Particle { id, at, ke: ke as f32 }
    }

    /// A number of nearly normal distribution: mean 0, deviation 1, at most 6.
    fn normal(&self, index: u64) -> f64 {
        let sum: f64 = (0..SUMMANDS).map(|part| self.momenta.unit(index * SUMMANDS + part)).sum();
        sum - SUMMANDS as f64 / 2.0
    }
}

impl Table for Vpic {
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
        let particles = self.particles(rows);
        self.threshold.count(&particles, |particle| f64::from(particle.ke) > 0.4);
        self.band.count(&particles, |particle| (0.2..0.21).contains(&f64::from(particle.ke)));
        let followed = self.followed;
        self.trajectory.count(&particles, |particle| particle.id == followed);
        let at = |axis: usize| floats(particles.iter().map(move |particle| particle.at[axis]));
        Ok(Some(vec![
            Arc::new(UInt64Array::from_iter_values(particles.iter().map(|particle| particle.id))),
            at(0),
            at(1),
            at(2),
            floats(particles.iter().map(|particle| particle.ke)),
        ]))
    }

    fn predicates(&self) -> Vec<Predicate> {
        vec![self.threshold.clone(), self.band.clone(), self.trajectory.clone()]
    }
}
