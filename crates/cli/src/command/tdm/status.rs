//! `byway tdm status`: files that programs write.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use byway_console::logging::utc;
use byway_console::size::{counted, human};
use byway_console::table::{Table, rate, time};
use byway_console::terminal::{Interrupt, print_json};
use byway_tdm_daemon::{FileReport, Report, UnservedOpens, UnservedReport, UserReport};
use byway_tdm_engine::table::Reason;
use serde::Serialize;

use super::{ask, foreign, words};
use crate::args::TdmStatus;
use crate::watch::{Screen, wait};

/// Width from which a row has all columns.
const WIDE_COLUMNS: usize = 150;

/// Shows the daemon's files until it is stopped.
///
/// # Errors
/// No daemon answers. On a terminal it is asked again.
pub fn run(args: &TdmStatus, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let mut names = Names::default();
    let mut look = || {
        let report = ask::report(&ask::connect(&args.socket.path()?)?)?;
        anyhow::Ok(names.complete(report))
    };
    let first = look()?;
    match if args.json || args.once { None } else { Screen::take() } {
        Some(screen) => show(args, first, &mut look, &screen, interrupt),
        None => print(args, first, &mut look, out, interrupt),
    }
}

/// Prints one table after another.
fn print(
    args: &TdmStatus,
    first: Report,
    look: &mut impl FnMut() -> Result<Report>,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut report = first;
    loop {
        if args.json {
            print_json(out, &Dated { since: utc(report.since_unix_s), report: &report })?;
        } else {
            put!(out, "{}", Shown(&report, None))?;
        }
        out.flush()?;
        if args.once || !wait(args.interval, interrupt, None) {
            return Ok(());
        }
        report = look()?;
        if !args.json {
            writeln!(out)?;
        }
    }
}

/// Shows tables in place.
fn show(
    args: &TdmStatus,
    first: Report,
    look: &mut impl FnMut() -> Result<Report>,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<()> {
    let show = |report: &Report| screen.show(&Shown(report, Some(screen.columns())).to_string());
    show(&first)?;
    while wait(args.interval, interrupt, Some(screen)) {
        match look() {
            Ok(report) => show(&report)?,
            Err(error) => screen.show(&format!("{error:#}\n\nq to end"))?,
        }
    }
    Ok(())
}

/// Paths of files that the daemon does not know, found by their open descriptors.
#[derive(Default)]
struct Names(HashMap<[u64; 3], PathBuf>);

impl Names {
    fn complete(&mut self, mut report: Report) -> Report {
        let files = || report.users.iter().flat_map(|user| &user.files);
        let unnamed: Vec<[u64; 3]> =
            files().filter(|file| file.path.is_none()).map(|file| file.key).collect();
        if unnamed.iter().any(|key| !self.0.contains_key(key)) {
            self.0.extend(foreign::names(&unnamed));
        }
        for file in report.users.iter_mut().flat_map(|user| &mut user.files) {
            if file.path.is_none() {
                file.path = self.0.get(&file.key).cloned();
            }
        }
        report
    }
}

/// A report with the time since when its counters count.
#[derive(Serialize)]
struct Dated<'r> {
    since: String,
    #[serde(flatten)]
    report: &'r Report,
}

/// A report to print, and the width of the terminal in columns, if known.
struct Shown<'r>(&'r Report, Option<usize>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "region  {}", words::region(&self.0.region))?;
        let counted_for = words::duration(self.0.counting_s as f64 * 1e9);
        writeln!(
            f,
            "since   {}, for {counted_for}: start of the daemon and its counters",
            utc(self.0.since_unix_s)
        )?;
        if self.0.turned_away > 0 {
            let programs = counted(self.0.turned_away, "program");
            writeln!(f, "{programs} not served: {}", Reason::OtherProcesses)?;
        }
        if let Some(cache) = &self.0.region.cache {
            writeln!(f, "cache   {}", words::cache(cache))?;
        }
        for user in &self.0.users {
            write_user(user, self.1, f)?;
        }
        for UnservedReport { uid, programs, why } in &self.0.unserved {
            writeln!(f, "user {uid}  WARNING {} not served: {why}", counted(*programs, "program"))?;
        }
        if self.0.users.is_empty() && self.0.unserved.is_empty() {
            writeln!(f, "no program has come yet")?;
        }
        Ok(())
    }
}

fn write_user(user: &UserReport, columns: Option<usize>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let room = human(user.ring_bytes);
    writeln!(f, "user {}  {} of {} logs of {room} taken", user.uid, user.rings_taken, user.rings)?;
    writeln!(f, "syncs   {}", spared(user))?;
    if user.unlisted > 0 {
        let files = counted(user.unlisted, "file");
        writeln!(
            f,
            "WARNING {files} found no entry in the shared file table, and stay with the kernel until all programs have closed them"
        )?;
    }
    for UnservedOpens { opens, why } in &user.unserved {
        let times = counted(*opens, "time");
        writeln!(f, "not served, opened for writing {times}: {why}")?;
    }
    let (mut shown, gone): (Vec<&FileReport>, Vec<&FileReport>) = user.files.iter().partition(is_of_interest);
    sort(&mut shown);
    match columns.filter(|columns| *columns < WIDE_COLUMNS) {
        _ if shown.is_empty() => {}
        Some(columns) => write!(f, "\n{}", narrow_table(&shown, columns))?,
        None => write!(f, "\n{}", table(user, &shown))?,
    }
    match gone.len() as u64 {
        0 => Ok(()),
        count => writeln!(f, "\n{} that no program has open now", counted(count, "more file")),
    }
}

/// Sorts by syncs now, then by level and syncs.
fn sort(files: &mut [&FileReport]) {
    files.sort_by_key(|file| {
        let now = file.syncs_a_second.round() as u64;
        (Reverse(now), file.level == "PASS", Reverse(file.syncs))
    });
}

/// Whether a file is served or has a known path.
fn is_of_interest(file: &&FileReport) -> bool {
    file.level != "PASS" || file.path.is_some()
}

fn spared(user: &UserReport) -> String {
    let sum = |of: fn(&FileReport) -> u64| user.files.iter().map(of).sum::<u64>();
    let (all, saved) = (sum(|file| file.syncs), sum(|file| file.saved_syncs));
    // An empty sum would be -0.
    let ns = user.files.iter().filter_map(words::spared_ns).fold(0.0, |sum, ns| sum + ns);
    let share = if all == 0 { 0.0 } else { saved as f64 * 100.0 / all as f64 };
    format!("{saved} of {all} saved ({share:.0} %), about {} of waiting spared", words::duration(ns))
}

fn table(user: &UserReport, files: &[&FileReport]) -> Table {
    let headings = ["file", "level", "now", "syncs", "saved", "sync below", "log", "writes", "bytes", "why"];
    let mut table = Table::new(&headings);
    for file in files {
        table.push(vec![
            words::name(file),
            level(file),
            rate(file.syncs_a_second),
            file.syncs.to_string(),
            file.saved_syncs.to_string(),
            time(words::lower_sync_ns(file)),
            fill(file, user),
            file.writes.to_string(),
            human(file.written_bytes),
            words::reason(file).to_owned(),
        ]);
    }
    table
}

/// On a narrow terminal: current activity and reasons.
fn narrow_table(files: &[&FileReport], columns: usize) -> Table {
    let mut table = Table::new(&["file", "level", "now", "saved", "why"]);
    for file in files {
        table.push(vec![
            shortened(&words::name(file), columns * 3 / 10),
            level(file),
            rate(file.syncs_a_second),
            file.saved_syncs.to_string(),
            words::reason(file).to_owned(),
        ]);
    }
    table
}

fn level(file: &FileReport) -> String {
    if file.is_pinned { format!("{}, pinned", file.level) } else { file.level.clone() }
}

/// Shortens a path at its start.
fn shortened(name: &str, letters: usize) -> String {
    let len = name.chars().count();
    if len <= letters {
        return name.to_owned();
    }
    let end: String = name.chars().skip(len + 1 - letters.max(1)).collect();
    format!("…{end}")
}

/// Fill level of a file's log.
fn fill(file: &FileReport, user: &UserReport) -> String {
    if file.level != "ABSORB" || user.ring_bytes == 0 {
        return "-".to_owned();
    }
    format!("{:.0} %", file.kept_bytes as f64 * 100.0 / user.ring_bytes as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(name: &str, level: &str, syncs: u64, syncs_a_second: f64) -> FileReport {
        serde_json::from_value(json!({
            "path": name, "key": [0, 0, 0], "level": level, "why": "why", "reason": null, "judged": [],
            "is_barred": false, "is_pinned": false, "writes": 0, "written_bytes": 0, "syncs": syncs,
            "syncs_a_second": syncs_a_second, "saved_syncs": 7, "lower_syncs": 0, "lower_sync_ns": 0,
            "kept_bytes": 0, "suspended": 0, "error": null,
        }))
        .unwrap()
    }

    #[test]
    fn currently_syncing_files_sort_above_earlier_ones() {
        let all = [
            file("/over", "ABSORB", 1_000_000, 0.2),
            file("/seen", "PASS", 2_000_000, 0.0),
            file("/busy", "PASS", 900, 300.0),
            file("/busier", "ABSORB", 500, 90_000.0),
        ];
        let mut files: Vec<&FileReport> = all.iter().collect();
        sort(&mut files);
        let names: Vec<String> = files.into_iter().map(words::name).collect();
        assert_eq!(names, ["/busier", "/busy", "/over", "/seen"]);
    }

    #[test]
    fn a_narrow_terminal_has_the_end_of_the_path_and_the_reason() {
        let long = file("/srv/some/where/far/below/this/folder/appendonly.aof", "ABSORB", 9, 90_000.0);
        let reported = narrow_table(&[&long], 80).to_string();
        let line: String = reported.lines().last().unwrap().chars().take(80).collect();
        assert_eq!(line, "…s/folder/appendonly.aof  ABSORB  90 k/s      7  why");
    }
}
