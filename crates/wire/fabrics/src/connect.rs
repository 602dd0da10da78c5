//! Connect: its data, and how it is answered (Base 2.1, section 6.3).

use core::mem::offset_of;

use byway_spec::fabrics::{
    self, CNTLID_DYNAMIC, CONNECT_DATA_BYTES, ConnectAccepted, ConnectInvalid, NQN_BYTES_MAX, status,
};
use byway_spec::{Completion, Status};
use zerocopy::FromBytes;

use crate::{HostId, Nqn, NqnError};

/// A controller of a subsystem (CNTLID), 0 to FFEFh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControllerId(pub u16);

/// Which controller a host connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerChoice {
    /// One that is made for it.
    Dynamic,
    /// A given controller: of a static subsystem, or of an existing admin queue.
    Id(ControllerId),
}

impl ControllerChoice {
    const fn from_cntlid(cntlid: u16) -> Self {
        if cntlid == CNTLID_DYNAMIC { Self::Dynamic } else { Self::Id(ControllerId(cntlid)) }
    }

    const fn cntlid(self) -> u16 {
        match self {
            Self::Dynamic => CNTLID_DYNAMIC,
            Self::Id(id) => id.0,
        }
    }
}

/// The data of Connect: identifiers of host and subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectData {
    /// The host's identifier.
    pub host_id: HostId,
    /// The controller.
    pub controller: ControllerChoice,
    /// The subsystem's name.
    pub subsystem: Nqn,
    /// The host's name.
    pub host: Nqn,
}

/// A field that a Connect is refused for, by where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// In the command.
    Command(u16),
    /// In the data.
    Data(u16),
}

impl Parameter {
    /// QID.
    pub const QID: Self = Self::Command(42);
    /// SQSIZE.
    pub const SQSIZE: Self = Self::Command(44);
    /// CATTR.
    pub const CATTR: Self = Self::Command(46);
    /// KATO.
    pub const KATO: Self = Self::Command(48);
    /// HOSTID.
    pub const HOSTID: Self = Self::Data(offset_of!(fabrics::ConnectData, hostid) as u16);
    /// CNTLID.
    pub const CNTLID: Self = Self::Data(offset_of!(fabrics::ConnectData, cntlid) as u16);
    /// SUBNQN.
    pub const SUBNQN: Self = Self::Data(offset_of!(fabrics::ConnectData, subnqn) as u16);
    /// HOSTNQN.
    pub const HOSTNQN: Self = Self::Data(offset_of!(fabrics::ConnectData, hostnqn) as u16);

    const fn invalid(self) -> ConnectInvalid {
        match self {
            Self::Command(offset) => ConnectInvalid::new().with_ipo(offset),
            Self::Data(offset) => ConnectInvalid::new().with_ipo(offset).with_in_data(true),
        }
    }

    const fn from_invalid(invalid: ConnectInvalid) -> Self {
        if invalid.in_data() { Self::Data(invalid.ipo()) } else { Self::Command(invalid.ipo()) }
    }
}

/// Why a Connect fails, as a controller says it and a host reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectRefusal {
    /// The reason.
    pub kind: RefusalKind,
    /// A retry would fail too: the status has Do Not Retry, and hosts stop trying.
    pub is_final: bool,
}

/// Why a Connect is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// RECFMT is not 0.
    IncompatibleFormat,
    /// No room for the queue or the controller just now.
    Busy,
    /// A field is wrong.
    Invalid(Parameter),
    /// The subsystem moved: the discovery service knows where to.
    RestartDiscovery,
    /// This host is not allowed here.
    InvalidHost,
    /// The queue has to be authenticated first.
    AuthenticationRequired,
    /// Any other status.
    Other(Status),
}

impl ConnectRefusal {
    /// A permanent refusal: the configuration is wrong.
    pub const fn for_good(kind: RefusalKind) -> Self {
        Self { kind, is_final: true }
    }

    /// A refusal that may pass.
    pub const fn for_now(kind: RefusalKind) -> Self {
        Self { kind, is_final: false }
    }

    /// A field that is wrong.
    pub const fn invalid(parameter: Parameter) -> Self {
        Self::for_good(RefusalKind::Invalid(parameter))
    }

    /// Status of the completion.
    pub const fn status(&self) -> Status {
        let status = match self.kind {
            RefusalKind::IncompatibleFormat => status::INCOMPATIBLE_FORMAT,
            RefusalKind::Busy => status::CONTROLLER_BUSY,
            RefusalKind::Invalid(_) => status::INVALID_PARAMETERS,
            RefusalKind::RestartDiscovery => status::RESTART_DISCOVERY,
            RefusalKind::InvalidHost => status::INVALID_HOST,
            RefusalKind::AuthenticationRequired => status::AUTHENTICATION_REQUIRED,
            RefusalKind::Other(status) => status,
        };
        if self.is_final { status.with_dnr() } else { status }
    }

    /// DW0 of the completion.
    pub const fn dw0(&self) -> u32 {
        match self.kind {
            RefusalKind::Invalid(parameter) => parameter.invalid().into_bits(),
            _ => 0,
        }
    }

    fn from_completion(completion: &Completion) -> Self {
        let status = completion.status();
        let kind = match status.code() {
            status::INCOMPATIBLE_FORMAT => RefusalKind::IncompatibleFormat,
            status::CONTROLLER_BUSY => RefusalKind::Busy,
            status::INVALID_PARAMETERS => {
                RefusalKind::Invalid(Parameter::from_invalid(ConnectInvalid::from_bits(completion.dw0)))
            }
            status::RESTART_DISCOVERY => RefusalKind::RestartDiscovery,
            status::INVALID_HOST => RefusalKind::InvalidHost,
            status::AUTHENTICATION_REQUIRED => RefusalKind::AuthenticationRequired,
            other => RefusalKind::Other(other),
        };
        Self { kind, is_final: status.dnr() }
    }
}

/// The result of a successful Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The controller: an I/O queue's Connect names it.
    pub controller: ControllerId,
    /// Nothing but authentication is answered until it is done (ATR).
    pub authenticate: bool,
    /// The host must authenticate, and set up a secure channel (ASCR).
    pub secure: bool,
}

impl Accepted {
    /// DW0 of the completion.
    pub const fn dw0(&self) -> u32 {
        let accepted = ConnectAccepted::new().with_cntlid(self.controller.0);
        accepted.with_atr(self.authenticate).with_ascr(self.secure).into_bits()
    }

    /// Reads the completion of a Connect.
    ///
    /// # Errors
    /// Why it failed.
    pub fn parse(completion: &Completion) -> Result<Self, ConnectRefusal> {
        if !completion.status().is_success() {
            return Err(ConnectRefusal::from_completion(completion));
        }
        let accepted = ConnectAccepted::from_bits(completion.dw0);
        Ok(Self {
            controller: ControllerId(accepted.cntlid()),
            authenticate: accepted.atr(),
            secure: accepted.ascr(),
        })
    }
}

impl ConnectData {
    /// Reads the data of a Connect.
    ///
    /// # Errors
    /// If it is not 1024 bytes, or one of the names is none: with the field.
    pub fn parse(data: &[u8]) -> Result<Self, ConnectRefusal> {
        let too_short = ConnectRefusal::for_good(RefusalKind::Other(Status::DATA_SGL_LENGTH_INVALID));
        let raw = fabrics::ConnectData::read_from_bytes(data).map_err(|_| too_short)?;
        let name = |field, parameter| {
            Nqn::from_field(field).map_err(|_: NqnError| ConnectRefusal::invalid(parameter))
        };
        Ok(Self {
            host_id: HostId(raw.hostid),
            controller: ControllerChoice::from_cntlid(raw.cntlid),
            subsystem: name(&raw.subnqn, Parameter::SUBNQN)?,
            host: name(&raw.hostnqn, Parameter::HOSTNQN)?,
        })
    }

    /// The host's and the subsystem's name as text for a log, whatever the fields hold. Bytes that are no text, and control
    /// characters, are U+FFFD; a field that is not there is empty.
    pub fn names(data: &[u8]) -> (String, String) {
        let field = |at: usize| data.get(at..at + NQN_BYTES_MAX).unwrap_or_default();
        (
            text_of(field(offset_of!(fabrics::ConnectData, hostnqn))),
            text_of(field(offset_of!(fabrics::ConnectData, subnqn))),
        )
    }

    /// The data as bytes.
    pub fn encode(&self) -> [u8; CONNECT_DATA_BYTES] {
        zerocopy::transmute!(fabrics::ConnectData {
            hostid: self.host_id.0,
            cntlid: self.controller.cntlid(),
            reserved_18: [0; 238],
            subnqn: self.subsystem.to_field(),
            hostnqn: self.host.to_field(),
            reserved_768: [0; 256],
        })
    }
}

fn text_of(field: &[u8]) -> String {
    let name = field.split(|byte| *byte == 0).next().unwrap_or_default();
    let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(name).chars().map(printable).collect()
}
