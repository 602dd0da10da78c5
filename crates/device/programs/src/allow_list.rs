//! Which programs may run over the objects of a namespace.

use std::fmt;
use std::str::FromStr;

use crate::builtin::BuiltIn;
use crate::program::{Program, SHA256_BYTES};

/// A program that an administrator allows. In text it is 64 hexadecimal digits or the name of a program of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// The program whose bytes have this SHA-256.
    Sha256([u8; SHA256_BYTES]),
    /// A program of the device.
    BuiltIn(BuiltIn),
}

/// Programs that an administrator allows. An empty list allows none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    allowed: Vec<Allowed>,
}

/// A text names no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is neither a SHA-256 of 64 hexadecimal digits nor filter, aggregate, crc32c, crc64 or decompress"
)]
pub struct NamesNoProgram(String);

impl AllowList {
    /// Whether no program is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty()
    }

    /// The programs, in the order in which they were listed.
    #[must_use]
    pub fn as_slice(&self) -> &[Allowed] {
        &self.allowed
    }

    /// Whether a program may run.
    #[must_use]
    pub fn allows(&self, program: &Program) -> bool {
        self.allowed.iter().any(|allowed| match *allowed {
            Allowed::Sha256(digest) => program.sha256() == Some(&digest),
            Allowed::BuiltIn(built_in) => program.as_built_in() == Some(built_in),
        })
    }
}

impl FromIterator<Allowed> for AllowList {
    fn from_iter<I: IntoIterator<Item = Allowed>>(allowed: I) -> Self {
        Self { allowed: allowed.into_iter().collect() }
    }
}

impl FromStr for Allowed {
    type Err = NamesNoProgram;

    fn from_str(text: &str) -> Result<Self, NamesNoProgram> {
        if let Some(built_in) = BuiltIn::ALL.into_iter().find(|built_in| built_in.name() == text) {
            return Ok(Self::BuiltIn(built_in));
        }
        digest_of(text.as_bytes()).map(Self::Sha256).ok_or_else(|| NamesNoProgram(text.to_owned()))
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(built_in) => out.write_str(built_in.name()),
            Self::Sha256(digest) => digest.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        }
    }
}

fn digest_of(digits: &[u8]) -> Option<[u8; SHA256_BYTES]> {
    let mut digest = [0; SHA256_BYTES];
    if digits.len() != 2 * SHA256_BYTES {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16);
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (value(pair[0])? << 4 | value(pair[1])?) as u8;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_spec::programs::ProgramType;

    /// `r0 = 7; exit`, and what `sha256sum` says of it.
    const SEVEN: [u8; 16] = [0xb7, 0, 0, 0, 7, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
    const SEVEN_SHA256: &str = "9efe8873120741b3f6812b18ab694dc1f08d806cc66b40b52423302267b12b24";

    #[test]
    fn a_loaded_program_is_allowed_by_its_sha256() {
        let program = Program::load(ProgramType::EBPF, Some(1), &SEVEN).expect("sound");
        let allowed: Allowed = SEVEN_SHA256.parse().expect("a digest");
        assert!(AllowList::from_iter([allowed]).allows(&program));
        assert!(!AllowList::default().allows(&program));
        let mut other = SEVEN;
        other[4] = 8;
        let other = Program::load(ProgramType::EBPF, Some(1), &other).expect("sound");
        assert!(!AllowList::from_iter([allowed]).allows(&other));
    }

    #[test]
    fn a_program_of_the_device_is_allowed_by_its_name_alone() {
        let list: AllowList = [Allowed::BuiltIn(BuiltIn::Crc32c)].into_iter().collect();
        assert!(list.allows(&Program::built_in(BuiltIn::Crc32c)));
        assert!(!list.allows(&Program::built_in(BuiltIn::Crc64)));
        let digest = [Allowed::Sha256([0; SHA256_BYTES])];
        assert!(!AllowList::from_iter(digest).allows(&Program::built_in(BuiltIn::Crc32c)));
    }

    #[test]
    fn allowed_programs_are_written_as_they_are_read() {
        for text in ["filter", "aggregate", "crc32c", "crc64", "decompress", SEVEN_SHA256] {
            assert_eq!(text.parse::<Allowed>().map(|allowed| allowed.to_string()).as_deref(), Ok(text));
        }
        let upper = SEVEN_SHA256.to_uppercase();
        assert_eq!(upper.parse::<Allowed>(), SEVEN_SHA256.parse());
        for text in
            ["", "CRC32C", "12", &SEVEN_SHA256[1..], &format!("{SEVEN_SHA256}0"), &"\u{e9}".repeat(32)]
        {
            assert_eq!(text.parse::<Allowed>(), Err(NamesNoProgram(text.to_owned())));
        }
    }
}
