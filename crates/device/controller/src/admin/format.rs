//! Format NVM (Base 2.1, section 5.1.10): a namespace loses what it holds and takes another format.

use byway_spec::base::admin::FormatCdw10;
use byway_spec::base::command::NSID_ALL;
use byway_spec::{Command, Status};

use super::context::Context;
use crate::error::CommandError;
use crate::namespace::{LBA_FORMATS, Outcome};
use crate::reservation::Access;

/// Secure erase settings: none, and user data, of which then no byte is left in the image. Nothing is encrypted, so there
/// is no cryptographic erase.
const ERASE_SETTINGS: std::ops::RangeInclusive<u8> = 0..=1;

pub(super) fn format(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    let cdw10 = FormatCdw10::from_bits(command.cdw10);
    if command.nsid == NSID_ALL {
        return Err(CommandError::invalid_field("namespaces are formatted one by one").at_byte(4));
    }
    if cx.subsystem.namespace(command.nsid).is_none() {
        return Err(NO_NAMESPACE);
    }
    if !ERASE_SETTINGS.contains(&cdw10.ses()) {
        return Err(CommandError::invalid_field("that erase is not supported").at_byte(41));
    }
    if cdw10.mset() || cdw10.pi() != 0 || cdw10.pil() {
        return Err(CommandError::new(Status::INVALID_FORMAT, "blocks carry no metadata and no protection"));
    }
    cx.subsystem.check_access(command.nsid, cx.id, Access::Write)?;
    cx.subsystem.format_namespace(command.nsid, cdw10.format_index(), cdw10.ses() == 1)?;
    Ok(Outcome::OK)
}

/// Bytes of a block in LBA format `index`.
pub(super) fn lba_format(index: u8) -> Result<u32, CommandError> {
    LBA_FORMATS.get(usize::from(index)).map(|shift| 1 << shift).ok_or(NO_FORMAT)
}

const NO_FORMAT: CommandError = CommandError::new(Status::INVALID_FORMAT, "no such format").at_byte(40);
const NO_NAMESPACE: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "no such namespace").at_byte(4);
