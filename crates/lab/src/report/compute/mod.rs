//! Queries in the device: what their texts move over the link by each transfer method, and one query by device and by host.
//!
//! | file | what it does |
//! |---|---|
//! | `texts.rs` | texts of queries and predicates as payloads |
//! | `both_ways.rs` | the Laghos query, executed by the device and by the host |
//! | `shown.rs` | figures and tables of both |

pub mod both_ways;
pub mod shown;
pub mod texts;

use serde::{Deserialize, Serialize};

use byway_measure::rows::TransferRow;

/// A text as the payload of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TextPoint {
    /// The data set that it goes with.
    pub set: String,
    /// What it asks for.
    pub asks: String,
    /// The text.
    pub sql: String,
    /// What a payload of its length cost.
    #[serde(flatten)]
    pub row: TransferRow,
}

/// The Laghos query by one way in one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryPoint {
    /// A profile, with `@link` when the link is another than its own.
    pub setting: String,
    /// Which side executes it, and how.
    pub way: String,
    /// Commands.
    pub commands: u64,
    /// Bytes on the wire, without what the host reads of registers while it waits.
    pub wire_bytes: u64,
    /// The same of payload.
    pub payload_bytes: u64,
    /// Modelled time of commands and data, without that of the scan, in nanoseconds.
    pub model_ns: u64,
}

/// What is measured of queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Computed {
    /// Texts by methods by settings.
    pub texts: Vec<TextPoint>,
    /// The Laghos query by ways by settings.
    pub queries: Vec<QueryPoint>,
    /// Rows of the object that it reads.
    pub rows: u64,
    /// Bytes of that object.
    pub object_bytes: u64,
    /// Bytes of the result, as CSV.
    pub result_bytes: u64,
}

impl Computed {
    /// The Laghos query by one way in one setting.
    pub fn query(&self, setting: &str, way: &str) -> Option<&QueryPoint> {
        self.queries.iter().find(|point| point.setting == setting && point.way == way)
    }
}
