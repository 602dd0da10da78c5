//! A place for transparent DAX mappings.
#![allow(clippy::unwrap_used, dead_code)]

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use byway_tdm_engine::client::{Extent, Listed, OpenFile, Session, Wrote};
use byway_tdm_engine::table::{EntryIndex, FileKey, Level};
use tempfile::TempDir;

use super::said;
use super::server::Server;

/// A folder on a file system that syncs, for a daemon and the files that it serves.
pub struct Place(pub TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// What `byway tdm` is given so that it uses this place alone.
    pub fn region(&self) -> [String; 5] {
        let region = format!("emu:{}?size=32M", self.text("region"));
        let file_tables = self.0.path().to_str().unwrap().to_owned();
        ["--region".into(), region, "--file-tables".into(), file_tables, "--emulate-persistence".into()]
    }

    pub fn serve(&self, more: &[&str]) -> (Server, Vec<String>) {
        let (region, socket) = (self.region(), self.text("socket"));
        let mut args = vec!["tdm", "serve", "--socket", &socket];
        args.extend(region.iter().map(String::as_str));
        args.extend(more);
        Server::begin_with(&args)
    }

    /// A program's, once the daemon answers it: one that is given no processor for a second counts as standing still.
    pub fn session(&self) -> Session {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            match Session::begin(&self.path("socket")) {
                Ok(session) => return session,
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
        }
    }

    pub fn file(&self, name: &str) -> File {
        File::options().create(true).truncate(false).write(true).open(self.path(name)).unwrap()
    }

    /// What `byway tdm COMMAND` says of this daemon.
    pub fn tdm(&self, args: &[&str]) -> String {
        said(&[&["tdm"], args, &["--socket", &self.text("socket")]].concat())
    }
}

/// As a program under the library opens a file.
pub fn open_file<'s>(session: &'s Session, file: &'s File) -> OpenFile<'s> {
    let key = FileKey::of(file).unwrap().unwrap().key;
    let entry: EntryIndex = session.file_table().find_or_make(key).unwrap().unwrap().index();
    session.file(file.as_fd(), Listed { entry, appends: false, writes_only: false }).unwrap()
}

pub fn write_and_sync(opened: &OpenFile<'_>, file: &File, at: u64, data: &[u8]) {
    let real = || file.write_at(data, at).unwrap() as isize;
    assert_eq!(opened.write(real, |_| Wrote::At(at), || data), data.len() as isize);
    sync(opened, file);
}

#[expect(clippy::disallowed_methods, reason = "what a program does")]
pub fn sync(opened: &OpenFile<'_>, file: &File) {
    opened.sync(Extent::Data, || file.sync_data().map_err(|e| e.raw_os_error().unwrap())).unwrap();
}

/// Synced as often as it takes until syncs are spared, then ten times more. Where the disk is slow, the syncs of writes are no burst, and
/// those with nothing to keep are.
pub fn absorbed(opened: &OpenFile<'_>, file: &File) {
    (0..3).for_each(|_| write_and_sync(opened, file, 0, b"x"));
    while opened.entry().level() != Level::Absorb {
        sync(opened, file);
    }
    for at in 0..10 {
        write_and_sync(opened, file, 10 * at, b"0123456789");
    }
}
