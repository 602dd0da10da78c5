//! A program's side of transparent mappings: what its writes, syncs and truncations do once they are seen.

mod bypass;
mod calls;
mod demotion;
mod everything;
mod fds;
mod file;
mod names;
mod pass;
mod reentrancy;
mod resident;
mod session;
mod timed;
mod write_back;

pub use byway_sys::robust::forget_thread;
pub use calls::{Call, ThreadPlace};
pub use fds::{FdTable, Listed};
pub use file::{Errno, Extent, OpenFile, Wrote};
pub use names::Name;
pub use pass::PassCall;
pub use reentrancy::ReentrancyGuard;
pub use resident::{ResidentOutcome, Seek, Sink, Spot};
pub use session::{Session, SessionError};
pub use write_back::{demote_file, end_residency};
