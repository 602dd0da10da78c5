//! Options of files, block devices and NVMe device nodes.

use std::path::PathBuf;
use std::time::Duration;

use byway_backends::IoUringOptions;
use byway_core::{Method, Nsid, Result};

use crate::uri::grammar::{
    number, one_of, pairs_of, parse, parse_depth, parse_size, parse_size_u32, unknown,
};
use crate::uri::tables::{BLOCK_OPTIONS, IO_URING_CMD_OPTIONS};

/// Blocks, and how they are to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockUri {
    /// The file, device or memory.
    pub place: BlockPlace,
    /// How they are to be reached.
    pub options: BlockOptions,
}

/// Storage of blocks, which decides the backends that can reach them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockPlace {
    /// A file, a block device or an NVMe device node, by its bare path. A Byway image is refused here.
    Path(PathBuf),
    /// The same, whatever it holds.
    File(PathBuf),
    /// In this process's memory, lost when it ends: size in bytes.
    Memory(u64),
    /// Nowhere: commands succeed and move nothing. Of this many bytes.
    Nil(u64),
}

/// How blocks are to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockOptions {
    /// `backend=`: the interface; the fastest that can serve them where it is not given.
    pub backend: Option<String>,
    /// `readonly=`: for reading alone.
    pub read_only: bool,
    /// `direct=`: past the page cache.
    pub direct: bool,
    /// `lba=`: bytes of a logical block.
    pub lba_bytes: Option<u32>,
    /// `create=`: makes a file of this many bytes.
    pub create_bytes: Option<u64>,
    /// `transfer=`: how payloads cross the link, of backends that pass commands through: `prp`, where the kernel chooses
    /// between PRPs and SGLs, `piggyback-pt`, or `adaptive`, which is that for up to 11 bytes.
    pub transfer: Method,
    /// `threads=`: threads of the pool, of backend `threads`.
    pub threads: Option<u32>,
    /// `fixed-file=`, `fixed-buffers=`, `sqpoll=`, `sqpoll-cpu=`, `iopoll=`, `one-thread=`, of backends `io_uring` and
    /// `io_uring_cmd`.
    pub io_uring: IoUringOptions,
    /// Options of one backend alone that were given, whatever their values.
    pub(crate) named: Vec<&'static str>,
    /// `depth=`: commands outstanding on a queue.
    pub depth: u32,
    /// `ns=`: the namespace that calls without one mean.
    pub ns: Option<Nsid>,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self {
            backend: None,
            read_only: false,
            direct: false,
            lba_bytes: None,
            create_bytes: None,
            transfer: Method::Prp,
            threads: None,
            io_uring: IoUringOptions::default(),
            named: Vec::new(),
            depth: 128,
            ns: None,
        }
    }
}

impl BlockOptions {
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let yes_or_no = [("1", true), ("0", false), ("on", true), ("off", false)];
        match name {
            "backend" => self.backend = Some(value.to_owned()),
            "readonly" => self.read_only = one_of(value, &yes_or_no)?,
            "direct" => self.direct = one_of(value, &yes_or_no)?,
            "lba" => self.lba_bytes = Some(parse_size_u32(value)?),
            "create" => self.create_bytes = Some(parse_size(value)?),
            "threads" => self.threads = Some(number(value)?),
            "transfer" => self.transfer = parse(value)?,
            "fixed-file" => self.io_uring.registered_file = one_of(value, &yes_or_no)?,
            "fixed-buffers" => self.io_uring.registered_buffers = number(value)?,
            "sqpoll" => self.io_uring.sqpoll = Some(Duration::from_millis(number(value)?)),
            "sqpoll-cpu" => self.io_uring.sqpoll_cpu = Some(number(value)?),
            "iopoll" => self.io_uring.iopoll = one_of(value, &yes_or_no)?,
            "one-thread" => self.io_uring.one_thread = one_of(value, &yes_or_no)?,
            "depth" => self.depth = parse_depth(value)?,
            "ns" => self.ns = Some(Nsid::new(number(value)?)?),
            _ => return Err(unknown(&BLOCK_OPTIONS)),
        }
        let of_one = IO_URING_CMD_OPTIONS.iter().chain(&["threads"]);
        self.named.extend(of_one.copied().find(|known| *known == name));
        Ok(())
    }

    /// Options that are given and mean something to one backend alone.
    pub(crate) fn of_one_backend(&self) -> Vec<&'static str> {
        let (asked, plain) = (&self.io_uring, IoUringOptions::default());
        let set = [
            ("transfer", self.transfer != Method::Prp),
            ("threads", self.threads.is_some()),
            ("fixed-file", asked.registered_file != plain.registered_file),
            ("fixed-buffers", asked.registered_buffers != plain.registered_buffers),
            ("sqpoll", asked.sqpoll != plain.sqpoll),
            ("sqpoll-cpu", asked.sqpoll_cpu != plain.sqpoll_cpu),
            ("iopoll", asked.iopoll != plain.iopoll),
            ("one-thread", asked.one_thread != plain.one_thread),
        ];
        let set = set.into_iter().filter(|(_, set)| *set).map(|(name, _)| name);
        self.named.iter().copied().chain(set).collect()
    }

    /// An option that is given and means nothing where a device has its own blocks.
    pub(crate) fn of_blocks(&self) -> Option<&'static str> {
        let given = [
            ("direct", self.direct),
            ("lba", self.lba_bytes.is_some()),
            ("create", self.create_bytes.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// An option that is given and means nothing without a file.
    pub(crate) fn of_files(&self) -> Option<&'static str> {
        if self.read_only { Some("readonly") } else { self.of_blocks() }
    }
}

pub(crate) fn parse_options(query: &str) -> Result<BlockOptions> {
    let mut options = BlockOptions::default();
    for (name, value) in pairs_of(query)? {
        options.set(name, value).map_err(|e| e.doing(format!("option {name}={value}")))?;
    }
    Ok(options)
}
