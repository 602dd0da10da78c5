//! The symbols, by what they do.

mod close;
mod names;
mod open;
mod process;
mod size;
mod stream;
mod sync;
mod unseen;
mod write;

use std::ffi::c_int;

use crate::{real, state};

/// The system's sync of a descriptor, with its error as a value.
fn below(fd: c_int) -> impl Fn() -> Result<(), c_int> {
    move || match unsafe { real::fdatasync(fd) } {
        0 => Ok(()),
        _ => Err(state::errno()),
    }
}
