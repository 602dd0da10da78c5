//! Decoded answers of devices: identify structures, log pages, features.

mod controller;
mod feature;
mod fields;
mod identify;
mod log;
mod namespace;
mod vendor;

use std::io::{self, Write};

use byway_console::table::Table;
use serde::Serialize;
use zerocopy::FromBytes;

pub use feature::{data_bytes as feature_data_bytes, feature, values as feature_values};
pub use fields::Fields;
pub use identify::identify;
pub use log::{ana_bytes, bytes as log_bytes, discovery_bytes, log};
pub use vendor::{ledger_bytes, stall_bytes, stall_rows};

/// A decoded answer.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Decoded {
    /// One structure.
    Fields(Fields),
    /// Entries that are alike.
    Entries(Vec<Fields>),
}

impl Decoded {
    /// Writes it for people.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Fields(fields) => put!(out, "{fields}"),
            Self::Entries(entries) => write_entries(entries, out),
        }
    }
}

fn write_entries(entries: &[Fields], out: &mut impl Write) -> io::Result<()> {
    let Some(first) = entries.first() else { return put!(out, "no entries\n") };
    let mut table = Table::new(&first.names().collect::<Vec<_>>());
    for entry in entries {
        table.push(entry.shown().map(str::to_owned).collect());
    }
    put!(out, "{table}")
}

/// The beginning of an answer as a structure; nothing where the answer is shorter.
fn read<T: FromBytes>(bytes: &[u8]) -> Option<Box<T>> {
    T::read_from_prefix(bytes).ok().map(|(structure, _)| Box::new(structure))
}

/// Entries of a size each.
fn read_each<T: FromBytes>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(size_of::<T>()).filter_map(|entry| T::read_from_bytes(entry).ok())
}
