//! Extended attributes, and the one with the path below.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use byway_tdm_engine::table::LOWER_ATTRIBUTE;
use fuser::{FileType, ReplyXattr};
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::attributes::Found;
use crate::node::Node;

/// Linux's limit of values and lists.
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

/// Replies with a value, or with its length if the program asks for it.
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

/// Attributes of symbolic links are not reachable: the path would be followed.
fn path_of(node: &Node) -> io::Result<PathBuf> {
    match Found::of(node)?.kind() {
        FileType::Symlink => Err(Errno::OPNOTSUPP.into()),
        _ => Ok(node.path()),
    }
}
