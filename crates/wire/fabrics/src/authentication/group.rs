//! The groups in which secrets are agreed on (RFC 7919), and the exchange.

use core::fmt;
use core::str::FromStr;
use std::sync::OnceLock;

use byway_spec::authentication::DhGroupId;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use zeroize::{Zeroize, Zeroizing};

use super::primes;

/// A group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DhGroup {
    /// None: challenges are answered as they are.
    Null,
    /// 2048 bits.
    Ffdhe2048,
    /// 3072 bits.
    Ffdhe3072,
    /// 4096 bits.
    Ffdhe4096,
    /// 6144 bits.
    Ffdhe6144,
    /// 8192 bits.
    Ffdhe8192,
}

/// A text names no group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a group is null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144 or ffdhe8192")]
pub struct GroupNameError;

/// A peer's DH value is none of the group's: 0, 1, the prime less 1, more than that, or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadDhValue;

impl DhGroup {
    /// Every group.
    pub const ALL: [Self; 6] =
        [Self::Null, Self::Ffdhe2048, Self::Ffdhe3072, Self::Ffdhe4096, Self::Ffdhe6144, Self::Ffdhe8192];

    /// That of an identifier, if it is known.
    pub fn of(id: DhGroupId) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.id() == id)
    }

    /// DH group identifier.
    pub const fn id(self) -> DhGroupId {
        match self {
            Self::Null => DhGroupId::NULL,
            Self::Ffdhe2048 => DhGroupId::FFDHE2048,
            Self::Ffdhe3072 => DhGroupId::FFDHE3072,
            Self::Ffdhe4096 => DhGroupId::FFDHE4096,
            Self::Ffdhe6144 => DhGroupId::FFDHE6144,
            Self::Ffdhe8192 => DhGroupId::FFDHE8192,
        }
    }

    /// Bytes of a DH value, and of the secret that is agreed on.
    pub const fn bytes(self) -> usize {
        self.bits() as usize / 8
    }

    const fn bits(self) -> u32 {
        match self {
            Self::Null => 0,
            Self::Ffdhe2048 => 2048,
            Self::Ffdhe3072 => 3072,
            Self::Ffdhe4096 => 4096,
            Self::Ffdhe6144 => 6144,
            Self::Ffdhe8192 => 8192,
        }
    }

    /// Bytes of a secret exponent: at least twice the strength of the group (RFC 7919, section 5.2). A longer one adds only work.
    pub(super) const fn exponent_bytes(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Ffdhe2048 => 32,
            Self::Ffdhe3072 => 40,
            Self::Ffdhe4096 => 48,
            Self::Ffdhe6144 | Self::Ffdhe8192 => 56,
        }
    }

    /// Its name, as commands take it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Ffdhe2048 => "ffdhe2048",
            Self::Ffdhe3072 => "ffdhe3072",
            Self::Ffdhe4096 => "ffdhe4096",
            Self::Ffdhe6144 => "ffdhe6144",
            Self::Ffdhe8192 => "ffdhe8192",
        }
    }

    /// The DH value of a secret exponent: nothing in the NULL group.
    pub(super) fn public(self, exponent: &[u8]) -> Vec<u8> {
        let Some(field) = self.field() else { return Vec::new() };
        power(&BoxedUint::from_be_slice_truncated(&[2], self.bits()), exponent, field).to_vec()
    }

    /// The secret that a peer's DH value and this side's exponent make: as many bytes as the group has, zeroes in front included.
    /// Both sides hash it, so a zero more or less would be another secret.
    pub(super) fn agree(self, theirs: &[u8], exponent: &[u8]) -> Result<Zeroizing<Vec<u8>>, BadDhValue> {
        let Some(field) = self.field() else {
            return if theirs.is_empty() { Ok(Zeroizing::default()) } else { Err(BadDhValue) };
        };
        let value = BoxedUint::from_be_slice(theirs, self.bits()).map_err(|_| BadDhValue)?;
        let one = BoxedUint::one_with_precision(self.bits());
        let last = field.modulus().as_ref().wrapping_sub(&one);
        if value <= one || value >= last {
            return Err(BadDhValue);
        }
        Ok(power(&value, exponent, field))
    }

    /// What arithmetic in the group needs, made once.
    fn field(self) -> Option<&'static BoxedMontyParams> {
        static FIELDS: [OnceLock<Option<BoxedMontyParams>>; 5] = [const { OnceLock::new() }; 5];
        let (at, prime) = match self {
            Self::Null => return None,
            Self::Ffdhe2048 => (0, primes::FFDHE2048),
            Self::Ffdhe3072 => (1, primes::FFDHE3072),
            Self::Ffdhe4096 => (2, primes::FFDHE4096),
            Self::Ffdhe6144 => (3, primes::FFDHE6144),
            Self::Ffdhe8192 => (4, primes::FFDHE8192),
        };
        let make = || {
            let prime = BoxedUint::from_be_hex(prime, self.bits()).into_option()?;
            Some(BoxedMontyParams::new_vartime(Odd::new(prime).into_option()?))
        };
        FIELDS.get(at)?.get_or_init(make).as_ref()
    }
}

/// `base` to the power of a secret exponent. The time taken depends only on the exponent's length.
fn power(base: &BoxedUint, exponent: &[u8], field: &BoxedMontyParams) -> Zeroizing<Vec<u8>> {
    let bits = 8 * exponent.len() as u32;
    let mut exponent = BoxedUint::from_be_slice_truncated(exponent, bits);
    let mut made = BoxedMontyForm::new(base.clone(), field).pow_bounded_exp(&exponent, bits).retrieve();
    let bytes = Zeroizing::new(made.to_be_bytes().into_vec());
    exponent.zeroize();
    made.zeroize();
    bytes
}

impl fmt::Display for DhGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DhGroup {
    type Err = GroupNameError;

    fn from_str(name: &str) -> Result<Self, GroupNameError> {
        Self::ALL.into_iter().find(|group| group.name() == name).ok_or(GroupNameError)
    }
}
