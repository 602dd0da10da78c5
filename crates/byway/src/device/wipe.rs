//! Format and Sanitize: erasing a namespace or a device.

use std::ops::ControlFlow;
use std::time::Duration;

use byway_core::{AdminCommand, Backend, Error, ErrorKind, Nsid, RawData, Result};
use byway_spec::Command;
use byway_spec::base::admin::{AdminOpcode, SanitizeCdw10};
use byway_spec::base::identify::{Cns, Controller, IDENTIFY_BYTES};
use byway_spec::base::log::{LogPage, SanitizeLog};
use zerocopy::FromBytes;

use crate::device::Device;
#[cfg(feature = "embedded")]
use crate::embedded;

/// How often a device that works by itself is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How a device is sanitized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wipe {
    /// Every block is erased and its disk room given back.
    BlockErase,
    /// The key that everything is encrypted with is thrown away. Only for devices that encrypt.
    CryptoErase,
    /// The same after everything was written over.
    Overwrite {
        /// How often, from 1 to 16.
        passes: u8,
        /// What is written, four bytes over and over; inverted in every second pass.
        pattern: u32,
    },
}

impl Wipe {
    fn entry(self) -> Command {
        let mut entry = Command::new(AdminOpcode::SANITIZE.0, 0, 0);
        let cdw10 = SanitizeCdw10::new();
        match self {
            Self::BlockErase => entry.cdw10 = cdw10.with_sanact(SanitizeCdw10::BLOCK_ERASE).into_bits(),
            Self::CryptoErase => entry.cdw10 = cdw10.with_sanact(SanitizeCdw10::CRYPTO_ERASE).into_bits(),
            Self::Overwrite { passes, pattern } => {
                let cdw10 = cdw10.with_sanact(SanitizeCdw10::OVERWRITE).with_oipbp(true);
                entry.cdw10 = cdw10.with_owpass(passes & 15).into_bits();
                entry.cdw11 = pattern;
            }
        }
        entry
    }

    /// The bit of SANICAP that announces it, and its name there (Base 2.1, Identify Controller).
    const fn capability(self) -> (u32, &'static str) {
        match self {
            Self::CryptoErase => (0, "crypto erase"),
            Self::BlockErase => (1, "block erase"),
            Self::Overwrite { .. } => (2, "overwrite"),
        }
    }
}

#[cfg(feature = "embedded")]
impl embedded::EmbeddedDevice {
    /// Formats a namespace: everything in it is gone. With `erase` no byte of a value or a key is left in the image;
    /// without, they are overwritten when their room is needed.
    ///
    /// # Errors
    /// A namespace or a format that is not there, and what the device says.
    pub fn format(&self, nsid: Nsid, format: u8, erase: bool) -> Result<()> {
        self.driver().admin(AdminCommand::Format { nsid, format, erase }).map(drop)
    }

    /// Sanitizes the device: no byte of what was ever stored is left in its image. `watch` gets the progress, of 65,536, and may
    /// stop waiting: the rest is done while the device is used, or when the image is next opened.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the device does not announce this action; what the device says; [`ErrorKind::Cancelled`]
    /// where `watch` stopped.
    pub fn sanitize(&self, wipe: Wipe, watch: impl FnMut(u16) -> ControlFlow<()>) -> Result<()> {
        // Asking for its progress is what makes it.
        sanitize(self.driver(), wipe, Duration::ZERO, watch)
    }
}

impl Device {
    /// Formats a namespace: everything in it is gone. With `erase` its data is erased too; without, it may still be read from
    /// the medium itself. `format` is the index of a format that the namespace has.
    ///
    /// # Errors
    /// A device that takes no admin commands, a namespace or a format that is not there, and what the device says.
    pub fn format(&self, nsid: Nsid, format: u8, erase: bool) -> Result<()> {
        self.admin(AdminCommand::Format { nsid, format, erase }).map(drop)
    }

    /// Sanitizes the device: no byte of what was ever stored is left in it. `watch` gets the progress, of 65,536, and may stop
    /// waiting: the device goes on by itself, a device in this process when it is used or opened again.
    ///
    /// # Errors
    /// A device that takes no admin commands; [`ErrorKind::Unsupported`] if it does not announce this action; what it says;
    /// [`ErrorKind::Cancelled`] where `watch` stopped.
    pub fn sanitize(&self, wipe: Wipe, watch: impl FnMut(u16) -> ControlFlow<()>) -> Result<()> {
        #[cfg(feature = "embedded")]
        if let Some(embedded) = self.as_embedded() {
            return embedded.sanitize(wipe, watch);
        }
        sanitize(self, wipe, LOOK_EVERY, watch)
    }
}

fn sanitize(
    device: &impl Backend,
    wipe: Wipe,
    look_every: Duration,
    mut watch: impl FnMut(u16) -> ControlFlow<()>,
) -> Result<()> {
    check_announced(device, wipe)?;
    device.admin(AdminCommand::raw(wipe.entry(), RawData::None))?;
    loop {
        let status = sanitize_status(device)?;
        match status.status.get() & 7 {
            1 | 4 => return Ok(()),
            2 if watch(status.progress.get()).is_break() => {
                let said = "left before it was done; it goes on when the device is next opened";
                return Err(Error::host(ErrorKind::Cancelled, said));
            }
            2 => std::thread::sleep(look_every),
            _ => return Err(Error::device(ErrorKind::Device, "the sanitize operation failed")),
        }
    }
}

/// Refuses an action that the controller does not announce: not every controller refuses it itself.
fn check_announced(device: &impl Backend, wipe: Wipe) -> Result<()> {
    let (bit, action) = wipe.capability();
    if sanicap(device)? >> bit & 1 == 1 {
        return Ok(());
    }
    let said = format!("the device cannot sanitize by {action}: bit {bit} of its SANICAP is 0");
    Err(Error::host(ErrorKind::Unsupported, said))
}

fn sanicap(device: &impl Backend) -> Result<u32> {
    let into = device.buffer(IDENTIFY_BYTES)?;
    let cns = Cns::CONTROLLER.0;
    let buffer = device.admin(AdminCommand::Identify { cns, csi: 0, nsid: None, selector: 0, into })?.buffer;
    let page = buffer.as_ref().and_then(|buffer| Controller::read_from_prefix(buffer.as_slice()).ok());
    let short = || Error::device(ErrorKind::Protocol, "Identify Controller is too short");
    page.map(|(page, _)| page.sanicap).ok_or_else(short)
}

fn sanitize_status(device: &impl Backend) -> Result<SanitizeLog> {
    let into = device.buffer(size_of::<SanitizeLog>())?;
    let log = LogPage::SANITIZE.0;
    let command =
        AdminCommand::GetLog { log, csi: 0, nsid: None, retain_event: false, offset_bytes: 0, into };
    let buffer = device.admin(command)?.buffer;
    let log = buffer.as_ref().and_then(|buffer| SanitizeLog::read_from_prefix(buffer.as_slice()).ok());
    log.map(|(log, _)| log).ok_or_else(|| Error::device(ErrorKind::Device, "the sanitize log is too short"))
}
