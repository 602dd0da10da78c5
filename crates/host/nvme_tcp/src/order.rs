//! Encoding of commands as [`Order`]s.

use byway_core::encode::{self, Data, Encoded};
use byway_core::layouts::Layouts;
use byway_core::moves::{Layout, admit};
use byway_core::{
    AdminCommand, Capabilities, Command, Error, ErrorKind, KvCommand, NvmCommand, Result, encode_admin,
};
use byway_spec::Command as Entry;

use crate::connection::{Order, Way};

/// Encodes an I/O command as an [`Order`], if a controller with these capabilities supports it.
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
    if let Command::Kv(command) = command {
        admit_kv(command, can, len)?;
    }
    admit(command, &mut encoded, &can.nvm, &can.nvm_limits, layout)?;
    let Encoded { entry, data } = encoded;
    let way = way_of(&data);
    Ok(Order { tag, is_call, entry, way, is_whole: is_whole(command), repeats: repeats(command), is_pair })
}

/// Refuses a vendor command that the controller did not announce.
fn admit_kv(command: &KvCommand, can: &Capabilities, len: u64) -> Result<()> {
    can.kv.require(command)?;
    match command {
        KvCommand::BulkStore { .. } if !can.bulk_store => {
            Err(Error::host(ErrorKind::Unsupported, "the controller did not announce bulk stores"))
        }
        KvCommand::BulkStore { .. } if len > can.limits.bulk_bytes.into() => {
            Err(too_large(len, can.limits.bulk_bytes.into()))
        }
        _ => Ok(()),
    }
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
            matches!(
                command,
                KvCommand::Retrieve { .. }
                    | KvCommand::List { .. }
                    | KvCommand::Exist { .. }
                    | KvCommand::Scan { .. }
            )
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
pub struct CachedLayout(Option<Cached>);

#[derive(Debug, Clone, Copy)]
struct Cached {
    epoch: u64,
    nsid: u32,
    layout: Layout,
}

impl CachedLayout {
    /// The layout of a namespace, from the cache while that is valid, or from `ask`, which gets the cached one.
    #[inline]
    pub(crate) fn of(
        &mut self,
        nsid: u32,
        layouts: &Layouts,
        ask: impl FnOnce(Option<Layout>) -> Result<(u64, Layout)>,
    ) -> Result<Layout> {
        match self.0 {
            Some(cached) if cached.nsid == nsid && cached.epoch == layouts.epoch() => Ok(cached.layout),
            _ => self.look_up(nsid, ask),
        }
    }

    #[cold]
    fn look_up(
        &mut self,
        nsid: u32,
        ask: impl FnOnce(Option<Layout>) -> Result<(u64, Layout)>,
    ) -> Result<Layout> {
        let was = self.0.filter(|cached| cached.nsid == nsid).map(|cached| cached.layout);
        let (epoch, layout) = ask(was)?;
        self.0 = Some(Cached { epoch, nsid, layout });
        Ok(layout)
    }
}

/// An [`Order`] without a tag, for one command at a time.
pub(crate) fn order_of(entry: Entry, way: Way) -> Order {
    Order { tag: 0, is_call: false, entry, way, is_whole: true, repeats: false, is_pair: false }
}

/// Encodes an admin command as an [`Order`]. Identify and Get Features may be sent again on another connection.
pub(crate) fn order_of_admin(command: &AdminCommand, tag: u64) -> Order {
    let Encoded { entry, data } = encode_admin(command);
    let repeats = matches!(command, AdminCommand::Identify { .. } | AdminCommand::GetFeature { .. });
    let is_whole = matches!(command, AdminCommand::Identify { .. });
    Order { tag, is_call: false, entry, way: way_of(&data), is_whole, repeats, is_pair: false }
}

pub(crate) fn way_of(data: &Data<'_>) -> Way {
    match data {
        _ if data.is_empty() => Way::None,
        Data::Out(_) => Way::Out,
        Data::In(_) | Data::InVectored(_) => Way::In,
        Data::Both { sent_bytes, .. } => Way::Both { sent_bytes: *sent_bytes as u32 },
        Data::None => Way::None,
    }
}

/// An [`Order`] without data or tag.
pub(crate) fn plain(entry: Entry) -> Order {
    Order { tag: 0, is_call: false, entry, way: Way::None, is_whole: false, repeats: false, is_pair: false }
}
