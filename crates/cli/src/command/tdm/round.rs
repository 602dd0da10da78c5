//! One round of `byway tdm bench`, as a process of its own: writes and syncs, each timed.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};
use byway_console::terminal::{Interrupt, print_json};
use byway_tdm_engine::table::{FileKey, Level};
use serde::{Deserialize, Serialize};

use super::ask::{self, key_words};
use super::library::PRELOAD;
use crate::args::TdmBench;

/// Writes between two looks at whether the file is absorbed.
const WARM_UP: u32 = 10;

/// Most polls of the status: a file that is not absorbed by then is measured as it is, with the reason.
const LOOKS: u32 = 20;

/// What an interruption leaves.
pub const CUT_SHORT: &str = "measurements so far are not printed, and their file is removed";

/// What a round took.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Round {
    /// Each write, in nanoseconds.
    pub write_ns: Vec<u64>,
    /// The sync behind each.
    pub sync_ns: Vec<u64>,
    /// How the file was served at the end, as the daemon says it; PASS where it knows nothing of it.
    pub level: String,
    /// The daemon's reason for that level.
    pub why: String,
}

/// Is one round, and prints its times.
///
/// # Errors
/// A folder where no file can be made, a disk that is full, a sync that fails; Ctrl-C.
pub fn run(args: &TdmBench, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let size = args.sizes.first().copied().unwrap_or(0);
    let data = vec![0x5a; size as usize];
    let made = tempfile::Builder::new().prefix("byway-tdm-bench-").tempfile_in(&args.folder);
    let made = made.with_context(|| format!("make a file in {}", args.folder.display()))?;
    let mut file = made.as_file();
    for _ in 0..LOOKS {
        for _ in 0..WARM_UP {
            write_and_sync(&mut file, &data)?;
        }
        if !is_under_library() || reported(args, file)?.0 != Level::Pass.name() {
            break;
        }
    }
    let mut round = Round::default();
    for _ in 0..args.count {
        interrupt.checked(CUT_SHORT)?;
        let (write_ns, sync_ns) = write_and_sync(&mut file, &data)?;
        round.write_ns.push(write_ns);
        round.sync_ns.push(sync_ns);
    }
    (round.level, round.why) = reported(args, file)?;
    print_json(out, &round)?;
    Ok(())
}

fn is_under_library() -> bool {
    std::env::var_os(PRELOAD).is_some()
}

/// By the C library's calls, as those are what is served.
#[expect(clippy::disallowed_methods, reason = "what is measured; the file is temporary")]
fn write_and_sync(file: &mut &File, data: &[u8]) -> Result<(u64, u64)> {
    let began = Instant::now();
    file.write_all(data)?;
    let wrote = Instant::now();
    file.sync_data()?;
    let synced = Instant::now();
    Ok(((wrote - began).as_nanos() as u64, (synced - wrote).as_nanos() as u64))
}

/// The level that the daemon has for a file, and why.
fn reported(args: &TdmBench, file: &File) -> Result<(String, String)> {
    let report = ask::report(&ask::connect(&args.socket.path()?)?)?;
    let key = FileKey::of(file)?.map(|identified| key_words(identified.key));
    let mut files = report.users.into_iter().flat_map(|user| user.files);
    let file = files.find(|file| Some(file.key) == key);
    let unseen = || (Level::Pass.name().to_owned(), "no library was loaded that would see it".to_owned());
    Ok(file.map_or_else(unseen, |file| (file.level, file.why)))
}
