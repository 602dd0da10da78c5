//! A program's side of transparent mappings: what its writes, syncs and truncations do once they are seen.
#![forbid(unsafe_code)]

mod fds;
mod file;
mod names;
mod session;
mod timed;
mod turn;

pub use fds::{FdTable, Listed};
pub use file::{Errno, OpenFile, Wrote};
pub use names::Name;
pub use session::{Session, SessionError};
pub use turn::Turn;
