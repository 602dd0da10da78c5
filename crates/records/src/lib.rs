//! Files of records: lines, CSV and Parquet, read and written record by record.
//!
//! A [`Source`] says behind each record where it ends in the file ([`Position`]), and another can go on from there.

#![forbid(unsafe_code)]

mod columns;
mod csv;
mod csv_input;
mod encoding;
mod format;
mod kept;
mod lines;
mod open;
mod parquet;
mod sink;
mod source;

pub use columns::Columns;
pub use encoding::Encoding;
pub use format::FileFormat;
pub use kept::{Kept, whole_records};
pub use open::open;
pub use sink::Sink;
pub use source::{Input, Place, Position, Source, SourceError};
