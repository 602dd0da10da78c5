//! A process of its own that does some commands and is killed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::bomb::{kill_after, kill_now};
use crate::op::Op;
use crate::open::{Open, is_refusal};

/// How such a process is told.
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
pub enum Told {
    Done,
    Refused,
}

impl Life {
    /// Lives it in another process. Says what was told of its commands, in order.
    pub fn run(&self, test: &str) -> Vec<Told> {
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

    /// Lives the life that this process was told of, if it was.
    pub fn live_if_told() {
        let Ok(life) = std::env::var(LIFE) else { return };
        let life: Self = serde_json::from_str(&life).unwrap();
        let journal = File::create(&life.journal).unwrap();
        let mut device = Open::new(&life.uri);
        kill_after(life.points);
        for (nth, op) in life.ops.iter().enumerate() {
            let told = match device.execute(*op, life.stamp + nth as u64) {
                Ok(()) => 1,
                // What its first parts did is known once it can be read: as if it had been killed.
                Err(error) if is_refusal(&error) && op.has_parts() => break,
                Err(error) if is_refusal(&error) || is_condition(&error) => 2,
                Err(error) => panic!("{op:?}: {error}"),
            };
            journal.write_all_at(&[told], nth as u64).unwrap();
        }
        kill_now();
    }
}

fn is_condition(error: &byway::Error) -> bool {
    matches!(error.kind(), byway::ErrorKind::KeyExists | byway::ErrorKind::KeyNotFound)
}

fn read_journal(path: &Path) -> Vec<Told> {
    let told = |byte: &u8| if *byte == 1 { Told::Done } else { Told::Refused };
    // One that was never made tells of nothing.
    std::fs::read(path).unwrap_or_default().iter().map(told).collect()
}
