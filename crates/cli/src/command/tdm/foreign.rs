//! Which processes have which files open, as far as we may see.

use std::collections::HashMap;
use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A file by the numbers that descriptors tell: device and inode, as keys have them.
pub type Number = (u64, u64);

/// A process that has a file open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// What it is called.
    pub name: String,
    /// It may write the file.
    pub writes: bool,
    /// Its calls are seen: the library is loaded.
    pub is_served: bool,
}

/// Every process that has a file open.
pub fn holders(file: Number) -> Vec<Holder> {
    let mut holders = Vec::new();
    for (pid, process) in processes() {
        let open = descriptors(&process).filter(|descriptor| number_of(&descriptor.path()) == Some(file));
        let modes: Vec<bool> = open.map(|descriptor| may_write(&process, &descriptor)).collect();
        if !modes.is_empty() {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default().trim_end().to_owned();
            holders.push(Holder { pid, name, writes: modes.contains(&true), is_served: is_served(&process) });
        }
    }
    holders.sort_by_key(|holder| holder.pid);
    holders
}

/// Where files are that processes have open.
pub fn names(wanted: &[Number]) -> HashMap<Number, PathBuf> {
    let mut names = HashMap::new();
    for (_, process) in processes() {
        for descriptor in descriptors(&process) {
            let number = number_of(&descriptor.path()).filter(|number| wanted.contains(number));
            if let Some((number, name)) = number.zip(fs::read_link(descriptor.path()).ok()) {
                names.insert(number, name);
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

fn number_of(descriptor: &Path) -> Option<Number> {
    let file = fs::metadata(descriptor).ok().filter(fs::Metadata::is_file)?;
    let device = file.dev();
    let [major, minor] = [rustix::fs::major(device), rustix::fs::minor(device)].map(u64::from);
    Some((major << 32 | minor, file.ino()))
}

/// By the flags of its open file (proc(5)), whose lowest two bits are zero where it is open to be read.
fn may_write(process: &Path, descriptor: &DirEntry) -> bool {
    let about = fs::read_to_string(process.join("fdinfo").join(descriptor.file_name())).unwrap_or_default();
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
}

fn is_served(process: &Path) -> bool {
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    maps.lines().any(|line| line.ends_with("/libbyway_tdm.so"))
}
