//! Vendor log pages: the link's ledger, the device's counters, and error texts.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::base::log::LogPage;
#[cfg(doc)]
use crate::vendor::{MAGIC, VERSION};

/// Vendor log: [`LedgerLog`], its rows, its counters.
pub const LOG_LEDGER: LogPage = LogPage::LEDGER;

/// Vendor log: an [`ErrorText`] for each entry of the Error Information log, which names this page in its Vendor Specific
/// Information Available field.
pub const LOG_ERROR_TEXTS: LogPage = LogPage::ERROR_TEXTS;

/// Vendor log: [`StallLog`], then rows of [`StallRow`].
pub const LOG_STALLS: LogPage = LogPage::STALLS;

/// Head of [`LOG_STALLS`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct StallLog {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Number of rows that follow.
    pub rows: u32,
}

open_enum! {
    /// What a [`StallRow`] is of.
    pub struct StallScope(u16) {
        /// All commands since the subsystem was opened.
        DEVICE = 0 "device",
        /// Commands to one namespace.
        NAMESPACE = 1 "namespace",
        /// Commands of one submission queue since its controller was made.
        QUEUE = 2 "queue",
        /// Upkeep that no command waited for; `quantum` counts what a thread did without a break.
        UPKEEP = 3 "upkeep",
    }
}

/// Waits of commands for one cause. The cause `command` counts commands with any wait, and the waits of each of them together.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct StallRow {
    /// A [`StallScope`].
    pub scope: u16,
    /// Controller identifier, of a queue.
    pub cntlid: u16,
    /// Namespace or queue identifier.
    pub id: u32,
    /// Name of the cause, ASCII, padded with zeroes.
    pub cause: [u8; 16],
    /// Waits of a microsecond and more.
    pub count: u64,
    /// Time of all waits in nanoseconds.
    pub total_ns: u64,
    /// Longest wait in nanoseconds.
    pub longest_ns: u64,
}

/// What an error was, in words, in [`LOG_ERROR_TEXTS`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ErrorText {
    /// Serial number of the error, as in the Error Information log; 0 for no entry.
    pub error_count: u64,
    /// The words, ASCII, padded with zeroes.
    pub text: [u8; 120],
}

impl ErrorText {
    /// What error `error_count` was. Words beyond the room are cut off.
    #[must_use]
    pub fn new(error_count: u64, words: &str) -> Self {
        let mut text = [0; 120];
        text.iter_mut().zip(words.bytes()).for_each(|(to, from)| *to = from);
        Self { error_count, text }
    }

    /// The words, if they are text.
    #[must_use]
    pub fn words(&self) -> Option<&str> {
        let len = self.text.iter().position(|byte| *byte == 0).unwrap_or(self.text.len());
        core::str::from_utf8(self.text.get(..len)?).ok().filter(|words| !words.is_empty())
    }
}

/// Head of the vendor log; `rows` of [`LedgerRow`] follow, then `counters` of [`Counter`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct LedgerLog {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Number of ledger rows.
    pub rows: u32,
    /// Number of counters.
    pub counters: u32,
    /// Reserved.
    pub reserved: u32,
}

/// One class of transactions in the vendor log.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct LedgerRow {
    /// Name of the class, ASCII, padded with zeroes.
    pub class: [u8; 16],
    /// Transactions.
    pub count: u64,
    /// Payload bytes.
    pub payload_bytes: u64,
    /// Wire bytes, host to device.
    pub down_bytes: u64,
    /// Wire bytes, device to host.
    pub up_bytes: u64,
}

/// One counter of the device in the vendor log: named, so that new ones need no new version.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Counter {
    /// Name, ASCII, padded with zeroes, such as `program.host`.
    pub name: [u8; 24],
    /// Value.
    pub value: u64,
}

assert_size! {
    LedgerLog = 24;
    LedgerRow = 48;
    Counter = 32;
    StallLog = 16;
    StallRow = 48;
}

/// A name field: ASCII, cut or padded with zeroes to its size.
pub fn name_field<const N: usize>(name: &str) -> [u8; N] {
    let mut field = [0; N];
    for (to, from) in field.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    field
}

/// The text of a name field, up to its first zero; empty if it is not ASCII.
pub fn name_text(field: &[u8]) -> &str {
    let len = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let text = field.get(..len).unwrap_or_default();
    if text.is_ascii() { core::str::from_utf8(text).unwrap_or_default() } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_log_survive_the_trip() {
        assert_eq!(name_text(&name_field::<16>("doorbell")), "doorbell");
        assert_eq!(name_text(&name_field::<4>("doorbell")), "door");
        assert_eq!(name_text(&[0xff, 0xff]), "");
    }
}
