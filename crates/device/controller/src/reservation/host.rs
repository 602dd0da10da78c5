//! Hosts, which reservations identify by the Host Identifier that each set on its controllers (Base 2.1, section
//! 5.1.25.2.28).

use byway_spec::Status;

use crate::error::CommandError;
use crate::id::ControllerId;
use crate::subsystem::PerController;

/// A host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Host {
    /// A host without an identifier. It differs from any other until its controller is reset.
    Unnamed(ControllerId),
    /// An identifier of 64 bits.
    Short([u8; 8]),
    /// An identifier of 128 bits.
    Extended([u8; 16]),
}

impl Host {
    /// The host that `bytes` names, 8 or 16 of them; none if they are zeroes, or of another number.
    #[must_use]
    pub fn named(bytes: &[u8]) -> Option<Self> {
        let host = match bytes.len() {
            8 => Self::Short(bytes.try_into().ok()?),
            16 => Self::Extended(bytes.try_into().ok()?),
            _ => return None,
        };
        bytes.iter().any(|byte| *byte != 0).then_some(host)
    }

    /// Its identifier, zeroes for none, and whether that is one of 128 bits.
    pub(crate) fn identifier(self) -> ([u8; 16], bool) {
        let mut bytes = [0; 16];
        match self {
            Self::Unnamed(_) => (bytes, false),
            Self::Short(id) => {
                bytes[..8].copy_from_slice(&id);
                (bytes, false)
            }
            Self::Extended(id) => (id, true),
        }
    }

    pub(crate) const fn is_named(self) -> bool {
        !matches!(self, Self::Unnamed(_))
    }

    /// Whether both are named, by identifiers of different sizes.
    pub(crate) const fn is_named_otherwise(self, other: Self) -> bool {
        matches!((self, other), (Self::Short(_), Self::Extended(_)) | (Self::Extended(_), Self::Short(_)))
    }
}

/// The host of each controller.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    /// None for a controller whose host never set an identifier.
    of: PerController<Option<Host>>,
}

impl Hosts {
    /// The host of controller `id`.
    pub fn of(&self, id: ControllerId) -> Host {
        self.of.get(id).copied().flatten().unwrap_or(Host::Unnamed(id))
    }

    /// Gives controller `id` a host.
    ///
    /// # Errors
    /// Host Identifier Inconsistent Format where another controller has one by an identifier of the other size.
    pub fn set(&mut self, id: ControllerId, host: Host) -> Result<(), CommandError> {
        if self.iter().any(|(other, of)| other != id && of.is_named_otherwise(host)) {
            return Err(OTHER_SIZE);
        }
        if let Some(place) = self.of.entry(id) {
            *place = Some(host);
        }
        Ok(())
    }

    /// Controllers whose hosts have set or lost an identifier, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ControllerId, Host)> {
        self.of.iter().filter_map(|(id, host)| Some((id, (*host)?)))
    }
}

/// Host identifiers of 64 and of 128 bits are not in use at once.
pub(crate) const OTHER_SIZE: CommandError = CommandError::new(
    Status::HOST_ID_INCONSISTENT,
    "host identifiers of 64 and of 128 bits are not in use at once",
);
