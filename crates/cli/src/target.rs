//! Devices as the command line names them: by a URI, or by a path.

use std::convert::Infallible;
use std::fmt;
use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::str::FromStr;

use byway::uri::{Place, of_file_text, scheme_of};
use byway::{Address, BlockPlace, PciePlace};

/// A device as it was named, and the URI that it is taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    given: String,
    uri: String,
}

impl Target {
    /// The URI.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The name as it was given.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Where bytes of a copy come from or go to: as a device, but a path stays the file, which may be one to be made, and `-` is a
    /// standard stream.
    pub fn of_copy(text: &str) -> Result<Self, Infallible> {
        let uri = if text == "-" || scheme_of(text).is_some() { text.to_owned() } else { of_file_text(text) };
        Ok(Self { given: text.to_owned(), uri })
    }

    /// What kind of device the URI leads to; `None` where it is none.
    pub fn kind(&self) -> Option<&'static str> {
        kind_of(&self.uri)
    }
}

impl FromStr for Target {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self { given: text.to_owned(), uri: byway::uri_of(text) })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri)
    }
}

/// What kind of device a URI leads to; `None` where it is none.
pub fn kind_of(uri: &str) -> Option<&'static str> {
    Some(match uri.parse().ok()? {
        Address::Embedded(uri) => match uri.place {
            Place::Image(_) => "a Byway device in an image file",
            Place::Ram(_) => "a Byway device in memory",
            _ => "a Byway device that keeps no data",
        },
        Address::Pcie(uri) => match uri.place {
            PciePlace::VfioUser(_) => "a PCIe device that another process serves",
            _ => "a PCIe device that vfio-pci has",
        },
        Address::Tcp(_) => "an NVMe/TCP controller",
        Address::Blocks(uri) => match &uri.place {
            BlockPlace::Path(path) | BlockPlace::File(path) => kind_of_path(path),
            BlockPlace::Memory(_) => "blocks in memory",
            _ => "blocks that keep no data",
        },
        _ => return None,
    })
}

fn kind_of_path(path: &Path) -> &'static str {
    let kind = std::fs::metadata(path).map(|about| about.file_type());
    match kind {
        Err(_) => "a file that is not there",
        Ok(kind) if FileType::is_block_device(&kind) => "a block device of the kernel",
        Ok(kind) if FileType::is_char_device(&kind) && is_nvme(path) => "an NVMe node of the kernel",
        Ok(kind) if FileType::is_char_device(&kind) => "a character device of the kernel",
        Ok(_) => "a file, whose bytes are the blocks",
    }
}

/// Whether a device node is called as the kernel calls those of NVMe: nvme0, ng0n1.
fn is_nvme(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("nvme") || name.starts_with("ng")
}
