//! Forgetting: namespaces formatted, devices sanitized.

use std::ops::ControlFlow;

use byway_core::{AdminCommand, Error, ErrorKind, Nsid, RawData, Result};
use byway_spec::Command;
use byway_spec::base::admin::{AdminOpcode, SanitizeCdw10};
use byway_spec::base::log::{LogPage, SanitizeLog};
use zerocopy::FromBytes;

use crate::device::Device;

/// How a device is sanitized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wipe {
    /// Every block is erased and its disk room given back.
    BlockErase,
    /// The same after everything was written over.
    Overwrite {
        /// How often, from 1 to 16.
        passes: u8,
        /// What is written, four bytes over and over; inverted in every second pass.
        pattern: u32,
    },
}

impl Device {
    /// Formats a namespace: everything in it is gone. With `erase` no byte of a value or a key is left in the image;
    /// without, they are overwritten when their room is needed.
    ///
    /// # Errors
    /// A namespace or a format that is not there, and what the device says.
    pub fn format(&self, nsid: Nsid, format: u8, erase: bool) -> Result<()> {
        self.driver().admin(AdminCommand::Format { nsid, format, erase }).map(drop)
    }

    /// Sanitizes the device: no byte of what was ever stored is left in its image. `watch` is told how far it is, of 65,536.
    /// It may leave: what is left to do is done while the device is used, or when the image is next opened.
    ///
    /// # Errors
    /// What the device says; [`ErrorKind::Cancelled`] where `watch` left.
    pub fn sanitize(&self, wipe: Wipe, mut watch: impl FnMut(u16) -> ControlFlow<()>) -> Result<()> {
        let mut entry = Command::new(AdminOpcode::SANITIZE.0, 0, 0);
        let cdw10 = SanitizeCdw10::new();
        match wipe {
            Wipe::BlockErase => entry.cdw10 = cdw10.with_sanact(SanitizeCdw10::BLOCK_ERASE).into_bits(),
            Wipe::Overwrite { passes, pattern } => {
                let cdw10 = cdw10.with_sanact(SanitizeCdw10::OVERWRITE).with_oipbp(true);
                entry.cdw10 = cdw10.with_owpass(passes & 15).into_bits();
                entry.cdw11 = pattern;
            }
        }
        self.driver().admin(AdminCommand::raw(entry, RawData::None))?;
        loop {
            let status = self.sanitize_status()?;
            match status.status.get() & 7 {
                1 => return Ok(()),
                2 if watch(status.progress.get()).is_break() => {
                    let said = "left before it was done; it goes on when the image is next opened";
                    return Err(Error::host(ErrorKind::Cancelled, said));
                }
                2 => {}
                _ => return Err(Error::device(ErrorKind::Device, "the sanitize operation failed")),
            }
        }
    }

    fn sanitize_status(&self) -> Result<SanitizeLog> {
        let into = self.driver().buffer(size_of::<SanitizeLog>())?;
        let log = LogPage::SANITIZE.0;
        let command =
            AdminCommand::GetLog { log, csi: 0, nsid: None, retain_event: false, offset_bytes: 0, into };
        let buffer = self.driver().admin(command)?.buffer;
        let log = buffer.as_ref().and_then(|buffer| SanitizeLog::read_from_prefix(buffer.as_slice()).ok());
        log.map(|(log, _)| log)
            .ok_or_else(|| Error::device(ErrorKind::Device, "the sanitize log is too short"))
    }
}
