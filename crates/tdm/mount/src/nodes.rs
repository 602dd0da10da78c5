//! The files and folders that the kernel knows, and how often it was told of each.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{FileAttr, INodeNo};
use rustix::io::Errno;

use crate::attributes::Found;
use crate::node::Node;

/// All of them.
#[derive(Debug)]
pub(crate) struct Nodes {
    root: Arc<Node>,
    /// The root's own number below, which is 1 above.
    root_inode: u64,
    device: (u32, u32),
    known: Mutex<HashMap<u64, Known>>,
}

#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    /// How often the kernel was told of it, less what it forgot.
    told: u64,
}

impl Nodes {
    /// With the folder that is mounted.
    pub(crate) fn new(root: OwnedFd) -> io::Result<Self> {
        let found = Found::of(&root)?;
        let root = Arc::new(Node::new(root));
        Ok(Self { root, root_inode: found.inode(), device: found.device(), known: Mutex::default() })
    }

    pub(crate) fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// One that the kernel was told of.
    pub(crate) fn get(&self, number: INodeNo) -> io::Result<Arc<Node>> {
        if number == INodeNo::ROOT {
            return Ok(Arc::clone(&self.root));
        }
        self.known().get(&number.0).map(|known| Arc::clone(&known.node)).ok_or_else(|| Errno::STALE.into())
    }

    /// The kernel is told of what a descriptor was opened for. What lies in another file system is not part of the mount.
    pub(crate) fn tell(&self, fd: OwnedFd) -> io::Result<(Arc<Node>, FileAttr)> {
        let found = Found::of(&fd)?;
        if found.device() != self.device {
            return Err(Errno::XDEV.into());
        }
        let number = self.number(found.inode());
        let mut known = self.known();
        let known = known.entry(number).or_insert_with(|| Known { node: Arc::new(Node::new(fd)), told: 0 });
        known.told += 1;
        Ok((Arc::clone(&known.node), found.attributes(number)))
    }

    /// The kernel forgets that it was told of one so many times.
    pub(crate) fn forget(&self, number: INodeNo, times: u64) {
        let mut known = self.known();
        if let Some(one) = known.get_mut(&number.0) {
            one.told = one.told.saturating_sub(times);
            if one.told == 0 {
                known.remove(&number.0);
            }
        }
    }

    /// Those that the kernel knows now.
    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        self.known().values().map(|known| Arc::clone(&known.node)).collect()
    }

    /// What an inode below is called above, where 1 is the root: a file that has this number below gets the root's.
    pub(crate) fn number(&self, inode: u64) -> u64 {
        match inode {
            inode if inode == self.root_inode => INodeNo::ROOT.0,
            1 => self.root_inode,
            inode => inode,
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
