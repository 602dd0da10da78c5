//! Helpers of the tests: unmodified programs under the library, and a daemon that can be killed.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on ends")]

mod actor;
mod built;
mod daemon;
mod mount;
mod place;
mod power;
mod run;
pub mod server;
pub mod sqlite;
mod survivor;

pub use actor::{ATTRIBUTE_CHANGES, Actor, Answer};
pub use built::{actor, library, witness};
pub use daemon::DaemonProcess;
pub use mount::{Mount, cannot_mount};
pub use place::{Place, absorb, ask_again, come_to};
pub use run::Run;
pub use survivor::assert_survives;

/// Kills a process without waiting for it.
pub fn kill(process: u32) {
    let process = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}
