//! `byway tdm status`: every file that programs write, live.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use byway_tdm_board::Why;
use byway_tdm_daemon::{FileReport, Report, UnservedOpens, UnservedReport, UserReport};

use super::{ask, foreign, words};
use crate::args::TdmStatus;
use crate::size::{counted, human};
use crate::table::{Table, time};
use crate::terminal::{Interrupt, print_json};
use crate::watch::{Screen, wait};

/// Shows what the daemon has, until it is told to end.
///
/// # Errors
/// When no daemon answers. On a terminal one that ended is asked again.
pub fn run(args: &TdmStatus, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let mut names = Names::default();
    let mut look = || {
        let report = ask::report(&ask::connect(&args.socket.path())?)?;
        anyhow::Ok(names.complete(report))
    };
    let first = look()?;
    match if args.json || args.once { None } else { Screen::take() } {
        Some(screen) => show(args, first, &mut look, &screen, interrupt),
        None => print(args, first, &mut look, out, interrupt),
    }
}

/// A table behind the other.
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
            print_json(out, &report)?;
        } else {
            write!(out, "{}", Shown(&report))?;
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

/// Tables in place of each other.
fn show(
    args: &TdmStatus,
    first: Report,
    look: &mut impl FnMut() -> Result<Report>,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<()> {
    screen.show(&Shown(&first).to_string())?;
    while wait(args.interval, interrupt, Some(screen)) {
        match look() {
            Ok(report) => screen.show(&Shown(&report).to_string())?,
            Err(error) => screen.show(&format!("{error:#}\n\nq to end"))?,
        }
    }
    Ok(())
}

/// Names of files that the daemon has not been told, from who has them open.
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

/// A report for people.
struct Shown<'r>(&'r Report);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "region  {}", words::region(&self.0.region))?;
        if self.0.turned_away > 0 {
            let programs = counted(self.0.turned_away, "program");
            writeln!(f, "{programs} not served: {}", Why::OtherProcesses)?;
        }
        if let Some(cache) = &self.0.region.cache {
            writeln!(f, "cache   {}", words::cache(cache))?;
        }
        for user in &self.0.users {
            write_user(user, f)?;
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

fn write_user(user: &UserReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let room = human(user.ring_bytes);
    writeln!(f, "user {}  {} of {} logs of {room} taken", user.uid, user.rings_taken, user.rings)?;
    writeln!(f, "syncs   {}", spared(user))?;
    if user.unlisted > 0 {
        let files = counted(user.unlisted, "file");
        writeln!(
            f,
            "WARNING {files} found no entry on the board, and stay with the kernel until nobody has them open"
        )?;
    }
    for UnservedOpens { opens, why } in &user.unserved {
        let times = counted(*opens, "time");
        writeln!(f, "not served, opened for writing {times}: {why}")?;
    }
    let (mut shown, gone): (Vec<&FileReport>, Vec<&FileReport>) = user.files.iter().partition(is_of_interest);
    // Whoever is served best and syncs most goes first.
    shown.sort_by_key(|file| (file.level == "PASS", Reverse(file.syncs)));
    if !shown.is_empty() {
        write!(f, "\n{}", table(user, &shown))?;
    }
    match gone.len() as u64 {
        0 => Ok(()),
        count => writeln!(f, "\n{} that nobody has open now", counted(count, "more file")),
    }
}

/// One that is served, or has a name that is known.
fn is_of_interest(file: &&FileReport) -> bool {
    file.level != "PASS" || file.path.is_some()
}

fn spared(user: &UserReport) -> String {
    let sum = |of: fn(&FileReport) -> u64| user.files.iter().map(of).sum::<u64>();
    let (all, saved) = (sum(|file| file.syncs), sum(|file| file.saved_syncs));
    let ns: f64 = user.files.iter().filter_map(words::spared_ns).sum();
    let share = if all == 0 { 0.0 } else { saved as f64 * 100.0 / all as f64 };
    format!("{saved} of {all} saved ({share:.0} %), about {} of waiting spared", words::duration(ns))
}

fn table(user: &UserReport, files: &[&FileReport]) -> Table {
    let headings = ["file", "level", "writes", "bytes", "syncs", "saved", "sync below", "log", "why"];
    let mut table = Table::new(&headings);
    for file in files {
        table.push(vec![
            words::name(file),
            if file.is_pinned { format!("{}, pinned", file.level) } else { file.level.clone() },
            file.writes.to_string(),
            human(file.written_bytes),
            file.syncs.to_string(),
            file.saved_syncs.to_string(),
            time(words::lower_sync_ns(file)),
            fill(file, user),
            words::reason(file).to_owned(),
        ]);
    }
    table
}

/// How full a file's log is.
fn fill(file: &FileReport, user: &UserReport) -> String {
    if file.level != "ABSORB" || user.ring_bytes == 0 {
        return "-".to_owned();
    }
    format!("{:.0} %", file.kept_bytes as f64 * 100.0 / user.ring_bytes as f64)
}
