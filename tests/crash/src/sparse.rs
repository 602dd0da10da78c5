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
    for stretch in stretches(&source)? {
        target.write_all_at(&read(&source, &stretch)?, stretch.start)?;
    }
    Ok(())
}

/// A copy that is made again and again of a file that changes little in between.
#[derive(Debug, Default)]
pub struct Mirror {
    /// What the copy holds.
    held: Vec<(Range<u64>, Vec<u8>)>,
}

impl Mirror {
    /// Brings `to` up to what `from` holds; true if anything was different. Nothing else may write `to`.
    ///
    /// # Errors
    /// What the system says.
    pub fn update(&mut self, from: &Path, to: &Path) -> io::Result<bool> {
        const PAGE_BYTES: usize = 4096;
        let source = File::open(from)?;
        let stretches = stretches(&source)?;
        if !self.held.iter().map(|(stretch, _)| stretch).eq(&stretches) {
            copy(from, to)?;
            self.held = stretches
                .into_iter()
                .map(|stretch| Ok((stretch.clone(), read(&source, &stretch)?)))
                .collect::<io::Result<_>>()?;
            return Ok(true);
        }
        let target = File::options().write(true).open(to)?;
        let mut changed = false;
        for (stretch, held) in &mut self.held {
            let now = read(&source, stretch)?;
            for (i, page) in now.chunks(PAGE_BYTES).enumerate() {
                let at = i * PAGE_BYTES;
                if held[at..at + page.len()] != *page {
                    target.write_all_at(page, stretch.start + at as u64)?;
                    changed = true;
                }
            }
            *held = now;
        }
        Ok(changed)
    }
}

fn read(file: &File, stretch: &Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (stretch.end - stretch.start) as usize];
    file.read_exact_at(&mut bytes, stretch.start)?;
    Ok(bytes)
}
