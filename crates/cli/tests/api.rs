//! Every public function of the API is exercised by a command: the table that says by which is held to the sources.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A type or trait of the API, the file that it is in, and how the block that declares its functions, variants or fields begins.
const DECLARED: &[(&str, &str, &str)] = &[
    ("Backend", "host/core/src/backend/mod.rs", "pub trait Backend:"),
    ("BackendQueue", "host/core/src/backend/queue.rs", "pub trait BackendQueue:"),
    ("AdminQueue", "host/core/src/admin_queue.rs", "pub trait AdminQueue:"),
    ("NvmCommand", "host/core/src/command.rs", "pub enum NvmCommand {"),
    ("KvCommand", "host/core/src/command.rs", "pub enum KvCommand {"),
    ("RawData", "host/core/src/command.rs", "pub enum RawData {"),
    ("AdminCommand", "host/core/src/admin.rs", "pub enum AdminCommand {"),
    ("AsyncQueue", "host/core/src/future/queue.rs", "impl<Q: BackendQueue> AsyncQueue<Q> {"),
    ("Buffer", "host/core/src/buffer.rs", "impl Buffer {"),
    ("Device", "byway/src/device/mod.rs", "impl Device {"),
    ("Device", "byway/src/device/wipe.rs", "impl Device {"),
    ("Device", "byway/src/device/admin.rs", "impl Device {"),
    ("Device", "byway/src/device/controller.rs", "impl Device {"),
    ("Device", "byway/src/compute/namespaces.rs", "impl Device {"),
    ("LocalMemory", "byway/src/compute/local_memory.rs", "impl LocalMemory {"),
    ("Programs", "byway/src/compute/programs.rs", "impl Programs {"),
    ("Nvm", "byway/src/calls/nvm.rs", "impl Nvm {"),
    ("ServeOptions", "byway/src/serve/mod.rs", "pub struct ServeOptions {"),
    ("Kv", "byway/src/calls/kv.rs", "impl Kv {"),
    ("Kv", "byway/src/calls/many.rs", "impl Kv {"),
    ("Kv", "byway/src/calls/load.rs", "impl Kv {"),
    ("Kv", "byway/src/calls/listing.rs", "impl Kv {"),
    ("Kv", "byway/src/calls/prefix.rs", "impl Kv {"),
    ("Kv", "byway/src/calls/query.rs", "impl Kv {"),
    ("Nvm", "byway/src/calls/query.rs", "impl Nvm {"),
    ("Kv", "byway/src/calls/exec.rs", "impl Kv {"),
    ("Kv", "byway/src/calls/scan.rs", "impl Kv {"),
    ("Kv", "byway/src/calls/cursor.rs", "impl Kv {"),
    ("Kv", "byway/src/calls/batch.rs", "impl Kv {"),
    ("Kv", "byway/src/calls/delete.rs", "impl Kv {"),
];

/// Files whose public functions stand alone.
const FREE: &[&str] = &[
    "device/open.rs",
    "device/scan.rs",
    "device/tcp.rs",
    "embedded/create.rs",
    "embedded/check.rs",
    "embedded/resize.rs",
    "embedded/snapshot.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The name that a line declares, if it declares one that is public, `indent` deep.
fn declared<'a>(line: &'a str, indent: &str, in_trait_or_enum: bool) -> Option<&'a str> {
    let line = line.strip_prefix(indent).filter(|line| !line.starts_with(' '))?;
    let public = line.strip_prefix("pub ");
    let function = public.or(Some(line).filter(|_| in_trait_or_enum))?;
    let is_field =
        |line: &&str| line.starts_with(|letter: char| letter.is_ascii_lowercase()) && line.contains(": ");
    let field = public.filter(|_| in_trait_or_enum).filter(is_field);
    let function =
        ["const ", "unsafe "].iter().fold(function, |line, word| line.strip_prefix(word).unwrap_or(line));
    let name = match function.strip_prefix("fn ") {
        Some(name) => name,
        None if field.is_some() => function,
        None if in_trait_or_enum && line.starts_with(|letter: char| letter.is_ascii_uppercase()) => line,
        None => return None,
    };
    name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

fn of_the_sources() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (owner, path, begins) in DECLARED {
        let text = text(&format!("crates/{path}"));
        let block =
            text.split_once(&format!("\n{begins}")).unwrap_or_else(|| panic!("{path} has no {begins}")).1;
        let block = block.split_once("\n}").unwrap().0;
        let open = begins.starts_with("pub ");
        names.extend(
            block
                .lines()
                .filter_map(|line| declared(line, "    ", open))
                .map(|name| format!("{owner}::{name}")),
        );
    }
    for path in FREE {
        let text = text(&format!("crates/byway/src/{path}"));
        names.extend(text.lines().filter_map(|line| declared(line, "", false)).map(str::to_owned));
    }
    names
}

/// Rows of the table: a name, and the cell behind it.
fn of_the_table() -> Vec<(String, String)> {
    let page = text("docs/reference/api-and-commands.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(name, by)| (name.to_owned(), by.trim_end_matches(" |").to_owned())).collect()
}

#[test]
fn every_function_of_the_api_has_a_command_that_exercises_it() {
    let named: BTreeSet<String> = of_the_table().into_iter().map(|(name, _)| name).collect();
    let there = of_the_sources();
    let missing: Vec<_> = there.difference(&named).collect();
    assert!(missing.is_empty(), "not in docs/reference/api-and-commands.md: {missing:#?}");
    let gone: Vec<_> = named.difference(&there).collect();
    assert!(gone.is_empty(), "in docs/reference/api-and-commands.md, and no longer there: {gone:#?}");
}

#[test]
fn every_command_of_the_table_is_one() {
    let commands = text("docs/reference/commands.md") + &text("docs/reference/lab-commands.md");
    let why = "no command: ";
    for (name, by) in of_the_table().into_iter().filter(|(_, by)| !by.starts_with(why)) {
        let mut named = by.split('`').skip(1).step_by(2).peekable();
        assert!(named.peek().is_some(), "{name} names no command: {by}");
        for command in named {
            let command = command.trim();
            if !command.starts_with("byway") {
                continue;
            }
            assert!(commands.contains(&format!("\n## {command}\n")), "{name}: there is no {command:?}");
        }
    }
}

/// Rows of the page of languages: a name, what it is in C, what in Python.
fn of_the_languages() -> Vec<(String, String, String)> {
    let page = text("docs/reference/languages.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let cells = rows.map(|row| row.split(" | ").map(str::to_owned).collect::<Vec<String>>());
    let named = cells.map(|cells| match <[String; 3]>::try_from(cells) {
        Ok([rust, c, python]) => (rust.trim_end_matches('`').to_owned(), c, python),
        Err(cells) => panic!("no row of three: {cells:?}"),
    });
    named.collect()
}

/// The names in a cell; none where it says why there are none.
fn names(cell: &str) -> Vec<&str> {
    if cell.starts_with("none: ") { Vec::new() } else { cell.split('`').skip(1).step_by(2).collect() }
}

#[test]
fn every_function_of_the_api_is_in_c_and_python_or_the_page_says_why_not() {
    let there = of_the_sources();
    let named: BTreeSet<String> = of_the_languages().into_iter().map(|(name, ..)| name).collect();
    let missing: Vec<_> = there.symmetric_difference(&named).collect();
    assert!(missing.is_empty(), "docs/reference/languages.md and the sources differ: {missing:#?}");
    let header = text("bindings/c/include/byway.h");
    let has_word = |text: &str, word: &str| {
        text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|there| there == word)
    };
    let python = ["_byway.pyi", "__init__.pyi", "aio.py"]
        .map(|file| text(&format!("bindings/python/python/byway/{file}")));
    let python = python.concat();
    for (name, in_c, in_python) in of_the_languages() {
        for word in names(&in_c).iter().flat_map(|named| named.split('.')) {
            assert!(has_word(&header, word), "{name}: byway.h has no {word}");
        }
        for word in names(&in_python).iter().flat_map(|named| named.split('.')) {
            assert!(has_word(&python, word), "{name}: the stubs of Python have no {word}");
        }
        for cell in [&in_c, &in_python] {
            assert!(!names(cell).is_empty() || cell.len() > "none: ".len(), "{name}: {cell}");
        }
    }
}

/// Rows of the page of error kinds: Rust, C with its number, Python.
fn of_the_kinds() -> Vec<[String; 3]> {
    let page = text("docs/reference/errors.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split(" | ").map(|cell| cell.replace('`', "")).collect::<Vec<String>>());
    cells.map(|cells| [cells[0].clone(), cells[1].clone(), cells[2].clone()]).collect()
}

#[test]
fn every_error_kind_is_on_its_page_in_each_language() {
    let source = text("crates/host/core/src/error.rs");
    let kinds = source.split_once("pub enum ErrorKind {").unwrap().1.split_once("\n}").unwrap().0;
    let kinds = kinds.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.is_empty());
    let there: Vec<&str> = kinds.map(|kind| kind.trim_end_matches(',')).collect();
    let named = of_the_kinds();
    assert_eq!(named.iter().map(|[rust, ..]| rust.as_str()).collect::<Vec<_>>(), there);
    let header = text("bindings/c/include/byway.h");
    let python = text("bindings/python/python/byway/_errors.py");
    for [rust, in_c, in_python] in &named {
        let (name, number) = in_c.split_once(' ').unwrap();
        assert!(header.contains(&format!("{name} = {number},")), "{rust}: byway.h has no {in_c}");
        assert!(python.contains(&format!("class {in_python}(")), "{rust}: Python has no {in_python}");
    }
}
