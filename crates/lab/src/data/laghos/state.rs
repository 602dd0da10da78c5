//! The state at the vertices: a made-up wave that has passed half of the mesh, and numerical noise ahead of it.
//!
//! The initial state is that of Laghos's triple-point problem in three dimensions; the small files have it (density 0.125, energy 2).
//! The rest is no solution of its equations. It has what costs bytes: behind the front each position and each energy is a number
//! of eight decimal digits that no neighbour has, ahead of it positions are those of the regular mesh. All displacements are bounded, so
//! that the query finds the same eight vertices for every seed.

use super::mesh::{self, CELLS, Point};
use crate::data::noise::{Noise, eight_digits, power, wave};

/// Length of the domain along y and z; along x it is 7.
const WIDTH: f64 = 3.0;
/// Elements of the high-pressure state, from x = 0 to 1.
const LEFT_CELLS: usize = 32;
/// Elements in a length of 1 to its right.
const RIGHT_CELLS_A_UNIT: f64 = 16.0;

/// Where the front is next to the corner y = z = 0, which the small files begin with: short of their x = 2.5.
const FRONT: f64 = 2.45;
/// How much further it is for each unit that y + z exceeds half of its most. Chosen for the compressed size.
const FRONT_SLOPE: f64 = 0.58;

/// Most displacement along x, and along y and z.
const SHIFT_X: f64 = 0.022;
const SHIFT_YZ: f64 = 0.015;
/// Part of it that waves take away or add.
const WAVE: f64 = 0.001;
/// Most velocity, and most part of it that is noise, behind the front.
const SPEED: f64 = 0.3;
const JITTER: f64 = 1e-3;

/// Most noise ahead of the front, and how rare much of it is (the power of a uniform number), from test4.parquet.
const QUIET_SPEED: (f64, u32) = (2e-6, 16);
const QUIET_DENSITY: (f64, u32) = (1.6e-7, 48);
const QUIET_ENERGY: (f64, u32) = (1e-6, 44);

/// A vector of the domain.
type Vector = [f64; 3];

/// Where a vertex is, and how it moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vertex {
    /// Coordinates.
    pub at: Vector,
    /// Velocities.
    pub velocity: Vector,
}

/// The state of one seed.
#[derive(Debug)]
pub struct State {
    /// Phases of the waves along each axis.
    phases: Vector,
    velocities: [Noise; 3],
    densities: Noise,
    energies: Noise,
}

impl State {
    /// The state of a seed.
    pub fn new(seed: u64) -> Self {
        let phases = Noise::new(seed, 0);
        Self {
            phases: [0, 1, 2].map(|axis| phases.unit(axis)),
            velocities: [1, 2, 3].map(|stream| Noise::new(seed, stream)),
            densities: Noise::new(seed, 4),
            energies: Noise::new(seed, 5),
        }
    }

    /// The state of a vertex.
    pub fn vertex(&self, point: Point) -> Vertex {
        let rest = at_rest(point);
        let strength = strength(rest);
        let shift = self.shift(rest, strength);
        let at = [0, 1, 2].map(|axis| eight_digits(rest[axis] + shift[axis]));
        let noise = [0, 1, 2].map(|axis| self.velocities[axis].signed(mesh::index(point) as u64));
        let velocity = [0, 1, 2].map(|axis| match is_at_wall(point, axis) {
            true => 0.0,
            false => self.speed(axis, shift[axis], strength, noise[axis]),
        });
        Vertex { at, velocity }
    }

    /// Displacement by the wave, 0 at the walls that it would leave.
    fn shift(&self, rest: Vector, strength: f64) -> Vector {
        let [x, y, z] = [0, 1, 2].map(|axis| {
            let phase = self.phases[axis];
            strength * WAVE * wave(0.31 * rest[0] + 0.23 * rest[1] + 0.17 * rest[2] + phase)
        });
        let to_wall = |at: f64| at * at * (WIDTH - at) * (WIDTH - at) / power(WIDTH / 2.0, 4);
        [
            SHIFT_X * strength + x,
            -to_wall(rest[1]) * (SHIFT_YZ * strength + y),
            -to_wall(rest[2]) * (SHIFT_YZ * strength + z),
        ]
    }

    fn speed(&self, axis: usize, shift: f64, strength: f64, noise: f64) -> f64 {
        let most = if axis == 0 { SHIFT_X } else { SHIFT_YZ };
        let moving = SPEED * (shift / most + JITTER * strength * noise);
        eight_digits(moving + quiet(QUIET_SPEED, noise))
    }

    /// Density and energy at a vertex of an element, which its neighbours do not share.
    pub fn material(&self, element: usize, corner: usize, point: Point) -> (f64, f64) {
        let (density, energy) = initial(mesh::origin(element));
        let strength = strength(at_rest(point));
        let row = (element * mesh::CORNERS + corner) as u64;
        let (of_density, of_energy) = (self.densities.signed(row), self.energies.signed(row));
        (
            eight_digits(
                density * (1.0 + strength * (0.3 + JITTER * of_density)) + quiet(QUIET_DENSITY, of_density),
            ),
            eight_digits(
                energy * (1.0 + strength * (0.2 + JITTER * of_energy)) + quiet(QUIET_ENERGY, of_energy),
            ),
        )
    }
}

/// A vertex of the mesh before anything moved.
fn at_rest([x, y, z]: Point) -> Vector {
    let along_x = match x.checked_sub(LEFT_CELLS) {
        Some(right) => 1.0 + right as f64 / RIGHT_CELLS_A_UNIT,
        None => x as f64 / LEFT_CELLS as f64,
    };
    let across = |cells: usize, of: usize| WIDTH * cells as f64 / of as f64;
    [along_x, across(y, CELLS[1]), across(z, CELLS[2])]
}

fn is_at_wall(point: Point, axis: usize) -> bool {
    point[axis] == 0 || point[axis] == CELLS[axis]
}

/// How strong the wave is, from 0 to 1; 0 at x = 0, and at the front and ahead of it.
fn strength([x, y, z]: Vector) -> f64 {
    let front = FRONT + FRONT_SLOPE * (y + z - WIDTH).max(0.0);
    let part = x / front;
    if part < 1.0 { 16.0 * part * part * (1.0 - part) * (1.0 - part) } else { 0.0 }
}

/// Noise ahead of the front, mostly far below its most.
fn quiet((most, rarity): (f64, u32), noise: f64) -> f64 {
    most * power(noise.abs(), rarity).copysign(noise)
}

/// Density and energy of an element at the start: pressure 1 left of x = 1 and 0.1 right of it; energy = pressure / density / (γ - 1).
const fn initial([x, y, z]: Point) -> (f64, f64) {
    let is_light = (y < CELLS[1] / 2) == (z < CELLS[2] / 2);
    match (x < LEFT_CELLS, is_light) {
        (true, _) => (1.0, 2.0),
        (false, true) => (0.125, 2.0),
        (false, false) => (1.0, 0.2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vertices near enough to the query's box to be moved into it.
    fn near_the_query() -> impl Iterator<Item = Point> {
        (36..48).flat_map(|x| (28..40).flat_map(move |y| (28..40).map(move |z| [x, y, z])))
    }

    #[test]
    fn query_finds_eight_vertices_for_every_seed() {
        for seed in 0..200 {
            let state = State::new(seed);
            let found = near_the_query()
                .map(|point| state.vertex(point).at)
                .filter(|at| at.iter().all(|&at| at > 1.5 && at < 1.6));
            assert_eq!(found.count(), 8, "seed {seed}");
        }
    }

    #[test]
    fn domain_keeps_its_walls_and_elements_are_not_turned_inside_out() {
        let state = State::new(3);
        let at = |point| state.vertex(point).at;
        let far = [CELLS[0], CELLS[1], CELLS[2]];
        assert_eq!((at([0, 0, 0]), at(far)), ([0.0; 3], [7.0, 3.0, 3.0]));
        for point in near_the_query() {
            for axis in 0..3 {
                let mut next = point;
                next[axis] += 1;
                assert!(at(next)[axis] > at(point)[axis], "{point:?}");
            }
        }
    }

    #[test]
    fn mesh_ahead_of_the_front_is_regular_and_nearly_still() {
        let vertex = State::new(0).vertex([60, 3, 5]);
        assert_eq!(vertex.at, [2.75, 0.140_625, 0.234_375]);
        assert!(vertex.velocity.iter().all(|speed| *speed != 0.0 && speed.abs() <= 2e-6));
        let (density, energy) = State::new(0).material(0, 0, mesh::corners(0)[0]);
        assert!((density - 0.125).abs() <= 1.6e-7 && (energy - 2.0).abs() <= 1e-6);
    }
}
