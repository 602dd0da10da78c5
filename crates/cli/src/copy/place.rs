//! The two sides of a copy: blocks of a device or a file, or a stream of bytes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use byway::uri::file_of;
use byway::{
    Address, Backend, BackendQueue, Buffer, Device, NamespaceKind, Nsid, NvmCommand, Outcome, Queue,
};
use byway_console::files;

use super::LOOK_EVERY;
use super::side::{Addresses, CopySide};
use byway_console::event::wait_for_any;

/// Files below this are read and written like any file: they may not have one block.
const SMALL_BYTES: u64 = 64 << 10;

/// One side of a copy.
pub enum Place {
    /// Blocks.
    Blocks(Box<Blocks>),
    /// A stream of bytes.
    From(Box<dyn Read>),
    /// Bytes that go one behind the other.
    To(Box<dyn Write>),
}

/// Blocks of an open device, addressed in bytes from a first one on.
pub struct Blocks {
    uri: String,
    device: Device,
    /// A regular file's own descriptor, for what is behind its last block.
    file: Option<File>,
    nsid: Nsid,
    /// Bytes of a block.
    pub lba_bytes: u64,
    /// Bytes there are, of whole blocks and behind them.
    pub size_bytes: u64,
    /// Where the copy begins.
    pub offset: u64,
    /// How long the file was before it was made longer for the copy.
    grown_from: Option<u64>,
    /// The queue of calls that are waited for.
    calls: Option<Queue>,
}

impl Blocks {
    /// The blocks of an open device that a URI named.
    ///
    /// # Errors
    /// A device without a namespace of blocks.
    pub fn new(uri: &str, device: Device, offset: u64, is_written: bool) -> Result<Self> {
        let namespace = device.nvm_namespace(None).with_context(|| format!("open {uri}"))?;
        let NamespaceKind::Nvm { lba_bytes, blocks } = namespace.kind else {
            bail!("{uri} has no namespace of blocks there");
        };
        let (nsid, lba_bytes) = (namespace.nsid, u64::from(lba_bytes));
        let blocks_bytes = blocks * lba_bytes;
        let file = file_of(uri).filter(|path| path.is_file());
        let file = file.map(|path| File::options().read(true).write(is_written).open(path)).transpose();
        let file = file.with_context(|| format!("open {uri}"))?;
        let file_bytes =
            file.as_ref().map(|file| file.metadata()).transpose()?.map_or(0, |about| about.len());
        let size_bytes = blocks_bytes.max(file_bytes);
        Ok(Self {
            uri: uri.to_owned(),
            device,
            file,
            nsid,
            lba_bytes,
            size_bytes,
            offset,
            grown_from: None,
            calls: None,
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What it was opened by.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// A queue of its own for one thread.
    ///
    /// # Errors
    /// When the device gives none of this depth.
    pub fn side(&self, depth: u32) -> Result<CopySide> {
        let options = self.device.queue_options().depth(depth);
        let queue = Backend::queue(&self.device, options).with_context(|| self.uri.clone())?;
        let has_event = self.device.capabilities().event;
        let blocks = Addresses { nsid: self.nsid, lba_bytes: self.lba_bytes, offset: self.offset };
        Ok(CopySide::new(queue, blocks, has_event))
    }

    /// Reads any bytes, and waits for them: those at the end that fill no block.
    ///
    /// # Errors
    /// What the device or the file says.
    pub fn read_any(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        let at = self.offset + at;
        match &self.file {
            Some(file) => file.read_exact_at(into, at).with_context(|| format!("read {}", self.uri)),
            None => {
                let (around, from) = self.read_around(at, into.len())?;
                into.copy_from_slice(&around.as_slice()[from..from + into.len()]);
                Ok(())
            }
        }
    }

    /// Writes any bytes, and waits for them. What is around them in their blocks stays as it is.
    ///
    /// # Errors
    /// As [`Self::read_any`].
    pub fn write_any(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let at = self.offset + at;
        match &self.file {
            Some(file) => file.write_all_at(bytes, at).with_context(|| format!("write {}", self.uri)),
            None => {
                let (mut around, from) = self.read_around(at, bytes.len())?;
                around.as_mut_slice()[from..from + bytes.len()].copy_from_slice(bytes);
                let (nsid, slba) = (self.nsid, at / self.lba_bytes);
                let blocks = (around.len() as u64 / self.lba_bytes) as u32;
                self.call(NvmCommand::Write { nsid, slba, blocks, data: around.into() }).map(drop)
            }
        }
    }

    /// The blocks around some bytes, and where in them the bytes are.
    fn read_around(&mut self, at: u64, len: usize) -> Result<(Buffer, usize)> {
        let slba = at / self.lba_bytes;
        let from = (at % self.lba_bytes) as usize;
        let blocks = ((from + len) as u64).div_ceil(self.lba_bytes) as u32;
        let into = self.device.buffer((u64::from(blocks) * self.lba_bytes) as usize)?;
        let outcome = self.call(NvmCommand::Read { nsid: self.nsid, slba, blocks, into })?;
        Ok((outcome.buffer.context("a read gave no buffer back")?, from))
    }

    fn call(&mut self, command: NvmCommand) -> Result<Outcome> {
        let queue = match &mut self.calls {
            Some(queue) => queue,
            none => none.insert(self.device.default_queue()?),
        };
        queue.execute(command.into()).with_context(|| self.uri.clone())
    }

    /// Makes what was written durable, where the device has a command for it.
    ///
    /// # Errors
    /// What the device says.
    pub fn flush(&mut self) -> Result<()> {
        if !self.device.capabilities().nvm.flush {
            return Ok(());
        }
        self.call(NvmCommand::Flush { nsid: self.nsid }).map(drop)
    }

    /// Makes a file that was made longer end behind the first `bytes` of the copy, or where it did.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn cut(&self, bytes: u64) -> Result<()> {
        let (Some(file), Some(len)) = (&self.file, self.grown_from) else { return Ok(()) };
        file.set_len(len.max(self.offset + bytes)).with_context(|| format!("cut {}", self.uri))
    }

    /// Closes the device in order.
    ///
    /// # Errors
    /// What the device says.
    pub fn close(self) -> Result<()> {
        drop(self.calls);
        self.device.close().with_context(|| format!("close {}", self.uri))
    }
}

/// Refuses two places that are one file.
///
/// # Errors
/// Where they are.
pub fn differ(from: &str, to: &str) -> Result<()> {
    let real = |uri: &str| file_of(uri)?.canonicalize().ok();
    let is_same = real(from).is_some_and(|from| real(to) == Some(from));
    ensure!(!is_same, "{from} and {to} are one place: it would be written over while it is read");
    Ok(())
}

/// Opens the source.
///
/// # Errors
/// When it cannot be opened, or ends before its first byte.
pub fn open_from(uri: &str, skip: u64) -> Result<Place> {
    let short = |bytes: u64| format!("{uri} has {bytes} bytes, fewer than --skip says");
    if uri == "-" {
        let mut from = Input::open()?;
        let skipped =
            io::copy(&mut from.by_ref().take(skip), &mut io::sink()).context("read standard input")?;
        ensure!(skipped == skip, "{}", short(skipped));
        return Ok(Place::From(Box::new(from)));
    }
    if let Some(path) = file_of(uri).filter(|path| is_small(path)) {
        let mut from = File::open(path).with_context(|| format!("open {uri}"))?;
        let len = from.metadata()?.len();
        ensure!(skip <= len, "{}", short(len));
        from.seek(SeekFrom::Start(skip))?;
        return Ok(Place::From(Box::new(from)));
    }
    let blocks = Blocks::new(uri, byway::open_to_read(uri)?, skip, false)?;
    ensure!(skip <= blocks.size_bytes, "{}", short(blocks.size_bytes));
    Ok(Place::Blocks(Box::new(blocks)))
}

/// Whether a file is too small to be one of blocks.
fn is_small(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() < SMALL_BYTES)
}

/// Opens where bytes go. `total` is how many, where that is known.
///
/// # Errors
/// When it cannot be opened or made.
pub fn open_to(uri: &str, seek: u64, total: Option<u64>) -> Result<Place> {
    if uri == "-" {
        ensure!(seek == 0, "standard output has no place to --seek");
        return Ok(Place::To(Box::new(io::stdout().lock())));
    }
    let Some(path) = file_of(uri).filter(|path| !path.exists() || path.is_file()) else {
        return Ok(Place::Blocks(Box::new(Blocks::new(uri, byway::open(uri)?, seek, true)?)));
    };
    match total.map(|total| seek.saturating_add(total)) {
        Some(end) if end >= SMALL_BYTES => open_file(uri, &path, seek, end),
        // With options it is a device; without, it is written like any file.
        _ if byway::uri::has_options(uri) => {
            Ok(Place::Blocks(Box::new(Blocks::new(uri, byway::open(uri)?, seek, true)?)))
        }
        _ => {
            refuse_image(uri, &path)?;
            let file = File::options().write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(|cause| files::refused("open", &path, cause))?;
            Ok(Place::To(Box::new(At { file, at: seek })))
        }
    }
}

/// A file that is made, or made longer, until `end` bytes have room in it.
fn open_file(uri: &str, path: &Path, seek: u64, end: u64) -> Result<Place> {
    let doing = || format!("open {uri}");
    let mut grown_from = None;
    let is_made_by_open =
        matches!(uri.parse(), Ok(Address::Blocks(blocks)) if blocks.options.create_bytes.is_some());
    if !is_made_by_open {
        refuse_image(uri, path)?;
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|cause| files::refused("open", path, cause))?;
        let len = file.metadata().with_context(doing)?.len();
        if len < end {
            file.set_len(end).with_context(doing)?;
            grown_from = Some(len);
        }
    }
    let blocks = Blocks::new(uri, byway::open(uri)?, seek, true)?;
    Ok(Place::Blocks(Box::new(Blocks { grown_from, ..blocks })))
}

/// Refuses to overwrite an image file: the caller may have meant the device in it.
fn refuse_image(uri: &str, path: &Path) -> Result<()> {
    if byway::is_image(path) && !uri.starts_with("file:") {
        byway::open(uri)?;
    }
    Ok(())
}

/// Standard input. A read that nothing comes for is interrupted now and then, so that its reader can be.
struct Input(File);

impl Input {
    fn open() -> Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned().context("open standard input")?.into()))
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match wait_for_any([self.0.as_fd()], LOOK_EVERY)? {
            true => self.0.read(into),
            false => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

/// A file that is written from some byte on.
struct At {
    file: File,
    at: u64,
}

impl Write for At {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
