//! Files with holes: where their bytes are, and copies that keep the holes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};

/// Stretches of a file that are not holes.
///
/// # Errors
/// What the system says.
pub fn stretches(file: &File) -> io::Result<Vec<Range<u64>>> {
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole is left.
            Err(rustix::io::Errno::NXIO) => return Ok(found),
            Err(error) => return Err(error.into()),
        };
        at = seek(file, SeekFrom::Hole(start))?;
        found.push(start..at);
    }
}

/// Copies a file, holes as holes. One that is mapped and open elsewhere is copied as it is at this moment.
///
/// # Errors
/// What the system says.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let source = File::open(from)?;
    let target = File::create(to)?;
    target.set_len(source.metadata()?.len())?;
    let mut bytes = Vec::new();
    for stretch in stretches(&source)? {
        bytes.resize((stretch.end - stretch.start) as usize, 0);
        source.read_exact_at(&mut bytes, stretch.start)?;
        target.write_all_at(&bytes, stretch.start)?;
    }
    Ok(())
}
