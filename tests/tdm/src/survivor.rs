//! What would be left of a file if power went now.
//!
//! The disk has at least what a sync below had before it when it last succeeded, as the witness kept it, and at most what the page
//! cache has. To both, a recovery writes the records of the file's log.

use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use byway_tdm_engine::client::Session;
use byway_tdm_engine::log::{Entry as Record, Ring, RingError};
use byway_tdm_engine::table::{Entry, FileKey, Level, lower_of};
use rustix::fs::{Mode, OFlags, open};

use crate::place::Place;

/// Panics unless every byte of a file would be there. The file is not written meanwhile, and its last sync was acknowledged.
pub fn assert_survives(place: &Place, session: &Session, path: &Path) {
    let live = std::fs::read(path).unwrap();
    let lower = lower_of(path).unwrap_or_else(|| path.to_owned());
    let Some(entry) = session.file_table().find(key_of(&lower)) else {
        panic!("{} is not in the shared file table", path.display())
    };
    // Nothing is retired meanwhile.
    let _guard = entry.lock().unwrap();
    let kept = std::fs::read(place.kept(&lower)).unwrap_or_default();
    for (disk, what) in [(&kept, "as it was last synced below"), (&live, "as the page cache has it")] {
        let left = replayed(session, entry, disk);
        let at = left.iter().zip(&live).position(|(left, live)| left != live);
        let is_whole = left.len() == live.len() && at.is_none();
        let (level, kept) = (entry.level_state(), entry.cursor().kept_bytes());
        assert!(
            is_whole,
            "{}: of {what}, {} bytes of {} are left, and other ones from {at:?} on; {level:?}, {kept} bytes of records",
            path.display(),
            left.len(),
            live.len(),
        );
    }
}

fn key_of(path: &Path) -> FileKey {
    let file = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    FileKey::of(file).unwrap().unwrap().key
}

/// The bytes of a file on a disk once the records of its log are written to them.
fn replayed(session: &Session, entry: Entry<'_>, disk: &[u8]) -> Vec<u8> {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(disk, 0).unwrap();
    if entry.level_state().level != Level::Pass {
        let ring = Ring::new(session.memory(), entry.ring()).unwrap();
        ring.replay(|record| apply(&file, record).map_err(|e| Failed(e.to_string()))).unwrap();
    }
    all_of(&file)
}

fn apply(file: &File, record: Record<'_>) -> io::Result<()> {
    match record {
        Record::Write { at, data } => file.write_all_at(data, at),
        Record::Truncate { size_bytes } => file.set_len(size_bytes),
    }
}

fn all_of(file: &File) -> Vec<u8> {
    let mut all = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut all, 0).unwrap();
    all
}

/// Why a log cannot be replayed.
struct Failed(String);

impl Debug for Failed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<RingError> for Failed {
    fn from(error: RingError) -> Self {
        Self(error.to_string())
    }
}
