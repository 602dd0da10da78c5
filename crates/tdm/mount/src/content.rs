//! Reads, writes, fallocate, copies and seeks on open files.

use std::cell::RefCell;
use std::io;

use byway_tdm_engine::client::Extent;
use fuser::{FileHandle, ReplyData};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, copy_file_range, fallocate, seek};

use crate::open_file::To;
use crate::shared::Shared;

/// Most bytes copied by one request: the reply has 32 bits.
const COPY_MAX_BYTES: u64 = 1 << 30;

thread_local! {
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Shared {
    pub(crate) fn write_to(
        &self,
        handle: FileHandle,
        (data, at): (&[u8], u64),
        flags: OFlags,
        is_from_cache: bool,
    ) -> io::Result<usize> {
        let open = self.files().get(handle)?;
        // Pages of a mapping come through any open file.
        let appends = flags.contains(OFlags::APPEND) && !is_from_cache;
        let wrote = self.service().write(&open, data, if appends { To::End } else { To::At(at) })?;
        if flags.intersects(OFlags::SYNC) && !is_from_cache {
            let extent = if flags.contains(OFlags::SYNC) { Extent::All } else { Extent::Data };
            self.service().sync(&open, extent)?;
        }
        Ok(wrote)
    }

    pub(crate) fn allocate(&self, handle: FileHandle, (at, len): (u64, u64), mode: i32) -> io::Result<()> {
        let open = self.files().get(handle)?;
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let real = || Ok(fallocate(&open, mode, at, len)?);
        // Allocation that changes neither size nor bytes needs no record.
        match mode == FallocateFlags::KEEP_SIZE {
            true => real().inspect(|()| self.service().attributes_changed(&open.node)),
            false => self.service().unseen(&open, real),
        }
    }

    pub(crate) fn copy(&self, from: (FileHandle, u64), to: (FileHandle, u64), len: u64) -> io::Result<usize> {
        let (source, open) = (self.files().get(from.0)?, self.files().get(to.0)?);
        let (mut read_at, mut write_at) = (from.1, to.1);
        let len = len.min(COPY_MAX_BYTES) as usize;
        self.service().unseen(&open, || {
            Ok(copy_file_range(&source, Some(&mut read_at), &open, Some(&mut write_at), len)?)
        })
    }

    pub(crate) fn next_of(&self, handle: FileHandle, offset: i64, whence: i32) -> io::Result<u64> {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let at = u64::try_from(offset).map_err(|_| rustix::io::Errno::NXIO)?;
        let from = match whence {
            SEEK_DATA => SeekFrom::Data(at),
            SEEK_HOLE => SeekFrom::Hole(at),
            _ => return Err(rustix::io::Errno::INVAL.into()),
        };
        Ok(seek(&self.files().get(handle)?, from)?)
    }

    pub(crate) fn read_into(&self, handle: FileHandle, at: u64, len: u32, reply: ReplyData) {
        let open = match self.files().get(handle) {
            Ok(open) => open,
            Err(error) => return reply.error(error.into()),
        };
        READ.with_borrow_mut(|buffer| {
            if buffer.len() < len as usize {
                buffer.resize(len as usize, 0);
            }
            match open.read(&mut buffer[..len as usize], at) {
                Ok(got) => reply.data(&buffer[..got]),
                Err(error) => reply.error(error.into()),
            }
        });
    }
}
