//! What the commands of each namespace mean, as the device said it last: so that no command is sent whose data is
//! shorter than what the device will move.
//!
//! A device is given the pages of a buffer and moves as much as the command says in *its* units. Where a buffer has
//! fewer pages, the device would take whatever follows for addresses: bytes of the program as a list, or what a list held
//! before. So lengths are checked here, before sending, against the block size that the device itself told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use byway_core::encode::{Data, Encoded};
use byway_core::moves::{Layout, io_bytes};
use byway_core::{Command, Error, ErrorKind, KvCommand, NvmCommand, PAGE_BYTES, RawCommand, Result};
use byway_spec::Command as Entry;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::nvm::NvmOpcode;

use crate::bus::Bus;
use crate::identify;
use crate::queue_pair::Queue;

/// The layouts of a device's namespaces that were asked for.
///
/// Whoever has a layout has it from an *epoch*. An admin command that may change namespaces begins a new one before
/// it is sent, and until it has ended nobody learns a layout.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    epoch: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    layouts: BTreeMap<u32, Layout>,
    /// Commands under way that may change namespaces.
    changes: u32,
}

/// The layout that a queue looked up last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    epoch: u64,
    nsid: u32,
    layout: Layout,
}

impl Seen {
    /// None yet: no namespace has the number 0.
    pub(crate) const NOTHING: Self = Self { epoch: 0, nsid: 0, layout: Layout::Other };
}

impl Layouts {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command that may change namespaces is about to be sent.
    pub(crate) fn begin_change(&self) {
        let mut known = self.known();
        known.changes += 1;
        known.layouts.clear();
        self.epoch.fetch_add(1, Release);
    }

    /// It has completed.
    pub(crate) fn end_change(&self) {
        let mut known = self.known();
        known.changes = known.changes.saturating_sub(1);
    }

    /// The epoch that it is.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// The epoch, with the layout of a namespace if it is known.
    fn look(&self, nsid: u32) -> Result<(u64, Option<Layout>)> {
        let known = self.known();
        if known.changes > 0 {
            return Err(changing());
        }
        Ok((self.epoch(), known.layouts.get(&nsid).copied()))
    }

    /// Notes what the device said, unless it may have changed since `epoch`; says whether it did not.
    pub(crate) fn note(&self, epoch: u64, nsid: u32, layout: Layout) -> bool {
        let mut known = self.known();
        let holds = known.changes == 0 && self.epoch() == epoch;
        if holds {
            known.layouts.insert(nsid, layout);
        }
        holds
    }
}

/// Whether an admin command may change what namespaces are: by its meaning, or for all that is known of it.
pub(crate) fn changes_namespaces(entry: &Entry) -> bool {
    const VENDOR: u8 = 0xc0;
    let opcode = AdminOpcode(entry.opcode());
    let changing = [
        AdminOpcode::FORMAT_NVM,
        AdminOpcode::NAMESPACE_MANAGEMENT,
        AdminOpcode::NAMESPACE_ATTACHMENT,
        AdminOpcode::FIRMWARE_COMMIT,
        AdminOpcode::SANITIZE,
    ];
    changing.contains(&opcode) || opcode.0 >= VENDOR
}

impl<B: Bus> Queue<B> {
    /// The layout of a namespace.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is no such namespace, [`ErrorKind::Busy`] while they are being changed.
    #[inline]
    pub(crate) fn layout(&mut self, nsid: u32) -> Result<Layout> {
        let seen = self.seen_layout;
        if seen.nsid == nsid && seen.epoch == self.device.layouts.epoch() {
            return Ok(seen.layout);
        }
        self.look_up_layout(nsid)
    }

    #[cold]
    fn look_up_layout(&mut self, nsid: u32) -> Result<Layout> {
        let layouts = &self.device.layouts;
        let (epoch, known) = layouts.look(nsid)?;
        let layout = match known {
            Some(layout) => layout,
            None => identify::layout(&self.device, nsid)?,
        };
        if !layouts.note(epoch, nsid, layout) {
            return Err(changing());
        }
        self.seen_layout = Seen { epoch, nsid, layout };
        Ok(layout)
    }

    /// Refuses a command whose data is not as long as what the device will move.
    ///
    /// What fits a page needs no look, save where its length is wrong by what the command itself says: a device that goes
    /// beyond finds no second page there, and no bus has memory at address 0.
    #[inline]
    pub(crate) fn check_moves(&mut self, command: &Command, encoded: &Encoded<'_>) -> Result<()> {
        match command {
            Command::Nvm(
                NvmCommand::Read { .. }
                | NvmCommand::ReadVectored { .. }
                | NvmCommand::Write { .. }
                | NvmCommand::Compare { .. },
            ) => self.check_blocks(&encoded.entry, encoded.data.len() as u64),
            Command::Nvm(_) => Ok(()),
            Command::Kv(KvCommand::Delete { .. } | KvCommand::Exist { .. }) => Ok(()),
            Command::Kv(_) if encoded.data.len() <= PAGE_BYTES => Ok(()),
            Command::Kv(_) => self.check_pages(&encoded.entry, encoded.data.len()),
            Command::Raw(RawCommand { entry, .. }) => self.check_raw(entry, encoded.data),
        }
    }

    /// Blocks and their data have the same length.
    #[inline]
    fn check_blocks(&mut self, entry: &Entry, len: u64) -> Result<()> {
        let layout = self.layout(entry.nsid)?;
        let moved = io_bytes(entry, layout);
        match layout {
            Layout::Blocks { .. } if moved == Some(len) => Ok(()),
            Layout::Blocks { bytes } => Err(of_another_length(len, bytes, moved.unwrap_or_default())),
            Layout::Keys | Layout::Other => Err(no_blocks(entry.nsid)),
        }
    }

    /// Data of more than one page is as long as what the device will move, as far as the command tells that.
    #[cold]
    pub(crate) fn check_pages(&mut self, entry: &Entry, len: usize) -> Result<()> {
        let layout = self.layout(entry.nsid)?;
        match io_bytes(entry, layout) {
            Some(moved) if moved > len as u64 => Err(too_short(len as u64, moved)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn check_raw(&mut self, entry: &Entry, data: Data<'_>) -> Result<()> {
        // Opcodes say by their low bits whether they have data (Base 2.1, section 3.3.3.1).
        if entry.opcode() & 3 == 0 {
            return Ok(());
        }
        let layout = self.layout(entry.nsid)?;
        let moves_blocks =
            matches!(NvmOpcode(entry.opcode()), NvmOpcode::READ | NvmOpcode::WRITE | NvmOpcode::COMPARE);
        if matches!(layout, Layout::Blocks { .. }) && moves_blocks && entry.mptr != 0 {
            let said = "a metadata pointer names memory that the driver does not know";
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        match io_bytes(entry, layout) {
            Some(moved) if moved > data.len() as u64 => Err(too_short(data.len() as u64, moved)),
            _ => Ok(()),
        }
    }
}

#[cold]
fn changing() -> Error {
    Error::host(ErrorKind::Busy, "a command that changes namespaces is under way")
}

#[cold]
fn of_another_length(len: u64, block_bytes: u32, moved: u64) -> Error {
    let blocks = moved.checked_div(block_bytes.into()).unwrap_or_default();
    let said = format!("data of {len} bytes for {blocks} blocks of {block_bytes} bytes");
    Error::host(ErrorKind::InvalidArgument, said)
}

#[cold]
pub(crate) fn too_short(len: u64, moved: u64) -> Error {
    let said = format!("the command moves {moved} bytes, its data has {len}");
    Error::host(ErrorKind::InvalidArgument, said)
}

#[cold]
fn no_blocks(nsid: u32) -> Error {
    Error::host(ErrorKind::InvalidArgument, format!("namespace {nsid} is not one of blocks"))
}
