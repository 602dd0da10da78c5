//! RocksDB by its own benchmark, SQLite by its own shell.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::calls::request_promotion;
use crate::program::{Place, Program, Role, Setting, version_of};

/// Has a log promoted once its program has made it, which may be some time after the name is there.
fn fill_place(log: impl Fn() -> Option<PathBuf>, place: &Place) -> Result<()> {
    let begun = Instant::now();
    loop {
        let wished =
            log().context("there is no log").and_then(|log| request_promotion(&log, &place.socket()));
        if wished.is_ok() || begun.elapsed() > Duration::from_secs(10) {
            return wished;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// RocksDB's log in a folder.
fn rocksdb_log(folder: &Path) -> Option<PathBuf> {
    let mut files = std::fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    files.find(|path| path.extension().is_some_and(|extension| extension == "log"))
}

/// Keys in order, each write synced: `db_bench --benchmarks=fillseq --sync=1`.
#[derive(Debug)]
pub struct RocksDb;

impl Program for RocksDb {
    fn name(&self) -> String {
        "rocksdb".to_owned()
    }

    fn version(&self) -> Option<String> {
        version_of("db_bench", "--version")
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting::Unsynced, Setting::Always, Setting::AlwaysAbsorbed, Setting::AlwaysResident]
    }

    fn run(&mut self, setting: Setting, place: &Place) -> Result<f64> {
        let folder = place.fresh()?;
        let writes = if setting == Setting::Always { 3_000 } else { 300_000 };
        let sync = if setting == Setting::Unsynced { "--sync=0" } else { "--sync=1" };
        let mut command = place.command("db_bench", Role::Program, setting)?;
        command.arg(format!("--db={}", folder.path().display()));
        command.args(["--benchmarks=fillseq", sync, "--value_size=100", &format!("--num={writes}")]);
        let program = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        if setting.is_resident() {
            fill_place(|| rocksdb_log(folder.path()), place)?;
        }
        let said = program.wait_with_output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let line =
            said.lines().find(|line| line.starts_with("fillseq")).context("db_bench's line of fillseq")?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let rate = words.windows(2).find(|pair| pair[1] == "ops/sec").and_then(|pair| pair[0].parse().ok());
        rate.with_context(|| format!("a rate in {line}"))
    }
}

/// Rows of 100 bytes, a transaction each, `journal_mode=WAL`, `synchronous=FULL`.
#[derive(Debug)]
pub struct Sqlite;

impl Program for Sqlite {
    fn name(&self) -> String {
        "sqlite".to_owned()
    }

    fn version(&self) -> Option<String> {
        version_of("sqlite3", "--version")
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting::Unsynced, Setting::Always, Setting::AlwaysAbsorbed, Setting::AlwaysResident]
    }

    fn run(&mut self, setting: Setting, place: &Place) -> Result<f64> {
        let folder = place.fresh()?;
        let rows = if setting == Setting::Always { 1_000 } else { 50_000 };
        let synced = if setting == Setting::Unsynced { "OFF" } else { "FULL" };
        let mut script =
            format!("PRAGMA journal_mode=WAL; PRAGMA synchronous={synced}; CREATE TABLE t(k, v);\n");
        for row in 0..rows {
            writeln!(script, "INSERT INTO t VALUES({row}, '{row:0100}');")?;
        }
        let path = folder.path().join("script");
        std::fs::write(&path, script)?;
        let mut command = place.command("sqlite3", Role::Program, setting)?;
        command.arg(folder.path().join("db")).stdin(std::fs::File::open(path)?).stdout(Stdio::null());
        let begun = Instant::now();
        let mut program = command.spawn()?;
        if setting.is_resident() {
            let log = folder.path().join("db-wal");
            fill_place(|| log.exists().then(|| log.clone()), place)?;
        }
        ensure!(program.wait()?.success(), "sqlite3 failed");
        Ok(f64::from(rows) / begun.elapsed().as_secs_f64())
    }
}
