//! Changes of size, owner, mode and times.

use std::io;
use std::sync::Arc;

use fuser::{FileAttr, FileHandle, INodeNo, TimeOrNow};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timestamps, Uid, chmod, chownat, utimensat};

use crate::attributes::{Found, time_to_set};
use crate::node::Node;
use crate::shared::Shared;

/// A change of attributes.
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) owner: (Option<u32>, Option<u32>),
    pub(crate) size_bytes: Option<u64>,
    pub(crate) times: (Option<TimeOrNow>, Option<TimeOrNow>),
}

impl Change {
    fn attributes(&self, node: &Node) -> io::Result<()> {
        give(node, self.owner)?;
        if let Some(mode) = self.mode {
            chmod(node.path(), Mode::from_raw_mode(mode))?;
        }
        set_times(node, self.times)
    }
}

impl Shared {
    pub(crate) fn change(
        &self,
        number: INodeNo,
        handle: Option<FileHandle>,
        change: &Change,
    ) -> io::Result<FileAttr> {
        let node = self.nodes().get(number)?;
        if let Some(size_bytes) = change.size_bytes {
            self.truncate(&node, handle, size_bytes)?;
        }
        let changed = change.attributes(&node);
        // What failed may have been done in part.
        self.service().attributes_changed(&node);
        changed?;
        Ok(Found::of(&node)?.attributes(number.0))
    }

    /// Changes an attribute of a file.
    pub(crate) fn with_attributes_changed<R>(
        &self,
        number: INodeNo,
        change: impl FnOnce(&Node) -> io::Result<R>,
    ) -> io::Result<R> {
        let node = self.nodes().get(number)?;
        change(&node).inspect(|_| self.service().attributes_changed(&node))
    }

    fn truncate(&self, node: &Arc<Node>, handle: Option<FileHandle>, size_bytes: u64) -> io::Result<()> {
        let open = handle.and_then(|handle| self.files().get(handle).ok()).filter(|open| open.writes);
        match open {
            Some(open) => self.service().truncate(&open, size_bytes),
            None => self.service().truncate(&self.open_node(Arc::clone(node), OFlags::WRONLY)?, size_bytes),
        }
    }
}

fn give(node: &Node, (uid, gid): (Option<u32>, Option<u32>)) -> io::Result<()> {
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    chownat(node, c"", uid.map(Uid::from_raw), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)?;
    node.forget_entry();
    Ok(())
}

fn set_times(node: &Node, (access, modification): (Option<TimeOrNow>, Option<TimeOrNow>)) -> io::Result<()> {
    if access.is_none() && modification.is_none() {
        return Ok(());
    }
    let times = Timestamps { last_access: time_to_set(access), last_modification: time_to_set(modification) };
    Ok(utimensat(node, c"", &times, AtFlags::EMPTY_PATH)?)
}
