//! FUSE requests, each passed to its handler.

use std::ffi::OsStr;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use byway_tdm_engine::client::Extent;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, OFlags, readlinkat, statvfs};

use crate::answer::{TTL, attributes, done, entry, written};
use crate::change::Change;
use crate::folder::Folder;
use crate::shared::Shared;
use crate::xattr;

/// Most bytes of a read or write request: the kernel's limit.
const REQUEST_BYTES: u32 = 1 << 20;

/// Concurrent background requests (io_uring, read-ahead).
const BACKGROUND: u16 = 64;

/// The FUSE file system.
#[derive(Debug, Clone)]
pub(crate) struct FuseFilesystem(pub(crate) Arc<Shared>);

impl Deref for FuseFilesystem {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

const fn flags_of(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned())
}

impl Filesystem for FuseFilesystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted =
            [InitFlags::FUSE_AUTO_INVAL_DATA, InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_PARALLEL_DIROPS];
        for one in wanted {
            // Without the capability the mount is slower, or caches pages longer.
            let _ = config.add_capabilities(one);
        }
        let maps_direct = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        self.set_maps_direct(maps_direct);
        let _ = config.set_max_write(REQUEST_BYTES);
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.nodes().get(parent).and_then(|parent| self.look_up(&parent, name));
        entry(found.map(|(_, attributes)| attributes), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.nodes().forget(number, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(self.attributes(number), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size_bytes: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, owner: (uid, gid), size_bytes, times: (atime, mtime) };
        attributes(self.change(number, handle, &change), reply);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let target = self.nodes().get(number).and_then(|node| Ok(readlinkat(&node, c"", Vec::new())?));
        match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn mknod(
        &self,
        who: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let parent = self.nodes().get(parent);
        entry(parent.and_then(|parent| self.make_node(who, &parent, name, (mode, device))), reply);
    }

    fn mkdir(&self, who: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let parent = self.nodes().get(parent);
        entry(parent.and_then(|parent| self.make_folder(who, &parent, name, mode)), reply);
    }

    fn symlink(&self, who: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let parent = self.nodes().get(parent);
        entry(parent.and_then(|parent| self.make_link(who, &parent, name, target)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.nodes().get(parent).and_then(|parent| self.0.unlink(&parent, name)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let parent = self.nodes().get(parent);
        done(parent.and_then(|parent| Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let parents = self.nodes().get(parent).and_then(|parent| Ok((parent, self.nodes().get(new_parent)?)));
        done(
            parents.and_then(|(parent, new)| self.0.rename((&parent, name), (&new, new_name), flags)),
            reply,
        );
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let both = self.nodes().get(number).and_then(|node| Ok((node, self.nodes().get(parent)?)));
        entry(both.and_then(|(node, parent)| self.0.link(&node, &parent, name)), reply);
    }

    fn create(
        &self,
        who: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let parent = self.nodes().get(parent);
        match parent.and_then(|parent| self.0.create(who, &parent, name, (mode, flags_of(flags)))) {
            Ok((attributes, file)) => {
                let handle = self.files().add(file);
                reply.created(&TTL, &attributes, Generation(0), handle, self.open_flags());
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let node = self.nodes().get(number);
        match node.and_then(|node| self.open_node(node, flags_of(flags.0))) {
            Ok(file) => reply.opened(self.files().add(file), self.open_flags()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        at: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.read_into(handle, at, len, reply);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        at: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let is_from_cache = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        written(self.write_to(handle, (data, at), flags_of(flags.0), is_from_cache), reply);
    }

    /// Writes are below when they are answered, so a close has nothing to do.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files().remove(handle);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data_alone: bool, reply: ReplyEmpty) {
        let extent = if data_alone { Extent::Data } else { Extent::All };
        done(self.files().get(handle).and_then(|open| self.service().sync(&open, extent)), reply);
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.nodes().get(number).and_then(|node| node.open(OFlags::RDONLY | OFlags::DIRECTORY));
        match opened {
            Ok(fd) => reply.opened(self.folders().add(Folder::new(fd)), FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, from: u64, mut reply: ReplyDirectory) {
        match self.folders().get(handle).and_then(|folder| folder.list(self.nodes(), from, &mut reply)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.folders().remove(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        done(self.folders().get(handle).and_then(|folder| folder.sync()), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match statvfs(self.nodes().root().path()) {
            Ok(is) => reply.statfs(
                is.f_blocks,
                is.f_bfree,
                is.f_bavail,
                is.f_files,
                is.f_ffree,
                is.f_bsize as u32,
                is.f_namemax as u32,
                is.f_frsize as u32,
            ),
            Err(error) => reply.error(io::Error::from(error).into()),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        done(self.with_attributes_changed(number, |node| xattr::set(node, name, value, flags)), reply);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        xattr::reply(self.nodes().get(number).and_then(|node| xattr::get(&node, name)), room, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, room: u32, reply: ReplyXattr) {
        xattr::reply(self.nodes().get(number).and_then(|node| xattr::list(&node)), room, reply);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.with_attributes_changed(number, |node| xattr::remove(node, name)), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        at: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        done(self.allocate(handle, (at, len), mode), reply);
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.next_of(handle, offset, whence) {
            Ok(at) => reply.offset(at.cast_signed()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        from: FileHandle,
        read_at: u64,
        _: INodeNo,
        to: FileHandle,
        write_at: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        written(self.copy((from, read_at), (to, write_at), len), reply);
    }
}
