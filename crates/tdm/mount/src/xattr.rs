//! Extended attributes, and the one that says where a file is below.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use byway_tdm_engine::table::LOWER_ATTRIBUTE;
use fuser::{FileType, ReplyXattr};
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::attributes::Found;
use crate::node::Node;

/// The longest value and the longest list that Linux has.
const MAX_BYTES: usize = 64 << 10;

pub(crate) fn get(node: &Node, name: &OsStr) -> io::Result<Vec<u8>> {
    let path = path_of(node)?;
    if name == OsStr::new(LOWER_ATTRIBUTE) {
        return Ok(node.path_from_outside().into_bytes());
    }
    read(|value| getxattr(&path, name, value))
}

pub(crate) fn list(node: &Node) -> io::Result<Vec<u8>> {
    let path = path_of(node)?;
    read(|names| listxattr(&path, names))
}

pub(crate) fn set(node: &Node, name: &OsStr, value: &[u8], flags: i32) -> io::Result<()> {
    let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
    Ok(setxattr(path_of(node)?, name, value, flags)?)
}

pub(crate) fn remove(node: &Node, name: &OsStr) -> io::Result<()> {
    Ok(removexattr(path_of(node)?, name)?)
}

/// Gives a value, or its length to who has no room yet.
pub(crate) fn reply(value: io::Result<Vec<u8>>, room: u32, reply: ReplyXattr) {
    match value {
        Err(error) => reply.error(error.into()),
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > room as usize => reply.error(fuser::Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

fn read(from: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) -> io::Result<Vec<u8>> {
    let mut value = vec![0; MAX_BYTES];
    let len = from(&mut value)?;
    value.truncate(len);
    Ok(value)
}

/// Those of links are not reached: the name that leads to a node would be followed.
fn path_of(node: &Node) -> io::Result<PathBuf> {
    match Found::of(node)?.kind() {
        FileType::Symlink => Err(Errno::OPNOTSUPP.into()),
        _ => Ok(node.path()),
    }
}
