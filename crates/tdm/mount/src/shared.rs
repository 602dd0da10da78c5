//! State of a mount: its folder, open files and service.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::{FileAttr, FopenFlags, INodeNo};

use crate::attributes::Found;
use crate::folder::Folder;
use crate::handles::Handles;
use crate::nodes::Nodes;
use crate::open_file::OpenBelow;
use crate::service::Service;

/// State of a mount.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) nodes: Nodes,
    pub(crate) service: Service,
    pub(crate) is_root: bool,
    pub(crate) files: Handles<OpenBelow>,
    pub(crate) folders: Handles<Folder>,
    /// Linux 6.6: direct I/O with mappings.
    pub(crate) maps_direct: AtomicBool,
}

impl Shared {
    pub(crate) fn new(nodes: Nodes, service: Service) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let (files, folders) = (Handles::new(), Handles::new());
        Self { nodes, service, is_root, files, folders, maps_direct: AtomicBool::new(false) }
    }

    pub(crate) fn open_flags(&self) -> FopenFlags {
        match self.maps_direct.load(Ordering::Relaxed) {
            true => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            // Without that, shared mappings need the page cache.
            false => FopenFlags::empty(),
        }
    }

    pub(crate) fn attributes(&self, number: INodeNo) -> io::Result<FileAttr> {
        Ok(Found::of(self.nodes.get(number)?)?.attributes(number.0))
    }
}
