//! The mesh: the order of its elements and the numbers of its vertices.
//!
//! Both follow the small files: MFEM refines a coarse hexahedral mesh three times in each part (one process of the run), so an
//! element's eight children follow each other, and each refinement numbers the vertices that it adds: midpoints of edges, then of faces,
//! then centres. Parts number on from each other, so a vertex of two parts has one number, where a process of the run counts its own.

/// Elements along x, y and z.
pub const CELLS: [usize; 3] = [128, 64, 64];
/// Elements of the mesh.
pub const ELEMENTS: usize = CELLS[0] * CELLS[1] * CELLS[2];
/// Vertices of an element.
pub const CORNERS: usize = 8;
/// Vertices along x, y and z.
const POINTS: [usize; 3] = [CELLS[0] + 1, CELLS[1] + 1, CELLS[2] + 1];
/// Vertices of the mesh.
pub const VERTICES: usize = POINTS[0] * POINTS[1] * POINTS[2];

/// Elements along an edge of a coarse element.
const COARSE: usize = 8;
/// Coarse elements of a part: two along x, four along y and z.
const PART: usize = 32;
/// Coarse elements along x, and the one that the first part begins with: x = 2.5, as in the small files.
const SLABS: usize = CELLS[0] / COARSE;
const FIRST_SLAB: usize = 7;

/// A point of the mesh, in elements from the origin.
pub type Point = [usize; 3];

/// Vertices of a hexahedron, and its children, in MFEM's order.
const HEXAHEDRON: [Point; CORNERS] =
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]];

/// Vertices that a refinement adds to an element of edge 2, in MFEM's order.
const EDGES: [Point; 12] = [
    [1, 0, 0],
    [2, 1, 0],
    [1, 2, 0],
    [0, 1, 0],
    [1, 0, 2],
    [2, 1, 2],
    [1, 2, 2],
    [0, 1, 2],
    [0, 0, 1],
    [2, 0, 1],
    [2, 2, 1],
    [0, 2, 1],
];
const FACES: [Point; 6] = [[1, 1, 0], [1, 0, 1], [2, 1, 1], [1, 2, 1], [0, 1, 1], [1, 1, 2]];
const CENTRE: [Point; 1] = [[1, 1, 1]];

/// Index of a point in arrays of one entry a vertex.
pub const fn index([x, y, z]: Point) -> usize {
    (z * POINTS[1] + y) * POINTS[0] + x
}

/// All points, in the order of their index.
pub fn points() -> impl Iterator<Item = Point> {
    let line = |y, z| (0..POINTS[0]).map(move |x| [x, y, z]);
    (0..POINTS[2]).flat_map(move |z| (0..POINTS[1]).flat_map(move |y| line(y, z)))
}

/// The vertices of an element, in the order of its rows.
pub fn corners(element: usize) -> [Point; CORNERS] {
    let origin = origin(element);
    HEXAHEDRON.map(|corner| moved(origin, corner, 1))
}

/// The point of an element that is nearest to the origin.
pub fn origin(element: usize) -> Point {
    let coarse = element / COARSE.pow(3);
    let mut at = coarse_origin(coarse / PART, coarse % PART);
    let mut edge = COARSE;
    let mut within = element % COARSE.pow(3);
    while edge > 1 {
        edge /= 2;
        at = moved(at, HEXAHEDRON[within / edge.pow(3)], edge);
        within %= edge.pow(3);
    }
    at
}

/// Where a coarse element of a part begins. Within a part the lowest bits of y and z change first, x last.
const fn coarse_origin(part: usize, number: usize) -> Point {
    let slab = (FIRST_SLAB + 2 * (part >> 2) + (number >> 4)) % SLABS;
    let (y, z) = ((number & 1) | ((number >> 1) & 2), ((number >> 1) & 1) | ((number >> 2) & 2));
    [slab * COARSE, ((part & 1) * 4 + y) * COARSE, (((part >> 1) & 1) * 4 + z) * COARSE]
}

fn moved(from: Point, by: Point, steps: usize) -> Point {
    [0, 1, 2].map(|axis| from[axis] + by[axis] * steps)
}

/// Numbers the vertices; by index.
pub fn vertex_ids() -> Vec<i32> {
    let mut numbering = Numbering { ids: vec![-1; VERTICES], next: 0 };
    let elements_of_a_part = PART * COARSE.pow(3);
    for part in 0..ELEMENTS / elements_of_a_part {
        let elements = part * elements_of_a_part..(part + 1) * elements_of_a_part;
        numbering.visit(elements.clone(), COARSE, COARSE, &HEXAHEDRON);
        for edge in [COARSE, COARSE / 2, COARSE / 4] {
            numbering.visit(elements.clone(), edge, edge / 2, &EDGES);
            numbering.visit(elements.clone(), edge, edge / 2, &FACES);
            numbering.visit(elements.clone(), edge, edge / 2, &CENTRE);
        }
    }
    numbering.ids
}

struct Numbering {
    /// By index; -1 without a number.
    ids: Vec<i32>,
    next: i32,
}

impl Numbering {
    /// Numbers these vertices of each element of `edge` that `elements` refine, `step` between neighbours; the first visit counts.
    fn visit(&mut self, elements: std::ops::Range<usize>, edge: usize, step: usize, vertices: &[Point]) {
        for element in elements.step_by(edge.pow(3)) {
            let origin = origin(element);
            for &vertex in vertices {
                self.number(index(moved(origin, vertex, step)));
            }
        }
    }

    fn number(&mut self, index: usize) {
        if self.ids[index] < 0 {
            self.ids[index] = self.next;
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_fill_the_mesh_and_each_vertex_has_one_number() {
        let mut seen = vec![false; ELEMENTS];
        for element in 0..ELEMENTS {
            let [x, y, z] = origin(element);
            let place = &mut seen[(z * CELLS[1] + y) * CELLS[0] + x];
            assert!(!std::mem::replace(place, true), "element {element}");
        }
        let mut ids = vertex_ids();
        ids.sort_unstable();
        assert!(ids.iter().enumerate().all(|(place, &id)| place as i32 == id));
    }

    #[test]
    fn first_elements_are_those_of_the_small_files() {
        let first = origin(0);
        let from_first = |element| {
            let at = origin(element);
            [0, 1, 2].map(|axis| at[axis] - first[axis])
        };
        // Read from test4.parquet.
        assert_eq!([8, 16, 24, 32].map(from_first), [[2, 0, 0], [2, 2, 0], [0, 2, 0], [0, 0, 2]]);
        assert_eq!([64, 512, 1024, 2048].map(from_first), [[4, 0, 0], [0, 8, 0], [0, 0, 8], [0, 16, 0]]);
        assert_eq!([4096, 8192].map(from_first), [[0, 0, 16], [8, 0, 0]]);
        let ids = vertex_ids();
        assert!((0..12_500).flat_map(corners).all(|corner| ids[index(corner)] <= 18_512));
        // Of each eight siblings, the vertex in their middle is one higher than in the eight before.
        let centre = |parent: usize| ids[index(corners(parent * 8)[6])];
        assert!((1..1500).all(|parent| centre(parent) == centre(parent - 1) + 1));
    }
}
