//! `byway format` and `byway sanitize`: namespaces and devices emptied.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use byway::{NamespaceKind, Nsid, Wipe};

use crate::args::{FormatNamespace, Sanitize};
use crate::terminal::{Interrupt, Progress};

/// Empties a namespace.
///
/// # Errors
/// When there is no such namespace, or the device refuses.
pub fn format(args: &FormatNamespace, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let device = byway::embedded::open(&format!("embedded:{}", args.image.display()))?;
    let nsid = Nsid::new(args.ns).context("namespaces are numbered from 1")?;
    let is_blocks = matches!(device.namespace(nsid)?.kind, NamespaceKind::Nvm { .. });
    ensure!(
        is_blocks || args.block_bytes.is_none(),
        "namespace {nsid} holds keys and values: it has no blocks, and takes no --block-bytes"
    );
    let index = u8::from(args.block_bytes.as_deref() == Some("4096"));
    interrupt.has_to_wait("a format cannot be stopped once it has begun, and ends by itself")?;
    device.format(nsid, index, !args.quick)?;
    device.close()?;
    writeln!(out, "namespace {nsid} of {} is empty", args.image.display())?;
    Ok(())
}

/// Empties a device.
///
/// # Errors
/// When the device refuses.
pub fn sanitize(args: &Sanitize, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let device = byway::embedded::open(&format!("embedded:{}", args.image.display()))?;
    let wipe = match args.overwrite {
        None => Wipe::BlockErase,
        Some(passes) => Wipe::Overwrite { passes, pattern: 0x5a5a_5a5a },
    };
    let progress = Progress::new("sanitize", 1 << 16);
    let sanitized = device.sanitize(wipe, |done| {
        progress.set("sanitize", done.into(), 1 << 16);
        interrupt.flow()
    });
    drop(progress);
    let closed = device.close();
    interrupt.ended(sanitized, "the device is emptied to the end when the image is next opened")?;
    closed?;
    writeln!(out, "{} is empty; nothing of what it held is left in it", args.image.display())?;
    Ok(())
}
