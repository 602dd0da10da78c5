//! Answers to the kernel: what was asked for, or an error.

use std::io;
use std::time::Duration;

use fuser::{FileAttr, Generation, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyWrite};

/// Entries and attributes are not cached: programs change files by the path below.
pub(crate) const TTL: Duration = Duration::ZERO;

/// Answers by nothing, or by an error.
pub(crate) fn done(result: io::Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

pub(crate) fn entry(result: io::Result<FileAttr>, reply: ReplyEntry) {
    match result {
        Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
        Err(error) => reply.error(error.into()),
    }
}

pub(crate) fn attributes(result: io::Result<FileAttr>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&TTL, &attributes),
        Err(error) => reply.error(error.into()),
    }
}

pub(crate) fn written(result: io::Result<usize>, reply: ReplyWrite) {
    match result {
        Ok(bytes) => reply.written(bytes as u32),
        Err(error) => reply.error(error.into()),
    }
}
