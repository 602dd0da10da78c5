//! Calls to a device: queues of typed commands, and synchronous calls to key-value and block namespaces.

mod backward;
mod batch;
mod cursor;
mod delete;
mod exec;
mod kv;
mod kv_queue;
mod listing;
mod load;
mod many;
mod nvm;
mod nvm_queue;
mod page;
mod prefix;
mod query;
mod queue;
mod range;
mod scan;
mod scratch;

pub use batch::Batch;
pub use cursor::{Cursor, CursorState};
pub use kv::{Keys, Kv};
pub use kv_queue::KvQueue;
pub use listing::Unlisted;
pub use load::Loader;
pub use nvm::Nvm;
pub use nvm_queue::NvmQueue;
pub use prefix::PrefixKeys;
pub use query::{SqlOptions, SqlResult};
#[cfg(feature = "embedded")]
pub use queue::EmbeddedQueue;
pub use queue::{Queue, QueueKind};
#[cfg(feature = "vfio")]
pub use queue::{VfioQueue, VfioUserQueue};
pub use range::{KeyRange, ScanOptions};
pub use scan::{Scan, ScanState};
pub(crate) use scratch::Scratch;
