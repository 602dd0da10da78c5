//! A process of its own that does some commands and is killed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::op::Op;
use crate::open::{Open, is_refusal};
use crate::power_cut::{kill_after, kill_now};

/// The environment variable with such a process's parameters.
const LIFE: &str = "BYWAY_TEST_LIFE";

/// What it does.
#[derive(Debug, Serialize, Deserialize)]
pub struct Life {
    pub uri: String,
    pub journal: PathBuf,
    pub ops: Vec<Op>,
    /// The number of the first of them.
    pub stamp: u64,
    /// The point at which it is killed; at the end if it comes before.
    pub points: u32,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    Done,
    Refused,
}

impl Life {
    /// Runs it in another process; the reported ends of its commands, in order.
    pub fn run(&self, test: &str) -> Vec<Reported> {
        let _ = std::fs::remove_file(&self.journal);
        let ended = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(LIFE, serde_json::to_string(self).unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.signal(), Some(9), "the process ended by itself: {said}");
        read_journal(&self.journal)
    }

    /// Runs the commands that this process's environment asks for, if any.
    pub fn run_if_asked() {
        let Ok(life) = std::env::var(LIFE) else { return };
        let life: Self = serde_json::from_str(&life).unwrap();
        let journal = File::create(&life.journal).unwrap();
        let mut device = Open::new(&life.uri);
        kill_after(life.points);
        for (nth, op) in life.ops.iter().enumerate() {
            let byte = match device.execute(*op, life.stamp + nth as u64) {
                Ok(()) => 1,
                // What its first parts did is known once it can be read: as if it had been killed.
                Err(error) if is_refusal(&error) && op.has_parts() => break,
                Err(error) if is_refusal(&error) || is_condition(&error) => 2,
                Err(error) => panic!("{op:?}: {error}"),
            };
            journal.write_all_at(&[byte], nth as u64).unwrap();
        }
        kill_now();
    }
}

fn is_condition(error: &byway::Error) -> bool {
    matches!(error.kind(), byway::ErrorKind::KeyExists | byway::ErrorKind::KeyNotFound)
}

fn read_journal(path: &Path) -> Vec<Reported> {
    let reported = |byte: &u8| if *byte == 1 { Reported::Done } else { Reported::Refused };
    // A missing journal has no commands.
    std::fs::read(path).unwrap_or_default().iter().map(reported).collect()
}
