//! The fabrics commands, as types (Base 2.1, section 6).

use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::command::Direction;
use byway_spec::base::sgl::{SglDescriptor, SglKind};
use byway_spec::fabrics::{
    AuthenticationCdw10, CONNECT_DATA_BYTES, ConnectCdw10, ConnectCdw11, FabricsType, PropertyCdw10,
};
use byway_spec::{Command, DataPointer, Status};

use crate::{ConnectRefusal, Parameter, PropertyAccess, PropertyError, RefusalKind};

/// Connect command, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Queue: 0 is the admin queue.
    pub qid: u16,
    /// Entries of the submission queue, zero-based; at least 1.
    pub sqsize_z: u16,
    /// Priority class of an I/O queue, where arbitration is weighted.
    pub priority: u8,
    /// The host does without flow control of the submission queue.
    pub no_flow_control: bool,
    /// The host may delete this I/O queue alone, by Disconnect.
    pub individual_deletion: bool,
    /// Keep alive timeout in milliseconds; 0 disables it. Admin queue only.
    pub keep_alive_ms: u32,
}

/// Authentication Send or Receive command, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// Bytes that are sent, or taken at most.
    pub bytes: u32,
}

/// A command with opcode 7Fh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricsCommand {
    /// Writes a property.
    PropertySet {
        /// The property.
        property: PropertyAccess,
        /// The value.
        value: u64,
    },
    /// Makes a queue of this connection.
    Connect(Connect),
    /// Reads a property.
    PropertyGet(PropertyAccess),
    /// Sends a message of an authentication protocol.
    AuthenticationSend(Authentication),
    /// Receives one.
    AuthenticationReceive(Authentication),
    /// Deletes this connection's I/O queue.
    Disconnect,
}

/// Why a fabrics command cannot be acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// Not opcode 7Fh.
    #[error("opcode {0:02x}h is not a fabrics command")]
    Opcode(u8),
    /// A type that is not known here.
    #[error("fabrics command {0} is not known")]
    Type(FabricsType),
    /// Fused, or with data whose pointer is no SGL.
    #[error("a fabrics command is not fused, and its data is named by an SGL")]
    Form,
    /// RECFMT of Disconnect is not 0.
    #[error("record format {0} is not known")]
    Format(u16),
    /// Another security protocol than NVMe's own.
    #[error("security protocol {0:08x}h is not known")]
    Protocol(u32),
    /// Nothing is sent, or room for nothing is given.
    #[error("a message of authentication has no bytes")]
    Empty,
    /// A property that is not there, or of another size.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A Connect with an invalid field in the command.
    #[error("Connect is refused: {}", .0.status())]
    Connect(ConnectRefusal),
}

impl CommandError {
    /// Status of the completion. All of these would fail again.
    pub const fn status(&self) -> Status {
        match self {
            Self::Connect(refusal) => refusal.status(),
            Self::Opcode(_) | Self::Type(_) => Status::INVALID_OPCODE.with_dnr(),
            Self::Format(_) => byway_spec::fabrics::status::INCOMPATIBLE_FORMAT.with_dnr(),
            _ => Status::INVALID_FIELD.with_dnr(),
        }
    }

    /// DW0 of the completion.
    pub const fn dw0(&self) -> u32 {
        match self {
            Self::Connect(refusal) => refusal.dw0(),
            _ => 0,
        }
    }
}

impl FabricsCommand {
    /// Reads a command. What reserved fields hold is not looked at.
    ///
    /// # Errors
    /// With the status that answers it.
    pub fn parse(command: &Command) -> Result<Self, CommandError> {
        if command.opcode() != AdminOpcode::FABRICS.0 {
            return Err(CommandError::Opcode(command.opcode()));
        }
        let kind = FabricsType::of(command);
        let has_data = Direction::of(kind.0) != Direction::None;
        if command.cdw0.fuse() != 0 || has_data && command.cdw0.psdt() != DataPointer::Sgl {
            return Err(CommandError::Form);
        }
        match kind {
            FabricsType::PROPERTY_SET => Ok(Self::PropertySet {
                property: property(command)?,
                value: u64::from(command.cdw12) | u64::from(command.cdw13) << 32,
            }),
            FabricsType::CONNECT => Connect::parse(command).map(Self::Connect).map_err(CommandError::Connect),
            FabricsType::PROPERTY_GET => Ok(Self::PropertyGet(property(command)?)),
            FabricsType::AUTHENTICATION_SEND => authentication(command).map(Self::AuthenticationSend),
            FabricsType::AUTHENTICATION_RECEIVE => authentication(command).map(Self::AuthenticationReceive),
            FabricsType::DISCONNECT => match ConnectCdw10::from_bits(command.cdw10).recfmt() {
                0 => Ok(Self::Disconnect),
                format => Err(CommandError::Format(format)),
            },
            other => Err(CommandError::Type(other)),
        }
    }

    /// The type.
    pub const fn fabrics_type(&self) -> FabricsType {
        match self {
            Self::PropertySet { .. } => FabricsType::PROPERTY_SET,
            Self::Connect(_) => FabricsType::CONNECT,
            Self::PropertyGet(_) => FabricsType::PROPERTY_GET,
            Self::AuthenticationSend(_) => FabricsType::AUTHENTICATION_SEND,
            Self::AuthenticationReceive(_) => FabricsType::AUTHENTICATION_RECEIVE,
            Self::Disconnect => FabricsType::DISCONNECT,
        }
    }

    /// The command's submission queue entry. Its data goes in the capsule; received data comes by the transport.
    pub fn encode(&self, cid: u16) -> Command {
        let mut command = Command::new(AdminOpcode::FABRICS.0, cid, u32::from(self.fabrics_type().0));
        command.set_sgl1(self.descriptor());
        match self {
            Self::PropertySet { property, value } => {
                property.encode(&mut command);
                command.cdw12 = *value as u32;
                command.cdw13 = (*value >> 32) as u32;
            }
            Self::Connect(connect) => connect.encode(&mut command),
            Self::PropertyGet(property) => property.encode(&mut command),
            Self::AuthenticationSend(message) | Self::AuthenticationReceive(message) => {
                command.cdw10 = AuthenticationCdw10::NVME.into_bits();
                command.cdw11 = message.bytes;
            }
            Self::Disconnect => {}
        }
        command
    }

    fn descriptor(&self) -> SglDescriptor {
        match self {
            Self::Connect(_) => SglDescriptor::inline(CONNECT_DATA_BYTES as u32),
            Self::AuthenticationSend(message) => SglDescriptor::inline(message.bytes),
            Self::AuthenticationReceive(message) => {
                SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, message.bytes)
            }
            _ => SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, 0),
        }
    }
}

impl Connect {
    fn parse(command: &Command) -> Result<Self, ConnectRefusal> {
        let cdw10 = ConnectCdw10::from_bits(command.cdw10);
        let cdw11 = ConnectCdw11::from_bits(command.cdw11);
        if cdw10.recfmt() != 0 {
            return Err(ConnectRefusal::for_good(RefusalKind::IncompatibleFormat));
        }
        if cdw11.sqsize_z() == 0 {
            return Err(ConnectRefusal::invalid(Parameter::SQSIZE));
        }
        Ok(Self {
            qid: cdw10.qid(),
            sqsize_z: cdw11.sqsize_z(),
            priority: cdw11.priority(),
            no_flow_control: cdw11.no_flow_control(),
            individual_deletion: cdw11.individual_deletion(),
            keep_alive_ms: command.cdw12,
        })
    }

    fn encode(&self, command: &mut Command) {
        command.cdw10 = ConnectCdw10::new().with_qid(self.qid).into_bits();
        command.cdw11 = ConnectCdw11::new()
            .with_sqsize_z(self.sqsize_z)
            .with_priority(self.priority & 3)
            .with_no_flow_control(self.no_flow_control)
            .with_individual_deletion(self.individual_deletion)
            .into_bits();
        command.cdw12 = self.keep_alive_ms;
    }
}

fn property(command: &Command) -> Result<PropertyAccess, PropertyError> {
    PropertyAccess::parse(PropertyCdw10::from_bits(command.cdw10).size(), command.cdw11)
}

fn authentication(command: &Command) -> Result<Authentication, CommandError> {
    // The lowest byte is reserved.
    if command.cdw10 & !0xff != AuthenticationCdw10::NVME.into_bits() {
        return Err(CommandError::Protocol(command.cdw10));
    }
    match command.cdw11 {
        0 => Err(CommandError::Empty),
        bytes => Ok(Authentication { bytes }),
    }
}
