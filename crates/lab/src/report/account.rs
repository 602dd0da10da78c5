//! Accounts of bytes, by which measurements are compared with the papers.

use byway_measure::rows::TransferRow;

/// By which account bytes are compared with the papers (docs/reference/link-model.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Account {
    /// Completion and two doorbells beside command and data: 24 bytes a command.
    Payload,
    /// And the interrupt: 28.
    Interrupt,
    /// And one read of a 4-byte pointer: 32.
    Pointer,
    /// With packet headers, framing and check sums.
    Wire,
}

impl Account {
    /// Every account.
    pub const ALL: [Self; 4] = [Self::Payload, Self::Interrupt, Self::Pointer, Self::Wire];

    /// How it is headed in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Interrupt => "+ interrupt",
            Self::Pointer => "+ pointer read",
            Self::Wire => "wire",
        }
    }

    /// Bytes a put.
    pub fn bytes(self, row: &TransferRow) -> f64 {
        match self {
            Self::Payload => row.payload_bytes,
            Self::Interrupt => row.payload_bytes + row.interrupt_bytes,
            Self::Pointer => row.payload_bytes + row.interrupt_bytes + 4.0 * row.commands,
            Self::Wire => row.wire_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::measured::tests::modelled;
    use byway_link::{Method, Profile};

    #[test]
    fn the_accounts_of_a_32_byte_put_are_those_of_the_notes() {
        let profile = Profile::by_name("cosmos").unwrap_or_else(|| panic!("no such profile"));
        let row = modelled(&profile, Method::Prp, 32);
        let bytes = Account::ALL.map(|account| account.bytes(&row));
        assert_eq!(bytes, [4184.0, 4188.0, 4192.0, 4836.0]);
    }
}
