//! Commands of the API as orders for a connection.

use byway_core::encode::{self, Encoded};
use byway_core::layouts::Layouts;
use byway_core::moves::{Layout, admit};
use byway_core::{Capabilities, Command, Error, ErrorKind, KvCommand, NvmCommand, Result};

use crate::attach::way_of;
use crate::connection::Order;

/// A command as an order, if a controller that can do this can be given it.
#[inline]
pub(crate) fn order_of_io(
    command: &Command,
    tag: u64,
    is_call: bool,
    can: &Capabilities,
    layout: impl FnMut(u32) -> Result<Layout>,
) -> Result<Order> {
    encode::check(command)?;
    let mut encoded = encode::encode(command);
    let is_pair = matches!(command, Command::Nvm(NvmCommand::CompareAndWrite { .. }));
    let len = encoded.data.len() as u64;
    if len > can.limits.transfer_bytes {
        return Err(too_large(len, can.limits.transfer_bytes));
    }
    if let Command::Kv(KvCommand::BulkStore { .. }) = command {
        return Err(Error::host(ErrorKind::Unsupported, "bulk stores are not carried over TCP"));
    }
    admit(command, &mut encoded, &can.nvm, &can.nvm_limits, layout)?;
    let Encoded { entry, data } = encoded;
    let way = way_of(&data);
    Ok(Order { tag, is_call, entry, way, is_whole: is_whole(command), repeats: repeats(command), is_pair })
}

/// Whether success with less data than there is room for is none.
fn is_whole(command: &Command) -> bool {
    matches!(command, Command::Nvm(NvmCommand::Read { .. } | NvmCommand::ReadVectored { .. }))
}

/// Whether a command that may have been done can be sent once more: what it does changes nothing. Not so a Flush, which
/// would say of a controller that lost what it had not written that all of it is safe.
fn repeats(command: &Command) -> bool {
    match command {
        Command::Nvm(command) => matches!(
            command,
            NvmCommand::Read { .. }
                | NvmCommand::ReadVectored { .. }
                | NvmCommand::Compare { .. }
                | NvmCommand::Verify { .. }
        ),
        Command::Kv(command) => {
            matches!(command, KvCommand::Retrieve { .. } | KvCommand::List { .. } | KvCommand::Exist { .. })
        }
        Command::Raw(_) => false,
    }
}

#[cold]
fn too_large(len: u64, most: u64) -> Error {
    let said = format!("data of {len} bytes is over the controller's limit of {most} bytes");
    Error::host(ErrorKind::TooLarge, said)
}

/// The layout that a queue looked up last.
#[derive(Debug, Default)]
pub(crate) struct SeenLayout(Option<Seen>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    epoch: u64,
    nsid: u32,
    layout: Layout,
}

impl SeenLayout {
    /// The layout of a namespace, from the cache while that is valid, or from `ask`, which gets the cached one.
    #[inline]
    pub fn of(
        &mut self,
        nsid: u32,
        layouts: &Layouts,
        ask: impl FnOnce(Option<Layout>) -> Result<(u64, Layout)>,
    ) -> Result<Layout> {
        match self.0 {
            Some(seen) if seen.nsid == nsid && seen.epoch == layouts.epoch() => Ok(seen.layout),
            _ => self.look_up(nsid, ask),
        }
    }

    #[cold]
    fn look_up(
        &mut self,
        nsid: u32,
        ask: impl FnOnce(Option<Layout>) -> Result<(u64, Layout)>,
    ) -> Result<Layout> {
        let was = self.0.filter(|seen| seen.nsid == nsid).map(|seen| seen.layout);
        let (epoch, layout) = ask(was)?;
        self.0 = Some(Seen { epoch, nsid, layout });
        Ok(layout)
    }
}
