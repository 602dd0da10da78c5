//! What a discovery service knows.

use byway_core::{AdminCommand, Buffer, Deadline, Error, ErrorKind, Result};
use byway_fabrics::{Entry, EntryError, LogReading, Step};
use byway_spec::base::log::LogPage;

use crate::attach::{connect_admin, shut_down, start};
use crate::facts::Bare;
use crate::peer::{Peer, TcpOptions, TcpPlace};

/// How much of the log is read at a time: what every controller gives in one command.
const PART_BYTES: u32 = 4096;

/// What a discovery service knows.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// Ways to subsystems, and to other discovery services.
    pub entries: Vec<Entry>,
    /// Why others were left out.
    pub skipped: Vec<EntryError>,
}

/// Asks the discovery service at `place`.
///
/// # Errors
/// When it cannot be reached, does not let this host in, or its log cannot be read.
pub fn discover(place: TcpPlace, options: TcpOptions) -> Result<Discovered> {
    let peer = Peer::new(place, options)?;
    let deadline = Deadline::after(peer.options.connect_timeout);
    let (mut line, _) = connect_admin(&peer, deadline).map_err(|refused| refused.error)?;
    start(&mut line, deadline)?;
    let bare = Bare::new(&mut line, peer.options.admin_timeout);
    let mut reading = LogReading::new(PART_BYTES);
    let entries = loop {
        match reading.step() {
            Step::Done(entries) => break entries,
            Step::Read { offset, bytes } => take_part(&bare, &mut reading, offset, bytes)?,
        }
    };
    let skipped = reading.skipped().to_vec();
    // A service that does not hear it finds the connection closed.
    let _ = shut_down(&mut line);
    Ok(Discovered { entries, skipped })
}

fn take_part(bare: &Bare<'_>, reading: &mut LogReading, offset_bytes: u64, bytes: u32) -> Result<()> {
    let into = Buffer::zeroed(bytes as usize)?;
    let log = LogPage::DISCOVERY.0;
    let command = AdminCommand::GetLog { log, csi: 0, nsid: None, retain_event: false, offset_bytes, into };
    let outcome = bare.admin(command).map_err(|error| error.doing("read the discovery log"))?;
    let part = outcome.buffer.unwrap_or_else(|| Buffer::from_bytes(Box::default()));
    reading.take(part.as_slice()).map_err(|wrong| Error::device(ErrorKind::Protocol, wrong.to_string()))
}
