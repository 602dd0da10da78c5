//! `byway format` and `byway sanitize`: erase namespaces and devices.

use std::fmt;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use byway::spec::base::identify::{Cns, IDENTIFY_BYTES};
use byway::spec::kv::KvNamespace;
use byway::spec::nvm::NvmNamespace;
use byway::{AdminCommand, Backend, Buffer, Device, NamespaceKind, Nsid, Wipe};
use byway_console::terminal::{Interrupt, Progress, print_done};
use serde::Serialize;
use zerocopy::FromBytes;

use crate::args::{FormatNamespace, Sanitize};

/// A namespace that was emptied.
#[derive(Serialize)]
struct Formatted<'a> {
    device: &'a str,
    nsid: u32,
    /// Which of its formats the namespace has now.
    format_index: u8,
    /// Whether what it held was erased, and not only forgotten.
    erased: bool,
}

/// A device that was emptied.
#[derive(Serialize)]
struct Sanitized<'a> {
    device: &'a str,
    #[serde(flatten)]
    by: By,
}

/// What a device was emptied by.
#[derive(Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
enum By {
    BlockErase,
    CryptoErase,
    Overwrite { passes: u8 },
}

/// Empties a namespace.
///
/// # Errors
/// When there is no such namespace or no such format, or the device refuses.
pub fn format(args: &FormatNamespace, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let device = byway::open(args.device.uri())?;
    let nsid = Nsid::new(args.ns)?;
    let is_blocks = matches!(device.namespace(nsid)?.kind, NamespaceKind::Nvm { .. });
    ensure!(
        is_blocks || args.block_bytes.is_none(),
        "namespace {nsid} holds keys and values: it has no blocks, and takes no --block-bytes"
    );
    let index = if is_blocks { index_of(&device, nsid, args.block_bytes)? } else { kv_index(&device, nsid)? };
    interrupt.has_to_wait("a format cannot be stopped once it has begun, and ends by itself")?;
    device.format(nsid, index, !args.quick)?;
    device.close()?;
    let done = Formatted {
        device: args.device.target.given(),
        nsid: args.ns,
        format_index: index,
        erased: !args.quick,
    };
    Ok(print_done(out, args.json, &done)?)
}

/// Empties a device.
///
/// # Errors
/// When the device refuses.
pub fn sanitize(args: &Sanitize, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let device = byway::open(args.device.uri())?;
    let (wipe, by) = match args.overwrite {
        Some(passes) => (Wipe::Overwrite { passes, pattern: 0x5a5a_5a5a }, By::Overwrite { passes }),
        None if args.crypto => (Wipe::CryptoErase, By::CryptoErase),
        None => (Wipe::BlockErase, By::BlockErase),
    };
    let progress = Progress::new("sanitize", 1 << 16);
    let sanitized = device.sanitize(wipe, |done| {
        progress.set("sanitize", done.into(), 1 << 16);
        interrupt.flow()
    });
    drop(progress);
    let left = match device.as_embedded() {
        Some(_) => "the device is emptied to the end when the image is next opened",
        None => "the device goes on by itself",
    };
    let closed = device.close();
    interrupt.ended(sanitized, left)?;
    closed?;
    Ok(print_done(out, args.json, &Sanitized { device: args.device.target.given(), by })?)
}

impl fmt::Display for Formatted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespace {} of {} is empty", self.nsid, self.device)
    }
}

impl fmt::Display for Sanitized<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is empty; nothing of what it held is left in it", self.device)
    }
}

/// Index of the format with blocks of `block_bytes` and no metadata, or of the current one.
fn index_of(device: &Device, nsid: Nsid, block_bytes: Option<u64>) -> Result<u8> {
    let answer = identify(device, Cns::NAMESPACE, 0, nsid)?;
    let read = NvmNamespace::read_from_prefix(answer.as_slice());
    let (namespace, _) = read.ok().context("the device's structure is too short")?;
    let Some(block_bytes) = block_bytes else {
        return Ok(namespace.flbas.index_low() | namespace.flbas.index_high() << 4);
    };
    let formats = || (0..=namespace.nlbaf_z).zip(namespace.lbaf);
    let plain = |format: &byway::spec::nvm::LbaFormat| match format.lbads() {
        0 => None,
        shift => Some(1u64 << shift.min(63)).filter(|_| format.ms() == 0),
    };
    let found = formats().find(|(_, format)| plain(format) == Some(block_bytes));
    found.map(|(index, _)| index).with_context(|| {
        let known: Vec<String> =
            formats().filter_map(|(_, format)| plain(&format)).map(|bytes| bytes.to_string()).collect();
        format!("namespace {nsid} has no blocks of {block_bytes} bytes; it can have {}", known.join(", "))
    })
}

/// The index of the format in use of a namespace of keys and values.
fn kv_index(device: &Device, nsid: Nsid) -> Result<u8> {
    let answer = identify(device, Cns::SET_NAMESPACE, 1, nsid)?;
    let read = KvNamespace::read_from_prefix(answer.as_slice());
    let (namespace, _) = read.ok().context("the device's structure is too short")?;
    Ok(namespace.kvfc & 0xf)
}

fn identify(device: &Device, cns: Cns, csi: u8, nsid: Nsid) -> Result<Buffer> {
    let into = device.buffer(IDENTIFY_BYTES)?;
    let command = AdminCommand::Identify { cns: cns.0, csi, nsid: Some(nsid), selector: 0, into };
    device.admin(command)?.buffer.context("the device gave no structure back")
}
