//! The Laghos query over a file of the set in blocks: executed by the device, and by a host that reads what it needs.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use byway::uri::{of_image, with_options};
use byway::{Class, CreateOptions, Method, NewNamespace, Nvm, SqlOptions};
use byway_compute::{Cancellation, Format, Limits, Object, Query};
use byway_console::files::Replacement;
use byway_console::terminal::{Interrupt, Progress};
use byway_measure::blocks::Blocks;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::{Computed, QueryPoint};
use crate::data::{self, LAGHOS_QUERY, LAGHOS_ROWS, Set};
use crate::report::measured::COSMOS;
use crate::report::run::Plan;

/// Settings that the query is executed in: the papers' card, and one SSD over links.
pub const SETTINGS: [&str; 5] = [COSMOS, "gen4x4@gen2x8", "gen4x4@gen3x4", "gen4x4", "gen4x4@gen5x4"];
/// Every way, in the order of tables.
pub const WAYS: [Way; 5] = [
    Way::Device(Method::Inline),
    Way::Device(Method::Sgl),
    Way::Device(Method::Prp),
    Way::Pages,
    Way::Columns,
];
/// Columns that the query names.
const COLUMNS: [&str; 5] = ["vertex_id", "x", "y", "z", "e"];
/// Rows of the file for each put of a workload: the usual report has the whole file.
const ROWS_PER_PUT: u64 = 42;
/// Room of an image beside the file.
const SPARE_BYTES: u64 = 64 << 20;
/// Bytes of one Write.
const WRITE_BYTES: usize = 1 << 20;

/// How the query is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the device, which gets its text by a method.
    Device(Method),
    /// By the host, which reads those pages of the columns in which rows are left.
    Pages,
    /// By a host that reads the columns from end to end.
    Columns,
}

impl Way {
    /// How it is named in figures and tables.
    pub fn name(self) -> String {
        match self {
            Self::Device(method) => format!("{method}: the device executes the query"),
            Self::Pages => "host, pages: it reads the pages that may have rows".to_owned(),
            Self::Columns => "host, columns: it reads five columns whole".to_owned(),
        }
    }

    /// How texts go to the device.
    fn method(self) -> Method {
        if let Self::Device(method) = self { method } else { Method::Prp }
    }
}

/// The file of the set, and where it lies.
struct Mesh {
    file: Bytes,
    uri: String,
}

/// Executes the query by every way in every setting. `dir` has an image meanwhile.
///
/// # Errors
/// When the file or the image cannot be made, two ways give two results, or the run is interrupted.
pub fn run(dir: &Path, plan: &Plan) -> Result<Computed> {
    let rows = LAGHOS_ROWS.min(plan.puts.saturating_mul(ROWS_PER_PUT));
    let folder =
        tempfile::Builder::new().prefix("mesh").tempdir_in(dir).context("make a folder for an image")?;
    let file = generate(&folder.path().join("mesh.parquet"), rows, plan.seed, plan.interrupt)?;
    let mesh = Mesh { uri: store(&folder.path().join("mesh.img"), &file)?, file };
    let progress = Progress::new("queries", (SETTINGS.len() * WAYS.len()) as u64);
    let mut computed = Computed { rows, object_bytes: mesh.file.len() as u64, ..Computed::default() };
    let mut first: Option<Vec<u8>> = None;
    for (setting, way) in SETTINGS.iter().flat_map(|setting| WAYS.map(|way| (setting, way))) {
        plan.interrupt.check()?;
        let (point, result) =
            measure(&mesh, setting, way).with_context(|| format!("{way:?} in {setting}"))?;
        if let Some(result) = result {
            ensure!(*first.get_or_insert_with(|| result.clone()) == result, "two ways gave two results");
        }
        computed.queries.push(point);
        progress.advance(1);
    }
    computed.result_bytes = first.map_or(0, |result| result.len() as u64);
    Ok(computed)
}

fn generate(path: &Path, rows: u64, seed: u64, interrupt: &Interrupt) -> Result<Bytes> {
    let extent = Set::Laghos.extent(Some(rows), None, Some(seed))?;
    let progress = Progress::new("rows", rows);
    data::write(Set::Laghos.table(extent).as_mut(), Replacement::of(path)?, interrupt, &progress)?;
    Ok(Bytes::from(std::fs::read(path)?))
}

/// Makes an image whose blocks begin with a file; its URI.
fn store(path: &Path, file: &[u8]) -> Result<String> {
    let size_bytes = (file.len() as u64).next_multiple_of(1 << 20);
    let namespace = NewNamespace { size_bytes: Some(size_bytes), ..NewNamespace::NVM };
    let uri = of_image(path);
    byway::create(&uri, &CreateOptions::new(size_bytes + SPARE_BYTES).namespaces(vec![namespace]))?;
    let device = byway::embedded::open(&uri)?;
    let mut nvm = device.nvm(None)?;
    let lba_bytes = nvm.lba_bytes() as usize;
    for (number, part) in file.chunks(WRITE_BYTES).enumerate() {
        let mut blocks = part.to_vec();
        blocks.resize(part.len().next_multiple_of(lba_bytes), 0);
        nvm.write((number * WRITE_BYTES / lba_bytes) as u64, &blocks)?;
    }
    drop(nvm);
    device.close()?;
    Ok(uri)
}

/// Executes the query once; its result, if the way makes one.
fn measure(mesh: &Mesh, setting: &str, way: Way) -> Result<(QueryPoint, Option<Vec<u8>>)> {
    let (profile, link) = setting.split_once('@').unwrap_or((setting, ""));
    let link = if link.is_empty() { String::new() } else { format!("&link={link}") };
    let options = format!("clock=virtual&flash=off&transfer={}&profile={profile}{link}", way.method());
    let device = byway::embedded::open(&with_options(&mesh.uri, &options))?;
    let mut nvm = device.nvm(None)?;
    // What only the first command of a queue costs is not the query's.
    nvm.read(0, &mut vec![0; nvm.lba_bytes() as usize])?;
    let mut opened = Opened::of(nvm, mesh, way)?;
    let (before, begun_ns) = (device.ledger(), device.now_ns());
    let result = opened.execute(mesh, way)?;
    let (cost, model_ns) = (device.ledger().since(&before), device.now_ns() - begun_ns);
    let registers = cost.row(Class::Register).cost;
    let point = QueryPoint {
        setting: setting.to_owned(),
        way: way.name(),
        commands: cost.row(Class::CommandFetch).count,
        wire_bytes: cost.wire_bytes() - registers.wire_bytes(),
        payload_bytes: cost.payload_bytes() - registers.payload_bytes,
        model_ns,
    };
    Ok((point, result))
}

/// What a way asks. It is closed once the cost was counted: closing deletes a queue by commands of its own.
enum Opened {
    Device(Box<Nvm>),
    Host(Arc<dyn Object>),
}

impl Opened {
    fn of(nvm: Nvm, mesh: &Mesh, way: Way) -> Result<Self> {
        Ok(match way {
            Way::Device(_) => Self::Device(Box::new(nvm)),
            Way::Pages | Way::Columns => Self::Host(Arc::new(Blocks::new(nvm, 0, mesh.file.len() as u64)?)),
        })
    }

    /// Executes the query; its result, if the way makes one.
    fn execute(&mut self, mesh: &Mesh, way: Way) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Device(nvm) => {
                let (mut result, options) = (Vec::new(), SqlOptions::default().header(true));
                nvm.query(0, mesh.file.len() as u64, LAGHOS_QUERY, options)?.read_to_end(&mut result)?;
                Ok(Some(result))
            }
            Self::Host(object) if way == Way::Columns => {
                for (start, bytes) in columns(&mesh.file)? {
                    object.read(start, bytes)?;
                }
                Ok(None)
            }
            Self::Host(object) => {
                let limits = Limits::default();
                let query = Query::parse(LAGHOS_QUERY, &limits)?;
                let format = Format::Csv { header: true };
                Ok(Some(query.run(object, format, &limits, &Cancellation::default())?.bytes))
            }
        }
    }
}

/// First byte and bytes of the columns that the query names.
fn columns(file: &Bytes) -> Result<Vec<(u64, usize)>> {
    let reader = SerializedFileReader::new(file.clone())?;
    let mut places = Vec::new();
    for group in reader.metadata().row_groups() {
        for column in group.columns() {
            if COLUMNS.contains(&column.column_descr().name()) {
                let (start, bytes) = column.byte_range();
                places.push((start, usize::try_from(bytes)?));
            }
        }
    }
    if places.len() < COLUMNS.len() {
        bail!("the generated file lacks a column of its query");
    }
    Ok(places)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn device_moves_its_text_its_result_and_less_than_a_kibibyte() {
        let dir = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::listen().unwrap();
        let computed = run(dir.path(), &Plan { puts: 2000, seed: 0, interrupt: &interrupt }).unwrap();
        assert_eq!((computed.rows, computed.queries.len()), (84_000, SETTINGS.len() * WAYS.len()));
        let bytes = |setting: &str, way: Way| computed.query(setting, &way.name()).unwrap().wire_bytes;
        let most = LAGHOS_QUERY.len() as u64 + computed.result_bytes + 1024;
        for setting in SETTINGS {
            assert!(bytes(setting, Way::Device(Method::Inline)) <= most, "{computed:?}");
            assert!(bytes(setting, Way::Pages) <= bytes(setting, Way::Columns));
            assert!(bytes(setting, Way::Columns) > 100 * bytes(setting, Way::Device(Method::Inline)));
            let commands = computed.query(setting, &Way::Device(Method::Inline).name()).unwrap().commands;
            assert_eq!(commands, 2, "Query, and Query Results");
        }
        let prp = bytes(COSMOS, Way::Device(Method::Prp));
        assert!(prp > 4096 && prp > 3 * bytes(COSMOS, Way::Device(Method::Inline)), "{computed:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
