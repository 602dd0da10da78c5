//! One entry: a way to a subsystem.

use std::net::IpAddr;

use byway_spec::fabrics::{
    AddressFamily, CNTLID_DYNAMIC, DISCOVERY_RECORD_BYTES, DiscoveryEntry, EntryFlags, SecurityType,
    SubsystemType, TransportRequirements, TransportType,
};
use zerocopy::FromBytes;

use crate::{Nqn, NqnError};

/// The smallest admin queue size of the specification.
const ASQSZ_MIN: u16 = 32;

/// Whether a secure channel is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecureChannel {
    /// It does not say.
    #[default]
    Unspecified,
    /// Yes.
    Required,
    /// No.
    NotRequired,
}

/// How a TCP connection is secured, as the entry's own field has it.
pub type TcpSecurity = SecurityType;

/// A way to a subsystem, or to another discovery service.
///
/// Transports, families and types that are not known stay as they are; texts lose what they are padded with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Transport.
    pub transport: TransportType,
    /// Family of the address.
    pub family: AddressFamily,
    /// Type of the subsystem.
    pub kind: SubsystemType,
    /// Whether a secure channel is needed.
    pub secure_channel: SecureChannel,
    /// Flow control of submission queues may be switched off.
    pub no_flow_control: bool,
    /// Port of the subsystem, by its number.
    pub port_id: u16,
    /// CNTLID: FFFFh for a dynamic controller, FFFEh for any static one.
    pub cntlid: u16,
    /// Most entries of the admin submission queue.
    pub admin_entries: u16,
    /// Flags.
    pub flags: EntryFlags,
    /// Port, as text.
    pub service: String,
    /// Name of the subsystem.
    pub subsystem: Nqn,
    /// Address, as text.
    pub address: String,
    /// Of TCP: how it is secured.
    pub tcp_security: TcpSecurity,
}

/// Why an entry cannot be used. The others can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// Its name is none.
    #[error(transparent)]
    Name(#[from] NqnError),
    /// Its address or its port is not printable ASCII.
    #[error("the {0} of a discovery log entry is not printable ASCII")]
    NotAscii(&'static str),
}

impl Entry {
    /// A subsystem at a TCP address, with dynamic controllers.
    pub fn tcp(subsystem: Nqn, address: IpAddr, port: u16) -> Self {
        let family = if address.is_ipv6() { AddressFamily::IPV6 } else { AddressFamily::IPV4 };
        Self {
            transport: TransportType::TCP,
            family,
            kind: SubsystemType::NVM,
            secure_channel: SecureChannel::default(),
            no_flow_control: true,
            port_id: 0,
            cntlid: CNTLID_DYNAMIC,
            admin_entries: ASQSZ_MIN,
            flags: EntryFlags::new(),
            service: port.to_string(),
            subsystem,
            address: address.to_string(),
            tcp_security: SecurityType::NONE,
        }
    }

    /// Its bytes. A text that is longer than its field is cut, and other than printable ASCII is not to be in one.
    pub fn encode(&self) -> [u8; DISCOVERY_RECORD_BYTES] {
        let secure_channel = match self.secure_channel {
            SecureChannel::Unspecified => 0,
            SecureChannel::Required => 1,
            SecureChannel::NotRequired => 2,
        };
        let mut tsas = [0; 256];
        if self.transport == TransportType::TCP {
            tsas[0] = self.tcp_security.0;
        }
        zerocopy::transmute!(DiscoveryEntry {
            trtype: self.transport,
            adrfam: self.family,
            subtype: self.kind,
            treq: TransportRequirements::new()
                .with_secure_channel(secure_channel)
                .with_no_flow_control(self.no_flow_control),
            portid: self.port_id,
            cntlid: self.cntlid,
            asqsz: self.admin_entries,
            eflags: self.flags,
            reserved_12: [0; 20],
            trsvcid: text_field(&self.service),
            reserved_64: [0; 192],
            subnqn: self.subsystem.to_field(),
            traddr: text_field(&self.address),
            tsas,
        })
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// If a text in it is none.
    pub fn parse(bytes: &[u8; DISCOVERY_RECORD_BYTES]) -> Result<Self, EntryError> {
        let raw: DiscoveryEntry = zerocopy::transmute!(*bytes);
        let secure_channel = match raw.treq.secure_channel() {
            1 => SecureChannel::Required,
            2 => SecureChannel::NotRequired,
            _ => SecureChannel::Unspecified,
        };
        let is_tcp = raw.trtype == TransportType::TCP;
        Ok(Self {
            transport: raw.trtype,
            family: raw.adrfam,
            kind: raw.subtype,
            secure_channel,
            no_flow_control: raw.treq.no_flow_control(),
            port_id: raw.portid,
            cntlid: raw.cntlid,
            admin_entries: raw.asqsz,
            flags: raw.eflags,
            service: text(&raw.trsvcid).ok_or(EntryError::NotAscii("port"))?,
            subsystem: Nqn::from_field(&raw.subnqn)?,
            address: text(&raw.traddr).ok_or(EntryError::NotAscii("address"))?,
            tcp_security: if is_tcp { SecurityType(raw.tsas[0]) } else { SecurityType::NONE },
        })
    }
}

/// Texts are padded with zeroes, as Linux does; SPDK pads with spaces.
fn text_field<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let mut field = [0; BYTES];
    field.iter_mut().zip(text.as_bytes()).for_each(|(to, from)| *to = *from);
    field
}

fn text(field: &[u8]) -> Option<String> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let text = core::str::from_utf8(field.get(..end)?).ok()?.trim_end_matches(' ');
    text.bytes().all(|byte| matches!(byte, b' '..=b'~')).then(|| text.to_owned())
}

/// The first 1024 bytes of `bytes`, and what follows.
pub(crate) fn record(bytes: &[u8]) -> Option<(&[u8; DISCOVERY_RECORD_BYTES], &[u8])> {
    <[u8; DISCOVERY_RECORD_BYTES]>::ref_from_prefix(bytes).ok()
}
