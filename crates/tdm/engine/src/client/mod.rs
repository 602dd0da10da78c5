//! A program's side of transparent mappings: what its writes, syncs and truncations do once they are seen.

#[path = "write_back.rs"]
mod below;
mod calls;
mod everything;
mod fds;
mod file;
#[path = "resident.rs"]
mod home;
#[path = "demotion.rs"]
mod leaving;
mod names;
#[path = "pass.rs"]
mod passing;
#[path = "bypass.rs"]
mod past;
mod session;
mod timed;
#[path = "reentrancy.rs"]
mod turn;

pub use below::{go_below, leave};
pub use byway_sys::robust::forget_thread;
pub use calls::{Call, ThreadPlace};
pub use fds::{FdTable, Listed};
pub use file::{Errno, Extent, OpenFile, Wrote};
pub use home::{AtHome, Seek, Sink, Spot};
pub use names::Name;
pub use passing::Passing;
pub use session::{Session, SessionError};
pub use turn::Turn;
