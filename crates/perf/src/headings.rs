//! Headings of the help.

pub(crate) const LOAD: &str = "Load";
pub(crate) const RANGE: &str = "Range of a load of blocks";
pub(crate) const KEYS: &str = "Keys and values of put, get and putget";
pub(crate) const MEASUREMENT: &str = "Measurement";
/// What is written beside the printed table.
pub(crate) const OUTPUT: &str = "Output";
pub(crate) const EXPERT: &str = "Expert";
