//! `byway tdm explain`: one file's level and reasons.

use std::io::Write;

use anyhow::Result;
use byway_console::terminal::print_done;
use byway_tdm_daemon::{FileReport, Report, UnservedReport};
use byway_tdm_engine::table::{Reason, is_in_mount};
use rustix::fs::statfs;
use serde::Serialize;

use super::ask::{self, NamedFile};
use super::foreign::{self, Holder};
use super::words;
use crate::args::TdmExplain;

/// Where syncs cost nothing (statfs(2)).
const MEMORY_FILE_SYSTEMS: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Explains a file.
///
/// # Errors
/// The file does not exist, or no daemon answers.
pub fn run(args: &TdmExplain, out: &mut impl Write) -> Result<()> {
    let file = NamedFile::find(&args.file)?;
    let channel = ask::connect(&args.socket.path()?)?;
    let report = ask::report(&channel)?;
    let key = file.identified.map(|identified| identified.key);
    let daemon = channel.peer()?.pid;
    let opened_by = key.map(|key| foreign::holders(key, daemon)).unwrap_or_default();
    print_done(out, args.json, &Explained::of(&file, &report, opened_by))?;
    Ok(())
}

/// What is known of a file.
#[derive(Serialize)]
struct Explained<'r> {
    path: String,
    /// The daemon's statistics; `None` if it does not know the file.
    file: Option<&'r FileReport>,
    opened_by: Vec<Holder>,
    sentences: Vec<String>,
}

impl std::fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentences.join("\n"))
    }
}

impl<'r> Explained<'r> {
    fn of(file: &NamedFile, report: &'r Report, opened_by: Vec<Holder>) -> Self {
        let reported = file.reported_in(report);
        let user = report.users.iter().find(|user| {
            reported.is_some_and(|reported| user.files.iter().any(|one| one.key == reported.key))
        });
        let mut sentences = match reported.zip(user) {
            Some((reported, user)) => words::explained(&file.path, reported, user),
            None => never_seen(file, report, &opened_by),
        };
        sentences.extend(opened_by.iter().filter(|holder| holder.writes && !holder.is_served).map(unserved));
        if report.region.is_emulated || report.region.domain == "volatile" {
            sentences.push(format!("The memory: {}.", words::region(&report.region)));
        }
        Self { path: file.path.display().to_string(), file: reported, opened_by, sentences }
    }
}

/// Possible reasons why the daemon does not know a file.
fn never_seen(file: &NamedFile, report: &Report, opened_by: &[Holder]) -> Vec<String> {
    let path = file.path.display();
    let mut said = vec![format!("{path} has not been seen by the daemon: it is the kernel's alone.")];
    let Some(identified) = file.identified else {
        if is_in_mount(&file.path) {
            said.push(format!("{path}: {}.", Reason::Mounted));
            return said;
        }
        said.push(
            "It is no regular file, or its file system does not say when it was made: it can have no log."
                .to_owned(),
        );
        return said;
    };
    let users: Vec<u32> = report.users.iter().map(|user| user.uid).collect();
    let unserved = report.unserved.iter().find(|user| user.uid == identified.owner_uid);
    if let Some(UnservedReport { uid, why, .. }) = unserved {
        said.push(format!("It belongs to user {uid}, no program of whom can be served: {why}."));
    } else if !users.contains(&identified.owner_uid) {
        said.push(format!("It belongs to user {}, no program of whom has come.", identified.owner_uid));
    }
    if statfs(&file.path).is_ok_and(|found| MEMORY_FILE_SYSTEMS.contains(&found.f_type)) {
        said.push("Its file system is memory, where a sync costs nothing that could be spared.".to_owned());
    }
    if report.users.iter().any(|user| user.unlisted > 0) {
        said.push("The shared file table may have had no entry left for it, or it was opened where none can be made: by a signal handler or a child of vfork.".to_owned());
    }
    match opened_by.iter().filter(|holder| holder.writes).count() {
        0 => said.push("No program that can be seen from here has it open for writing.".to_owned()),
        _ if opened_by.iter().any(|holder| holder.is_served) => {
            said.push(
                "A program under the library has it open that began before the daemon did: it is served once it is started again."
                    .to_owned(),
            );
        }
        _ => {}
    }
    said
}

fn unserved(holder: &Holder) -> String {
    let Holder { name, pid, .. } = holder;
    format!(
        "{name} (process {pid}) may write it and runs without the library: `byway tdm run -- {name} …` starts it with that."
    )
}
