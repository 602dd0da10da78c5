//! The page cache of this host between a load and the device: where there is one, past it, and without what it holds.

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use byway::uri::{Place, with_options};
use byway::{Address, Backend, BlockPlace, Device};
use rustix::fs::{Advice, fadvise, fdatasync};

/// What of this host's memory is between a load and the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cache {
    /// The page cache, with pages of this file or block device.
    Buffered(PathBuf),
    /// Nothing: this file or block device is opened with O_DIRECT.
    Direct(PathBuf),
    /// Nothing: the device is no file of this host.
    None,
}

impl Cache {
    /// Of a device that was opened by this URI.
    pub fn of(uri: &str, device: &Device) -> Self {
        match uri.parse() {
            Ok(Address::Embedded(uri)) => match uri.place {
                Place::Image(path) => Self::Buffered(path),
                _ => Self::None,
            },
            // Commands that are passed through to an NVMe device meet no cache of the kernel's.
            Ok(Address::Blocks(uri)) if !device.capabilities().admin_commands => match uri.place {
                BlockPlace::Path(path) | BlockPlace::File(path) if uri.options.direct => Self::Direct(path),
                BlockPlace::Path(path) | BlockPlace::File(path) => Self::Buffered(path),
                _ => Self::None,
            },
            // `tcp://HOST` without an NQN does not parse here. TCP devices use no page cache of this host.
            _ => Self::None,
        }
    }

    /// The word for it in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Buffered(_) => "page-cache",
            Self::Direct(_) => "direct",
            Self::None => "none",
        }
    }

    /// Note for readers of the figures, if any.
    pub fn note(&self, is_embedded: bool, was_invalidated: bool) -> Option<String> {
        let before = if was_invalidated { ", which was synced and dropped before" } else { "" };
        match self {
            Self::Buffered(_) if is_embedded => {
                Some(format!("through the page cache{before}: the image is a file of this host"))
            }
            Self::Buffered(_) => Some(format!("through the page cache{before}: --direct goes past it")),
            Self::Direct(_) => Some("past the page cache (O_DIRECT)".into()),
            Self::None => None,
        }
    }

    /// Writes what is dirty in the page cache of the file to its disk, and drops the pages of it: DONTNEED alone leaves dirty pages.
    /// fio comes to the same by `create_fsync` and `invalidate`, of block devices by BLKFLSBUF. Mapped pages stay.
    ///
    /// # Errors
    /// A device that is no file, or what the system says.
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of the user's, of which no crash test counts syncs"
    )]
    pub fn invalidate(&self, uri: &str) -> Result<()> {
        let (Self::Buffered(path) | Self::Direct(path)) = self else {
            bail!("--invalidate drops what the page cache holds of a file, and {uri} is read through none");
        };
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        fdatasync(&file).with_context(|| format!("sync {}", path.display()))?;
        let dropped = fadvise(&file, 0, None, Advice::DontNeed).map_err(std::io::Error::from);
        dropped.with_context(|| format!("drop the page cache of {}", path.display()))
    }
}

/// The URI with O_DIRECT asked for.
///
/// # Errors
/// A device that is not read and written by the kernel's file interface.
pub fn direct(uri: &str) -> Result<String> {
    match uri.parse()? {
        Address::Blocks(blocks) => {
            let is_file = matches!(blocks.place, BlockPlace::Path(_) | BlockPlace::File(_));
            ensure!(is_file, "--direct opens a file or block device with O_DIRECT, and {uri} is none");
            Ok(if blocks.options.direct { uri.to_owned() } else { with_options(uri, "direct=1") })
        }
        Address::Embedded(_) => {
            bail!(
                "--direct is of files and block devices: an embedded device reads its image through the page cache"
            )
        }
        _ => {
            bail!("--direct is of files and block devices: {uri} is reached past the page cache as it is")
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn direct_is_an_option_of_files_alone() {
        assert_eq!(direct("/dev/sda").unwrap(), "/dev/sda?direct=1");
        assert_eq!(direct("/dev/sda?backend=psync").unwrap(), "/dev/sda?backend=psync&direct=1");
        assert_eq!(direct("./x?y").unwrap(), "./x?y?direct=1");
        assert_eq!(direct("file:a?direct=1").unwrap(), "file:a?direct=1");
        for uri in [
            "embedded:a.img",
            "ram:64M",
            "nil:1G",
            "blocks:1M",
            "tcp://a/nqn.2026-01.org.example:x",
            "vfio-user:a",
        ] {
            assert!(direct(uri).unwrap_err().to_string().contains("--direct"), "{uri}");
        }
    }
}
