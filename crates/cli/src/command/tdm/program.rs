//! A program before it is started: where it is, and whether a library can serve it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes that identify a file: an ELF header and its program headers, or a script's first line.
const HEAD_BYTES: u64 = 4096;

/// Scripts whose interpreters are scripts: the kernel follows no more.
const SCRIPTS_MAX: usize = 4;

/// The program header that names a dynamic loader (elf(5)).
const PT_INTERP: u32 = 3;

/// Loaders of other C libraries, to which symbols are missing that this one's libraries need: the program would not begin.
const OTHER_LOADERS: [&str; 3] = ["ld-musl-", "ld-uClibc", "linker"];

/// The longest name of a loader (PATH_MAX).
const LOADER_MAX_BYTES: u64 = 4096;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const GROUP_RUNS: u32 = 0o010;

/// Where a name without a slash leads to, as a shell looks for it.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let folders = std::env::var_os("PATH")?;
    let runs =
        |path: &PathBuf| path.metadata().is_ok_and(|is| is.is_file() && is.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(runs)
}

/// Why a library beside `library` cannot serve a program; nothing where it can, or it is unknown.
pub fn unserved(program: &Path, library: &Path) -> Option<String> {
    let mut path = program.to_owned();
    for _ in 0..SCRIPTS_MAX {
        match interpreter(&head(&path)?) {
            Some(interpreter) => path = interpreter,
            None => break,
        }
    }
    let name = path.display();
    if runs_as_another(&path) {
        return Some(format!("{name} runs as another user or group, so the loader takes no library for it"));
    }
    let (program, library) = (Elf::read(&path)?, Elf::read(library));
    let Some(loader) = &program.loader else {
        return Some(format!("{name} is statically linked, so no library can be loaded into it"));
    };
    if is_other_loader(loader) {
        return Some(format!(
            "{name} is linked with another C library than this one's ({})",
            loader.display()
        ));
    }
    let is_other = library.is_some_and(|library| library.kind != program.kind);
    is_other.then(|| format!("{name} is for another kind of processor than the library"))
}

fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(head)
}

/// What runs a script: the first word behind `#!`.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

/// Whether the kernel changes its user, group or capabilities, for which the loader leaves out what the environment names.
fn runs_as_another(path: &Path) -> bool {
    let Ok(is) = path.metadata() else { return false };
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let other_user = is.mode() & SETUID != 0 && is.uid() != user;
    let other_group = is.mode() & (SETGID | GROUP_RUNS) == SETGID | GROUP_RUNS && is.gid() != group;
    let mut no_bytes: [u8; 0] = [];
    let is_capable =
        rustix::fs::getxattr(path, "security.capability", &mut no_bytes[..]).is_ok_and(|len| len > 0);
    other_user || other_group || (is_capable && user != 0)
}

fn is_other_loader(loader: &Path) -> bool {
    let name = loader.file_name().unwrap_or_default().as_bytes();
    OTHER_LOADERS.iter().any(|other| name.starts_with(other.as_bytes()))
}

/// What is asked of a program's file.
struct Elf {
    /// Class, order of bytes and machine.
    kind: (u8, u8, u16),
    /// What loads its libraries; nothing of one that is linked statically.
    loader: Option<PathBuf>,
}

impl Elf {
    /// Reads it; nothing of what is no ELF file.
    fn read(path: &Path) -> Option<Self> {
        let head = head(path)?;
        if !head.starts_with(b"\x7fELF") {
            return None;
        }
        let (class, order) = (*head.get(4)?, *head.get(5)?);
        let number = Numbers { head: &head, is_little: order == 1 };
        let is_wide = class == 2;
        let (headers_at, sizes_at) = if is_wide { (number.at(32, 8)?, 54) } else { (number.at(28, 4)?, 42) };
        let (size, count) = (number.at(sizes_at, 2)?, number.at(sizes_at + 2, 2)?);
        let file = File::open(path).ok()?;
        let mut loader = None;
        for index in 0..count {
            let mut header = vec![0; usize::try_from(size).ok()?];
            file.read_exact_at(&mut header, headers_at.checked_add(index * size)?).ok()?;
            let header = Numbers { head: &header, is_little: order == 1 };
            if header.at(0, 4)? == u64::from(PT_INTERP) {
                loader = Some(loader_of(&file, header, is_wide)?);
            }
        }
        Some(Self { kind: (class, order, u16::try_from(number.at(18, 2)?).ok()?), loader })
    }
}

/// The name that a program header is about.
fn loader_of(file: &File, header: Numbers<'_>, is_wide: bool) -> Option<PathBuf> {
    let (at, len) =
        if is_wide { (header.at(8, 8)?, header.at(32, 8)?) } else { (header.at(4, 4)?, header.at(16, 4)?) };
    let mut name = vec![0; usize::try_from(len.min(LOADER_MAX_BYTES)).ok()?];
    file.read_exact_at(&mut name, at).ok()?;
    let name = name.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// Numbers of a header, in its file's order of bytes.
#[derive(Clone, Copy)]
struct Numbers<'h> {
    head: &'h [u8],
    is_little: bool,
}

impl Numbers<'_> {
    fn at(&self, at: usize, len: usize) -> Option<u64> {
        let bytes = self.head.get(at..at + len)?.iter();
        let gather = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if self.is_little { bytes.rev().fold(0, gather) } else { bytes.fold(0, gather) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A 64-bit little-endian program of x86-64 with one program header of a type, about a name.
    fn elf(header: u32) -> Vec<u8> {
        elf_loaded_by(header, "/lib64/ld-linux-x86-64.so.2")
    }

    fn elf_loaded_by(header: u32, loader: &str) -> Vec<u8> {
        let mut file = vec![0; 120];
        file[72] = 120;
        file[96] = loader.len() as u8 + 1;
        file.extend([loader.as_bytes(), &[0]].concat());
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[18] = 62;
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64..68].copy_from_slice(&header.to_le_bytes());
        file
    }

    #[test]
    fn a_program_without_a_loader_is_said_to_be_static() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let (fixed, loaded, library) =
            (place("static", &elf(1)), place("loaded", &elf(3)), place("library", &elf(2)));
        assert!(unserved(&fixed, &library).unwrap().contains("statically linked"));
        assert_eq!(unserved(&loaded, &library), None);
        let mut other = elf(3);
        other[18] = 183;
        assert!(unserved(&place("arm", &other), &library).unwrap().contains("another kind of processor"));
        let script = place("script", format!("#! {} -x\n", fixed.display()).as_bytes());
        assert!(unserved(&script, &library).unwrap().contains("static is statically linked"));
    }

    #[test]
    fn a_program_that_is_linked_with_another_c_library_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let [program, library] = ["musl", "library"].map(|name| folder.path().join(name));
        std::fs::write(&program, elf_loaded_by(3, "/lib/ld-musl-x86_64.so.1")).unwrap();
        std::fs::write(&library, elf(2)).unwrap();
        assert!(
            unserved(&program, &library).unwrap().contains("another C library than this one's (/lib/ld-musl")
        );
    }

    #[test]
    fn truncated_elf_and_other_files_give_no_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for len in 0..64 {
            std::fs::write(&path, &elf(1)[..len]).unwrap();
            assert_eq!(unserved(&path, &path), None, "{len}");
        }
        std::fs::write(&path, "#!").unwrap();
        assert_eq!(unserved(&path, &path), None);
        assert_eq!(unserved(&folder.path().join("nothing"), &path), None);
    }
}
