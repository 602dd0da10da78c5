//! Which backend serves a file, a block device or an NVMe device, and why that one.

use std::path::Path;
use std::sync::Arc;

use byway_backends::{Nil, Ram, RamDisk};
use byway_core::{Error, ErrorKind, Result};

use crate::device::chosen::Chosen;
use crate::device::image::is_image;
#[cfg(feature = "kernel")]
use crate::device::kernel::reach_path;
use crate::device::kind::DeviceKind;
use crate::uri::{BlockOptions, BlockPlace, BlockUri, of_image};

/// Opens blocks by the backend that is asked for, or the fastest that can serve them.
pub(crate) fn reach(uri: &BlockUri) -> Result<(DeviceKind, Chosen)> {
    let path = match &uri.place {
        BlockPlace::Nil(size_bytes) => return reach_nil(*size_bytes, &uri.options),
        BlockPlace::Memory(size_bytes) => return reach_memory(*size_bytes, &uri.options),
        BlockPlace::Path(path) => {
            refuse_image(path)?;
            path
        }
        BlockPlace::File(path) => path,
    };
    reach_path(path, &uri.options)
}

#[cfg(not(feature = "kernel"))]
fn reach_path(_: &Path, _: &BlockOptions) -> Result<(DeviceKind, Chosen)> {
    Err(crate::uri::left_out("kernel"))
}

fn reach_nil(size_bytes: u64, options: &BlockOptions) -> Result<(DeviceKind, Chosen)> {
    refuse_others("null-backend:SIZE", Nil::NAME, options)?;
    let why = "there is no device to serve".to_owned();
    let chosen = Chosen { backend: Nil::NAME, why, passed_over: Vec::new() };
    Ok((DeviceKind::Nil(Nil::new(size_bytes)?), chosen))
}

fn reach_memory(size_bytes: u64, options: &BlockOptions) -> Result<(DeviceKind, Chosen)> {
    refuse_others("ramdisk:SIZE", Ram::NAME, options)?;
    let why = "the blocks are in this process's memory".to_owned();
    let chosen = Chosen { backend: Ram::NAME, why, passed_over: Vec::new() };
    Ok((DeviceKind::Ram(Ram::new(Arc::new(RamDisk::new(size_bytes)?))), chosen))
}

/// Refuses another backend, and options of others, for what one alone can serve.
fn refuse_others(uri: &str, name: &str, options: &BlockOptions) -> Result<()> {
    // The name that the null backend had before its first release.
    let is_asked = |asked: &str| asked == name || (name == Nil::NAME && asked == "nil");
    if let Some(other) = options.backend.as_deref().filter(|asked| !is_asked(asked)) {
        let said = format!("{uri} is served by {name}, not by {other:?}");
        return Err(Error::host(ErrorKind::InvalidArgument, said));
    }
    match options.of_one_backend().first() {
        Some(unread) => {
            let said = format!("option {unread} means nothing to {name}");
            Err(Error::host(ErrorKind::InvalidArgument, said))
        }
        None => Ok(()),
    }
}

/// Refuses a path that stands alone and leads to an image: its blocks are not what is meant, and writing them destroys
/// the device in it.
fn refuse_image(path: &Path) -> Result<()> {
    if !is_image(path) {
        return Ok(());
    }
    let uri = of_image(path);
    let said = format!(
        "{} holds a Byway device: {uri} opens it, {} the bytes of the image",
        path.display(),
        uri.replacen("embedded:", "file:", 1)
    );
    Err(Error::host(ErrorKind::InvalidArgument, said))
}
