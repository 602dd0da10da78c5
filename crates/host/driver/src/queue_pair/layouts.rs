//! What the commands of each namespace mean, as the device said it last: so that no command is sent whose data is
//! shorter than what the device will move.
//!
//! A device is given the pages of a buffer and moves as much as the command says in *its* units. Where a buffer has
//! fewer pages, the device would take whatever follows for addresses: bytes of the program as a list, or what a list held
//! before. So lengths are checked here, before sending, against the block size that the device itself reported.

use byway_core::encode::{self, Data};
use byway_core::moves::{self, Layout, io_bytes};
use byway_core::{Command, Error, ErrorKind, KvCommand, NvmCommand, PAGE_BYTES, RawCommand, Result};
use byway_spec::Command as Entry;
use byway_spec::nvm::NvmOpcode;

use crate::bus::Bus;
use crate::identify;
use crate::queue_pair::Queue;

/// The layout that a queue looked up last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedLayout {
    epoch: u64,
    nsid: u32,
    layout: Layout,
}

impl CachedLayout {
    /// None yet: no namespace has the number 0.
    pub(crate) const NOTHING: Self = Self { epoch: 0, nsid: 0, layout: Layout::Other };
}

impl<B: Bus> Queue<B> {
    /// The layout of a namespace.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is no such namespace, [`ErrorKind::Busy`] while they are being changed.
    #[inline]
    pub(crate) fn layout(&mut self, nsid: u32) -> Result<Layout> {
        let cached = self.cached_layout;
        if cached.nsid == nsid && cached.epoch == self.device.layouts().epoch() {
            return Ok(cached.layout);
        }
        self.look_up_layout(nsid)
    }

    #[cold]
    fn look_up_layout(&mut self, nsid: u32) -> Result<Layout> {
        let device = &self.device;
        let (epoch, layout) = device.layouts().layout(nsid, || identify::layout(device, nsid))?;
        self.cached_layout = CachedLayout { epoch, nsid, layout };
        Ok(layout)
    }

    /// Refuses a command whose data is not as long as what the device will move.
    ///
    /// What fits a page needs no look, save where its length is wrong by what the command itself says: a device that goes
    /// beyond finds no second page there, and no bus has memory at address 0.
    #[inline]
    pub(crate) fn check_moves(&mut self, command: &Command, data: Data<'_>) -> Result<()> {
        let len = data.len();
        match command {
            Command::Nvm(
                NvmCommand::Read { nsid, blocks, .. }
                | NvmCommand::ReadVectored { nsid, blocks, .. }
                | NvmCommand::Write { nsid, blocks, .. }
                | NvmCommand::Compare { nsid, blocks, .. },
            ) => moves::check_blocks(*nsid, *blocks, len as u64, self.layout(nsid.get())?),
            Command::Nvm(NvmCommand::CompareAndWrite { nsid, blocks, .. }) => {
                moves::check_two(*nsid, *blocks, len as u64, self.layout(nsid.get())?)
            }
            Command::Nvm(NvmCommand::Copy { nsid, from, .. }) => {
                moves::check_copy(from, self.layout(nsid.get())?)
            }
            Command::Nvm(
                nvm @ (NvmCommand::WriteZeroes { nsid, .. }
                | NvmCommand::Verify { nsid, .. }
                | NvmCommand::Deallocate { nsid, .. }),
            ) => {
                let layout = self.layout(nsid.get())?;
                moves::check_limits(nvm, &self.limits().nvm_limits, layout)
            }
            Command::Nvm(_) => Ok(()),
            Command::Kv(
                KvCommand::Delete { .. } | KvCommand::Exist { .. } | KvCommand::DeleteRange { .. },
            ) => Ok(()),
            Command::Kv(_) if len <= PAGE_BYTES => Ok(()),
            Command::Kv(_) => self.check_pages(&encode::encode(command).entry, len),
            Command::Raw(RawCommand { entry, .. }) => self.check_raw(entry, data),
        }
    }

    /// Data of more than one page is as long as what the device will move, as far as the command gives that.
    #[cold]
    pub(crate) fn check_pages(&mut self, entry: &Entry, len: usize) -> Result<()> {
        moves::check_length(len as u64, io_bytes(entry, self.layout(entry.nsid)?))
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
        moves::check_length(data.len() as u64, io_bytes(entry, layout))
    }
}
