//! Where a device of any kind is: its URI, taken apart.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use byway_backends::IoUringOptions;
use byway_core::{Error, ErrorKind, Method, Nsid, Result};

#[cfg(feature = "vfio")]
use crate::any::pcie::PcieUri;
#[cfg(feature = "tcp")]
use crate::any::tcp::TcpUri;
use crate::path::{decode, of_image, split_options};
use crate::uri::{
    Uri, invalid, number, one_of, pairs_of, parse, parse_depth, parse_size, parse_size_u32, size_of_place,
    unknown,
};

/// Where a device of any kind is.
#[derive(Debug, Clone, PartialEq)]
pub enum Address {
    /// `embedded:PATH`, `ram:SIZE`, `null:SIZE`: a device in this process.
    Embedded(Box<Uri>),
    /// `vfio-user:PATH`, `pci:0000:04:00.0`: a PCIe device outside this process, reached by this library's own driver.
    #[cfg(feature = "vfio")]
    Pcie(Box<PcieUri>),
    /// `tcp://HOST:4420/NQN`: a controller at a TCP address.
    #[cfg(feature = "tcp")]
    Tcp(Box<TcpUri>),
    /// `file:PATH`, a path, `nil:SIZE`: blocks behind one of the kernel's interfaces, or behind none.
    Blocks(BlockUri),
}

/// Blocks, and how they are to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockUri {
    /// Where they are.
    pub place: BlockPlace,
    /// How they are to be reached.
    pub options: BlockOptions,
}

/// Where blocks are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockPlace {
    /// A file, a block device or an NVMe device node, by a path that stands alone: what is a Byway image is not meant by it.
    Path(PathBuf),
    /// The same, whatever it holds.
    File(PathBuf),
    /// In this process's memory, gone with it: so many bytes.
    Memory(u64),
    /// Nowhere: commands succeed and move nothing. Of this many bytes.
    Nil(u64),
}

/// How blocks are to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// What each option of blocks is called, what it may be, and what it decides: for errors and help.
pub const BLOCK_OPTIONS: [(&str, &str, &str); 15] = [
    ("backend", "NAME", "by which interface [the fastest that can]"),
    ("readonly", "1|0", "for reading alone [0]"),
    ("direct", "1|0", "past the page cache [0]"),
    ("lba", "BYTES", "of a logical block"),
    ("create", "SIZE", "make a file of this size"),
    ("depth", "COUNT", "commands outstanding on a queue [128]"),
    ("ns", "NUMBER", "which namespace [the first]"),
    (
        "transfer",
        "METHOD",
        "how values cross, where commands are passed through: prp, piggyback-pt, adaptive [prp]",
    ),
    ("threads", "COUNT", "of the pool, with backend=threads"),
    ("fixed-file", "1|0", "the kernel looks the file up once, with io_uring [1]"),
    ("fixed-buffers", "COUNT", "buffers that the kernel knows beforehand, with io_uring [0]"),
    ("sqpoll", "MILLISECONDS", "a thread of the kernel takes commands and sleeps after this, with io_uring"),
    ("sqpoll-cpu", "NUMBER", "the processor of that thread"),
    ("iopoll", "1|0", "completions are polled for, with io_uring: of a file or block device, direct=1 [0]"),
    ("one-thread", "1|0", "each queue is used by one thread, with io_uring [0]"),
];

/// Options of rings.
pub(crate) const IO_URING_OPTIONS: &[&str] =
    &["fixed-file", "fixed-buffers", "sqpoll", "sqpoll-cpu", "iopoll", "one-thread"];

/// Options of rings that carry commands.
pub(crate) const IO_URING_CMD_OPTIONS: &[&str] =
    &["fixed-file", "fixed-buffers", "sqpoll", "sqpoll-cpu", "iopoll", "one-thread", "transfer"];

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

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (place, query) = split_options(text);
        let place = match place.split_once(':') {
            _ if place.starts_with(['/', '.']) => BlockPlace::Path(place.into()),
            Some(("file", "")) => return Err(invalid(format!("{text}: a path follows file:"))),
            Some(("file", path)) => BlockPlace::File(decode(path)),
            Some(("blocks", size)) => BlockPlace::Memory(size_of_place(text, size)?),
            Some(("nil", size)) => BlockPlace::Nil(size_of_place(text, size)?),
            Some(("tcp", _)) => return tcp(text),
            Some(("vfio-user" | "pci", _)) => return pcie(text),
            Some(("embedded" | "ram" | "null", _)) => return Ok(Self::Embedded(Box::new(text.parse()?))),
            _ => return Err(no_address(text)),
        };
        let options = parse_options(query.unwrap_or_default())?;
        if let (BlockPlace::Nil(_) | BlockPlace::Memory(_), Some(name)) = (&place, options.of_files()) {
            return Err(invalid(format!("{text}: option {name} is of files and block devices")));
        }
        Ok(Self::Blocks(BlockUri { place, options }))
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
    fn of_files(&self) -> Option<&'static str> {
        if self.read_only { Some("readonly") } else { self.of_blocks() }
    }
}

fn parse_options(query: &str) -> Result<BlockOptions> {
    let mut options = BlockOptions::default();
    for (name, value) in pairs_of(query)? {
        options.set(name, value).map_err(|e| e.doing(format!("option {name}={value}")))?;
    }
    Ok(options)
}

#[cfg(feature = "tcp")]
fn tcp(text: &str) -> Result<Address> {
    Ok(Address::Tcp(Box::new(text.parse()?)))
}

#[cfg(not(feature = "tcp"))]
fn tcp(_: &str) -> Result<Address> {
    Err(left_out("tcp"))
}

#[cfg(feature = "vfio")]
fn pcie(text: &str) -> Result<Address> {
    Ok(Address::Pcie(Box::new(text.parse()?)))
}

#[cfg(not(feature = "vfio"))]
fn pcie(_: &str) -> Result<Address> {
    Err(left_out("vfio"))
}

/// The error of a device whose feature this build does not have.
#[cfg(not(all(feature = "embedded", feature = "kernel", feature = "vfio", feature = "tcp")))]
pub(crate) fn left_out(feature: &str) -> Error {
    let said =
        format!("this program was built without feature {feature:?} of byway, which such a device needs");
    Error::host(ErrorKind::Unsupported, said)
}

fn no_address(text: &str) -> Error {
    let (place, _) = split_options(text);
    if std::path::Path::new(place).exists() {
        let said = format!("{text:?} is no device: is ./{text} or {} meant?", of_image(place));
        return Error::host(ErrorKind::InvalidArgument, said);
    }
    let said = format!(
        "{text:?} is no device, and no file of that name is here: expected a path that begins with / or ., file:PATH, \
         embedded:PATH, tcp://HOST:PORT/NQN, vfio-user:PATH, pci:ADDRESS, ram:SIZE, null:SIZE, blocks:SIZE or nil:SIZE"
    );
    Error::host(ErrorKind::InvalidArgument, said)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn blocks(text: &str) -> BlockUri {
        match text.parse().unwrap() {
            Address::Blocks(uri) => uri,
            other => panic!("{other:?}"),
        }
    }

    fn error(text: &str) -> String {
        text.parse::<Address>().unwrap_err().to_string()
    }

    #[test]
    fn a_path_is_a_file_or_block_device_with_options() {
        let uri = blocks("/dev/sda?backend=psync&direct=1&lba=4K&depth=7");
        assert_eq!(uri.place, BlockPlace::Path("/dev/sda".into()));
        let BlockOptions { backend, direct, lba_bytes, depth, .. } = uri.options;
        assert_eq!((backend.as_deref(), direct, lba_bytes, depth), (Some("psync"), true, Some(4096), 7));
        assert_eq!(blocks("file:a.bin?create=1M").place, BlockPlace::File("a.bin".into()));
        assert_eq!(blocks("nil:1G").place, BlockPlace::Nil(1 << 30));
        assert_eq!(blocks("blocks:1G").place, BlockPlace::Memory(1 << 30));
    }

    #[test]
    fn an_embedded_device_keeps_its_own_options() {
        assert!(matches!("embedded:a.img?transfer=prp".parse().unwrap(), Address::Embedded(_)));
        assert!(error("embedded:a.img?direct=1").contains("known are transfer"));
    }

    #[test]
    fn what_is_no_device_and_options_that_mean_nothing_are_refused() {
        assert!(error("sda").contains("expected a path"));
        assert!(error("file:").contains("a path follows"));
        assert!(error("/dev/sda?profile=cosmos").contains("known are backend, readonly"));
        assert!(error("/dev/sda?direct=1&direct=0").contains("twice"));
        assert!(error("nil:1G?direct=1").contains("option direct is of files"));
        assert!(error("/dev/sda?sqpoll=on").contains("option sqpoll=on: expected a whole number"));
        assert!(
            error("/dev/sda?fixed-buffers=65536").contains("the number is too large: expected at most 65535")
        );
        for none in [
            "/dev/sda?depth=0",
            "nil:1G?depth=65536",
            "nil:1G?depth=5000000000",
            "ram:64M?depth=0",
            "pci:0000:04:00.0?depth=0",
        ] {
            assert!(error(none).contains("a queue is 1 to 65535 commands deep"), "{none}");
        }
        assert!(error("blocks:1G?readonly=1").contains("option readonly is of files"));
    }
}
