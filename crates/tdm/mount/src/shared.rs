//! State of a mount: its folder, open files and service.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::{FileAttr, FopenFlags, INodeNo, Request};

use crate::attributes::Found;
use crate::folder::Folder;
use crate::handles::Handles;
use crate::nodes::Nodes;
use crate::open_file::OpenBelow;
use crate::service::Service;

/// State of a mount.
#[derive(Debug)]
pub(crate) struct Shared {
    nodes: Nodes,
    service: Service,
    is_root: bool,
    files: Handles<OpenBelow>,
    folders: Handles<Folder>,
    /// Linux 6.6: direct I/O with mappings.
    maps_direct: AtomicBool,
}

impl Shared {
    /// No open files of a folder.
    pub(crate) fn new(nodes: Nodes, service: Service) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let (files, folders) = (Handles::new(), Handles::new());
        Self { nodes, service, is_root, files, folders, maps_direct: AtomicBool::new(false) }
    }

    /// Nodes of the folder.
    pub(crate) const fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The files' service by the daemon.
    pub(crate) const fn service(&self) -> &Service {
        &self.service
    }

    /// Open files.
    pub(crate) const fn files(&self) -> &Handles<OpenBelow> {
        &self.files
    }

    /// Open folders.
    pub(crate) const fn folders(&self) -> &Handles<Folder> {
        &self.folders
    }

    /// Whether a program's new file must be given to its user: this process makes it as root.
    pub(crate) fn gives_files_to(&self, program: &Request) -> bool {
        self.is_root && (program.uid(), program.gid()) != (0, 0)
    }

    /// Notes whether the kernel maps files that are open for direct I/O.
    pub(crate) fn set_maps_direct(&self, maps_direct: bool) {
        self.maps_direct.store(maps_direct, Ordering::Relaxed);
    }

    /// Flags of an open.
    pub(crate) fn open_flags(&self) -> FopenFlags {
        match self.maps_direct.load(Ordering::Relaxed) {
            true => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            // Without that, shared mappings need the page cache.
            false => FopenFlags::empty(),
        }
    }

    /// Attributes of a file.
    pub(crate) fn attributes(&self, number: INodeNo) -> io::Result<FileAttr> {
        Ok(Found::of(self.nodes.get(number)?)?.attributes(number.0))
    }
}
