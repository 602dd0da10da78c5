//! Opening a damaged image to check it: what is kept twice or off by one bit is set right, the rest is named.
//!
//! A repair maps the image shared, so that each step is one store or one small write into it, and any order of them
//! leaves an image that can be checked again. A check maps it privately, so that the same steps change nothing.

use std::path::Path;
use std::sync::Arc;

use byway_sys::ImageFile;

use crate::durability::Durability;
use crate::error::{FlashError, ImageError};
use crate::finding::{Finding, Remedy};
use crate::flash::Flash;
use crate::image::namespaces::ExtentId;
use crate::image::superblock::{Keeps, Superblock};
use crate::media::Reads;
use crate::options::{OpenOptions, RunOptions};

impl Flash {
    /// Opens an image to be checked, whatever of its tables is damaged, and says what that is. Without `repair`, and where that
    /// [cannot help](Finding::is_beyond_repair), it is opened read-only and set right in private memory alone. With it, it counts as
    /// closed until [`Flash::repair`]. What `run` says of syncs and of reads counts for nothing: a repair orders what it stores, as a
    /// device does that promises nothing before a sync, so that one that loses power on its way has lost nothing else.
    ///
    /// # Errors
    /// [`ImageError`]: the file is no image, in use, of another version, truncated, or neither superblock can be read.
    pub fn open_to_check(
        path: &Path,
        repair: bool,
        run: RunOptions,
    ) -> Result<(Self, Vec<Finding>), FlashError> {
        let opened = if repair { ImageFile::open(path) } else { ImageFile::open_read_only(path) };
        let file = Arc::new(opened.map_err(ImageError::from)?.watched_by(run.events.clone()));
        let (superblock, finding) = Superblock::read_either(&file)?;
        let mut findings = Vec::from_iter(finding);
        let durability = if repair { Durability::Volatile } else { Durability::Process };
        let with = RunOptions { reads: Reads::Checked, durability, ..run.clone() };
        let options = OpenOptions { read_only: !repair, timing: false, run: with, ..OpenOptions::default() };
        if superblock.keeps != Keeps::File {
            return Ok((Self::open_described(file, superblock, options, path)?, findings));
        }
        let mut flash = Self::open_file(file, superblock, options, path, Some(&mut findings))?;
        if repair && findings.iter().any(Finding::is_beyond_repair) {
            // Nothing is repaired while a namespace record is unreadable: the image is opened read-only.
            drop(flash);
            return Self::open_to_check(path, false, run);
        }
        flash.is_checked = true;
        Ok((flash, findings))
    }

    /// Whether a file is an image, of this version or another, sound or not.
    ///
    /// # Errors
    /// [`ImageError::NotAnImage`], what the file system says.
    pub fn recognise(file: &ImageFile) -> Result<(), FlashError> {
        match Superblock::read_either(file) {
            Ok(_) | Err(ImageError::Damaged { .. } | ImageError::OtherVersion { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What recovery relies on, set right before it begins.
    pub(crate) fn repair_before_recovery(&mut self, findings: &mut Vec<Finding>) {
        findings.extend(self.ftl.state.repair());
        let presence = self.ftl.map.repair_presence();
        if presence > 0 {
            let what = format!("{presence} segments were not marked as in use");
            findings.push(Finding::new("map", "", what, Remedy::Restore));
        }
        let unfit: Vec<(u32, ExtentId)> = self
            .namespaces
            .iter()
            .filter(|entry| !self.fits(entry))
            .map(|entry| (entry.record.nsid, entry.record.extent))
            .collect();
        for (nsid, extent) in unfit {
            let what = format!("the extent of namespace {nsid} is not inside the map");
            findings.push(Finding::new("namespace record", format!("slot {}", extent.0), what, Remedy::None));
            self.namespaces.leave_out(extent);
        }
        self.note_promises();
    }
}
