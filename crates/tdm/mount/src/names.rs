//! Names: look-up, creation, removal, links.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use byway_tdm_engine::client::{Errno, Name};
use fuser::{FileAttr, Request};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Uid, chownat, fstat, linkat, mkdirat,
    mknodat, openat, openat2, renameat_with, symlinkat, unlinkat,
};

use crate::node::Node;
use crate::open_file::OpenBelow;
use crate::shared::Shared;

/// Files made in such a folder get its group.
const SETGID: u32 = 0o2000;

impl Shared {
    /// Looks a name up. Other file systems are not entered: one may be this mount.
    pub(crate) fn look_up(&self, parent: &Node, name: &OsStr) -> io::Result<(Arc<Node>, FileAttr)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat2(parent, name, flags, Mode::empty(), ResolveFlags::NO_XDEV)?;
        self.nodes().look_up(found)
    }

    /// Opens a file by its name, creating it if needed.
    pub(crate) fn create(
        &self,
        who: &Request,
        parent: &Node,
        name: &OsStr,
        (mode, flags): (u32, OFlags),
    ) -> io::Result<(FileAttr, OpenBelow)> {
        let access = (flags & OFlags::RWMODE) | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(mode);
        let fd = match openat(parent, name, access | made, mode) {
            Ok(fd) => {
                self.give(who, parent, name, mode)?;
                fd
            }
            Err(rustix::io::Errno::EXIST) if !flags.contains(OFlags::EXCL) => {
                openat(parent, name, access, Mode::empty())?
            }
            Err(error) => return Err(error.into()),
        };
        let (node, attributes) = self.nodes().look_up(again(&fd)?)?;
        let file = self.opened(node, fd, flags);
        if flags.contains(OFlags::TRUNC) {
            self.service().truncate(&file, 0)?;
        }
        Ok((attributes, file))
    }

    /// Opens a file by its node.
    pub(crate) fn open_node(&self, node: Arc<Node>, flags: OFlags) -> io::Result<OpenBelow> {
        let fd = node.open(flags & OFlags::RWMODE)?;
        Ok(self.opened(node, fd, flags))
    }

    fn opened(&self, node: Arc<Node>, fd: OwnedFd, flags: OFlags) -> OpenBelow {
        let writes = flags & OFlags::RWMODE != OFlags::RDONLY;
        if writes {
            self.service().opened(&node);
        }
        OpenBelow::new(node, File::from(fd), writes)
    }

    pub(crate) fn make_folder(
        &self,
        who: &Request,
        parent: &Node,
        name: &OsStr,
        mode: u32,
    ) -> io::Result<FileAttr> {
        let mode = Mode::from_raw_mode(mode);
        mkdirat(parent, name, mode)?;
        self.give(who, parent, name, mode)?;
        Ok(self.look_up(parent, name)?.1)
    }

    pub(crate) fn make_node(
        &self,
        who: &Request,
        parent: &Node,
        name: &OsStr,
        (mode, device): (u32, u32),
    ) -> io::Result<FileAttr> {
        let permissions = Mode::from_raw_mode(mode);
        mknodat(parent, name, FileType::from_raw_mode(mode), permissions, device.into())?;
        self.give(who, parent, name, permissions)?;
        Ok(self.look_up(parent, name)?.1)
    }

    pub(crate) fn make_link(
        &self,
        who: &Request,
        parent: &Node,
        name: &OsStr,
        target: &Path,
    ) -> io::Result<FileAttr> {
        symlinkat(target, parent, name)?;
        self.give(who, parent, name, Mode::empty())?;
        Ok(self.look_up(parent, name)?.1)
    }

    /// Gives a new file to the program's user, if permitted.
    fn give(&self, who: &Request, parent: &Node, name: &OsStr, mode: Mode) -> io::Result<()> {
        if !self.gives_files_to(who) {
            return Ok(());
        }
        let inherits = fstat(parent)?.st_mode & SETGID != 0;
        let group = (!inherits).then(|| Gid::from_raw(who.gid()));
        chownat(parent, name, Some(Uid::from_raw(who.uid())), group, AtFlags::SYMLINK_NOFOLLOW)?;
        if mode.intersects(Mode::SUID | Mode::SGID) {
            // A change of owner clears these bits.
            rustix::fs::chmodat(parent, name, mode, AtFlags::empty())?;
        }
        Ok(())
    }

    /// Adds a name to a file.
    pub(crate) fn link(&self, node: &Node, parent: &Node, name: &OsStr) -> io::Result<FileAttr> {
        linkat(rustix::fs::CWD, node.path(), parent, name, AtFlags::SYMLINK_FOLLOW)?;
        self.service().attributes_changed(node);
        Ok(self.look_up(parent, name)?.1)
    }

    pub(crate) fn unlink(&self, parent: &Node, name: &OsStr) -> io::Result<()> {
        let path = CString::new(name.as_bytes())?;
        let real = || Ok(unlinkat(parent, path.as_c_str(), AtFlags::empty())?);
        match self.service().session() {
            Some(session) => session.unname(no_link(parent, &path), sync_all(parent), real),
            None => real(),
        }
    }

    pub(crate) fn rename(
        &self,
        (parent, name): (&Node, &OsStr),
        (new_parent, new_name): (&Node, &OsStr),
        flags: RenameFlags,
    ) -> io::Result<()> {
        let (from, to) = (CString::new(name.as_bytes())?, CString::new(new_name.as_bytes())?);
        let real = || Ok(renameat_with(parent, from.as_c_str(), new_parent, to.as_c_str(), flags)?);
        let Some(session) = self.service().session() else { return real() };
        let (from, to) = (no_link(parent, &from), no_link(new_parent, &to));
        session.change(from, sync_all(parent), || match flags.contains(RenameFlags::EXCHANGE) {
            true => session.change(to, sync_all(new_parent), real),
            false => session.unname(to, sync_all(new_parent), real),
        })
    }
}

fn no_link<'n>(parent: &'n Node, name: &'n CString) -> Name<'n> {
    Name { folder: parent.as_fd(), path: name, flags: AtFlags::SYMLINK_NOFOLLOW }
}

/// A second descriptor of an open file (O_PATH).
fn again(fd: &OwnedFd) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Syncs the file system of a folder.
fn sync_all(folder: &Node) -> impl Fn() -> Result<(), Errno> {
    move || {
        let folder = openat(folder, c".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        folder.and_then(rustix::fs::syncfs).map_err(rustix::io::Errno::raw_os_error)
    }
}
