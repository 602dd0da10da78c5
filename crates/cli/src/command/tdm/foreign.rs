//! Processes that have a file open, as far as they can be read.

use std::collections::HashMap;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use byway_tdm_daemon::mapped_files;
use byway_tdm_engine::table::FileKey;
use rustix::fs::{Mode, OFlags, open};
use serde::Serialize;

use super::ask::key_words;

/// A process that has a file open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Whether it may write the file.
    pub writes: bool,
    /// Whether its calls are served: it has the library, or is a mount.
    pub is_served: bool,
}

/// All processes that have a file open, except the daemon.
pub fn holders(file: FileKey, daemon: i32) -> Vec<Holder> {
    let mut holders = Vec::new();
    for (pid, process) in processes().filter(|(pid, _)| i64::from(*pid) != i64::from(daemon)) {
        let open = descriptors(&process).filter(|descriptor| key_of(&descriptor.path()) == Some(file));
        let modes: Vec<bool> = open.map(|descriptor| may_write(&process, &descriptor)).collect();
        if !modes.is_empty() {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default().trim_end().to_owned();
            holders.push(Holder {
                pid,
                name,
                writes: modes.contains(&true),
                is_served: is_served(pid, &process),
            });
        }
    }
    holders.sort_by_key(|holder| holder.pid);
    holders
}

/// Paths of open files, by key; none for unlinked ones.
pub fn names(wanted: &[[u64; 3]]) -> HashMap<[u64; 3], PathBuf> {
    let mut names = HashMap::new();
    for (_, process) in processes() {
        for descriptor in descriptors(&process) {
            let key = key_of(&descriptor.path()).map(key_words).filter(|key| wanted.contains(key));
            if let Some((key, name)) = key.zip(name_of(&descriptor.path())) {
                names.insert(key, name);
            }
        }
    }
    names
}

fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    let numbered = |entry: DirEntry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()));
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(numbered)
}

fn descriptors(process: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(process.join("fd")).into_iter().flatten().flatten()
}

/// Key of an open regular file. O_PATH has no effect on it.
fn key_of(descriptor: &Path) -> Option<FileKey> {
    fs::metadata(descriptor).ok().filter(fs::Metadata::is_file)?;
    let file = open(descriptor, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    Some(FileKey::of(file).ok()??.key)
}

fn name_of(descriptor: &Path) -> Option<PathBuf> {
    let name = fs::read_link(descriptor).ok()?;
    name.exists().then_some(name)
}

/// Whether an open file is writable, by its flags in proc(5).
fn may_write(process: &Path, descriptor: &DirEntry) -> bool {
    let about = fs::read_to_string(process.join("fdinfo").join(descriptor.file_name())).unwrap_or_default();
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
}

fn is_served(pid: u32, process: &Path) -> bool {
    let mapped = mapped_files(pid).unwrap_or_default();
    let maps = |end: &str| mapped.iter().any(|file| file.name.ends_with(end));
    maps("/libbyway_tdm.so") || (maps(".board") && answers_fuse(process))
}

fn answers_fuse(process: &Path) -> bool {
    descriptors(process).any(|open| fs::read_link(open.path()).is_ok_and(|is| is == Path::new("/dev/fuse")))
}
