//! `byway info` of keys and values: which command of the device, or which instead of it, serves what the library offers.

use std::fmt;

use byway::KvCommands;
use serde::Serialize;

/// What serves each operation on several pairs.
#[derive(Debug, Serialize)]
pub(super) struct PairOperations {
    scan: &'static str,
    get_many: &'static str,
    delete_range: &'static str,
    /// `None` where a batch is refused: nothing else is atomic.
    atomic_batch: Option<&'static str>,
}

impl From<KvCommands> for PairOperations {
    fn from(can: KvCommands) -> Self {
        Self {
            scan: if can.scan { "Scan" } else { "List and Retrieve" },
            get_many: if can.retrieve_many { "Retrieve Many" } else { "Retrieve" },
            delete_range: if can.delete_range { "Delete Range" } else { "List and Delete" },
            atomic_batch: can.store_many_atomic.then_some("Store Many"),
        }
    }
}

impl fmt::Display for PairOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scan, get_many, delete_range, .. } = self;
        let batch = self
            .atomic_batch
            .map_or("atomic batches are refused".to_owned(), |command| format!("an atomic batch {command}"));
        write!(
            f,
            "key-value commands used: a scan sends {scan}, a get of many keys {get_many}, a deletion of a range {delete_range}; {batch}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_without_commands_for_several_pairs_is_described_by_what_serves_them() {
        let described = PairOperations::from(KvCommands::default()).to_string();
        let expected = "key-value commands used: a scan sends List and Retrieve, a get of many keys Retrieve, \
                        a deletion of a range List and Delete; atomic batches are refused";
        assert_eq!(described, expected);
    }
}
