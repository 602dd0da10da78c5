//! Names: NQNs and host identifiers (Base 2.1, section 4.7).

use core::fmt;
use core::str::FromStr;

use byway_spec::fabrics::{DISCOVERY_NQN, NQN_BYTES_MAX};

/// Bytes of a field that holds an NQN and the NUL behind it.
const FIELD_BYTES: usize = 256;

const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// The name of a subsystem or of a host: 1 to 223 bytes of UTF-8 without control characters.
///
/// Names in none of the specified forms are accepted, as by Linux, whose own tests use them; [`Self::form`] returns
/// the form. Two names are equal if their bytes are.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nqn(String);

/// How a name is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NqnForm {
    /// `nqn.2014-08.org.nvmexpress:uuid:` and a UUID.
    Uuid,
    /// `nqn.yyyy-mm.`, a reversed domain name, and most often a colon and text.
    Domain,
    /// None that the specification has.
    Other,
}

/// Why a text or a field is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NqnError {
    /// A name of no bytes.
    #[error("an NQN is empty")]
    Empty,
    /// More than 223 bytes.
    #[error("an NQN has {0} bytes, at most {NQN_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// No NUL in the field.
    #[error("an NQN does not end in its field")]
    Unterminated,
    /// Not UTF-8.
    #[error("an NQN is not UTF-8")]
    NotUtf8,
    /// A control character.
    #[error("an NQN has a control character")]
    Control,
}

impl Nqn {
    /// A name.
    ///
    /// # Errors
    /// If it is none.
    pub fn new(name: &str) -> Result<Self, NqnError> {
        match name.len() {
            0 => return Err(NqnError::Empty),
            1..=NQN_BYTES_MAX => {}
            bytes => return Err(NqnError::TooLong(bytes)),
        }
        if name.chars().any(char::is_control) {
            return Err(NqnError::Control);
        }
        Ok(Self(name.to_owned()))
    }

    /// The well-known name of discovery controllers without a name of their own.
    pub fn discovery() -> Self {
        Self(DISCOVERY_NQN.to_owned())
    }

    /// From a field of a structure: up to its first NUL, whatever follows.
    ///
    /// # Errors
    /// If it holds no name.
    pub fn from_field(field: &[u8; FIELD_BYTES]) -> Result<Self, NqnError> {
        let end = field.iter().position(|byte| *byte == 0).ok_or(NqnError::Unterminated)?;
        let name = field.get(..end).unwrap_or_default();
        Self::new(core::str::from_utf8(name).map_err(|_| NqnError::NotUtf8)?)
    }

    /// As a field of a structure.
    pub fn to_field(&self) -> [u8; FIELD_BYTES] {
        let mut field = [0; FIELD_BYTES];
        field.iter_mut().zip(self.0.as_bytes()).for_each(|(to, from)| *to = *from);
        field
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the name that all discovery controllers share.
    pub fn is_discovery(&self) -> bool {
        self.0 == DISCOVERY_NQN
    }

    /// How it is made.
    pub fn form(&self) -> NqnForm {
        match self.0.strip_prefix(UUID_PREFIX) {
            Some(uuid) if HostId::from_str(uuid).is_ok() => NqnForm::Uuid,
            Some(_) => NqnForm::Other,
            None if self.is_of_a_domain() => NqnForm::Domain,
            None => NqnForm::Other,
        }
    }

    fn is_of_a_domain(&self) -> bool {
        let Some(rest) = self.0.strip_prefix("nqn.") else { return false };
        let Some((date, rest)) = rest.split_at_checked(7) else { return false };
        let is_date = date.bytes().enumerate().all(|(i, byte)| match i {
            4 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        let month = date.get(5..).and_then(|month| month.parse::<u8>().ok());
        let is_month = month.is_some_and(|month| (1..=12).contains(&month));
        let Some(domain) = rest.strip_prefix('.') else { return false };
        let domain = domain.split(':').next().unwrap_or_default();
        is_date && is_month && domain.split('.').all(is_label)
    }
}

/// A part of a domain name.
fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = label.as_bytes();
    label.len() <= 63 && ends(bytes.first()) && ends(bytes.last()) && label.bytes().all(inner)
}

impl FromStr for Nqn {
    type Err = NqnError;

    fn from_str(name: &str) -> Result<Self, NqnError> {
        Self::new(name)
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nqn({})", self.0)
    }
}

/// The identifier of a host (HOSTID): a UUID, its bytes in the order in which it is written.
///
/// It is what reservations are kept by: a host that changes it is another host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HostId(pub [u8; 16]);

/// A text is no UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a host identifier is a UUID: 32 hexadecimal digits, with hyphens after 8, 12, 16 and 20")]
pub struct HostIdError;

impl FromStr for HostId {
    type Err = HostIdError;

    fn from_str(text: &str) -> Result<Self, HostIdError> {
        let groups: Vec<&str> = text.split('-').collect();
        if groups.iter().map(|group| group.len()).ne([8, 4, 4, 4, 12]) {
            return Err(HostIdError);
        }
        let digits = groups.concat().into_bytes();
        let mut bytes = [0; 16];
        for (byte, [high, low]) in bytes.iter_mut().zip(digits.as_chunks().0) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(HostIdError);
            *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostId({self})")
    }
}
