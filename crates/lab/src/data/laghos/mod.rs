//! A time step of a Laghos-like run: shape, schema and size of the files of `lanl-ocs/laghos-sample-dataset`.

mod mesh;
mod state;

use anyhow::Result;
use arrow_array::ArrayRef;
use parquet::basic::Compression;

use self::mesh::{CORNERS, Point};
use self::state::{State, Vertex};
use super::table::{Batches, Layout, Predicate, Table, doubles, integers};

/// Rows of a whole file: a row for each vertex of each element.
pub const ROWS: u64 = (mesh::ELEMENTS * CORNERS) as u64;

const SCHEMA: &str = "message schema {
    required int32 element_id (INTEGER(32,true));
    required int32 vertex_id (INTEGER(32,true));
    required double v_x;
    required double v_y;
    required double v_z;
    required double rho;
    required double e;
    required double x;
    required double y;
    required double z;
}";

/// The query that goes with the set, of 198 bytes.
pub const QUERY: &str = "SELECT min(vertex_id) AS VID, min(x) as X, min(y) as Y, min(z) as Z, avg(e) AS E FROM s3object \
WHERE x > 1.5 AND x < 1.6 AND y > 1.5 AND y < 1.6 AND z > 1.5 AND z < 1.6 GROUP BY vertex_id ORDER BY E";

/// The set as it is generated.
pub struct Laghos {
    state: State,
    /// Numbers and states of the vertices, by index.
    ids: Vec<i32>,
    vertices: Vec<Vertex>,
    batches: Batches,
    rows: u64,
    query: Predicate,
}

/// A row: an element, one of its vertices.
#[derive(Clone, Copy)]
struct Row {
    element: usize,
    corner: usize,
    point: Point,
}

impl Laghos {
    /// The first `rows` of the file of a seed.
    pub fn new(rows: u64, seed: u64) -> Self {
        let state = State::new(seed);
        let vertices = mesh::points().map(|point| state.vertex(point)).collect();
        Self {
            state,
            ids: mesh::vertex_ids(),
            vertices,
            batches: Batches::of(rows),
            rows,
            query: Predicate::new("vertices in a box", QUERY),
        }
    }

    fn vertex(&self, row: &Row) -> &Vertex {
        &self.vertices[mesh::index(row.point)]
    }
}

impl Table for Laghos {
    fn layout(&self) -> Result<Layout> {
        Layout::plain(SCHEMA, Compression::SNAPPY, ROWS as usize)
    }

    fn expected_rows(&self) -> u64 {
        self.rows
    }

    fn columns(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        let Some(range) = self.batches.next() else {
            return Ok(None);
        };
        let rows: Vec<Row> = range.map(row).collect();
        let vertices: Vec<Vertex> = rows.iter().map(|row| *self.vertex(row)).collect();
        let materials: Vec<(f64, f64)> =
            rows.iter().map(|row| self.state.material(row.element, row.corner, row.point)).collect();
        self.query.count(&vertices, |vertex| vertex.at.iter().all(|&at| at > 1.5 && at < 1.6));
        let velocity = |axis: usize| doubles(vertices.iter().map(move |vertex| vertex.velocity[axis]));
        let at = |axis: usize| doubles(vertices.iter().map(move |vertex| vertex.at[axis]));
        Ok(Some(vec![
            integers(rows.iter().map(|row| row.element as i32)),
            integers(rows.iter().map(|row| self.ids[mesh::index(row.point)])),
            velocity(0),
            velocity(1),
            velocity(2),
            doubles(materials.iter().map(|material| material.0)),
            doubles(materials.iter().map(|material| material.1)),
            at(0),
            at(1),
            at(2),
        ]))
    }

    fn predicates(&self) -> Vec<Predicate> {
        vec![self.query.clone()]
    }
}

fn row(number: u64) -> Row {
    let (element, corner) = (number as usize / CORNERS, number as usize % CORNERS);
    Row { element, corner, point: mesh::corners(element)[corner] }
}
