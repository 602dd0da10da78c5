//! Files mapped by a process (proc(5)).

use std::fs;
use std::io;

/// A mapped range of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    /// Device's major and minor number.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// Path, or former path.
    pub name: String,
}

/// All file mappings of a process, one for each range.
///
/// # Errors
/// The system's error: the process may have ended, or be hidden from this user.
pub fn mapped_files(process: u32) -> io::Result<Vec<MappedFile>> {
    // Names may be any bytes.
    let maps = fs::read(format!("/proc/{process}/maps"))?;
    Ok(String::from_utf8_lossy(&maps).lines().filter_map(parse).collect())
}

/// Parses a line: addresses, rights, offset, device, inode, name.
fn parse(line: &str) -> Option<MappedFile> {
    let mut words = line.splitn(6, ' ').skip(3);
    let (major, minor) = words.next()?.split_once(':')?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode = words.next()?.parse().ok().filter(|inode| *inode != 0)?;
    Some(MappedFile { device, inode, name: words.next().unwrap_or_default().trim_start().to_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn maps_line_is_parsed_whatever_the_file_name() {
        let of = |device, inode, name: &str| Some(MappedFile { device, inode, name: name.to_owned() });
        for (line, file) in [
            (
                "7f1c0000-7f1c1000 rw-s 00000000 fe:00 796375                     /var/a b.table (deleted)",
                of((0xfe, 0), 796_375, "/var/a b.table (deleted)"),
            ),
            ("7f1c0000-7f1c1000 r-xp 00001000 00:1b 12 /lib/x.so", of((0, 0x1b), 12, "/lib/x.so")),
            ("7f1c0000-7f1c1000 r--p 00001000 103:12 9 ", of((0x103, 0x12), 9, "")),
            ("7f1c0000-7f1c1000 rw-p 00000000 00:00 0 ", None),
            ("7ffc0000-7ffc1000 rw-p 00000000 00:00 0                          [stack]", None),
            ("", None),
            ("7f1c0000-7f1c1000 rw-p 00000000 0", None),
        ] {
            assert_eq!(parse(line), file, "{line:?}");
        }
    }

    #[test]
    fn process_maps_its_own_program() {
        let program = std::env::current_exe().unwrap();
        let mapped = mapped_files(std::process::id()).unwrap();
        assert!(mapped.iter().any(|file| file.name == program.to_str().unwrap()));
    }
}
