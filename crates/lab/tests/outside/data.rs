//! `byway-lab data` from outside: what the files are made of, read by another reader than the generator.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding, Repetition};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::record::Field;
use parquet::schema::printer::print_schema;
use serde_json::Value;

use crate::common::{json_lines, refused, said};

/// Generates a set; what `--json` printed.
fn make(set: &str, file: &Path, more: &[&str]) -> Value {
    let args = [&["data", set, file.to_str().unwrap(), "--json"], more].concat();
    json_lines(&said(&args)).remove(0)
}

fn read(file: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(file).unwrap()).unwrap()
}

/// All rows of a file, each column by its name as text.
fn rows(file: &Path) -> Vec<HashMap<String, Field>> {
    let rows = read(file).into_iter();
    rows.map(|row| row.unwrap().into_columns().into_iter().collect()).collect()
}

fn number(row: &HashMap<String, Field>, column: &str) -> f64 {
    match &row[column] {
        Field::Int(value) => f64::from(*value),
        Field::ULong(value) => *value as f64,
        Field::Float(value) => f64::from(*value),
        Field::Double(value) => *value,
        other => panic!("{column} is {other:?}"),
    }
}

fn schema(reader: &impl FileReader) -> String {
    let mut text = Vec::new();
    print_schema(&mut text, reader.metadata().file_metadata().schema());
    String::from_utf8(text).unwrap()
}

/// Rows that a predicate of `--json` takes.
fn taken(made: &Value, name: &str) -> u64 {
    let predicates = made["predicates"].as_array().unwrap();
    let found = predicates.iter().find(|predicate| predicate["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {made}"))["rows"].as_u64().unwrap()
}

/// Least and most of a column by its statistics.
fn range(column: &ColumnChunkMetaData) -> (f64, f64) {
    match column.statistics().unwrap() {
        Statistics::Int32(about) => {
            (f64::from(*about.min_opt().unwrap()), f64::from(*about.max_opt().unwrap()))
        }
        Statistics::Double(about) => (*about.min_opt().unwrap(), *about.max_opt().unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Of test4.parquet, the longest small file: column, bytes, least and most value.
const TEST4: [(&str, i64, f64, f64); 10] = [
    ("element_id", 87_538, 0.0, 12_499.0),
    ("vertex_id", 203_152, 0.0, 18_363.0),
    ("v_x", 281_389, -1.455_484_8e-6, 3.379_182_4e-6),
    ("v_y", 281_396, -8.267_010_4e-7, 7.985_628_4e-7),
    ("v_z", 277_168, -8.540_076_8e-7, 9.823_764_1e-7),
    ("rho", 55_287, 0.124_999_84, 0.125_000_07),
    ("e", 53_506, 1.999_999, 2.000_000_4),
    ("x", 42_114, 2.5, 3.5),
    ("y", 69_926, 0.0, 1.5),
    ("z", 54_088, 0.0, 1.5),
];

#[test]
fn laghos_file_has_schema_layout_and_statistics_of_the_small_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("laghos.parquet");
    let made = make("laghos", &file, &["--rows", "100000"]);
    let reader = read(&file);
    let about = reader.metadata();
    assert_eq!((about.num_row_groups(), about.file_metadata().num_rows()), (1, 100_000));
    assert_eq!(
        (made["row_groups"].as_u64(), made["rows"].as_u64(), made["bytes"].as_u64()),
        (Some(1), Some(100_000), Some(fs::metadata(&file).unwrap().len()))
    );
    let group = about.row_group(0);
    assert_eq!(group.num_columns(), TEST4.len());
    for (column, (name, bytes, least, most)) in group.columns().iter().zip(TEST4) {
        let described = column.column_descr();
        assert_eq!(described.name(), name);
        assert_eq!(described.self_type().get_basic_info().repetition(), Repetition::REQUIRED);
        assert_eq!(column.compression(), Compression::SNAPPY);
        assert!(column.encodings().all(|encoding| matches!(encoding, Encoding::PLAIN | Encoding::RLE)));
        assert!(column.dictionary_page_offset().is_none() && column.offset_index_offset().is_none());
        let part = column.compressed_size() as f64 / bytes as f64;
        assert!(
            (0.85..1.15).contains(&part),
            "{name}: {} bytes, {bytes} in the sample",
            column.compressed_size()
        );
        let (lowest, highest) = range(column);
        // Numbers of the first part end at 18,512; noise is noise.
        let tolerance = if name == "vertex_id" { 400.0 } else { 2.6e-6 };
        assert!(
            (lowest - least).abs() <= tolerance && (highest - most).abs() <= tolerance,
            "{name}: {lowest} {highest}"
        );
    }
    assert_eq!(
        schema(&reader).split_whitespace().collect::<Vec<_>>().join(" "),
        "message schema { REQUIRED INT32 element_id (INTEGER(32,true)); REQUIRED INT32 vertex_id (INTEGER(32,true)); \
         REQUIRED DOUBLE v_x; REQUIRED DOUBLE v_y; REQUIRED DOUBLE v_z; REQUIRED DOUBLE rho; REQUIRED DOUBLE e; \
         REQUIRED DOUBLE x; REQUIRED DOUBLE y; REQUIRED DOUBLE z; }"
    );
}

/// The columns that the query reads, row by row, of the rows that it takes.
fn in_the_box(file: &Path) -> Vec<(i32, [f64; 3])> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap()).unwrap();
    let mask = ProjectionMask::columns(reader.parquet_schema(), ["vertex_id", "x", "y", "z"]);
    let mut taken = Vec::new();
    for batch in reader.with_projection(mask).with_batch_size(1 << 16).build().unwrap() {
        let batch = batch.unwrap();
        let ids = batch.column(0).as_primitive::<Int32Type>();
        let at = [1, 2, 3].map(|column| batch.column(column).as_primitive::<Float64Type>());
        let rows = (0..batch.num_rows()).map(|row| (ids.value(row), at.map(|column| column.value(row))));
        taken.extend(rows.filter(|(_, at)| at.iter().all(|&at| at > 1.5 && at < 1.6)));
    }
    taken
}

#[test]
fn whole_laghos_file_has_the_published_sizes_and_its_query_eight_groups() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("laghos.parquet");
    let made = make("laghos", &file, &["--seed", "31"]);
    assert_eq!((made["rows"].as_u64(), made["row_groups"].as_u64()), (Some(4_194_304), Some(1)));
    let read = ["vertex_id", "x", "y", "z", "e"];
    let columns = made["columns"].as_array().unwrap().iter();
    let read = columns.filter(|column| read.contains(&column["name"].as_str().unwrap()));
    let read_bytes: u64 = read.map(|column| column["bytes"].as_u64().unwrap()).sum();
    for (bytes, published) in
        [(read_bytes, 46_383_122.0), (made["bytes"].as_u64().unwrap(), 97.0 * 1024.0 * 1024.0)]
    {
        assert!((bytes as f64 / published - 1.0).abs() < 0.01, "{bytes} bytes, {published} published");
    }
    let taken = in_the_box(&file);
    assert_eq!(taken.len(), 64);
    let vertices: HashSet<i32> = taken.iter().map(|(id, _)| *id).collect();
    assert_eq!(vertices.len(), 8);
}

#[test]
fn laghos_elements_have_eight_vertices_that_neighbours_share() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("laghos.parquet");
    make("laghos", &file, &["--rows", "8192"]);
    let rows = rows(&file);
    let mut vertices: HashMap<i64, Vec<f64>> = HashMap::new();
    for (place, row) in rows.iter().enumerate() {
        assert_eq!(number(row, "element_id") as usize, place / 8);
        let state: Vec<f64> = ["x", "y", "z", "v_x", "v_y", "v_z"].map(|column| number(row, column)).to_vec();
        let known = vertices.entry(number(row, "vertex_id") as i64).or_insert_with(|| state.clone());
        assert_eq!(*known, state, "row {place}");
    }
    // 1024 elements are 8 × 8 × 16: 9 × 9 × 17 vertices.
    assert_eq!(vertices.len(), 9 * 9 * 17);
}

#[test]
fn laghos_query_is_that_of_the_set_and_takes_nothing_of_the_first_rows() {
    let dir = tempfile::tempdir().unwrap();
    let made = make("laghos", &dir.path().join("laghos.parquet"), &["--rows", "1000"]);
    let query = made["predicates"][0]["sql"].as_str().unwrap();
    assert_eq!(query.len(), 198);
    assert!(query.ends_with("z < 1.6 GROUP BY vertex_id ORDER BY E"), "{query}");
    assert_eq!(taken(&made, "vertices in a box"), 0);
}

#[test]
fn wildfire_predicate_leaves_a_tenth_of_the_points() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wildfire.parquet");
    let made = make("wildfire", &file, &["--rows", "61000"]);
    let rows = rows(&file);
    let with_fuel = rows.iter().filter(|row| number(row, "rhof_1") > 1e-6).count();
    assert_eq!(taken(&made, "points with fuel"), with_fuel as u64);
    assert!((0.095..0.105).contains(&(with_fuel as f64 / rows.len() as f64)), "{with_fuel}");
    // Ranges of the published file.
    for (column, least, most) in
        [("x", -498.0, 700.0), ("y", -500.0, 498.0), ("z", 0.75, 900.0), ("rhof_1", 0.0, 0.6001)]
    {
        assert!(rows.iter().all(|row| (least..=most).contains(&number(row, column))), "{column}");
    }
}

#[test]
fn deep_water_predicates_take_the_surface_and_the_asteroid() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("deep.parquet");
    let made = make("deep-water", &file, &["--rows", "270000"]);
    let rows = rows(&file);
    let within = |column: &str, least: f64, most: f64| {
        let taken = rows.iter().filter(|row| number(row, column) > least && number(row, column) < most);
        taken.count() as u64
    };
    assert_eq!(taken(&made, "surface and spray"), within("v02", 0.1, 0.9));
    assert_eq!(taken(&made, "asteroid"), within("v03", 0.1, f64::MAX));
    assert!(taken(&made, "surface and spray") > 270 && taken(&made, "asteroid") > 27, "{made}");
    assert!(taken(&made, "surface and spray") < 13_500 && taken(&made, "asteroid") < 2_700, "{made}");
}

#[test]
fn vpic_predicates_take_a_tail_a_band_and_one_particle() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("vpic.parquet");
    let made = make("vpic", &file, &["--rows", "131072"]);
    let reader = read(&file);
    assert_eq!(reader.metadata().num_row_groups(), 4);
    assert!(schema(&reader).contains("REQUIRED INT64 ID (INTEGER(64,false))"));
    let rows = rows(&file);
    let energies = || rows.iter().map(|row| number(row, "ke"));
    assert_eq!(taken(&made, "energy threshold"), energies().filter(|&ke| ke > 0.4).count() as u64);
    assert_eq!(taken(&made, "energy band"), energies().filter(|ke| (0.2..0.21).contains(ke)).count() as u64);
    assert_eq!(taken(&made, "trajectory"), 1);
    assert!(taken(&made, "energy threshold") > 0 && taken(&made, "energy threshold") < 1310, "{made}");
    assert!(energies().all(|ke| ke > 0.0 && ke < 1.0));
}

#[test]
fn lineitem_is_that_of_dbgen_and_its_queries_take_the_known_rows() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lineitem.parquet");
    let made = make("tpch-lineitem", &file, &["--scale", "0.01"]);
    assert_eq!(made["rows"], 60_175);
    assert_eq!(made["scale"], 0.01);
    assert!(made.get("seed").is_none());
    let text = schema(&read(&file));
    for column in [
        "INT64 l_orderkey;",
        "INT64 l_extendedprice (DECIMAL(15,2))",
        "INT32 l_shipdate (DATE)",
        "BYTE_ARRAY l_comment (STRING)",
    ] {
        assert!(text.contains(column), "{column}: {text}");
    }
    assert_eq!([taken(&made, "Q1"), taken(&made, "Q6")], [59_307, 1_191]);
    assert!(taken(&made, "Q14") > 0 && taken(&made, "Q19") > 0, "{made}");
}

#[test]
fn seed_decides_every_byte_of_a_set() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = |set: &str, name: &str, seed: &str| {
        let file = dir.path().join(name);
        make(set, &file, &["--rows", "20000", "--seed", seed]);
        fs::read(file).unwrap()
    };
    for set in ["laghos", "deep-water", "vpic", "wildfire"] {
        let one = bytes(set, "one", "5");
        assert!(one == bytes(set, "two", "5"), "{set}");
        assert!(one != bytes(set, "other", "6"), "{set}");
    }
}

#[test]
fn arguments_that_a_set_does_not_have_are_refused_with_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let file = file.to_str().unwrap();
    for (args, words) in [
        (&["laghos", file, "--rows", "0"][..], "from 1 to 4194304 rows"),
        (&["laghos", file, "--rows", "4194305"], "over the limit of 4194304"),
        (&["wildfire", file, "--rows", "18300001"], "over the limit of 18300000"),
        (&["vpic", file, "--scale", "1"], "give --rows"),
        (&["tpch-lineitem", file, "--rows", "5"], "give --scale"),
        (&["tpch-lineitem", file, "--seed", "5"], "part of TPC-H"),
        (&["tpch-lineitem", file, "--scale", "0"], "0.001 to 100"),
        (&["tpch-lineitem", file, "--scale", "nan"], "0.001 to 100"),
        (&["laghos", "/dev/null", "--rows", "8"], "expected is a regular file"),
        (&["laghos", dir.path().to_str().unwrap(), "--rows", "8"], "is a directory"),
        (&["laghos", "/nonexistent/file", "--rows", "8"], "there is no folder for"),
        (&["lagos", file], "tip"),
    ] {
        let said = refused(2, &[&["data"], args].concat());
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn interrupted_file_is_not_made_and_an_earlier_one_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("vpic.parquet");
    fs::write(&file, "earlier").unwrap();
    let files = || fs::read_dir(dir.path()).unwrap().count();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("byway-lab"))
        .args(["data", "vpic", file.to_str().unwrap(), "--rows", "1000000000"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its temporary file.
    while files() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "ended by itself");
        std::thread::yield_now();
    }
    let id = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("interrupted; no file was made"));
    assert_eq!((files(), fs::read(&file).unwrap()), (1, b"earlier".to_vec()));
}
