//! Identify data structures as they are sent, and which command sets have them.

use byway_spec::base::identify::{Csi, IDENTIFY_BYTES};
use zerocopy::{Immutable, IntoBytes};

use crate::error::CommandError;

/// A structure as it is sent.
pub(super) type Page = Box<[u8; IDENTIFY_BYTES]>;

/// The command set, if controllers have it.
pub(super) fn supported(csi: Csi) -> Result<Csi, CommandError> {
    if matches!(csi, Csi::NVM | Csi::KV | Csi::SLM | Csi::CP) { Ok(csi) } else { Err(UNKNOWN_COMMAND_SET) }
}

/// The bytes of a structure.
pub(super) fn page_of(data: &(impl IntoBytes + Immutable + ?Sized)) -> Page {
    let mut page = Box::new([0; IDENTIFY_BYTES]);
    for (to, from) in page.iter_mut().zip(data.as_bytes()) {
        *to = *from;
    }
    page
}

pub(super) const UNKNOWN_COMMAND_SET: CommandError =
    CommandError::invalid_field("no such command set").at_byte(47);
