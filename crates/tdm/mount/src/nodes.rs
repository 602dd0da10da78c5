//! Nodes known to the kernel, with look-up counts.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fuser::{FileAttr, INodeNo};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::attributes::Found;
use crate::node::Node;

/// All nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    root: Arc<Node>,
    /// Inode of the root below, which is 1 in the mount.
    root_inode: u64,
    device: (u32, u32),
    known: Mutex<HashMap<u64, Known>>,
}

#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    /// Look-ups by the kernel, less those it forgot.
    reported: u64,
}

impl Nodes {
    /// With the mounted folder as root.
    pub(crate) fn new(root: OwnedFd) -> io::Result<Self> {
        let found = Found::of(&root)?;
        let root = Arc::new(Node::new(root));
        Ok(Self { root, root_inode: found.inode(), device: found.device(), known: Mutex::default() })
    }

    pub(crate) fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// A node by its number.
    pub(crate) fn get(&self, number: INodeNo) -> io::Result<Arc<Node>> {
        if number == INodeNo::ROOT {
            return Ok(Arc::clone(&self.root));
        }
        self.known
            .lock()
            .get(&number.0)
            .map(|known| Arc::clone(&known.node))
            .ok_or_else(|| Errno::STALE.into())
    }

    /// Adds a look-up of an opened file. Files of other file systems are not part of the mount.
    pub(crate) fn look_up(&self, fd: OwnedFd) -> io::Result<(Arc<Node>, FileAttr)> {
        let found = Found::of(&fd)?;
        if found.device() != self.device {
            return Err(Errno::XDEV.into());
        }
        let number = self.number(found.inode());
        let mut known = self.known.lock();
        let known =
            known.entry(number).or_insert_with(|| Known { node: Arc::new(Node::new(fd)), reported: 0 });
        known.reported += 1;
        Ok((Arc::clone(&known.node), found.attributes(number)))
    }

    /// Drops `times` look-ups of a node.
    pub(crate) fn forget(&self, number: INodeNo, times: u64) {
        let mut known = self.known.lock();
        if let Some(one) = known.get_mut(&number.0) {
            one.reported = one.reported.saturating_sub(times);
            if one.reported == 0 {
                known.remove(&number.0);
            }
        }
    }

    /// All nodes.
    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        self.known.lock().values().map(|known| Arc::clone(&known.node)).collect()
    }

    /// Number in the mount of an inode below. The root has 1; a file with inode 1 gets the root's.
    pub(crate) fn number(&self, inode: u64) -> u64 {
        match inode {
            inode if inode == self.root_inode => INodeNo::ROOT.0,
            1 => self.root_inode,
            inode => inode,
        }
    }
}
